package e2e

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	reads "github.com/caddy-llmlb/caddy-llmlb/request"
)

// A seeded is a request of which everything follows from its number: a server can
// tell of every byte it gets whether this request has it there.
type seeded struct {
	seed   uint64
	number int
}

// edges are lengths around which bodies are treated differently: in one write with
// the head or in two, memory of the next size, none that is lent.
var edges = []int{512, 1 << 10, 3 << 10, 4 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20}

func (s seeded) rand() *rand.Rand { return rand.New(rand.NewPCG(s.seed, uint64(s.number))) }

// drawn is of what kind a request is.
type drawn struct {
	size                  int
	stream, zipped, alias bool
}

func (s seeded) draw() drawn {
	r := s.rand()
	size := edges[r.IntN(len(edges)-r.IntN(3))] + r.IntN(5) - 2
	if r.IntN(3) == 0 {
		size = 200 + r.IntN(5000)
	}
	return drawn{size, r.IntN(2) == 0, r.IntN(8) == 0, r.IntN(8) == 0}
}

// json is the body as the client has it, before it is compressed.
func (s seeded) json() []byte {
	d, model := s.draw(), "m"
	if d.alias {
		model = "other"
	}
	head := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"%d `, model, d.stream, s.number)
	const tail = `"}]}`
	body := make([]byte, 0, d.size+len(head)+len(tail))
	body = append(body, head...)
	r := rand.New(rand.NewPCG(s.seed, uint64(s.number)^1<<63))
	for len(body)+len(tail) < d.size {
		for x, n := r.Uint64(), 0; n < 8 && len(body)+len(tail) < d.size; x, n = x>>8, n+1 {
			body = append(body, 'a'+byte(x%16))
		}
	}
	return append(body, tail...)
}

// sent is what goes out, and arrives what a server has to get.
func (s seeded) sent() []byte {
	if !s.draw().zipped {
		return s.json()
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.NoCompression)
	_, _ = w.Write(s.json())
	_ = w.Close()
	return b.Bytes()
}

func (s seeded) arrives(injected bool) []byte {
	d, body := s.draw(), s.sent()
	if d.alias {
		body = bytes.Replace(s.json(), []byte(`"other"`), []byte(`"real"`), 1)
		d.zipped = false
	}
	if injected && d.stream && !d.zipped {
		body, _ = reads.InjectUsage(body)
	}
	return body
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
