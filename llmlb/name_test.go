package llmlb

import (
	"fmt"
	"strings"
	"testing"
)

// Two servers of a large pool whose short names are the same by chance are no
// mistake of the operator's: both get longer ones, the others keep theirs.
func TestNamesThatAreTheSameByChance(t *testing.T) {
	p := NewPool("large")
	seen := make(map[string]string)
	var twins []string
	for i := 0; twins == nil; i++ {
		address := fmt.Sprintf("10.%d.%d.%d:8000", i>>16, i>>8&0xff, i&0xff)
		name := DefaultName("large", address)
		if other := seen[name]; other != "" {
			twins = []string{other, address}
		}
		seen[name] = address
	}
	s := bound(t, p, Member{Address: twins[0]}, Member{Address: twins[1]}, Member{Address: "a:1"})
	a, b := s.Members[0].Name, s.Members[1].Name
	short := DefaultName("large", twins[0])
	if a == b || len(a) != len("ep-0123456789abcdef") || !strings.HasSuffix(a, short[len("ep-"):]) || !strings.HasSuffix(b, short[len("ep-"):]) {
		t.Errorf("names %q and %q, short %q", a, b, short)
	}
	if c := s.Members[2].Name; c != DefaultName("large", "a:1") {
		t.Errorf("the third is %q", c)
	}
}
