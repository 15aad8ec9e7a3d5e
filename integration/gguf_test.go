package integration

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
)

// gguf is a model file in the format that llama.cpp loads: facts by name, then
// tensors by name, little-endian throughout. Only what a small model needs is
// here: tensors hold 32-bit floats.
type gguf struct {
	facts   []fact
	tensors []tensor
}

// fact is one of the file's named values: a uint32, float32, bool or string, or
// a slice of int32, float32 or string.
type fact struct {
	name  string
	value any
}

// tensor is one named array of numbers; of its sizes, the first is that of the
// dimension whose numbers lie side by side.
type tensor struct {
	name    string
	sizes   []uint64
	numbers []float32
}

const (
	ggufVersion   = 3
	ggufAlignment = 32 // of each tensor's numbers; the format's default
	ggufArray     = uint32(9)
	ggufFloats    = uint32(0) // the tensor type of 32-bit floats
)

// write makes the file.
func (g *gguf) write(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriter(f)
	if err := g.encode(out); err != nil {
		return fmt.Errorf("encoding the model: %w", err)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func (g *gguf) encode(w io.Writer) error {
	// The whole head first: where the numbers begin hangs on its length.
	var head bytes.Buffer
	head.WriteString("GGUF")
	put(&head, uint32(ggufVersion), uint64(len(g.tensors)), uint64(len(g.facts)))
	for _, fact := range g.facts {
		put(&head, fact.name)
		if err := putFact(&head, fact.value); err != nil {
			return fmt.Errorf("fact %q: %w", fact.name, err)
		}
	}
	var begin uint64
	for _, t := range g.tensors {
		put(&head, t.name, uint32(len(t.sizes)), t.sizes, ggufFloats, begin)
		begin = aligned(begin + uint64(4*len(t.numbers)))
	}
	pad(&head)
	if _, err := head.WriteTo(w); err != nil {
		return err
	}
	for _, t := range g.tensors {
		var body bytes.Buffer
		put(&body, t.numbers)
		pad(&body)
		if _, err := body.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}

// putFact writes a value after the number of its type.
func putFact(b *bytes.Buffer, value any) error {
	switch v := value.(type) {
	case uint32:
		put(b, uint32(4), v)
	case float32:
		put(b, uint32(6), v)
	case bool:
		put(b, uint32(7), v)
	case string:
		put(b, uint32(8), v)
	case []int32:
		put(b, ggufArray, uint32(5), uint64(len(v)), v)
	case []float32:
		put(b, ggufArray, uint32(6), uint64(len(v)), v)
	case []string:
		put(b, ggufArray, uint32(8), uint64(len(v)))
		for _, s := range v {
			put(b, s)
		}
	default:
		return fmt.Errorf("a %T has no place in the file", value)
	}
	return nil
}

// put writes values one after the other, strings after their length.
func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			put(b, uint64(len(s)))
			b.WriteString(s)
			continue
		}
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err) // a buffer takes everything; only a type of no fixed size fails
		}
	}
}

func pad(b *bytes.Buffer) {
	b.Write(make([]byte, aligned(uint64(b.Len()))-uint64(b.Len())))
}

func aligned(n uint64) uint64 { return (n + ggufAlignment - 1) / ggufAlignment * ggufAlignment }
