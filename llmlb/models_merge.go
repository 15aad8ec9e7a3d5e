package llmlb

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// MergedModel is one model of a pool, with all that its servers tell of it.
type MergedModel struct {
	ID string

	// Fields are the members of its entry but for the id, in the order of the
	// first server that lists it.
	Fields []ModelField
}

// ModelField is a member of a model's entry. Value is JSON.
type ModelField struct {
	Name  string
	Value []byte
}

// modelList is what one engine lists, in its own order. It never changes: a new
// list is a new one.
type modelList struct{ entries []MergedModel }

func newModelList(list []Model) *modelList {
	l := &modelList{entries: make([]MergedModel, 0, len(list))}
	for i := range list {
		if m := &list[i]; !m.Implied {
			l.entries = append(l.entries, MergedModel{m.ID, fieldsOf(m.Raw)})
		}
	}
	return l
}

// fieldsOf takes an entry apart. What is no object has no fields.
func fieldsOf(raw []byte) (fields []ModelField) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for dec.More() {
		name, err := dec.Token()
		key, ok := name.(string)
		if err != nil || !ok {
			return nil
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return nil
		}
		if key != "id" {
			fields = append(fields, ModelField{key, value})
		}
	}
	return fields
}

// MergedModels returns what the servers of the settings serve, each model once: in
// the order of the servers, and of each one's own list. With dynamic upstreams
// the servers are all that the pool knows.
//
// A model has the fields of the first server that lists it, and those that only
// others tell behind them. Where servers tell different max_model_len, it is the
// smallest: a prompt that any of them takes. No other field is compared.
//
// A list counts as long as it is believed, also that of a server which is down,
// draining or out of date otherwise: clients should not see models come and go
// with every restart. A server without a list adds nothing and does no harm.
// known is false when no server has one. The result is shared: do not change it.
func (p *Pool) MergedModels(s *Settings, now time.Time) (models []MergedModel, known bool) {
	lists := p.modelLists(s, now)
	if len(lists) == 0 {
		return nil, false
	}
	// Lists change twice a minute at most, and anybody may ask for them as often
	// as he likes.
	last := p.Attach("llmlb.models", func() any { return new(atomic.Pointer[merged]) }).(*atomic.Pointer[merged])
	if m := last.Load(); m != nil && slices.Equal(m.of, lists) {
		return m.models, true
	}
	m := &merged{lists, mergeModels(lists)}
	last.Store(m)
	return m.models, true
}

// merged is what some lists gave.
type merged struct {
	of     []*modelList
	models []MergedModel
}

func (p *Pool) modelLists(s *Settings, now time.Time) (lists []*modelList) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ofSettings(s, func(e *Endpoint) bool {
		if l := e.served.entries; l != nil && now.Sub(e.served.at) <= modelsKeep {
			lists = append(lists, l)
		}
		return true
	})
	return lists
}

// ofSettings calls f with the endpoints that the settings may send to, in their
// order, until it returns false. Under the pool's lock.
func (p *Pool) ofSettings(s *Settings, f func(*Endpoint) bool) {
	switch {
	case s == nil:
	case s.Dynamic:
		for _, e := range p.order {
			if !f(e) {
				return
			}
		}
	default:
		for i := range s.Members {
			if e := s.Members[i].Endpoint; e != nil && !f(p.Living(e)) {
				return
			}
		}
	}
}

func mergeModels(lists []*modelList) []MergedModel {
	models := []MergedModel{}
	at := make(map[string]int)
	for _, l := range lists {
		for _, m := range l.entries {
			i, seen := at[m.ID]
			if !seen {
				at[m.ID] = len(models)
				models = append(models, MergedModel{m.ID, slices.Clone(m.Fields)})
				continue
			}
			models[i].fill(m.Fields)
		}
	}
	return models
}

// maxModelLen is the longest prompt and answer that a model takes, in tokens.
const maxModelLen = "max_model_len"

// fill adds what is missing.
func (m *MergedModel) fill(fields []ModelField) {
	at := make(map[string]int, len(m.Fields))
	for i := range m.Fields {
		at[m.Fields[i].Name] = i
	}
	for _, f := range fields {
		i, has := at[f.Name]
		switch {
		case !has:
			at[f.Name] = len(m.Fields)
			m.Fields = append(m.Fields, f)
		case f.Name == maxModelLen && numberOf(f.Value) < numberOf(m.Fields[i].Value):
			m.Fields[i] = f
		}
	}
}

// numberOf reads a number of tokens; everything else, null too, is more than any.
func numberOf(value []byte) float64 {
	if x, err := strconv.ParseFloat(string(value), 64); err == nil && x > 0 {
		return x
	}
	return math.Inf(1)
}
