package request

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// pair is a member of an object.
type pair struct {
	raw   []byte // the name as it is spelled
	name  string
	value jsontext.Value
}

// members returns an object's members in order.
func members(v jsontext.Value) (list []pair) {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	for d.PeekKind() == '"' {
		name, _ := d.ReadValue()
		p := pair{raw: bytes.Clone(name[1 : len(name)-1])}
		_ = json.Unmarshal(name, &p.name)
		value, _ := d.ReadValue()
		p.value = value.Clone()
		list = append(list, p)
	}
	return list
}

// last returns the value of the last member that has one of the names.
func last(v jsontext.Value, names ...string) (found jsontext.Value) {
	for _, p := range members(v) {
		if slices.Contains(names, p.name) {
			found = p.value
		}
	}
	return found
}

// lastFolded does so in any letter case.
func lastFolded(v jsontext.Value, name string) (found jsontext.Value) {
	for _, p := range members(v) {
		if foldName(p.name) == name {
			found = p.value
		}
	}
	return found
}

// prompt is the plain reading of a prompt in the dialect, given the members that
// count. It tells after how many bytes the key closes at the latest.
func (s *script) prompt(api string, m map[string]jsontext.Value) (kind promptKind, sequences, limit int) {
	sequences, limit = 1, keyBytes
	switch api {
	case Chat:
		s.chat(m)
		limit = 0
	case Completions, Completion:
		kind, sequences = s.completions(m)
	case Responses:
		s.responses(m)
		limit = 0
	case Messages:
		s.messages(m)
		limit = 0
	case OllamaChat:
		s.ollamaChat(m)
		limit = 0
	case OllamaGenerate:
		s.member('t', m["template"])
		s.member('y', m["system"])
		if v := m["context"]; given(v) && v.Kind() == '[' {
			s.texts('p', v)
		}
		s.pictures(m["images"])
		s.member('p', m["prompt"])
		s.member('u', m["suffix"])
	case Generate, GenerateStream, Root:
		sequences = s.generate(m)
	case Embeddings, Pooling, Classify:
		if given(m["add_special_tokens"]) {
			s.fold(foldSpecial, m["add_special_tokens"])
		}
		s.texts('p', m["input"])
		s.texts('p', m["inputs"])
		if given(m["messages"]) {
			s.chat(m)
		}
	case Rerank, Score:
		for _, name := range []string{"query", "queries", "text_1", "data_1", "documents", "texts", "items", "text_2", "data_2"} {
			if given(m[name]) {
				s.fold(foldField, nil)
				tag := byte('p')
				if name[0] == 'q' || name[len(name)-1] == '1' {
					tag = 'q'
				}
				s.texts(tag, m[name])
			}
		}
	}
	return kind, sequences, limit
}

func (s *script) generate(m map[string]jsontext.Value) int {
	for _, p := range members(m["parameters"]) {
		if p.name == "adapter_id" && given(p.value) {
			s.fold(foldAdapter, p.value)
		}
	}
	s.pictures(m["image_data"])
	s.pictures(m["video_data"])
	s.pictures(m["audio_data"])
	if given(m["input_embeds"]) {
		s.picture(m["input_embeds"])
	}
	sequences := 1
	for _, name := range []string{"inputs", "text", "input_ids"} {
		_, n := s.texts('p', m[name])
		sequences = max(sequences, n)
	}
	if v := m["sampling_params"]; given(v) && v.Kind() == '[' {
		return 1
	}
	return sequences
}

func (s *script) pictures(v jsontext.Value) {
	if !given(v) {
		return
	}
	if v.Kind() != '[' {
		s.picture(v)
		return
	}
	for _, e := range array(v) {
		if e.Kind() != '[' {
			s.picture(e)
		}
		for _, inner := range array(e) {
			s.picture(inner)
		}
	}
}

func (s *script) speaker(role jsontext.Value) {
	if !given(role) {
		s.write([]byte(`"r`))
	}
	s.member('r', role)
}

func (s *script) said(role jsontext.Value) {
	if string(role) == `"user"` {
		s.closeKey()
	}
}

func (s *script) ollamaChat(m map[string]jsontext.Value) {
	s.member('o', m["tools"])
	if given(m["messages"]) && m["messages"].Kind() != '[' {
		s.member('c', m["messages"])
	}
	for _, v := range array(m["messages"]) {
		if v.Kind() != '{' {
			s.element('r', v)
			continue
		}
		role := lastFolded(v, "role")
		s.speaker(role)
		s.member('n', lastFolded(v, "tool_name"))
		s.member('i', lastFolded(v, "tool_call_id"))
		s.member('h', lastFolded(v, "thinking"))
		s.pictures(lastFolded(v, "images"))
		s.content(lastFolded(v, "content"))
		s.member('l', lastFolded(v, "tool_calls"))
		s.said(role)
	}
}

