package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lines are a text's lines that say something.
type lines struct {
	in     *bufio.Reader
	max    int // bytes of a line
	number int // of the line read last, from 1
	buf    []byte
}

// next is the next line without its end and without space around it; io.EOF
// after the last. It is good until next is called again.
func (l *lines) next() ([]byte, error) {
	for {
		l.number++
		l.buf = l.buf[:0]
		var err error
		for {
			var part []byte
			part, err = l.in.ReadSlice('\n')
			l.buf = append(l.buf, part...)
			if len(l.buf) > l.max {
				return nil, fmt.Errorf("longer than %d bytes", l.max)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		line := l.buf
		if l.number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // some editors put it there
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, io.EOF
		}
	}
}

// bounded fails where more than max bytes come.
type bounded struct {
	in        io.Reader
	max, read int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if b.read += int64(n); b.read > b.max {
		return 0, fmt.Errorf("the text goes on after %d bytes, more than is read", b.max)
	}
	return n, err
}
