package admission

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

func sentBody(t *testing.T, r *http.Request) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.ContentLength != int64(len(b)) {
		t.Errorf("%d bytes are sent as %d", len(b), r.ContentLength)
	}
	return string(b)
}

// packed are ways to compress a body.
var packed = map[string]func(text string) string{
	"gzip": func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	},
	"deflate": func(text string) string {
		var b bytes.Buffer
		z := zlib.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	},
	"zstd": func(text string) string {
		z, _ := zstd.NewWriter(nil)
		return string(z.EncodeAll([]byte(text), nil))
	},
}

const aliased = "{ \"messages\" : [{\"role\":\"user\",\"content\":\"say \\\"model\\\":\\\"gpt-4o\\\"\"}],\r\n\t\"metadata\":{\"model\":\"gpt-4o\"}," +
	"\"seed\":12345678901234567890, \"mod\\u0065l\"\t:  \"gpt\\u002d4o\" , \"temperature\":1.0e-01}"

// A client that asks for an alias is served by the model behind it, and nothing
// else of its request is changed, however it was sent.
func TestAliasesChangeTheModelAlone(t *testing.T) {
	h := &Handler{Models: map[string]string{"gpt-4o": "org/m"}}
	want := strings.Replace(aliased, `"gpt\u002d4o"`, `"org/m"`, 1)
	forms := map[string]string{"": aliased, "identity": aliased}
	for encoding, pack := range packed {
		forms[encoding] = pack(aliased)
	}
	for encoding, body := range forms {
		for _, chunked := range []bool{false, true} {
			s := newStage(t, h, "a")
			r, c := s.about(http.MethodPost, chatPath, body)
			r.Header.Set("Content-Encoding", encoding)
			if !chunked {
				r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			}
			var err error
			if c.Features, err = h.features(r, c, unbound()); err != nil || c.Model != "gpt-4o" {
				t.Fatalf("%q: read as %+v (%v)", encoding, c.Features, err)
			}
			before := c.Features
			if f := h.rename(r, c, unbound()); f != nil {
				t.Fatalf("%q: refused: %+v", encoding, f)
			}
			if got := sentBody(t, r); got != want || string(c.Body) != want {
				t.Errorf("%q: sent as %s\nwant %s", encoding, got, want)
			}
			length, encoded := r.Header.Get("Content-Length"), r.Header["Content-Encoding"]
			if encoded != nil || length != "" && length != strconv.Itoa(len(want)) || (length == "") != chunked {
				t.Errorf("%q: headers %v for %d bytes", encoding, r.Header, len(want))
			}
			// Alias and model share a cache, so they must be one to the choice.
			_, direct := s.about(http.MethodPost, chatPath, want)
			direct.Features, _ = h.features(r, direct, unbound())
			if c.Model != "org/m" || c.Key != direct.Key || c.InputTokens != direct.InputTokens || !slices.Equal(c.Blocks, direct.Blocks) {
				t.Errorf("%q: read as %+v\nwant %+v", encoding, c.Features, direct.Features)
			}
			if len(before.Blocks) > 0 && slices.Equal(before.Blocks, c.Blocks) {
				t.Errorf("%q: the blocks are still those of the alias", encoding)
			}
		}
	}
}

// Where the alias is not to be replaced, or not there, the body stays as it came.
func TestOtherBodiesKeepTheirModel(t *testing.T) {
	h := &Handler{Models: map[string]string{"gpt-4o": "m"}}
	for _, body := range []string{
		`{"model":"m"}`, `{"model":"GPT-4o"}`, `{"model":" gpt-4o "}`, `{"model":"gpt-4o-mini"}`, `{"model":123}`,
		`{"model":null}`, `{"model":""}`, `{"model":[]}`, `{"messages":[]}`, `{"model":"gpt-4o"`, `[]`, ``,
	} {
		s := newStage(t, h, "a")
		r, c := s.about(http.MethodPost, chatPath, body)
		c.Features, _ = h.features(r, c, unbound())
		model := c.Model
		if f := h.rename(r, c, unbound()); f != nil || string(c.Body) != body || sentBody(t, r) != body || c.Model != model {
			t.Errorf("%s: %+v, sent as %s", body, f, c.Body)
		}
	}
	s := newStage(t, h, "a")
	form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ngpt-4o\r\n--x--\r\n"
	r, c := s.about(http.MethodPost, "/v1/audio/transcriptions", form)
	r.Header.Set("Content-Type", "Multipart/Form-Data; boundary=x")
	c.Model = "gpt-4o"
	if f := h.rename(r, c, unbound()); f != nil || sentBody(t, r) != form {
		t.Errorf("a form: %+v", f)
	}
}

// A body that somebody vouches for is not changed behind his back: the client is
// told which name to use.
func TestSignedBodiesAreNotRenamed(t *testing.T) {
	h := &Handler{Models: map[string]string{"gpt-4o": "m"}}
	for _, name := range signed {
		s := newStage(t, h, "a")
		r, c := s.about(http.MethodPost, chatPath, `{"model":"gpt-4o"}`)
		r.Header.Set(name, "x")
		c.Features, _ = h.features(r, c, unbound())
		f := h.rename(r, c, unbound())
		if f == nil || f.status != http.StatusBadRequest || f.param != "model" || !strings.Contains(f.message, name) || !strings.Contains(f.message, `Ask for "m".`) {
			t.Errorf("%s: %+v", name, f)
		}
		r.Header.Del(name)
		r.Header.Set(name, "x")
		if r, c = s.about(http.MethodPost, chatPath, `{"model":"m"}`); h.rename(r, c, unbound()) != nil {
			t.Errorf("%s: a request for the model itself is refused", name)
		}
	}
}

// What is unpacked to be renamed counts in the memory for bodies while it is.
func TestRenamingTakesMemory(t *testing.T) {
	h := &Handler{Models: map[string]string{"gpt-4o": "m"}}
	body := `{"model":"gpt-4o","messages":[{"role":"user","content":"` + strings.Repeat("x", 100_000) + `"}]}`
	for _, path := range []string{chatPath, "/tokenize"} {
		s := newStage(t, h, "a")
		r, c := s.about(http.MethodPost, path, packed["gzip"](body))
		r.Header.Set("Content-Encoding", "gzip")
		all := new(bodies)
		none, some := &share{of: all, limit: 50_000}, &share{of: all, limit: 1 << 20}
		c.Model = "gpt-4o"
		if path == chatPath {
			if f := h.rename(r, c, none); f == nil || f.status != http.StatusTooManyRequests {
				t.Errorf("without room: %+v", f)
			}
			none.set(0)
			if f := h.rename(r, c, some); f != nil {
				t.Errorf("with room: %+v", f)
			}
		} else {
			if _, f := h.models(r, c, none); f != nil || len(c.Body) > 1000 || none.held != int64(len(c.Body)) {
				t.Errorf("without room: %+v, %d bytes held for %d", f, none.held, len(c.Body))
			}
			none.set(0)
			if _, f := h.models(r, c, some); f != nil || some.held != int64(len(c.Body)) {
				t.Errorf("with room: %+v, %d bytes held for %d", f, some.held, len(c.Body))
			}
		}
		if want := strings.Replace(body, "gpt-4o", "m", 1); string(c.Body) != want || sentBody(t, r) != want {
			t.Errorf("%s: %d bytes are sent, want %d", path, len(c.Body), len(want))
		}
	}
}
