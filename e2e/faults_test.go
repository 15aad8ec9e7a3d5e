package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var updateFaults = flag.Bool("update", false, "write the table of docs/failover.md again")

// The bounds that the faults are met with, and that the table names. They are
// short, so that the test is; the defaults are in docs/failover.md.
const (
	faultFirstToken = 2 * time.Second
	faultStall      = 2 * time.Second
	faultWait       = 5 * time.Second // max_wait
)

// nobody is no fault of the simulator, but that there is none.
const nobody = "nobody listens"

// faultTable is every fault of the simulator, and what is promised of it.
var faultTable = []struct {
	fault string
	early bool // it shows before the first token: another server answers
	cut   bool // it shows later: what came is passed on, and its end is not clean
}{
	{fault: nobody, early: true},
	{fault: "refuse", early: true},
	{fault: "reset", early: true},
	{fault: "silence", early: true},
	{fault: "headers_silence", early: true},
	{fault: "slow_first_token 300ms"},
	{fault: "slow_first_token 1h", early: true},
	{fault: "status 500", early: true},
	{fault: "status 502", early: true},
	{fault: "status 503", early: true},
	{fault: "status 503 retry_after 20", early: true},
	{fault: "status 429 retry_after 20", early: true},
	{fault: "status 529", early: true},
	{fault: "status 400"},
	{fault: "loading", early: true},
	{fault: "error_first", early: true},
	{fault: "error_first 500", early: true},
	{fault: "error_after 0", early: true},
	{fault: "error_after 3", cut: true},
	{fault: "cut_after 0", early: true},
	{fault: "cut_after 3", cut: true},
	{fault: "stall_after 0", early: true},
	{fault: "stall_after 3", cut: true},
	{fault: "malformed_after 3"},
	{fault: "no_done"},
	{fault: "no_end", cut: true},
	{fault: "close_after_reply"},
	{fault: "close_after_reply reused"},
	{fault: "trickle 2ms"},
}

// faultWorld is a gateway before one healthy server and, for each of some faults,
// one that has it and nothing else.
type faultWorld struct{ g *gateway }

// faultTokens is how long the simulated answers are.
const faultTokens = 8

func newFaultWorld(t *testing.T, faults []int) *faultWorld {
	t.Helper()
	var sites, routes strings.Builder
	sim := func(name, fault string) (addr string) {
		addr = freeAddr(t)
		if fault != nobody {
			fmt.Fprintf(&sites, "http://%s {\nllm_simulator {\nname %s\nmodel m\nspeed 20\nreply_tokens %d\n%s}\n}\n", addr, name, faultTokens, fault)
		}
		return addr
	}
	healthy := sim("healthy", "")
	for _, i := range faults {
		f := faultTable[i]
		line, options := nobody, "engine none\n" // so that only requests find out
		if f.fault != nobody {
			line, options = fmt.Sprintf("fault %s\n", f.fault), "scrape_interval 2s\nstale_after 20s\n"
		}
		faulty := sim(faultyName(i), line)
		options += fmt.Sprintf("local_zone here\nreadiness off\nfirst_token %v %v\nstall_timeout %v\nqueue {\nmax_wait %v\n}\n", faultFirstToken, faultFirstToken, faultStall, faultWait)
		// The faulty server is the nearer one, so that it is asked first.
		options += fmt.Sprintf("endpoint %s {\nname %%s-%%s\nzone here\n}\n", faulty)
		pair := fmt.Sprintf(options, faultyName(i), "pair") + fmt.Sprintf("endpoint %s {\nname healthy-%d\nzone there\n}\n", healthy, i)
		fmt.Fprintf(&routes, "handle_path /%d/pair/* {\nllm_proxy %s %s {\npool %d-pair\n%s}\n}\n", i, faulty, healthy, i, pair)
		fmt.Fprintf(&routes, "handle_path /%d/alone/* {\nllm_proxy %s {\npool %d-alone\n%s}\n}\n", i, faulty, i, fmt.Sprintf(options, faultyName(i), "alone"))
	}
	return &faultWorld{startBeside(t, sites.String(), routes.String())}
}

// faultyName is the name of the server with the fault, by which its answers begin.
func faultyName(i int) string { return fmt.Sprintf("sim-%d", i) }

// byWhom is the beginning of a simulated answer.
func byWhom(name string) string { return "This is " + name }

// told is what a client was told, and how long that took.
type told struct {
	status   int
	text     string // of all tokens
	raw      string
	tokens   int
	done     bool // the end marker came
	errEvent bool
	broken   bool // no clean end
	attempts int
	after    string // Retry-After
	took     time.Duration
}

