package trace

import "testing"

func TestPrompt(t *testing.T) {
	type part struct {
		name   uint64
		tokens int
	}
	whole := []part{{1, 20}, {2, 28}}
	for name, tc := range map[string]struct {
		parts  []part
		shared int // pieces
	}{
		"the same":               {[]part{{1, 20}, {2, 28}}, 3},
		"a longer one":           {[]part{{1, 20}, {2, 400}}, 3},
		"a shorter one":          {[]part{{1, 20}, {2, 20}}, 2},
		"another end":            {[]part{{1, 20}, {3, 28}}, 1},
		"another begin":          {[]part{{3, 20}, {2, 28}}, 0},
		"less of the first text": {[]part{{1, 19}, {2, 29}}, 1},
		"the first text on":      {[]part{{1, 48}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var a, b prompt
			for _, p := range whole {
				a.add(p.name, p.tokens)
			}
			for _, p := range tc.parts {
				b.add(p.name, p.tokens)
			}
			if len(a.ids) != 3 || a.tokens != 48 || len(b.ids) != b.tokens/16 {
				t.Fatalf("%d pieces of %d tokens, %d of %d", len(a.ids), a.tokens, len(b.ids), b.tokens)
			}
			if n := shared(Request{Blocks: a.ids}, Request{Blocks: b.ids}); n != tc.shared {
				t.Errorf("shares %d pieces, want %d", n, tc.shared)
			}
		})
	}

	// A text that goes on is not the same text from its begin again.
	var on, again prompt
	on.add(1, 32)
	again.add(1, 16)
	again.add(1, 16)
	if n := shared(Request{Blocks: on.ids}, Request{Blocks: again.ids}); n != 1 {
		t.Errorf("shares %d pieces, want 1", n)
	}

	// Prompts that went apart do not write into each other.
	var trunk prompt
	trunk.add(1, 16)
	a, b := trunk.clone(64), trunk.clone(64)
	a.add(2, 16)
	last := a.ids[1]
	b.add(3, 16)
	if a.ids[1] != last || b.ids[1] == last || len(trunk.ids) != 1 {
		t.Error("a prompt changed when another went on")
	}
}
