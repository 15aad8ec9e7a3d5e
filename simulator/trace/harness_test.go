package trace

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// check fails unless a trace is as its doc comments say.
func check(t *testing.T, tr *Trace) {
	t.Helper()
	named := false
	last := time.Duration(0)
	for i, q := range tr.Requests {
		switch {
		case q.Input < 1 || q.Output < 1 || q.Input > maxTokens || q.Output > maxTokens:
			t.Fatalf("request %d has lengths %d and %d", i, q.Input, q.Output)
		case q.Follows < 0 || q.Follows > i:
			t.Fatalf("request %d follows the one %d before it", i, q.Follows)
		case q.Think < 0 || q.At < 0:
			t.Fatalf("request %d at %s after %s", i, q.At, q.Think)
		}
		if q.Follows == 0 {
			if q.At < last {
				t.Fatalf("request %d at %s, one before it at %s", i, q.At, last)
			}
			last = q.At
		}
		if len(q.Blocks) > 0 {
			named = true
			if tr.Block < 1 {
				t.Fatalf("request %d has pieces of %d tokens", i, tr.Block)
			}
			if most := (q.Input + q.Output + tr.Block - 1) / tr.Block; len(q.Blocks) > most {
				t.Fatalf("request %d of %d and %d tokens has %d pieces", i, q.Input, q.Output, len(q.Blocks))
			}
		}
		own := slices.Clone(q.Blocks)
		slices.Sort(own)
		if len(slices.Compact(own)) != len(q.Blocks) {
			t.Fatalf("request %d has an id twice: %v", i, q.Blocks)
		}
	}
	if !named && tr.Block != 0 {
		t.Fatalf("pieces of %d tokens, and none in any request", tr.Block)
	}
	if !tr.chained() {
		t.Fatal("an id comes after different ones")
	}
}

// published is the path of a published trace that is not part of this module.
func published(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "traces", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the published trace is not beside this checkout: %v", err)
	}
	return path
}
