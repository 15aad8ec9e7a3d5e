package selection

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// The operator who uses the policy alone is told once what he has not got.
func TestThePolicyAloneSaysSoOnce(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	p, us := w.bound()
	core, logs := observer.New(zapcore.InfoLevel)
	p.logger = zap.New(core)

	c := w.grant(prompt(part{"question", 100}))
	p.Select(us, w.admitted(c), nil)
	if n := logs.Len(); n != 0 {
		t.Fatalf("%d lines with admission in front: %v", n, logs.All())
	}
	for range 3 {
		p.Select(us, bare(), nil)
	}
	all := logs.All()
	if len(all) != 1 || !strings.Contains(all[0].Message, "llm_admission") || all[0].Level != zapcore.InfoLevel {
		t.Errorf("got %v, want one line that names llm_admission", all)
	}
}

// Logs at their most talkative hold nothing of a prompt or of a token, and say
// what in the proxy's own options works against streaming.
func TestLogs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	a := newServer(t, "a")
	listen := refused(t)
	config := site(t, listen, []string{a.address(), refused(t)}, "engine vllm\nscrape_interval 20ms\nupstream_auth bearer SECRET124", "response_buffers 1MiB\nlb_retries 2\nlb_try_duration 1ms")
	load(t, strings.Replace(config, "output discard", "output file "+file+"\n  level DEBUG", 1))
	stopAfter(t)
	for i := range 4 {
		post(t, "http://"+listen, strings.NewReader(chat("SECRET123 "+strconv.Itoa(i), 0)))
		post(t, "http://"+listen, strings.NewReader(`{"messages": "SECRET123`))
	}
	read := func() string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	eventually(t, "warnings about two options and a line about llm_admission", func() bool {
		s := read()
		return strings.Contains(s, "response_buffers") && strings.Contains(s, "use lb_retries") && strings.Contains(s, "llm_admission")
	})
	if s := read(); strings.Contains(s, "SECRET") {
		t.Errorf("the log repeats what it must not")
	}
}
