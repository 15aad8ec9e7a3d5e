package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// pauseField is the request header by which a client asks for an answer whose
// events come one by one, so far apart.
const pauseField = "Bench-Pause"

// fakeEngine answers as vLLM does and computes nothing. It reads and writes sockets
// itself: with net/http it would take three times the processor time, most of what
// is left beside a good proxy, and every ratio would be the nearer to 1 for it.
type fakeEngine struct {
	answers answers
	page    []byte // of metrics, but for the first lines
}

// answers keeps each kind of answer as it goes to the socket.
type answers struct{ stream, whole map[int]prepared }

type prepared struct {
	all   []byte   // head, body, end
	parts [][]byte // the same, event by event
}

const tokensMost = 1000

// serveEngine is the process of the fake engine: it serves on as many addresses as
// it is told, prints them, and ends when its input does.
func serveEngine(addresses int, in io.Reader, out io.Writer) error {
	listeners, err := listenMany(addresses)
	if err != nil {
		return err
	}
	e := &fakeEngine{page: metricsPage()}
	e.answers.prepare(answerSizes()...)
	w := bufio.NewWriter(out)
	for _, l := range listeners {
		go e.serve(l)
		fmt.Fprintln(w, l.Addr())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	return err
}

// listenMany listens on so many loopback addresses, all with the same port: a
// thousand ports would be taken from those that connections need.
func listenMany(n int) ([]net.Listener, error) {
	var err error
	for range 20 {
		var list []net.Listener
		port := 0
		for i := range n {
			var l net.Listener
			host := fmt.Sprintf("127.0.%d.%d", 1+i/250, 1+i%250)
			if l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err != nil {
				break
			}
			list = append(list, l)
			port = l.Addr().(*net.TCPAddr).Port
		}
		if err == nil {
			return list, nil
		}
		for _, l := range list {
			_ = l.Close() // another port is tried
		}
	}
	return nil, fmt.Errorf("listening on %d loopback addresses: %w", n, err)
}

func (e *fakeEngine) serve(l net.Listener) {
	var running atomic.Int64
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // as a rule too many open files, which pass
			fmt.Fprintln(os.Stderr, "engine:", err)
			time.Sleep(50 * time.Millisecond)
			continue
		}
		go func() {
			defer conn.Close()
			if err := e.converse(conn, &running); !gone(err) {
				fmt.Fprintln(os.Stderr, "engine:", err)
			}
		}()
	}
}

// gone tells that the other side has left, which connections may.
func gone(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.As(err, &network)
}

// converse serves one connection, and returns why it has ended.
func (e *fakeEngine) converse(conn net.Conn, running *atomic.Int64) error {
	r := bufio.NewReaderSize(conn, 4<<10)
	for {
		ask, err := readAsk(r)
		if err != nil {
			return err
		}
		switch {
		case ask.tokens > 0:
			running.Add(1)
			err = e.answer(conn, ask)
			running.Add(-1)
		case ask.path == "/health":
			_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		case ask.path == "/metrics":
			load := fmt.Sprintf("vllm:num_requests_running{model_name=\"bench\",engine=\"0\"} %d.0\n", running.Load())
			_, err = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s%s",
				len(load)+len(e.page), load, e.page)
		case ask.path == "/v1/models":
			const list = `{"object":"list","data":[{"id":"bench","object":"model","created":1772000000,"owned_by":"bench"}]}`
			_, err = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", wholeType, len(list), list)
		default:
			_, err = io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		}
		if err != nil {
			return err
		}
	}
}

// answer writes what was asked for, and counts the request as open for as long.
func (e *fakeEngine) answer(conn net.Conn, ask ask) error {
	kind := e.answers.whole
	if ask.stream {
		kind = e.answers.stream
	}
	p, ok := kind[ask.tokens]
	if !ok {
		return fmt.Errorf("an answer of %d tokens was not prepared", ask.tokens)
	}
	if ask.pause == 0 {
		_, err := conn.Write(p.all)
		return err
	}
	for i, part := range p.parts {
		if _, err := conn.Write(part); err != nil {
			return err
		}
		// The role comes with the first token, and the end with the last.
		if i > 1 && i < len(p.parts)-5 {
			time.Sleep(ask.pause)
		}
	}
	return nil
}

