package trace

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"time"
)

// fuzz reads anything in one format. What is accepted is a trace that keeps its
// promises, also when it is changed; all else is an error and never a panic.
func fuzz(f *testing.F, format string, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
		f.Add([]byte(zipped(f, s)))
	}
	small := limits{unpacked: 1 << 16, line: 1 << 12, rows: 1 << 10, ids: 1 << 10}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := read(bytes.NewReader(text), Options{Format: format}, small)
		if err != nil {
			return
		}
		if len(got.Requests) == 0 {
			t.Fatal("accepted without a request")
		}
		check(t, got)
		check(t, got.Dither(time.Second, 1))
		check(t, got.Speed(.5))
		check(t, got.First(time.Minute))
		if s := got.Stats(); !(s.Seen >= 0 && s.Seen < 1) || math.IsNaN(s.InputRate) || s.Span < 0 || s.Span > maxSpan {
			t.Fatalf("stats %+v", s)
		}
		again, err := read(bytes.NewReader(text), Options{Format: format}, small)
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Fatalf("read twice: %v", err)
		}
	})
}

func FuzzMooncake(f *testing.F) {
	fuzz(f, Mooncake,
		`{"timestamp":0,"input_length":1100,"output_length":52,"hash_ids":[0,7,8]}`+"\n"+`{"timestamp":3000,"input_length":512,"output_length":0,"hash_ids":[7]}`,
		`{"timestamp":1e3,"input_length":12.0,"output_length":1,"hash_ids":null,"x":{"y":[1]}}`,
		`{"timestamp":1700000000000,"input_length":513,"output_length":1,"hash_ids":[-1,18446744073709551615]}`,
	)
}

func FuzzAzure(f *testing.F) {
	fuzz(f, Azure,
		"timestamp_ms,input_length,output_length\n4315,396,109\n0,374,44\n",
		"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2024-05-10 00:00:00.1+00:00,1,1\n",
	)
}

func FuzzServeGen(f *testing.F) {
	fuzz(f, ServeGen,
		"timestamp_ms,client_id,input_length,output_length\n6,65,8168,785\n1.5,\"a, b\",24105,985\n",
	)
}

// FuzzTold leaves the format to the content.
func FuzzTold(f *testing.F) {
	fuzz(f, "",
		`{"timestamp":0,"input_length":1,"output_length":1}`,
		"timestamp_ms,client_id,input_length,output_length\n6,65,8168,785\n",
		"\ufefftimestamp_ms,input_length,output_length\n6,8168,785\n",
	)
}