func (w *faultWorld) ask(t *testing.T, i int, with string) told {
	t.Helper()
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	began := time.Now()
	res, err := client.Post(fmt.Sprintf("%s/%d/%s/v1/chat/completions", w.g.url, i, with), "application/json", strings.NewReader(chat(true, "", "hi")))
	if err != nil {
		t.Errorf("%s: %v: a client never gets no answer at all", faultTable[i].fault, err)
		return told{}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	r := told{status: res.StatusCode, raw: string(body), broken: err != nil, took: time.Since(began), after: res.Header.Get("Retry-After")}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%s: the stream broke with %v", faultTable[i].fault, err)
	}
	r.attempts, _ = strconv.Atoi(res.Header.Get("X-LLM-Attempts"))
	for line := range strings.Lines(r.raw) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			r.done = true
		}
		if strings.Contains(data, `"error"`) {
			r.errEvent = true
		}
		if _, after, ok := strings.Cut(data, `"content":"`); ok {
			word, _, _ := strings.Cut(after, `"`)
			if word != "" {
				r.tokens++
			}
			r.text += word
		}
	}
	return r
}

// String says it as the table does.
func (r told) String() string {
	switch {
	case r.status == http.StatusOK && !r.broken && !r.errEvent && r.tokens == faultTokens && r.done:
		return "the whole answer"
	case r.status == http.StatusOK && !r.broken && !r.errEvent && r.tokens == faultTokens:
		return "the whole answer, as it was sent"
	case r.status == http.StatusOK && r.errEvent:
		return fmt.Sprintf("%d tokens, then the engine's error event", r.tokens)
	case r.status == http.StatusOK && r.broken:
		return fmt.Sprintf("%d tokens, then the connection breaks", r.tokens)
	case r.status == http.StatusOK && r.tokens == faultTokens-1 && r.done:
		return "the whole answer, the broken event as it was sent"
	case r.status == http.StatusOK:
		return fmt.Sprintf("%d tokens", r.tokens)
	}
	words := "the gateway's words"
	for _, engines := range []string{"queue is full", "Loading model", "Internal Server Error", "Bad Gateway", "Bad Request"} {
		if strings.Contains(r.raw, engines) {
			words = "the engine's words"
		}
	}
	if n, _ := strconv.Atoi(r.after); n > 15 {
		return fmt.Sprintf("%d in %s, `Retry-After: 20`", r.status, words) // it counts down
	} else if n > 0 {
		return fmt.Sprintf("%d in %s, `Retry-After: %d`", r.status, words, n)
	}
	return fmt.Sprintf("%d in %s", r.status, words)
}

// wait says in words what the time went to, by how the attempts at the faulty
// server ended, and checks that it did.
func (r told) wait(t *testing.T, fault string, ended map[string]int) string {
	t.Helper()
	var least time.Duration
	words := "at once"
	switch {
	case ended["first_token_timeout"] > 0:
		least, words = time.Duration(ended["first_token_timeout"])*faultFirstToken, fmt.Sprintf("after `first_token` (%v)", faultFirstToken)
	case strings.HasPrefix(fault, "stall_after") && r.tokens > 0:
		least, words = faultStall, fmt.Sprintf("after `stall_timeout` (%v)", faultStall)
	case strings.HasPrefix(fault, "slow_first_token 300ms"):
		least, words = 300*time.Millisecond, "when its first token comes (0.3 s)"
	case strings.HasPrefix(fault, "trickle"):
		words = "as slowly as it comes"
	case ended["unreachable"] > 1:
		least, words = faultWait, fmt.Sprintf("after `max_wait` (%v)", faultWait)
	case ended["overloaded"] > 1:
		// 250 ms after the first answer, twice as long after the second.
		least, words = 750*time.Millisecond, fmt.Sprintf("after the pauses between %d attempts (0.75 s)", ended["overloaded"])
	}
	if r.took < least || r.took > least+within {
		t.Errorf("%s: it took %v, want %v and no more than it must", fault, r.took, least)
	}
	return words
}

