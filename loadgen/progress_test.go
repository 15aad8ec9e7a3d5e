package loadgen

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The progress is one line on a terminal, and a line now and then in a file.
func TestProgress(t *testing.T) {
	for _, tc := range []struct {
		name     string
		terminal bool
		want     []string
	}{
		{"in a file", false, []string{
			"5s/10s sent 12 open 2 ok 10 failed 0 ttft 900ms/900ms 4 tok/s\n",
			"+0s sent 22 open 2 ok 20 failed 0 ttft 900ms/900ms 4 tok/s\n",
		}},
		{"on a terminal", true, []string{
			"\r2s/10s sent 4 open 2 ok 2 failed 0 ttft 900ms/900ms 4 tok/s\x1b[K", "\r\x1b[K",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &engine{answer: func(_ *asked, w *reply) { w.stream(900*time.Millisecond, 50*time.Millisecond, 2) }}
				run := newRunner(completed(t, Scenario{Clients: 2, Think: 0, Duration: Duration(10 * time.Second)}), "http://engine.test/", "", e)
				// Not at the very moments at which requests begin and end.
				time.Sleep(50 * time.Millisecond)
				run.begun, run.record.begun = time.Now(), time.Now()
				var b bytes.Buffer
				done := make(chan struct{})
				stopped := make(chan struct{})
				go func() {
					time.Sleep(10 * time.Millisecond)
					run.record.progress(&b, tc.terminal, done)
					close(stopped)
				}()
				run.do(t.Context())
				time.Sleep(time.Second / 2)
				close(done)
				<-stopped
				e.answers.Wait()
				for _, want := range tc.want {
					if !strings.Contains(b.String(), want) {
						t.Errorf("no line %q in\n%q", want, b.String())
					}
				}
			})
		})
	}
}
