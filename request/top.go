package request

import "bytes"

// reading is one body, and where its interpreted fields are.
type reading struct {
	scanner
	at [fieldCount]span
}

// top is the first pass. It tells whether the body is a whole object, or why it
// is refused. What is refused does not depend on the dialect: every engine has
// its native paths, and what steers it there has the same names.
func (r *reading) top(api string, body []byte, o *Options) (whole bool, _ *Refusal) {
	if wide(body) {
		return false, &Refusal{Reason: reasonEncoding}
	}
	r.b, r.max = body, o.MaxDepth
	if r.max <= 0 {
		r.max = defaultMaxDepth
	}
	r.max = min(r.max, maxMaxDepth)

	i := 0
	if bytes.HasPrefix(body, []byte("\xEF\xBB\xBF")) {
		i = 3
	}
	i = skipSpace(body, i)
	if i >= len(body) {
		return false, nil
	}
	if body[i] != '{' {
		// No engine takes a body that is not an object; only its depth can
		// hurt one before it finds that out.
		_, st := r.value(i, 0)
		return false, deep(fieldNone, st)
	}

	anyCase := api == OllamaChat || api == OllamaGenerate // Go reads them so
	var seen fieldSet
	i = skipSpace(body, i+1)
	if i < len(body) && body[i] == '}' {
		return skipSpace(body, i+1) == len(body), nil
	}
	for {
		key := skipSpace(body, i)
		i = keyEnd(body, key)
		if i < 0 {
			return false, nil
		}
		i = skipSpace(body, i)
		f, exact := lookup(body[key+1 : stringEnd(body, key+1)])
		if f != fieldNone {
			null := i >= len(body) || body[i] == 'n'
			if refusal := o.judge(f, exact, null, &seen); refusal != nil {
				return false, refusal
			}
			seen.add(f)
		}
		end, st := r.value(i, 1)
		if st != scanned {
			return false, deep(f, st)
		}
		if f != fieldNone && (exact || anyCase) && body[i] != 'n' {
			r.at[f] = span{i, end}
		}
		i = skipSpace(body, end)
		if i >= len(body) {
			return false, nil
		}
		switch body[i] {
		case ',':
			i++
		case '}':
			return skipSpace(body, i+1) == len(body), nil
		default:
			return false, nil
		}
	}
}

// judge refuses a field for its name alone, before its value is read, so that a
// break in the value hides nothing from an engine that reads past it.
func (o *Options) judge(f field, exact, null bool, seen *fieldSet) *Refusal {
	switch {
	case seen.has(f):
		return twice(f)
	case f == fieldModel && !exact:
		// Alone it is a model to some engines and none to others.
		return &Refusal{Field: f.String(), Reason: reasonCase}
	case f.steers() && !null && !o.AllowFields[f.String()]:
		return steering(f)
	}
	return nil
}

func deep(f field, st status) *Refusal {
	if st != tooDeep {
		return nil
	}
	return &Refusal{Field: f.String(), Reason: reasonDeep}
}

// wide says that a Python engine would take the body for UTF-16 or UTF-32, in
// which it reads fields that we cannot see: by a byte order mark, or by a zero
// byte where JSON text has its first two characters.
func wide(body []byte) bool {
	if len(body) < 2 {
		return false
	}
	return body[0] == 0 || body[1] == 0 ||
		body[0] == 0xFF && body[1] == 0xFE || body[0] == 0xFE && body[1] == 0xFF
}

func (r *reading) streamUsage() (asked bool) {
	v := r.at[fieldStreamOptions]
	if v.absent() || r.b[v.lo] != '{' {
		return false
	}
	for w := r.into(v.lo); ; {
		key, value, ok := w.member()
		if !ok {
			return asked
		}
		if string(key) == "include_usage" {
			asked = truth(r.b, value)
		}
	}
}
