package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The standard parser takes time that grows with the square of the number of
// labels: a page of 184 KiB once kept a processor busy for 22 seconds. A sample
// with more labels than any engine has is left out, and the rest is read.
func TestSamplesWithManyLabelsAreLeftOut(t *testing.T) {
	var labels strings.Builder
	for i := range maxLabels + 1 {
		fmt.Fprintf(&labels, "l%d=\"v\",", i)
	}
	sample := "vllm:num_requests_running{" + labels.String() + "} 7\n"
	long := "vllm:num_requests_running{a=\"" + strings.Repeat("x", maxLine) + "\"} 70\n"
	rest := "vllm:num_requests_running{engine=\"0\"} 2\nvllm:num_requests_waiting 1\n"
	p := &page{body: []byte(sample + long + rest), scratch: scratches.Get().(*scratch)}
	defer p.release()
	s, _, _, why := readPage(time.Now(), p, dialects)
	if why != "" || s.Running != 2 || s.Waiting != 1 {
		t.Errorf("running %v waiting %v (%s), want 2 and 1", s.Running, s.Waiting, why)
	}
}

// A model's name is shown in tables and JSON: one that would move a terminal's
// cursor or turn the text around is none.
func TestModelNamesArePrintable(t *testing.T) {
	page := "vllm:num_requests_running{model_name=\"org/model-7b\"} 1\n" +
		"vllm:num_requests_running{model_name=\"a\u009b2J\"} 1\n" +
		"vllm:num_requests_running{model_name=\"a\u202eb\"} 1\n"
	f, why := scratches.Get().(*scratch).parse([]byte(page), map[string]struct{}{"vllm:num_requests_running": {}})
	if why != "" {
		t.Fatal(why)
	}
	if got := fmt.Sprint(f.models()); got != "[org/model-7b]" {
		t.Errorf("models %q, want the printable one", got)
	}
}

// A server that fails in another way each time fills no log.
func TestManyReasonsAreLoggedAFewTimesAMinute(t *testing.T) {
	p := llmlb.NewPool("spam")
	s := &llmlb.Settings{Pool: "spam", Members: []llmlb.Member{{Address: "a:1"}}}
	if err := p.Bind(s); err != nil {
		t.Fatal(err)
	}
	core, logs := recorded()
	l := &scraper{loop: &loop{runner: &runner{pool: p, loggers: []ownLogger{{logger: zap.New(core)}}}, endpoint: s.Members[0].Endpoint}}
	now := time.Unix(1_800_000_000, 0)
	for i := range 600 {
		l.news.failed(l, now, reason(fmt.Sprint("reason ", i%40)))
		now = now.Add(100 * time.Millisecond)
	}
	if n := count(lines(logs), "scrape failed"); n == 0 || n > maxReasons {
		t.Errorf("%d lines in a minute, want at most %d", n, maxReasons)
	}
}
