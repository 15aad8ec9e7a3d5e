package health

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// dialects are the engines that can be read, in the order in which auto tries
// them. An engine with two pages has two, the one that tells more first.
var dialects = prepare(&vLLM, &sglang, &llamacpp, &tgi, &lmdeploy, &triton, &trtllm, &nim, &sglangLoads, &ollama)

// Dialect says in which families an engine tells its load. Lists of names are
// in order of preference, newest first: the first with a usable value counts,
// and they are never added up. A name is that of a family, or
// family{label=value} where one family holds different things.
type Dialect struct {
	// Name is the value of the option "engine" and of Signals.Engine.
	Name string

	// Path is where the engine serves its metrics.
	Path string

	// Readiness is where the engine says, on the port that calls go to, whether it
	// can serve.
	Readiness string

	// NotReady is the status by which it says that it cannot, where that is not
	// 503.
	NotReady int

	// Plain says that the names carry no engine's prefix, so that another
	// program may have them too: auto believes them at Path alone.
	Plain bool

	// List says that the page is not metrics text but JSON: an object in which
	// this key has a list of objects, one for each part of the engine. Their
	// numbers are read as samples of families named like their keys. Such a page
	// is believed at Path alone, like plain names.
	List string

	// Rank is the key of such an object that tells which part it is. Without,
	// each is a part of its own.
	Rank string

	// Loadless says that the engine tells no load at all, so that a page without
	// is no failure. The endpoint is then judged by our own calls.
	Loadless bool

	// Ready is a gauge that is 0 until the engine has something to report: with
	// no load beside it the page says nothing yet.
	Ready string

	Running []string // gauge: sequences in the batch
	Waiting []string // gauge: requests queued
	Held    []string // gauge: requests that wait to get into that queue, which counts them not; added
	KVUsage []string // gauge: share of KV memory in use, 0 to 1

	WaitingTokens []string // gauge: uncached prompt tokens of the requests queued

	// KVUsed and KVBlocks are gauges, blocks in use and all there are. They
	// count where no share is told.
	KVUsed, KVBlocks string

	Prompt    []string // counter: prompt tokens
	Cached    []string // counter: prompt tokens found in the prefix cache
	Generated []string // counter: tokens generated

	// TTFT is the histogram of times to first token in seconds, without the
	// suffixes _sum and _count.
	TTFT string

	// Capacity tells the size of the KV cache in tokens.
	Capacity []Capacity

	// Sleep is a family with one 0/1 series per state, of which the one whose
	// label SleepLabel is AwakeState says that the engine can serve.
	Sleep, SleepLabel, AwakeState string

	// ProcessStart is a gauge, StartHeader a response header, either in Unix
	// seconds.
	ProcessStart string
	StartHeader  string

	// OnDemand tells what the engine loads when a request names it.
	OnDemand OnDemand

	// Strict says that the engine answers 404 to every name which its list of
	// models lacks, as long as it is not one that OnDemand may load.
	Strict bool

	// DefaultTag is what a request may leave out at the end of a model's name.
	DefaultTag string

	wanted map[string]struct{}
}

// Capacity is one way in which an engine tells its KV cache's size.
type Capacity struct {
	Family string

	// Labels whose values, multiplied, are the size in tokens. Without any the
	// family's value is.
	Labels []string

	// Each is a gauge by which the family's value, then in blocks, is
	// multiplied: tokens per block.
	Each string
}

// prepare collects the names to pick from a page.
func prepare(list ...*Dialect) []*Dialect {
	for _, d := range list {
		d.wanted = make(map[string]struct{})
		for _, names := range [][]string{
			d.Running, d.Waiting, d.Held, d.KVUsage, d.WaitingTokens, d.Prompt, d.Cached, d.Generated,
			{d.KVUsed, d.KVBlocks, d.Sleep, d.ProcessStart, d.OnDemand.Family, d.Ready},
		} {
			d.want(names...)
		}
		if d.TTFT != "" {
			d.want(d.TTFT+"_sum", d.TTFT+"_count")
		}
		for _, c := range d.Capacity {
			d.want(c.Family, c.Each)
		}
		delete(d.wanted, "")
	}
	return list
}

