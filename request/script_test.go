package request

import (
	"encoding/binary"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/zeebo/xxh3"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// script is the slow and plain twin of canon: it keeps the whole canonical
// prompt and hashes it at the end.
type script struct {
	text   []byte
	folds  []scriptFold
	ids    int
	media  int
	closed bool // the key ends at keyEnd, behind the first keyFolds folds
	keyEnd int
	keyN   int
}

type scriptFold struct {
	at   int
	tag  byte
	data []byte
}

func (s *script) write(p []byte) { s.text = append(s.text, p...) }

func (s *script) fold(tag byte, p []byte) {
	s.folds = append(s.folds, scriptFold{len(s.text), tag, p})
}

func (s *script) closeKey() {
	if !s.closed {
		s.closed, s.keyEnd, s.keyN = true, len(s.text), len(s.folds)
	}
}

func (s *script) element(tag byte, v jsontext.Value) {
	if v.Kind() == '"' {
		s.write([]byte{'"', tag})
		s.write(v[1 : len(v)-1])
		return
	}
	s.write([]byte{'"', tag - 'a' + 'A'})
	s.write(v)
}

func (s *script) member(tag byte, v jsontext.Value) {
	if given(v) {
		s.element(tag, v)
	}
}

func (s *script) picture(v jsontext.Value) {
	s.fold(foldMedia, v)
	fill := make([]byte, mediaBytes)
	fill[0], fill[1] = '"', tagMedia
	if s.media++; s.media > manyMedia {
		fill = fill[:mediaCrumb]
	}
	s.write(fill)
}

// hash runs one chain over the script up to end and folds, and returns the hash
// after each full block and the state at the end.
func (s *script) hash(h uint64, end, folds int) (blocks []uint64, last uint64) {
	todo := s.folds[:folds]
	for n := 0; ; n++ {
		from, to := llmlb.BlockEnd(n), llmlb.BlockEnd(n+1)
		for len(todo) > 0 && todo[0].at < to {
			h = mix(h, todo[0].tag, todo[0].at, todo[0].data)
			todo = todo[1:]
		}
		if to > end {
			return blocks, xxh3.HashSeed(s.text[from:end], h)
		}
		h = xxh3.HashSeed(s.text[from:to], h)
		blocks = append(blocks, h)
	}
}

func (s *script) key(h uint64, limit int) uint64 {
	s.closeKey()
	end, folds := s.keyEnd, s.keyN
	if limit > 0 && end >= limit {
		end = limit
		for folds = 0; folds < len(s.folds) && s.folds[folds].at < limit; folds++ {
		}
		blocks, _ := s.hash(h, end, folds)
		return blocks[len(blocks)-1]
	}
	_, last := s.hash(h, end, folds)
	return last
}

func given(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

func object(v jsontext.Value) (m map[string]jsontext.Value) {
	if v.Kind() == '{' {
		_ = json.Unmarshal(v, &m)
	}
	return m
}

func array(v jsontext.Value) (a []jsontext.Value) {
	if given(v) && v.Kind() == '[' {
		_ = json.Unmarshal(v, &a)
	}
	return a
}

func text(v jsontext.Value) (s string, ok bool) {
	if !given(v) || v.Kind() != '"' {
		return "", false
	}
	return s, json.Unmarshal(v, &s) == nil
}

// chat is the plain reading of a chat's prompt.
func (s *script) chat(m map[string]jsontext.Value) {
	s.member('t', m["chat_template"])
	s.member('a', m["chat_template_kwargs"])
	s.member('e', m["reasoning_effort"])
	s.member('m', m["mm_processor_kwargs"])
	s.member('o', m["tools"])
	s.member('f', m["functions"])
	s.member('d', m["documents"])
	if given(m["messages"]) && m["messages"].Kind() != '[' {
		s.member('c', m["messages"])
	}
	for _, v := range array(m["messages"]) {
		msg := object(v)
		if msg == nil {
			s.element('r', v)
			continue
		}
		if !given(msg["role"]) {
			s.write([]byte(`"r`))
		}
		s.member('r', msg["role"])
		s.member('n', msg["name"])
		s.member('i', msg["tool_call_id"])
		s.member('o', msg["tools"])
		s.member('h', msg["reasoning"])
		s.content(msg["content"])
		s.member('l', msg["tool_calls"])
		s.member('k', msg["function_call"])
		s.member('x', msg["refusal"])
		s.member('s', msg["audio"])
		if string(msg["role"]) == `"user"` {
			s.closeKey()
		}
	}
}

func (s *script) content(v jsontext.Value) {
	if !given(v) || v.Kind() != '[' {
		s.member('c', v)
	}
	for _, part := range array(v) {
		s.part(part)
	}
}

func (s *script) part(v jsontext.Value) {
	part := object(v)
	if part == nil {
		s.element('c', v)
		return
	}
	for _, c := range []struct {
		name string
		tag  byte
	}{{"text", 'c'}, {"refusal", 'x'}, {"thinking", 'h'}} {
		if _, ok := text(part[c.name]); ok {
			s.member(c.tag, part[c.name])
			return
		}
	}
	s.picture(v)
}

// completions is the plain reading of a completion's prompt.
func (s *script) completions(m map[string]jsontext.Value) (kind promptKind, sequences int) {
	if given(m["add_special_tokens"]) {
		s.fold(foldSpecial, m["add_special_tokens"])
	}
	s.pictures(m["image_data"])
	kind, sequences = s.texts('p', m["prompt"])
	if given(m["prompt_embeds"]) {
		s.picture(m["prompt_embeds"])
	}
	s.member('u', m["suffix"])
	return kind, sequences
}

// texts is the plain reading of one text or several, or token ids.
func (s *script) texts(tag byte, p jsontext.Value) (kind promptKind, sequences int) {
	kind, sequences = noPrompt, 1
	kinds := map[jsontext.Kind]int{}
	inner := map[jsontext.Kind]int{}
	switch {
	case !given(p):
	case p.Kind() == '"':
		kind = textPrompt
		s.member(tag, p)
	case p.Kind() == '{':
		kind = otherPrompt
		s.promptObject(tag, p)
	case p.Kind() != '[':
		kind = otherPrompt
		s.member(tag, p)
	default:
		ids := false
		for _, v := range array(p) {
			elements := []jsontext.Value{v}
			if v.Kind() == '[' {
				if kinds['['] > 0 {
					s.fold(foldNextList, nil)
				}
				elements = array(v)
				for _, e := range elements {
					inner[e.Kind()]++
				}
			}
			kinds[v.Kind()]++
			for _, e := range elements {
				s.promptElement(tag, e, &ids)
			}
		}
		n := len(array(p))
		sequences = max(1, n)
		if kinds['0'] > 0 {
			sequences = 1
		}
		switch {
		case n == 0:
		case kinds['"'] == n:
			kind = textPrompts
		case kinds['0'] == n:
			kind = idPrompt
		case kinds['['] == n && (len(inner) == 0 || len(inner) == 1 && inner['0'] > 0):
			kind = idPrompts
		default:
			kind = mixedPrompt
		}
	}
	return kind, sequences
}

func (s *script) promptElement(tag byte, v jsontext.Value, ids *bool) {
	if id := v.Kind() == '0'; id != *ids {
		*ids = id
		s.fold(map[bool]byte{true: foldIDs, false: foldText}[id], nil)
	}
	switch v.Kind() {
	case '0':
		id := uint32(xxh3.Hash(v))
		if n := uint32(0); len(v) <= 9 && json.Unmarshal(v, &n) == nil {
			id = n
		}
		s.ids++
		s.text = binary.LittleEndian.AppendUint32(s.text, id)
	case '{':
		s.promptObject(tag, v)
	default:
		s.element(tag, v)
	}
}

func (s *script) promptObject(tag byte, v jsontext.Value) {
	words := last(v, "prompt_string", "text")
	data := last(v, "multimodal_data", "image", "image_url", "video_url", "input_audio")
	parts := last(v, "content")
	if !given(words) && !given(data) && !given(parts) {
		s.element(tag, v)
		return
	}
	if given(data) {
		s.picture(data)
	}
	s.content(parts)
	s.member(tag, words)
}
