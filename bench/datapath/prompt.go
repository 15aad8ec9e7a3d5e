package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
)

// prompts makes the requests of one workload. They are made once, and each request
// sent is one of them with a number in it that was never there before.
type prompts struct {
	cold, shared form
	fresh        atomic.Uint64
}

// form is a request with a place for a number.
type form struct {
	bytes []byte
	at    int
}

const numberDigits = 16

// newPrompts makes requests whose body has the given size. In half of them, the
// cold ones, the number stands at the beginning of the prompt, so that it is like
// no other from there on; in the other half three quarters of the prompt come
// before it, and are the same in all of them. Where size is small there is no
// half that shares: all are cold.
func newPrompts(size, tokens int, stream bool, pause time.Duration) *prompts {
	p := &prompts{cold: newForm(size, tokens, stream, pause, 0)}
	p.shared = p.cold
	if size >= 8<<10 {
		p.shared = newForm(size, tokens, stream, pause, 0.75)
	}
	return p
}

func newForm(size, tokens int, stream bool, pause time.Duration, where float64) form {
	number := strings.Repeat("0", numberDigits)
	head := fmt.Sprintf(`{"model":"bench","stream":%t,"max_tokens":%d,"messages":[{"role":"system","content":"You answer in few words."},{"role":"user","content":"`, stream, tokens)
	const tail = `"}],"temperature":0.7}`
	text := prose(size - len(head) - len(tail) - numberDigits)
	cut := int(where * float64(len(text)))
	for cut > 0 && text[cut-1] == '\\' {
		cut-- // not within an escape
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer sk-bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", size)
	if pause > 0 {
		fmt.Fprintf(&b, "%s: %v\r\n", pauseField, pause)
	}
	b.WriteString("\r\n" + head + text[:cut])
	at := b.Len()
	b.WriteString(number + text[cut:] + tail)
	return form{b.Bytes(), at}
}

// prose is text of so many bytes, always the same, with what real prompts make a
// reader of JSON stop at: line ends and quotes.
func prose(size int) string {
	words := [...]string{"request", "server", "the", "a", "of", "cache", "prompt", "which", "is", "waits", "for", "token", `\n\n`, `\"quoted\"`, "balance", "long"}
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(words[r.IntN(len(words))] + " ")
	}
	// Nothing may end within an escape.
	return strings.TrimRight(b.String()[:size], `\`) + strings.Repeat("x", size-len(strings.TrimRight(b.String()[:size], `\`)))
}

// writer keeps one connection's own copy of the requests.
type writer struct {
	from  *prompts
	forms [2]form
}

func (p *prompts) writer() *writer {
	w := &writer{from: p}
	for i, f := range [2]form{p.cold, p.shared} {
		w.forms[i] = form{bytes.Clone(f.bytes), f.at}
	}
	return w
}

// next returns a request like no other before, cold and shared ones in turns. It is
// good until the next call.
func (w *writer) next() []byte {
	n := w.from.fresh.Add(1)
	f := w.forms[n%2]
	const digits = "0123456789abcdef"
	place := f.bytes[f.at : f.at+numberDigits]
	// The low digits first: numbers that follow each other differ at once.
	for i := range place {
		place[i] = digits[n>>(4*i)&15]
	}
	return f.bytes
}
