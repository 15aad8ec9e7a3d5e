package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// answerReader reads answers from one connection and checks each of them. It knows
// what a proxy may send of HTTP/1.1 and no more: a length or chunks.
type answerReader struct {
	from  io.Reader
	buf   []byte
	r, w  int // what is read and not yet used: buf[r:w]
	first time.Time
}

func newAnswerReader(from io.Reader) *answerReader {
	return &answerReader{from: from, buf: make([]byte, 64<<10)}
}

// small shrinks the buffer, for thousands of connections that trickle.
func (a *answerReader) small() { a.buf = make([]byte, 2<<10) }

// fill reads more. It takes note of when the first byte of an answer came.
func (a *answerReader) fill() error {
	if a.r == a.w {
		a.r, a.w = 0, 0
	}
	if a.w == len(a.buf) {
		if a.r == 0 {
			return errors.New("a line of the answer is too long")
		}
		a.w = copy(a.buf, a.buf[a.r:a.w])
		a.r = 0
	}
	n, err := a.from.Read(a.buf[a.w:])
	if n > 0 {
		if a.first.IsZero() {
			a.first = time.Now()
		}
		a.w += n
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// line returns the next line without its end. It is good until the next read.
func (a *answerReader) line() ([]byte, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(a.buf[a.r+seen:a.w], '\n'); i >= 0 {
			line := a.buf[a.r : a.r+seen+i]
			a.r += seen + i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		seen = a.w - a.r
		if err := a.fill(); err != nil {
			return nil, err
		}
	}
}

// read reads one answer to its end and compares its body with what was sent. It
// returns when the first byte of the answer was there. leftOpen tells whether
// another request may follow.
func (a *answerReader) read(check checker) (first time.Time, leftOpen bool, err error) {
	a.first = time.Time{}
	if a.r < a.w {
		return first, false, fmt.Errorf("bytes follow an answer: %q", a.buf[a.r:min(a.w, a.r+40)])
	}
	length, chunked, leftOpen, err := a.head()
	if err != nil {
		return a.first, false, err
	}
	if chunked {
		err = a.chunks(check)
	} else {
		err = a.take(length, check)
	}
	if err == nil {
		err = check.end()
	}
	return a.first, leftOpen, err
}

// head reads the status and the header fields.
func (a *answerReader) head() (length int, chunked, leftOpen bool, err error) {
	line, err := a.line()
	if err != nil {
		return 0, false, false, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		return 0, false, false, fmt.Errorf("the answer is %q, and %.1000q", line, a.buf[a.r:a.w])
	}
	length, leftOpen = -1, true
	for {
		line, err := a.line()
		if err != nil {
			return 0, false, false, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "Content-Length"):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, false, false, err
			}
		case is(name, "Transfer-Encoding"):
			chunked = is(value, "chunked")
		case is(name, "Connection"):
			leftOpen = !is(value, "close")
		}
	}
	if length < 0 && !chunked {
		return 0, false, false, errors.New("the answer has neither a length nor chunks")
	}
	return length, chunked, leftOpen, nil
}

func (a *answerReader) chunks(check checker) error {
	for {
		line, err := a.line()
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 31)
		if err != nil {
			return fmt.Errorf("a chunk begins with %q", line)
		}
		if err := a.take(int(size), check); err != nil {
			return err
		}
		// After the last chunk stand trailers, none as a rule, and an empty line.
		for {
			if line, err = a.line(); err != nil {
				return err
			}
			if len(line) == 0 {
				break
			}
			if size > 0 {
				return fmt.Errorf("a chunk of %d bytes is followed by %q", size, line)
			}
		}
		if size == 0 {
			return nil
		}
	}
}

// take gives the next n bytes to the check.
func (a *answerReader) take(n int, check checker) error {
	for n > 0 {
		if a.r == a.w {
			if err := a.fill(); err != nil {
				return err
			}
		}
		part := a.buf[a.r:min(a.w, a.r+n)]
		a.r += len(part)
		n -= len(part)
		if err := check.next(part); err != nil {
			return err
		}
	}
	return nil
}
