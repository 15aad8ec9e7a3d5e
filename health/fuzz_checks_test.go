package health

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// Whatever a server says of its health, it is one of a few verdicts, with a reason
// in our own words where it is not the best.
func FuzzReadinessAnswer(f *testing.F) {
	for _, seed := range []string{
		"", "{", `{"status":"ok"}`, `{"status":"loading model"}`, `{"error":{"code":503,"message":"Loading model"}}`, `{"error":"unhealthy"}`,
		`{"status":"sleeping"}`, `{"status":7,"error":{"message":[]}}`, `{"status":"INITIALIZING\u0000"}`, `[]`, `{"status":{"status":"loading"}}`,
	} {
		f.Add(503, []byte(seed), false)
		f.Add(200, []byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, status int, body []byte, ours bool) {
		v, why, tells := readyVerdict(status, body, 0, ours)
		switch {
		case !tells:
			if why != "" {
				t.Errorf("tells nothing, for %q", why)
			}
		case v == llmlb.CheckPassed:
			if why != "" || status >= 300 {
				t.Errorf("%d passed for %q", status, why)
			}
		case why == "" || v == llmlb.CheckUnsuitable && ours:
			t.Errorf("%d is %v for %q", status, v, why)
		case why != loadingModel && why != asleep && why != statusReason(status):
			t.Errorf("%q is none of our words", why)
		}
	})
}

// Whatever a server answers to a canary, and in whatever pieces it comes, it is read
// within bounds, with the same verdict each time; and none passes that shows nothing.
func FuzzCanaryAnswer(f *testing.F) {
	for _, seed := range []string{
		"", "data: [DONE]\n\n", "data: " + content("OK") + "\n\n", "data: " + content("OK") + "\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n",
		"data: {\"error\":{\"message\":\"x\",\"code\":503}}\n\n", ": c\n\n", "{}", `{"choices":[]}`, `{"choices":[{"message":{"content":"OK"},"finish_reason":"stop"}]}`,
		`{"choices":[{"message":{"content":["OK"]}}]}`, `{"chOiceſ":[{"message":{"content":"OK"},"finish_reason":"stop"}]}`, `{"error":{"message":"x"}}`, "{\"error\":{\"message\":\"x}}\n\n\",\"code\":503}", "data: {\"choices\":[{\"delta\":{\"reasoning\":\"OK\"}}]}\n\n",
		"data:{\"ch\ndata:oices\":[{\"delta\":{\"content\":\"OK\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]",
	} {
		f.Add([]byte(seed), false, "")
		f.Add([]byte(seed), true, "OK")
	}
	f.Fuzz(func(t *testing.T, body []byte, stream bool, expect string) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		o := tempted(llmlb.Canary{Expect: expect})
		judge := func(oneByOne bool) *shown {
			a := canaryAnswer{reader: answer.New(request.Chat, kind), began: time.Now()}
			from := iotest.OneByteReader(bytes.NewReader(body))
			if !oneByOne {
				from = bytes.NewReader(body)
			}
			err := a.read(from)
			if len(a.body) > maxCanary+4<<10 {
				t.Errorf("%d bytes kept", len(a.body))
			}
			return a.judge(new(shown), &o, err, nil)
		}
		got := judge(false)
		if got.tells && got.Verdict == llmlb.CheckPassed {
			// Names are read whatever their case is, the long s included, and across the
			// lines that make an event.
			text := strings.NewReplacer("\r\ndata:", "", "\ndata:", "", "\rdata:", "").Replace(string(body))
			if got.Reason != "" || !strings.Contains(strings.ToUpper(text), "CHOICES") && !strings.Contains(text, `\u`) {
				t.Errorf("%q passed for %q", body, got.Reason)
			}
		} else if got.tells && got.Reason == "" {
			t.Errorf("%v for no reason", got.Verdict)
		}
		if len(body) < 2<<10 {
			if again := judge(true); again.tells != got.tells || again.Verdict != got.Verdict || again.Reason != got.Reason {
				t.Errorf("%q is %v for %q, and byte by byte %v for %q", body, got.Verdict, got.Reason, again.Verdict, again.Reason)
			}
		}
	})
}
