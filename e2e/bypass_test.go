package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func zstandard(s string) string {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	defer w.Close()
	return string(w.EncodeAll([]byte(s), nil))
}

// What is refused in plain sight is refused however it is wrapped, and on every
// path that makes an engine work.
func TestNoWrappingGetsPastARefusal(t *testing.T) {
	g, a, b := pair(t, "")
	steering := `{"model":"m","messages":[],"priority":-9}`
	twice := `{"model":"cheap","model":"secret","messages":[]}`
	for _, tc := range []struct{ name, path, encoding, body string }{
		{"an encoding that is none", "/v1/chat/completions", "x", steering},
		{"a lie", "/v1/chat/completions", "gzip", twice},
		{"two encodings", "/v1/chat/completions", "gzip, identity", steering},
		{"gzip", "/v1/chat/completions", "gzip", gzipped(steering)},
		{"zstd", "/v1/completions", "zstd", zstandard(twice)},
		{"a native path", "/generate", "", `{"text":"x","data_parallel_rank":1}`},
		{"another", "/completion", "", `{"prompt":"x","id_slot":1}`},
		{"Anthropic's", "/v1/messages", "", twice},
		{"embeddings", "/v1/embeddings", "gzip", gzipped(`{"input":"x","priority":1}`)},
	} {
		req, err := http.NewRequest(http.MethodPost, g.url+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if tc.encoding != "" {
			req.Header.Set("Content-Encoding", tc.encoding)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if r := read(t, res); r.status != http.StatusBadRequest {
			t.Errorf("%s: status %d: %s", tc.name, r.status, r.body)
		}
	}
	if n := a.count() + b.count(); n != 0 {
		t.Errorf("%d of them reached an engine", n)
	}
}

// A compressed body is read where it goes, and arrives as it came.
func TestCompressedBodiesFollowTheirPrefix(t *testing.T) {
	g, a, b := pair(t, "max_body 1MiB\n")
	send := func(body string) reply {
		req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Encoding", "gzip")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return read(t, res)
	}
	long := prose("compressed", 12_000)
	first := send(gzipped(chat(false, long, "one")))
	second := gzipped(chat(false, long, "two"))
	r := send(second)
	if r.endpoint() != first.endpoint() || r.decision() != "warm" {
		t.Errorf("went to %s, then to %s (%s)", first.endpoint(), r.endpoint(), r.decision())
	}
	if got := arrived(r.endpoint(), a, b); string(got) != second {
		t.Error("the compressed bytes did not arrive as they were sent")
	}
	if bomb := send(gzipped(strings.Repeat(" ", 64<<20))); bomb.status != http.StatusRequestEntityTooLarge {
		t.Errorf("64 MiB in a small body: status %d", bomb.status)
	}
}

// What a client writes into its request must not take a server out: only a
// connection that could not be made speaks against it.
func TestClientsCannotTakeServersDown(t *testing.T) {
	a := newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%sheader_up X-Model {llm.model}\n}\n", a.addr(), fast, named(a)))
	a.seen()
	for range 8 {
		g.post(`{"model":"a\nb","messages":[]}`)
	}
	if row := g.endpoint("a"); row.State != "up" {
		t.Errorf("the server is %s (%s)", row.State, row.Reason)
	}
}

// A route that admits twice, as llm_admission before llm_proxy does, takes one
// place per request.
func TestAdmittedTwiceTakesOnePlace(t *testing.T) {
	a := newBackend(t)
	g := start(t, fmt.Sprintf("route {\nllm_admission\nllm_proxy %s {\n%sendpoint %s {\nmax_concurrent 1\n}\n}\n}\n", a.addr(), fast, a.addr()))
	for range 3 {
		if r := g.post(chat(false, "", "hi")); r.status != http.StatusOK {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
	}
}