func (s *script) responses(m map[string]jsontext.Value) {
	for _, name := range []string{"conversation", "previous_response_id"} {
		if given(m[name]) && len(m[name]) > 2 {
			s.fold(foldState, m[name])
		}
	}
	s.member('e', m["reasoning"])
	s.member('o', m["tools"])
	s.member('t', m["prompt"])
	s.member('y', m["instructions"])
	input := m["input"]
	if given(input) && input.Kind() == '"' {
		s.write([]byte(`"ruser`))
		s.member('c', input)
		s.closeKey()
		return
	}
	if given(input) && input.Kind() != '[' {
		s.member('c', input)
	}
	for _, v := range array(input) {
		item := object(v)
		if item == nil {
			s.element('r', v)
			continue
		}
		role := item["role"]
		if !given(role) {
			role = item["type"]
		}
		s.speaker(role)
		s.member('n', item["name"])
		s.member('i', item["call_id"])
		before := len(s.text)
		s.content(item["summary"])
		s.content(item["content"])
		s.member('k', item["arguments"])
		s.member('k', item["input"])
		s.member('k', item["action"])
		switch out := item["output"]; {
		case !given(out):
		case out.Kind() == '{':
			s.part(out)
		case out.Kind() == '[':
			s.write([]byte(`"w`))
			s.content(out)
		default:
			s.member('w', out)
		}
		if len(s.text) == before {
			if given(item["encrypted_content"]) {
				v = item["encrypted_content"]
			}
			s.picture(v)
		}
		s.said(role)
	}
}

func (s *script) messages(m map[string]jsontext.Value) {
	s.member('t', m["chat_template"])
	s.member('a', m["chat_template_kwargs"])
	s.member('e', m["reasoning_effort"])
	s.member('m', m["mm_processor_kwargs"])
	if tools := m["tools"]; given(tools) && tools.Kind() == '[' {
		s.write([]byte(`"O`))
		for _, v := range array(tools) {
			if v.Kind() == '{' {
				s.tool(v)
			} else {
				s.element('o', v)
			}
		}
	} else {
		s.member('o', tools)
	}
	s.member('f', m["functions"])
	s.member('d', m["documents"])
	s.blocks('y', m["system"])
	if given(m["messages"]) && m["messages"].Kind() != '[' {
		s.member('c', m["messages"])
	}
	for _, v := range array(m["messages"]) {
		msg := object(v)
		if msg == nil {
			s.element('r', v)
			continue
		}
		s.speaker(msg["role"])
		s.blocks('c', msg["content"])
		s.said(msg["role"])
	}
}

func (s *script) blocks(tag byte, v jsontext.Value) {
	if !given(v) || v.Kind() != '[' {
		s.member(tag, v)
		return
	}
	for _, e := range array(v) {
		k := object(e)
		if k == nil {
			s.element(tag, e)
			continue
		}
		s.member('n', k["name"])
		s.member('i', k["id"])
		s.member('k', k["input"])
		if given(k["tool_use_id"]) {
			s.write([]byte(`"w`))
			s.member('i', k["tool_use_id"])
		}
		switch content := k["content"]; {
		case given(content) && content.Kind() == '[':
			for _, leaf := range array(content) {
				if leaf.Kind() == '{' {
					s.leaf('c', leaf)
				} else {
					s.element('c', leaf)
				}
			}
		case given(content):
			s.member('c', content)
		case !given(k["input"]) && !given(k["tool_use_id"]):
			s.leaf(tag, e)
		}
	}
}

func (s *script) leaf(tag byte, v jsontext.Value) {
	k := object(v)
	s.member('n', k["title"])
	source := object(k["source"])
	if _, ok := text(k["text"]); ok {
		s.member(tag, k["text"])
	} else if _, ok := text(k["thinking"]); ok {
		s.member('h', k["thinking"])
	} else if _, ok := text(source["data"]); ok && string(source["type"]) == `"text"` {
		s.member('c', source["data"])
	} else if given(k["source"]) {
		s.picture(k["source"])
	} else if given(k["data"]) {
		s.picture(k["data"])
	} else {
		for _, p := range members(v) {
			if string(p.raw) != "cache_control" {
				s.fold(foldMember, p.raw)
				s.fold(foldMember, p.value)
			}
		}
		s.picture(nil)
	}
}

func (s *script) tool(v jsontext.Value) {
	s.write([]byte(`"O`))
	for _, p := range members(v) {
		if string(p.raw) != "cache_control" {
			s.write([]byte(`"j`))
			s.write(p.raw)
			s.element('v', p.value)
		}
	}
}

// limitOf is the plain reading of the client's ceiling.
func limitOf(api string, m map[string]jsontext.Value) float64 {
	first := func(names ...string) float64 {
		for _, name := range names {
			if n := plainCount(m[name]); n > 0 {
				return n
			}
		}
		return 0
	}
	inside := func(v jsontext.Value, name string, fold bool) float64 {
		tokens, sequences := 0.0, 1.0
		for _, p := range members(v) {
			if fold {
				p.name = foldName(p.name)
			}
			switch p.name {
			case name:
				tokens = plainCount(p.value)
			case "n", "best_of":
				sequences = max(sequences, plainCount(p.value))
			}
		}
		return min(tokens*sequences, maxCount)
	}
	choices := max(1, plainCount(m["n"]), plainCount(m["best_of"]))
	switch api {
	case Chat, Completions:
		return first("max_completion_tokens", "max_tokens") * choices
	case Completion:
		return first("n_predict", "max_completion_tokens", "max_tokens") * max(choices, plainCount(m["n_cmpl"]))
	case Responses:
		return first("max_output_tokens")
	case Messages:
		return first("max_tokens")
	case OllamaChat, OllamaGenerate:
		return inside(m["options"], "num_predict", true)
	case Generate, GenerateStream, Root:
		sampling := 0.0
		for _, v := range array(m["sampling_params"]) {
			sampling += inside(v, "max_new_tokens", false)
		}
		if v := m["sampling_params"]; given(v) && v.Kind() == '{' {
			sampling = inside(v, "max_new_tokens", false)
		}
		return max(inside(m["parameters"], "max_new_tokens", false), min(sampling, maxCount))
	}
	return 0
}
