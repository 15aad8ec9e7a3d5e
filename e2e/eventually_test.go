package e2e

import (
	"runtime"
	"testing"
	"time"
)

// eventually asks again and again until ok, for things that no event tells of.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		runtime.Gosched()
		time.Sleep(5 * time.Millisecond)
	}
}