func (d *Dialect) want(names ...string) {
	for _, n := range names {
		family, _, _ := selector(n)
		d.wanted[family] = struct{}{}
	}
}

// dialectsNamed returns the engine's dialects, or none for "auto".
func dialectsNamed(name string) []*Dialect {
	var list []*Dialect
	for _, d := range dialects {
		if d.Name == name {
			list = append(list, d)
		}
	}
	return list
}

// readPage reads the page with the first of the dialects that finds load on
// it. The doubt is about a value that was left out of what it found.
func readPage(now time.Time, p *page, list []*Dialect) (s llmlb.Signals, by *Dialect, doubt, why reason) {
	why = familyNotFound
	for _, d := range list {
		s, doubt, problem := d.read(now, p.body, p.header, p.scratch)
		if problem == "" {
			// A page on another port may be that of an engine behind something
			// that takes other names.
			s.ChecksModels = s.ChecksModels && p.own
			return s, d, doubt, ""
		}
		if problem != familyNotFound {
			why = problem
		}
	}
	return llmlb.Signals{}, nil, "", why
}

// maxSeconds is the bound of times, like those of llmlb.
const maxSeconds = 1e15

// read returns what the page says, and what on it was not believed. Without load
// it is an error, whatever else it says: missing is not idle.
func (d *Dialect) read(now time.Time, body []byte, header http.Header, sc *scratch) (s llmlb.Signals, doubt, why reason) {
	s = llmlb.NoSignals(now)
	s.Engine = d.Name
	var f *families
	if d.List != "" {
		f, why = d.records(body)
	} else {
		f, why = sc.parse(body, d.wanted)
	}
	if why != "" {
		return s, "", why
	}
	s.Running = f.sum(llmlb.MaxRequests, d.Running...)
	s.Waiting = f.sum(llmlb.MaxRequests, d.Waiting...)
	if held := f.sum(llmlb.MaxRequests, d.Held...); held >= 0 {
		s.Waiting = max(s.Waiting, 0) + held
	}
	s.WaitingTokens = f.sum(llmlb.MaxTokens, d.WaitingTokens...)
	s.KVUsage, s.KVUsageMax = f.share(d.KVUsage...)
	if s.KVUsage < 0 {
		s.KVUsage = f.blocks(d.KVUsed, d.KVBlocks)
		s.KVUsageMax = s.KVUsage
	}
	s.PromptTokens = f.sum(llmlb.MaxTokens, d.Prompt...)
	s.CachedTokens = f.sum(llmlb.MaxTokens, d.Cached...)
	s.GenerationTokens = f.sum(llmlb.MaxTokens, d.Generated...)
	sum, count := f.sum(maxSeconds, d.TTFT+"_sum"), f.sum(llmlb.MaxTokens, d.TTFT+"_count")
	if sum >= 0 && count >= 0 { // one without the other says nothing
		s.TTFTSum, s.TTFTCount = sum, count
	}
	for _, c := range d.Capacity {
		if s.KVCapacity = f.capacity(c); s.KVCapacity >= 0 {
			break
		}
	}
	s.Sleeping = f.asleep(d)
	s.ProcessStart = f.least(d.ProcessStart)
	if d.StartHeader != "" && s.ProcessStart < 0 {
		if v, ok := number(strings.TrimSpace(header.Get(d.StartHeader))); ok && v > 0 && v < maxSeconds {
			s.ProcessStart = v
		}
	}
	s.Models = f.models()
	d.readOnDemand(f, &s)
	s.ChecksModels = d.Strict && !d.mayLoad(f, body)
	switch {
	case s.HasLoad() && max(s.Running, s.Waiting) == 0 && d.Ready != "" && f.sum(llmlb.MaxTokens, d.Ready) == 0:
		return s, "", notReady
	case s.HasLoad(), d.Loadless && (f.empty() || len(s.Resident) > 0):
		return s, f.doubt, ""
	case f.doubt != "":
		return s, "", f.doubt
	}
	return s, "", familyNotFound
}
