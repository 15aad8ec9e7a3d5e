package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

const answerHead = "HTTP/1.1 200 OK\r\nServer: x\r\n"

func TestReader(t *testing.T) {
	const want = "data: a\n\ndata: [DONE]\n\n"
	chunks := func(parts ...string) string {
		var b strings.Builder
		b.WriteString(answerHead + "Transfer-Encoding: chunked\r\n\r\n")
		for _, p := range parts {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, sent string
		wrong      string // part of the error; none when all is well
		closes     bool
	}{
		{name: "a length", sent: answerHead + fmt.Sprintf("content-length: %d\r\n\r\n", len(want)) + want},
		{name: "one chunk", sent: chunks(want) + "0\r\n\r\n"},
		{name: "chunks that cut events", sent: chunks(want[:3], want[3:10], want[10:]) + "0\r\n\r\n"},
		{name: "capital digits, an extension and a trailer", sent: answerHead + "Transfer-Encoding: Chunked\r\n\r\n17;a=b\r\n" + want + "\r\n0\r\nX: y\r\n\r\n"},
		{name: "the connection ends with it", sent: answerHead + fmt.Sprintf("Connection: close\r\nContent-Length: %d\r\n\r\n", len(want)) + want, closes: true},

		{name: "another status", sent: "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", wrong: "429"},
		{name: "neither length nor chunks", sent: answerHead + "\r\n" + want, wrong: "neither"},
		{name: "cut in the head", sent: answerHead, wrong: "unexpected EOF"},
		{name: "cut in a chunk", sent: chunks(want)[:80], wrong: "unexpected EOF"},
		{name: "cut between chunks", sent: chunks(want), wrong: "unexpected EOF"},
		{name: "ended without the marker", sent: chunks(want[:9]) + "0\r\n\r\n", wrong: "after 9 of 23"},
		{name: "an event twice", sent: chunks(want[:9], want) + "0\r\n\r\n", wrong: "not what was sent"},
		{name: "something after the end", sent: chunks(want, "data: more\n\n") + "0\r\n\r\n", wrong: "not what was sent, after 23"},
		{name: "another letter", sent: chunks(strings.Replace(want, "a\n", "b\n", 1)) + "0\r\n\r\n", wrong: "not what was sent"},
		{name: "a chunk longer than it says", sent: answerHead + "Transfer-Encoding: chunked\r\n\r\n9\r\n" + want, wrong: "is followed by"},
		{name: "no size of a chunk", sent: answerHead + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", wrong: "a chunk begins"},
		{name: "a line without end", sent: answerHead + "X: " + strings.Repeat("y", 70<<10), wrong: "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, from := range map[string]io.Reader{
				"at once":      strings.NewReader(c.sent),
				"byte by byte": iotest.OneByteReader(strings.NewReader(c.sent)),
			} {
				r, check := newAnswerReader(from), &exactly{want: []byte(want)}
				first, leftOpen, err := r.read(check)
				switch {
				case c.wrong == "" && err != nil:
					t.Errorf("%s: %v", name, err)
				case c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
					t.Errorf("%s: the error is %v, want one that says %q", name, err, c.wrong)
				case err == nil && leftOpen == c.closes:
					t.Errorf("%s: left open: %t", name, leftOpen)
				case err == nil && first.IsZero():
					t.Errorf("%s: nobody noticed when the first byte came", name)
				}
			}
		})
	}
}

// Answers on one connection are told apart, and a byte too many is noticed.
func TestReaderOfSeveralAnswers(t *testing.T) {
	one := answerHead + "Content-Length: 2\r\n\r\nok"
	r, check := newAnswerReader(strings.NewReader(one)), &exactly{want: []byte("ok")}
	if _, _, err := r.read(check); err != nil {
		t.Fatal(err)
	}
	r.from = strings.NewReader(one + "!")
	if _, _, err := r.read(check); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.read(check); err == nil || !strings.Contains(err.Error(), "bytes follow") {
		t.Errorf("a byte after the answer: %v", err)
	}
	r.r, r.w = 0, 0
	if _, _, err := r.read(check); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("no answer at all: %v", err)
	}
}

// A simulated server's answer is whole when it has its tokens and its end.
func TestCounting(t *testing.T) {
	event := func(text string) string {
		return `data: {"choices":[{"delta":{"content":"` + text + `"}}]}` + "\n\n"
	}
	const done = "data: [DONE]\n\n"
	for _, c := range []struct{ text, wrong string }{
		{event("") + event("a") + event("b") + done, ""},
		{event("") + event("a") + done, "has 1 tokens"},
		{event("a") + event("b") + event("c") + done, "has 3 tokens"},
		{event("a") + event("b"), "ends with"},
	} {
		var events atomic.Int64
		check := &counting{tokens: 2, events: &events}
		for half := range strings.SplitAfterSeq(c.text, "}") {
			if err := check.next([]byte(half)); err != nil {
				t.Fatal(err)
			}
		}
		err := check.end()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v, want %q", c.text, err, c.wrong)
		}
		if n := int64(strings.Count(c.text, "data: ")); events.Load() != n {
			t.Errorf("%d events were counted of %d", events.Load(), n)
		}
		if len(check.text) != 0 {
			t.Error("the next answer would begin with this one")
		}
	}
}
