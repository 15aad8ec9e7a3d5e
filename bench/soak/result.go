//go:build linux

package main

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// result is what a run has found.
type result struct {
	Started  time.Time `json:"started"`
	Settings settings  `json:"settings"`
	Seconds  float64   `json:"seconds"` // of load

	Requests int64          `json:"requests"`
	Held     int64          `json:"held"`    // not sent, because too many were open
	Ended    map[string]int `json:"ended"`   // requests, by how they ended
	Refused  map[string]int `json:"refused"` // in trouble, by code
	Faults   map[string]int `json:"faults"`  // at engines
	Done     map[string]int `json:"done"`    // to servers and the configuration
	Again    int            `json:"again"`   // requests that more than one engine had
	Loads    int            `json:"loads"`   // of the configuration

	Retries        float64 `json:"retries"` // as the gateway counts them
	RetriesRefused float64 `json:"retries_refused"`

	Base   truth.Level `json:"base"`
	End    truth.Level `json:"end"`
	RSS    [3]float64  `json:"rss_thirds_bytes"`
	RSSMax float64     `json:"rss_max_bytes"`

	GatewayCores float64 `json:"gateway_cores"` // under load
	AllCores     float64 `json:"all_cores"`     // over the whole run

	Lies     map[truth.Kind]int `json:"lies"`
	Failures []string           `json:"failures"`
	lies     []found
	judged   bool // to its end
}

// count takes over what the book says.
func (r *run) count() {
	b, res := r.book, r.res
	b.mu.Lock()
	defer b.mu.Unlock()
	res.Requests, res.Held = r.crowd.sent.Load(), r.crowd.held.Load()
	res.Ended, res.Refused, res.Done, res.Again, res.Loads = b.words, b.refused, b.kinds, b.again, r.config.loads
	res.Faults = map[string]int{}
	for fault, n := range b.faults {
		if fault != truth.NoFault {
			res.Faults[string(fault)] = n
		}
	}
	var own, children syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)
	res.AllCores = (spent(own) + spent(children)) / time.Since(res.Started).Seconds()
	res.lies, res.Lies = b.lies, map[truth.Kind]int{}
	for _, l := range b.lies {
		res.Lies[l.Kind]++
	}
}

// verdict tells what is wrong with what was counted.
func (r *run) verdict() (failures []error) {
	b, res := r.book, r.res
	b.mu.Lock()
	defer b.mu.Unlock()
	shown := map[truth.Kind]int{}
	for _, l := range b.lies {
		if shown[l.Kind]++; shown[l.Kind] <= 3 {
			failures = append(failures, fmt.Errorf("request %s: %v", l.Request, l.Lie))
		}
	}
	if b.nLies > 0 {
		failures = append(failures, fmt.Errorf("%d lies in all; lies.json has the first %d with all that is known", b.nLies, len(b.lies)))
	}
	judged := 0
	for _, n := range b.words {
		judged += n
	}
	if int64(judged) != res.Requests {
		failures = append(failures, fmt.Errorf("%d requests were sent, and %d have ended", res.Requests, judged))
	}
	for _, line := range r.gateway.watch.alarming() {
		failures = append(failures, errors.New("the gateway's log has: "+line))
	}
	return append(failures, r.meant()...)
}

// What must have come of a run's requests: so many whole answers, and no more than so
// many that were not sent. A tenth leaves, and most faults are made good.
const (
	leastWhole = 0.6
	mostHeld   = 0.02
)

