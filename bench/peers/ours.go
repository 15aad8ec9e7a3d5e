package main

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	reader "github.com/caddy-llmlb/caddy-llmlb/request"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// ours decides from the body's bytes, as the admission handler does for a request
// that does not have to wait.
type ours struct {
	api      string
	pool     *llmlb.Pool
	settings *llmlb.Settings
	loads    []load
	options  reader.Options
	batch    []request

	// The clock runs faster than time does: every request comes a pace after the
	// one before, so that servers seem to take as long as servers take.
	began time.Time
	pace  time.Duration
	steps atomic.Int64
}

// pace is how far apart requests come for prompts of so many bytes: with those in
// flight before it, one waits for some 13,000 tokens a second.
func pace(promptBytes int) time.Duration {
	return max(time.Millisecond, time.Duration(promptBytes)*time.Second/(3<<20))
}

func newOurs(api string, pool []load, promptBytes int) (*ours, error) {
	s := &llmlb.Settings{
		Pool: "bench", Strategy: selection.StrategyWork, Retries: 2,
		Affinity: llmlb.DefaultAffinity, MinTokens: llmlb.DefaultMinTokens, KVLimit: llmlb.DefaultKVLimit,
		AffinityKey: 1,
		Circuit: llmlb.Circuit{
			Failures: llmlb.DefaultCircuitFailures, Rate: llmlb.DefaultCircuitRate, OpenFor: llmlb.DefaultCircuitOpenFor,
		},
		Scrape: llmlb.Scrape{Interval: llmlb.DefaultInterval, StaleAfter: llmlb.DefaultStaleAfter},
	}
	for _, l := range pool {
		s.Members = append(s.Members, llmlb.Member{Address: l.address})
	}
	o := &ours{api: api, settings: s, loads: pool, pool: llmlb.NewPool("bench"), began: time.Now(), pace: pace(promptBytes)}
	if err := o.pool.Bind(s); err != nil {
		return nil, err
	}
	now := o.now()
	o.pool.Start(s, now)
	o.options = reader.Options{Seed: selection.BlockSeed(), AffinityKey: s.AffinityKey, Sample: o.pool.NeedsSample}
	for i, m := range s.Members {
		m.Endpoint.ObserveModels(now, []llmlb.Model{{ID: model}, {ID: "sql-adapter", Parent: model}})
		for range pool[i].running { // what runs there is ours: it has a lease each
			o.pool.Lock()
			lease := o.pool.Reserve(m.Endpoint, now, llmlb.Work{Uncached: 500, Cached: 500, Output: 200})
			o.pool.Unlock()
			lease.FirstToken()
		}
	}
	o.scrape()
	return o, loadVocabulary()
}

// loadVocabulary waits until the vocabulary by which the first prompts for a model
// are counted has been loaded, which goes on beside the first requests.
var loadVocabulary = sync.OnceValue(func() error {
	body := []byte(`{"model":"any","prompt":"a few words to be counted"}`)
	o := reader.Options{Sample: func(string) bool { return true }}
	for range 6000 {
		if f, err := reader.Read(reader.Completions, body, &o); err != nil || f.Ratio > 0 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return errors.New("loading the vocabulary: not there after a minute")
})

func (o *ours) now() time.Time {
	return o.began.Add(time.Since(o.began) + time.Duration(o.steps.Load())*o.pace)
}

// scrape has every endpoint tell its load.
func (o *ours) scrape() {
	for i, m := range o.settings.Members {
		s := llmlb.NoSignals(o.now())
		l := o.loads[i]
		s.Engine = "vllm"
		s.Running, s.Waiting, s.KVUsage, s.KVCapacity = float64(l.running), float64(l.waiting), l.kv, 432_000
		m.Endpoint.ObserveSignals(s)
	}
}

func (o *ours) name() string { return nameOurs }

func (o *ours) take(batch []request) {
	o.batch = batch
	o.scrape()
}

func (o *ours) worker(n int) worker { return &ourWorker{ours: o, calls: newFlight[*llmlb.Call](n)} }

func (o *ours) read(i int) (llmlb.Features, error) {
	api := reader.Chat
	if o.api == completions {
		api = reader.Completions
	}
	return reader.Read(api, o.batch[i].body, &o.options)
}

type ourWorker struct {
	*ours
	calls flight[*llmlb.Call]
}

func (w *ourWorker) decide(i int) (string, error) {
	f, err := w.read(i)
	if err != nil {
		return "", err
	}
	return w.send(f)
}

// send places a request whose body has been read.
func (w *ourWorker) send(f llmlb.Features) (string, error) {
	w.steps.Add(1)
	now := w.now()
	c := llmlb.NewCall(w.pool, w.settings, now)
	c.Features = f
	w.pool.Calibrate(c)
	if v := selection.Grant(c, now); v != selection.Granted {
		return "", errNowhere
	}
	e := c.Lease.Endpoint()
	c.Begin(e, now)
	if old, ok := w.calls.push(c); ok {
		w.end(old)
	}
	return e.Address(), nil
}

// end is an answer of 200 tokens that has come.
func (w *ourWorker) end(c *llmlb.Call) {
	now := w.now()
	c.SawFirstToken(now)
	c.PromptTokens, c.OutputTokens = c.PromptBytes/4, 200
	c.EndAttempt(now, llmlb.Served)
}

func (w *ourWorker) finish() {
	for _, c := range w.calls.drain() {
		w.end(c)
	}
}

// oursChoice is ours without the reading of the body.
type oursChoice struct {
	*ours
	features []llmlb.Features
	err      error
}

func (o *oursChoice) name() string { return nameChoice }

func (o *oursChoice) take(batch []request) {
	o.ours.take(batch)
	o.features = o.features[:0]
	for i := range batch {
		f, err := o.read(i)
		if err != nil {
			o.err = err
		}
		o.features = append(o.features, f)
	}
}

func (o *oursChoice) worker(n int) worker {
	return &choiceWorker{ourWorker: ourWorker{ours: o.ours, calls: newFlight[*llmlb.Call](n)}, from: o}
}

type choiceWorker struct {
	ourWorker
	from *oursChoice
}

func (w *choiceWorker) decide(i int) (string, error) {
	if w.from.err != nil {
		return "", w.from.err
	}
	return w.send(w.from.features[i])
}