func (a *answers) prepare(tokens ...int) {
	a.stream, a.whole = map[int]prepared{}, map[int]prepared{}
	for _, n := range tokens {
		list := events(n)
		parts := make([][]byte, 0, len(list)+2)
		parts = append(parts, []byte("HTTP/1.1 200 OK\r\nContent-Type: "+streamType+"\r\nTransfer-Encoding: chunked\r\n\r\n"))
		for _, e := range list {
			parts = append(parts, fmt.Appendf(nil, "%x\r\n%s\r\n", len(e), e))
		}
		parts = append(parts, []byte("0\r\n\r\n"))
		a.stream[n] = prepared{bytes.Join(parts, nil), parts}
		w := whole(n)
		a.whole[n] = prepared{all: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", wholeType, len(w), w)}
	}
}

// ask is what a request asks for.
type ask struct {
	path   string
	tokens int // 0: no completion
	stream bool
	pause  time.Duration
}

// bodySeen is how much of a body is looked at: what the engine wants to know stands
// at its beginning.
const bodySeen = 256

// readAsk reads one request to its end. Bodies must have a length: everything that
// is measured says it, since the client does.
func readAsk(r *bufio.Reader) (ask, error) {
	var a ask
	line, err := r.ReadSlice('\n')
	if err != nil {
		return a, err
	}
	_, rest, ok := bytes.Cut(line, []byte(" "))
	path, _, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok2 {
		return a, fmt.Errorf("a request begins with %q", line)
	}
	a.path = string(path)
	length := 0
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return a, err
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			break
		}
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "Content-Length"):
			length, err = strconv.Atoi(string(value))
		case is(name, "Transfer-Encoding"):
			err = errors.New("the request has no length")
		case is(name, pauseField):
			a.pause, err = time.ParseDuration(string(value))
		}
		if err != nil {
			return a, err
		}
	}
	if length == 0 {
		return a, nil
	}
	head, err := r.Peek(min(length, bodySeen))
	if err != nil {
		return a, err
	}
	a.stream = bytes.Contains(head, []byte(`"stream":true`))
	if _, after, ok := bytes.Cut(head, []byte(`"max_tokens":`)); ok {
		digits := bytes.IndexFunc(after, func(c rune) bool { return c < '0' || c > '9' })
		if a.tokens, err = strconv.Atoi(string(after[:max(digits, 0)])); err != nil {
			return a, err
		}
	}
	if a.tokens < 1 || a.tokens > tokensMost {
		return a, fmt.Errorf("a request for %d tokens: %q", a.tokens, head)
	}
	_, err = r.Discard(length)
	return a, err
}

func is(name []byte, want string) bool { return bytes.EqualFold(name, []byte(want)) }

// metricsPage is what vLLM writes, of its usual 16 KB, but for the requests that
// run, which come first.
func metricsPage() []byte {
	const labels = `{model_name="bench",engine="0"}`
	var b bytes.Buffer
	family := func(name, kind string, value float64) {
		fmt.Fprintf(&b, "# HELP vllm:%[1]s Of the fake engine.\n# TYPE vllm:%[1]s %[2]s\nvllm:%[1]s%[3]s %[4]v\n", name, kind, labels, value)
	}
	family("num_requests_waiting", "gauge", 0)
	family("kv_cache_usage_perc", "gauge", 0.25)
	family("prompt_tokens_total", "counter", 8128902)
	family("generation_tokens_total", "counter", 7557572)
	for i := 0; b.Len() < 16<<10; i++ {
		name := fmt.Sprintf("vllm:some_other_%d_seconds", i)
		fmt.Fprintf(&b, "# HELP %[1]s Of the fake engine.\n# TYPE %[1]s histogram\n", name)
		for le := range 18 {
			fmt.Fprintf(&b, "%s_bucket{model_name=\"bench\",engine=\"0\",le=\"%v\"} %d\n", name, float64(le)/10, 100*le)
		}
		fmt.Fprintf(&b, "%[1]s_sum%[2]s 3100.5\n%[1]s_count%[2]s 1700\n", name, labels)
	}
	return b.Bytes()
}
