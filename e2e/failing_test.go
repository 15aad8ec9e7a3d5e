package e2e

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A server that fails every request at once is always idle. It must not draw
// the traffic for that.
func TestServerThatFailsAtOnceDoesNotAttract(t *testing.T) {
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request, []byte){
		"500": func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusInternalServerError) },
		"429": func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusTooManyRequests) },
		"no answer": func(http.ResponseWriter, *http.Request, []byte) {
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, list := trio(t, fast)
			list[0].answers(fail)
			for _, good := range list[1:] {
				good.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
					time.Sleep(20 * time.Millisecond) // the work it does
					answer(w, r, body)
				})
			}
			const clients, each = 12, 20
			var wg sync.WaitGroup
			for client := range clients {
				wg.Go(func() {
					for i := range each {
						res, err := http.Post(g.url+"/v1/chat/completions", "application/json",
							strings.NewReader(distinct(client*each+i)))
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
				})
			}
			wg.Wait()
			if n := list[0].count(); n > clients*each/8 {
				t.Errorf("%d of %d requests went to the server that fails", n, clients*each)
			}
		})
	}
}
