package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// serving is the fake engine on one address, in this process.
func serving(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e := &fakeEngine{page: metricsPage()}
	e.answers.prepare(answerSizes()...)
	go e.serve(l)
	return l.Addr().String()
}

// A client that is not ours understands the engine's answers: their framing, their
// events, and that they are whole.
func TestEngineAnswersAsEnginesDo(t *testing.T) {
	address := serving(t)
	for _, stream := range []bool{false, true} {
		request := newPrompts(kib, 20, stream, 0).writer().next()
		_, text, _ := bytes.Cut(request, []byte("\r\n\r\n"))
		if !json.Valid(text) {
			t.Fatalf("the request's body is no JSON: %s", text)
		}
		res, err := http.Post("http://"+address+"/v1/chat/completions", "application/json", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, body(20, stream)) {
			t.Errorf("stream %t: the answer is not what a client is told to expect", stream)
		}
		if !stream {
			var answer struct {
				Usage struct {
					Completion int `json:"completion_tokens"`
				}
			}
			if err := json.Unmarshal(got, &answer); err != nil || answer.Usage.Completion != 20 {
				t.Errorf("the answer tells %d tokens, %v", answer.Usage.Completion, err)
			}
			continue
		}
		list := strings.Split(strings.TrimSuffix(string(got), "\n\n"), "\n\n")
		// The role, the finish reason, the usage and the end marker besides the tokens.
		if len(list) != 24 || list[23] != "data: [DONE]" || !strings.Contains(list[22], `"completion_tokens":20`) {
			t.Errorf("%d events, the last two %q", len(list), list[max(0, len(list)-2):])
		}
		for _, e := range list[:23] {
			if !json.Valid([]byte(strings.TrimPrefix(e, "data: "))) {
				t.Errorf("no JSON: %s", e)
			}
		}
	}
}

func TestEngineTellsItsLoad(t *testing.T) {
	address := serving(t)
	page := func() string {
		res, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if p := page(); !strings.HasPrefix(p, `vllm:num_requests_running{model_name="bench",engine="0"} 0.0`) || len(p) < 16<<10 {
		t.Errorf("%d bytes: %.80s", len(p), p)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(newPrompts(kib, 20, true, time.Hour).writer().next()); err != nil {
		t.Fatal(err)
	}
	// The first bytes of an answer that goes on.
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if p := page(); !strings.Contains(p[:80], "} 1.0") {
		t.Errorf("with a stream open: %.80s", p)
	}
	res, err := http.Get("http://" + address + "/health")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("health: %v, %v", res, err)
	}
	res.Body.Close()
}

func TestReadAsk(t *testing.T) {
	read := func(text string) (ask, error) { return readAsk(bufio.NewReader(strings.NewReader(text))) }
	a, err := read(string(newPrompts(kib, 200, true, time.Second).writer().next()))
	if want := (ask{path: "/v1/chat/completions", tokens: 200, stream: true, pause: time.Second}); err != nil || a != want {
		t.Errorf("%+v, %v; want %+v", a, err, want)
	}
	a, err = read("GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	if want := (ask{path: "/health"}); err != nil || a != want {
		t.Errorf("%+v, %v; want %+v", a, err, want)
	}
	// A proxy that sent something else than the client must not go unseen.
	for _, text := range []string{
		"nonsense\r\n\r\n",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
		"POST / HTTP/1.1\r\nContent-Length: 300\r\n\r\n{\"max_tokens\":20}",
	} {
		if a, err := read(text); err == nil {
			t.Errorf("%q is taken for %+v", text, a)
		}
	}
}

// Cold prompts have nothing in common from the number on, shared ones three
// quarters, and no two requests are alike.
func TestPrompts(t *testing.T) {
	for _, size := range []int{kib, 32 * kib, 400 * kib} {
		w := newPrompts(size, 20, false, 0).writer()
		var list [][]byte
		for range 4 {
			r := bytes.Clone(w.next())
			_, text, _ := bytes.Cut(r, []byte("\r\n\r\n"))
			if len(text) != size || !json.Valid(text) {
				t.Fatalf("size %d: a body of %d bytes, valid: %t", size, len(text), json.Valid(text))
			}
			list = append(list, r)
		}
		for i, common := range []float64{0, 0} {
			if size > kib && i == 0 {
				common = 0.75 // the first and the third are of the half that shares
			}
			a, b := list[i], list[i+2]
			same := 0
			for same < len(a) && a[same] == b[same] {
				same++
			}
			if share := float64(same) / float64(len(a)); share == 1 || share < common-0.4 || share > common+0.4 || (common > 0) != (share > 0.7) {
				t.Errorf("size %d: two prompts of a kind share their first %.2f", size, share)
			}
		}
	}
}
