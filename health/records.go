package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// Some engines tell their load in JSON, as an object that holds a list of alike
// objects. A number of such an object is a sample like any other, so the pages
// become families, and the tables of the dialects fit them too.

const (
	// maxRecords bounds how many objects of a list are read.
	maxRecords = 2048

	// maxRecord bounds one object. Longer ones are left out.
	maxRecord = 64 << 10
)

// recordLabel tells the objects of a list apart.
const recordLabel = "record"

// record is one object of a list, by key.
type record map[string]json.RawMessage

// errNotRecords says that a page is JSON of another kind.
var errNotRecords = errors.New("not an object with that list")

// readRecords hands out the objects of the list under the key, with their text,
// until each wants no more. What is not an object comes as an empty one. The text
// is good until each returns.
func readRecords(body []byte, key string, each func(r record, text []byte) bool) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errNotRecords, err)
	}
	found := false
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if found || name != key {
			if err := dec.Decode(&value); err != nil {
				return err
			}
			continue
		}
		found = true
		t, err := dec.Token()
		if err != nil {
			return err
		}
		if t == nil { // null: Go writes an empty list so
			continue
		}
		if t != json.Delim('[') {
			return errNotRecords
		}
		for dec.More() {
			if err := dec.Decode(&value); err != nil {
				return err
			}
			var r record
			if len(value) > maxRecord || json.Unmarshal(value, &r) != nil {
				r = nil
			}
			if !each(r, value) {
				return nil
			}
		}
		if _, err := dec.Token(); err != nil {
			return err
		}
	}
	if !found {
		return errNotRecords
	}
	_, err := dec.Token()
	return err
}

// text returns the string under the key, if it is one.
func (r record) text(key string) string {
	var s string
	if json.Unmarshal(r[key], &s) != nil {
		return ""
	}
	return s
}

// records reads a JSON page. Numbers become samples; what is of another type is
// as if it were not there.
func (d *Dialect) records(body []byte) (*families, reason) {
	f := &families{byName: make(map[string]*dto.MetricFamily)}
	err := readRecords(body, d.List, func(r record, _ []byte) bool {
		f.add(d, r, f.objects)
		f.objects++
		return f.objects < maxRecords
	})
	switch {
	case errors.Is(err, errNotRecords):
		return nil, familyNotFound
	case err != nil:
		return nil, brokenJSON
	}
	return f, ""
}

// add takes in one object of the page's list.
func (f *families) add(d *Dialect, r record, n int) {
	which := strconv.Itoa(n)
	if rank := r[d.Rank]; len(rank) > 0 && rank[0] >= '0' && rank[0] <= '9' {
		which = "rank " + string(rank)
	}
	labels := []*dto.LabelPair{pair(recordLabel, which)}
	for _, key := range d.OnDemand.Names {
		if s := r.text(key); s != "" {
			labels = append(labels, pair(key, s))
		}
	}
	for name := range d.wanted {
		v, ok := number(string(bytes.TrimSpace(r[name])))
		if !ok {
			continue
		}
		mf := f.byName[name]
		if mf == nil {
			mf = new(dto.MetricFamily)
			f.byName[name] = mf
		}
		mf.Metric = append(mf.Metric, &dto.Metric{Label: labels, Untyped: &dto.Untyped{Value: &v}})
	}
}

// empty reports whether the page's list holds nothing.
func (f *families) empty() bool { return f.objects == 0 }

func pair(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }
