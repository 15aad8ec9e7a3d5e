//go:build linux

package main

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// settleAfter is how long after a request's end it is judged: longer than a server
// stands still, so that all has been told by then.
const settleAfter = 12 * time.Second

// book keeps what clients and servers say of each request until it is judged.
type book struct {
	rules truth.Rules

	mu      sync.Mutex
	pages   map[string]*page
	spells  []*truth.Spell
	words   map[string]int // how requests ended
	faults  map[truth.Fault]int
	kinds   map[string]int // what was done to servers
	again   int            // requests that more than one server had
	lies    []found
	refused map[string]int // errors in trouble, by status
	nLies   int
}

// page is one request.
type page struct {
	request *truth.Request // nil until it has ended
	made    []truth.Generation
	touched time.Time
}

// found is a lie, and where.
type found struct {
	Request string `json:"request"`
	truth.Lie
	Story story `json:"story"`
}

// story is all that is known of a request that was lied to.
type story struct {
	Request truth.Request      `json:"request"`
	Made    []truth.Generation `json:"generations"`
	Spells  []truth.Spell      `json:"spells"`
}

// starved is the word for engines that stood still by themselves, and catchUp how long
// they take to do what was left lying.
const (
	starved = "stood still"
	catchUp = 2 * time.Second
)

// maxFound bounds the lies that are kept.
const maxFound = 200

func newBook(rules truth.Rules) *book {
	return &book{
		rules: rules, pages: map[string]*page{}, words: map[string]int{}, faults: map[truth.Fault]int{},
		kinds: map[string]int{}, refused: map[string]int{},
	}
}

func (b *book) page(id string) *page {
	p := b.pages[id]
	if p == nil {
		p = &page{}
		b.pages[id] = p
	}
	p.touched = time.Now()
	return p
}

// tell takes what a server says.
func (b *book) tell(e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Stood > 0 {
		now := time.Now()
		b.kinds[starved]++
		b.spells = append(b.spells, &truth.Spell{
			Kind: truth.Stopped, Engine: e.G.Engine,
			From: now.Add(-e.Stood - noticeEvery), To: now.Add(catchUp),
		})
		return
	}
	p := b.page(e.ID)
	i := slices.IndexFunc(p.made, func(g truth.Generation) bool { return g.Name == e.G.Name })
	switch {
	case i >= 0:
		p.made[i] = e.G
	default:
		p.made = append(p.made, e.G)
		b.faults[e.G.Fault]++
	}
}

// end takes what a client says at the end of a request.
func (b *book) end(r truth.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.page(r.ID).request = &r
}

// begin notes that something is done to a server from now until the function
// returned is called, and for as long as its consequences last.
func (b *book) begin(kind, engine string, consequences time.Duration) (over func()) {
	s := &truth.Spell{Kind: kind, Engine: engine, From: time.Now()}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spells = append(b.spells, s)
	b.kinds[kind]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.To = time.Now().Add(consequences)
	}
}

// note notes something that is over, or whose end is known.
func (b *book) note(s truth.Spell) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spells = append(b.spells, &s)
}

// count counts what is done and explains nothing.
func (b *book) count(kind string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kinds[kind]++
}

// settle judges what has been quiet for long enough; all of it if it is the last
// time.
func (b *book) settle(last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	spells := make([]truth.Spell, 0, len(b.spells))
	for _, s := range b.spells {
		spells = append(spells, *s)
	}
	oldest := now
	for id, p := range b.pages {
		if !last && now.Sub(p.touched) < settleAfter {
			if p.request != nil && p.request.Sent.Before(oldest) {
				oldest = p.request.Sent
			}
			continue
		}
		if p.request == nil {
			if !last {
				continue // it is still open
			}
			b.lie(id, truth.Lie{Kind: truth.MixedUp, Text: "servers had a request that no client sent, or had it long after its end"}, story{Made: p.made})
			delete(b.pages, id)
			continue
		}
		if !last && slices.ContainsFunc(p.made, func(g truth.Generation) bool { return g.Ended.IsZero() }) && now.Sub(p.touched) < 2*settleAfter {
			continue
		}
		delete(b.pages, id)
		b.judge(*p.request, p.made, spells)
	}
	// What was over before all that is open explains nothing any more.
	b.spells = slices.DeleteFunc(b.spells, func(s *truth.Spell) bool {
		return !s.To.IsZero() && s.To.Before(oldest.Add(-10*settleAfter))
	})
}

func (b *book) judge(r truth.Request, made []truth.Generation, spells []truth.Spell) {
	word, lies := b.rules.Judge(r, made, spells)
	b.words[word]++
	if word == "refused in trouble" {
		b.refused[r.Pool+" "+r.Code]++
	}
	if len(made) > 1 {
		b.again++
	}
	for _, l := range lies {
		// Only what was done at the time is worth reading.
		near := slices.DeleteFunc(slices.Clone(spells), func(s truth.Spell) bool {
			return s.From.After(r.Ended.Add(3*time.Second)) || !s.To.IsZero() && s.To.Before(r.Sent.Add(-3*time.Second))
		})
		slices.SortFunc(made, func(x, y truth.Generation) int { return cmp.Compare(x.Began.UnixNano(), y.Began.UnixNano()) })
		b.lie(r.ID, l, story{r, made, near})
	}
}

func (b *book) lie(id string, l truth.Lie, s story) {
	b.nLies++
	if len(b.lies) < maxFound {
		b.lies = append(b.lies, found{id, l, s})
	}
}