// faultRow is a line of the table.
func (w *faultWorld) row(t *testing.T, i int) string {
	t.Helper()
	f := faultTable[i]
	bad := func(with string) string { return faultyName(i) + "-" + with }
	var paired, alone told
	var both sync.WaitGroup
	both.Go(func() { paired = w.ask(t, i, "pair") })
	both.Go(func() { alone = w.ask(t, i, "alone") })
	both.Wait()
	endedPaired, endedAlone := w.settledAt(bad("pair")), w.settledAt(bad("alone"))
	first := w.stateOf(bad("pair"), endedPaired)

	switch {
	case f.early:
		if paired.String() != "the whole answer" || !strings.HasPrefix(paired.text, byWhom("healthy")) {
			t.Errorf("%s, with a second server: the client got %v: %q", f.fault, paired, paired.raw)
		}
		if paired.attempts != 2 {
			t.Errorf("%s, with a second server: %d attempts, want 2", f.fault, paired.attempts)
		}
		if alone.status < 400 || alone.tokens > 0 {
			t.Errorf("%s, alone: the client got %v: %q", f.fault, alone, alone.raw)
		}
	case f.cut:
		for with, r := range map[string]told{"pair": paired, "alone": alone} {
			if !r.broken && !r.errEvent {
				t.Errorf("%s, %s: what was cut looks whole: %q", f.fault, with, r.raw)
			}
			if r.attempts != 1 {
				t.Errorf("%s, %s: %d attempts after a token was delivered", f.fault, with, r.attempts)
			}
			if !strings.HasPrefix(r.text, byWhom(faultyName(i))[:min(len(r.text), 12)]) {
				t.Errorf("%s, %s: the client got %q, which is not all the server's that cut it", f.fault, with, r.text)
			}
		}
	default:
		for with, r := range map[string]told{"pair": paired, "alone": alone} {
			if r.broken || r.attempts != 1 || r.status == http.StatusOK && !strings.HasPrefix(r.text, byWhom(faultyName(i))[:12]) {
				t.Errorf("%s, %s: %v in %d attempts, want the server's one answer", f.fault, with, r, r.attempts)
			}
		}
	}

	// The servers know best how often they were asked. A connection that was used
	// before and closes at once is taken for a stale one: the same server is
	// asked again, on a new one.
	if f.fault != nobody {
		counted, again := total(endedPaired)+total(endedAlone), 0
		if f.fault == "refuse" || f.fault == "reset" {
			again = 2
		}
		if n := w.requests(t, i); n < counted || n > counted+again {
			t.Errorf("%s: the server was asked %d times, the gateway counts %d", f.fault, n, counted)
		}
	}

	// Five at a time are enough for a circuit.
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() { w.ask(t, i, "pair") })
	}
	all.Wait()
	then := w.stateOf(bad("pair"), w.settledAt(bad("pair")))
	attempts := strconv.Itoa(paired.attempts)
	if endedAlone["unreachable"] > 1 {
		attempts += ", alone several" // it knocks until its time is over
	} else if total(endedAlone) != 1 {
		attempts += fmt.Sprintf(", alone %d", total(endedAlone))
	}
	name := "`" + f.fault + "`"
	if f.fault == nobody {
		name = f.fault
	}
	return fmt.Sprintf("| %s | %v | %s | %v | %s | %s | %s |", name,
		paired, paired.wait(t, f.fault, endedPaired), alone, alone.wait(t, f.fault, endedAlone), attempts, stateWords(first, then))
}

// settledAt waits until nothing is open at the endpoint and returns how the
// attempts there ended.
func (w *faultWorld) settledAt(name string) map[string]int {
	eventually(w.g.t, "the endpoint to be idle", func() bool { return w.g.endpoint(name).Calls == 0 })
	return w.g.attempts(name)
}

// requests is how many requests the faulty server has seen.
func (w *faultWorld) requests(t *testing.T, i int) int {
	t.Helper()
	res := w.g.fromAdmin("/simulator/faults/" + faultyName(i))
	var servers []struct{ Requests int }
	if err := json.Unmarshal([]byte(read(t, res).body), &servers); err != nil || len(servers) != 1 {
		t.Errorf("asking %s: %v, %d servers", faultyName(i), err, len(servers))
		return 0
	}
	return servers[0].Requests
}

// stateOf says what the endpoint is. A short pause may be over by the time that
// it is asked.
func (w *faultWorld) stateOf(name string, ended map[string]int) string {
	row := w.g.endpoint(name)
	switch {
	case row.Circuit != "closed":
		return "down (circuit open)"
	case row.State == "up" && ended["overloaded"] > 0:
		return "overloaded"
	}
	return row.State
}

func stateWords(first, then string) string {
	if first == then {
		return first
	}
	return fmt.Sprintf("%s; after a few more %s", first, then)
}

const (
	faultDoc   = "../docs/failover.md"
	faultBegin = "<!-- The table is made by a test: see below. -->\n"
	faultEnd   = "<!-- End of the table. -->\n"
)

// Every fault that the simulator can rehearse, with a second server and without.
// A fault that shows before the first token costs a client with two servers
// nothing but time; a later one ends its stream for all to see. The table in the
// documentation says what this test has seen.
func TestFaultsEndAsTheDocumentationSays(t *testing.T) {
	// Those that take their time take it at once, the others a few at a time.
	slow, quick := []int{}, []int{}
	for i, f := range faultTable {
		switch kind, _, _ := strings.Cut(f.fault, " "); kind {
		case "silence", "headers_silence", "slow_first_token", "stall_after":
			slow = append(slow, i)
		default:
			quick = append(quick, i)
		}
	}
	groups := append(slices.Collect(slices.Chunk(quick, 6)), slow)
	rows := make([]string, len(faultTable))
	for n, faults := range groups {
		t.Run(fmt.Sprint("group ", n), func(t *testing.T) {
			w := newFaultWorld(t, faults)
			var all sync.WaitGroup
			for _, i := range faults {
				all.Go(func() { rows[i] = w.row(t, i) })
			}
			all.Wait()
		})
	}
	table := "| fault | with a second server the client gets | when | alone the client gets | when | attempts | the server is then |\n|---|---|---|---|---|---|---|\n" +
		strings.Join(rows, "\n") + "\n"

	text, err := os.ReadFile(faultDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), faultBegin)
	written, after, ok2 := strings.Cut(rest, faultEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table; here it is:\n%s", faultDoc, table)
	}
	if *updateFaults {
		if err := os.WriteFile(faultDoc, []byte(before+faultBegin+table+faultEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if written != table {
		t.Errorf("%s has another table; -update writes this one:\n%s", faultDoc, table)
	}
}
