package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchEvents is how many tokens a benchmarked stream has.
const benchEvents = 1000

// taken gets a value for each event that has reached the client.
var taken = make(chan struct{}, benchEvents)

// replaying is a server that writes the same stream to every request, as fast as
// it is taken: what is measured is the gateway. To a request that says so it
// writes each event when the one before has reached the client, as engines do, or
// a short stream in one piece.
func replaying(b *testing.B) string {
	b.Helper()
	l := listen(b)
	b.Cleanup(func() { l.Close() })
	var events [][]byte
	chunk := func(event string) {
		data := "data: " + event + "\n\n"
		events = append(events, fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data))
	}
	chunk(answerEvents[0])
	for i := range benchEvents {
		chunk(fmt.Sprintf(`{"id":"chatcmpl-7f3a","object":"chat.completion.chunk","created":1772000000,"model":"m","choices":[{"index":0,"delta":{"content":" word%d"},"logprobs":null,"finish_reason":null}]}`, i%10))
	}
	chunk(answerEvents[4])
	chunk("[DONE]")
	events = append(events, []byte("0\r\n\r\n"))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go replay(conn, events)
		}
	}()
	return l.Addr().String()
}

const (
	singlyPlease = "one by one"

	replayHead  = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	shortPlease = "in short"
)

func replay(conn net.Conn, events [][]byte) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte(shortPlease)) {
			short := bytes.Join(slices.Concat(events[:3], events[len(events)-3:]), nil)
			if _, err := conn.Write(append([]byte(replayHead), short...)); err != nil {
				return
			}
			continue
		}
		if _, err := io.WriteString(conn, replayHead); err != nil {
			return
		}
		singly := bytes.Contains(body, []byte(singlyPlease))
		for i, e := range events {
			if _, err := conn.Write(e); err != nil {
				return
			}
			// The role comes with the first token: the one is held for the other.
			if singly && i > 0 && i < len(events)-1 {
				<-taken
			}
		}
	}
}

// plain is what somebody writes who has only Caddy.
const plain = "handle /plain/* {\nuri strip_prefix /plain\nreverse_proxy %[1]s {\nflush_interval -1\n}\n}\n" +
	"handle {\nllm_proxy %[1]s {\nengine none\n}\n}\n"

// BenchmarkStream compares llm_proxy with Caddy's own reverse_proxy over the same
// server, in turns: the time of a whole stream, as a ratio, and the time to the
// first byte of a short one, as a difference. The intervals hold the median with
// 95 %.
func BenchmarkStream(b *testing.B) {
	g := start(b, fmt.Sprintf(plain, replaying(b)))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	paths := [2]string{"/plain/v1/chat/completions", "/v1/chat/completions"}
	once := func(which int, body string) (first, whole float64) {
		began := time.Now()
		res, err := client.Post(g.url+paths[which], "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		defer res.Body.Close()
		var one [1]byte
		if _, err := io.ReadFull(res.Body, one[:]); err != nil {
			b.Fatal(err)
		}
		first = float64(time.Since(began)) / float64(time.Microsecond)
		readEvents(b, res.Body, strings.Contains(body, singlyPlease))
		return first, float64(time.Since(began)) / float64(time.Microsecond)
	}
	// compare measures in turns and reports how the second of a pair stands to the
	// first.
	const pairs, warmUp = 41, 20
	compare := func(unit, body string, each int, take func(first, whole float64) float64, stands func(ours, plain float64) float64) {
		b.Run(unit, func(b *testing.B) {
			for i := range 2 * warmUp {
				once(i%2, body)
			}
			for b.Loop() {
				var list []float64
				for pair := range pairs {
					var times [2][]float64
					for i := range 2 * each {
						which := (pair + i) % 2
						times[which] = append(times[which], take(once(which, body)))
					}
					list = append(list, stands(median(times[1]), median(times[0])))
				}
				low, high := interval(list)
				b.ReportMetric(low, unit+"-low")
				b.ReportMetric(median(list), unit)
				b.ReportMetric(high, unit+"-high")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
	whole := func(_, whole float64) float64 { return whole }
	ratio := func(ours, plain float64) float64 { return ours / plain }
	compare("x-time", chat(true, "", prose(singlyPlease, 1000)), 5, whole, ratio)
	compare("x-time-flooded", chat(true, "", prose("as it comes", 1000)), 20, whole, ratio)
	compare("µs-added", chat(true, "", prose(shortPlease, 1000)), 100,
		func(first, _ float64) float64 { return first }, func(ours, plain float64) float64 { return ours - plain })
}

// readEvents reads a stream to its end and tells of each event, but for the first
// two, which come together.
func readEvents(b *testing.B, r io.Reader, tell bool) {
	buf, last, seen := make([]byte, 32<<10), byte(0), 0
	for {
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			if c == '\n' && last == '\n' {
				if seen++; tell && seen > 1 {
					taken <- struct{}{}
				}
				c = 0
			}
			last = c
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func median(list []float64) float64 {
	s := slices.Sorted(slices.Values(list))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// interval bounds the median with a confidence of at least 95 %, by the order of
// the values alone: of 41, the 14th and the 28th.
func interval(list []float64) (low, high float64) {
	s := slices.Sorted(slices.Values(list))
	n := len(s)
	// The number of values below the median is binomial; 1.96 of its deviations.
	k := int(float64(n)/2 - 0.98*math.Sqrt(float64(n)))
	return s[max(0, k-1)], s[min(n-1, n-k)]
}
