package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Nothing is asked of the server in the background: no metrics, no check. It is
// alone, fails until it is taken to be down, and is well from then on. Requests
// alone find that out, within ten seconds and without anybody's help.
func TestAServerThatNobodyAsksRecovers(t *testing.T) {
	a := newBackend(t)
	asked := countVisits(a)
	g := start(t, fmt.Sprintf("llm_proxy %s {\nengine none\nreadiness off\nretries 0\n%s}\n", a.addr(), named(a)))
	a.answers(status(http.StatusInternalServerError, "", "{}"))
	i := 0
	ask := func() reply {
		i++
		return g.post(distinct(i))
	}
	eventually(t, "the server to be down", func() bool {
		ask()
		return g.endpoint("a").State == "down"
	})
	a.answers(answer)
	well := time.Now()
	eventually(t, "a request to be served", func() bool { return ask().status == http.StatusOK })
	eventually(t, "the server to be up", func() bool {
		if r := ask(); r.status != http.StatusOK {
			t.Fatalf("status %d of a server that has served again: %s", r.status, r.body)
		}
		row := g.endpoint("a")
		return row.State == "up" && row.Circuit == "closed"
	})
	t.Logf("up again after %v", time.Since(well))
	if paths := slices.Collect(maps.Keys(asked.now())); !slices.Equal(paths, []string{chatPath}) {
		t.Errorf("the server was asked for %q, want requests alone", paths)
	}
}