// meant tells what should have happened in a run and has not: one that tests
// nothing must not pass.
func (r *run) meant() (failures []error) {
	res := r.res
	if share := float64(res.Ended["whole"]) / float64(max(1, res.Requests)); share < leastWhole {
		failures = append(failures, fmt.Errorf("only %.0f %% of all answers were whole", 100*share))
	}
	if float64(res.Held) > mostHeld*float64(res.Requests) {
		failures = append(failures, fmt.Errorf("%d requests were not sent, because %d were open: the machine is too slow for -rate %g", res.Held, r.Clients, r.Rate))
	}
	if r.For < 90*time.Second {
		return failures
	}
	for _, word := range []string{"cut", "cut in trouble", "left", "limited", "bad request"} {
		if res.Ended[word] == 0 {
			failures = append(failures, fmt.Errorf("no request ended as %q: the traffic was not what it was meant to be", word))
		}
	}
	for _, kind := range []string{truth.Killed, truth.Stopped, truth.Cut, "drain", truth.Reload, "bad reload", "burst", "taken out", "fails everything"} {
		if res.Done[kind] == 0 {
			failures = append(failures, fmt.Errorf("%q has never happened", kind))
		}
	}
	return failures
}

func spent(u syscall.Rusage) float64 {
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

// markdown is the summary.
func (r *result) markdown() string {
	var b strings.Builder
	verdict := "passed"
	if len(r.Failures) > 0 {
		verdict = "FAILED"
	}
	race := ""
	if r.Settings.Race {
		race = ", race detector on"
	}
	fmt.Fprintf(&b, "## Soak: %s\n\n", verdict)
	fmt.Fprintf(&b, "`-for %v -seed %d -rate %g`%s, %s, %d cores, %s.\n\n", r.Settings.For, r.Settings.Seed, r.Settings.Rate, race, runtime.Version(), runtime.NumCPU(), r.Started.UTC().Format("2006-01-02 15:04 MST"))
	b.WriteString("| | |\n|---|--:|\n")
	row := func(what, form string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", what, fmt.Sprintf(form, args...))
	}
	row("seconds of load", "%.0f", r.Seconds)
	row("requests", "%d", r.Requests)
	row("not sent, because too many were open", "%d (at most %.0f %%)", r.Held, 100*mostHeld)
	row("ended as", "%s (whole: at least %.0f %%)", list(r.Ended), 100*leastWhole)
	row("refused in trouble, by code", "%s", list(r.Refused))
	row("faults of engines", "%s", list(r.Faults))
	row("done to servers and the configuration", "%s", list(r.Done))
	row("loads of a configuration", "%d", r.Loads)
	row("requests that more than one engine had", "%d", r.Again)
	row("retries as the gateway counts them, refused by its budget", "%.0f, %.0f", r.Retries, r.RetriesRefused)
	row("cores busy: gateway under load, all processes", "%.2f, %.2f", r.GatewayCores, r.AllCores)
	room := r.Settings.room()
	row("goroutines after warm-up → at the end", "%.0f → %.0f (at most + %.0f)", r.Base.Goroutines, r.End.Goroutines, room.Goroutines)
	row("open descriptors", "%.0f → %.0f (at most + %.0f)", r.Base.Descriptors, r.End.Descriptors, room.Descriptors)
	row("live heap", "%.1f → %.1f MB (at most + %.0f MiB)", r.Base.HeapBytes/1e6, r.End.HeapBytes/1e6, room.HeapBytes/(1<<20))
	row("lines of metrics", "%.0f → %.0f (at most + %.0f)", r.Base.Series, r.End.Series, room.Series)
	row("resident memory: medians of the thirds, maximum", "%.0f, %.0f, %.0f; %.0f MB (the last third at most %.0f %% and %.0f MB above the middle one)",
		r.RSS[0]/1e6, r.RSS[1]/1e6, r.RSS[2]/1e6, r.RSSMax/1e6, 100*rssShare, r.Settings.rssBytes()/1e6)
	lies := map[string]int{}
	for kind, n := range r.Lies {
		lies[string(kind)] = n
	}
	row("doubled, missing, mixed up, cut silently, lost, … (none may be)", "%s", list(lies))
	if len(r.Failures) > 0 {
		b.WriteString("\n")
		for _, reason := range r.Failures {
			fmt.Fprintf(&b, "- %s\n", reason)
		}
	}
	return b.String()
}

// list is a count of each, the most first.
func list(counts map[string]int) string {
	if len(counts) == 0 {
		return "none"
	}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if d := counts[b] - counts[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%s %d", k, counts[k]))
	}
	return strings.Join(parts, ", ")
}
