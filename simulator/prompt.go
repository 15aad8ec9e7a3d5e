package simulator

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// bytesPerToken is the simulated tokenizer: every four bytes are a token.
const bytesPerToken = 4

// body is what the simulator reads of a request; it ignores the rest.
type body struct {
	Model               *string         `json:"model"`
	Messages            []message       `json:"messages"`
	Tools               json.RawMessage `json:"tools"`
	Prompt              json.RawMessage `json:"prompt"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	N                   *int            `json:"n"`
	Stream              bool            `json:"stream"`
	StreamOptions       *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	CacheSalt string `json:"cache_salt"`
}

type message struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// chatPrompt lays the conversation out as a chat template would. Each part is
// padded to whole tokens, so that an answer, sent back as a message of the
// next turn, stands where it stood when it was generated.
func (b *body) chatPrompt() ([]byte, error) {
	if len(b.Messages) == 0 {
		return nil, errors.New("messages is required and must not be empty")
	}
	var p []byte
	if len(b.Tools) > 0 && !isNull(b.Tools) {
		p = pad(append(p, b.Tools...))
	}
	for i, m := range b.Messages {
		p = appendRole(p, m.Role)
		content, err := contentText(m.Content)
		if err != nil {
			return nil, fmt.Errorf("messages[%d].content: %w", i, err)
		}
		p = append(p, content...)
		if !isNull(m.ToolCalls) {
			p = append(p, m.ToolCalls...)
		}
		p = pad(p)
	}
	return appendRole(p, "assistant"), nil
}

func appendRole(p []byte, role string) []byte {
	p = append(p, "<|"...)
	p = append(p, role...)
	return pad(append(p, "|>"...))
}

// pad fills the last token with newlines.
func pad(p []byte) []byte {
	for len(p)%bytesPerToken != 0 {
		p = append(p, '\n')
	}
	return p
}

// lastText is what the prompt's last message says, or a text prompt; nothing
// when it cannot be read.
func (b *body) lastText() string {
	raw := b.Prompt
	if n := len(b.Messages); n > 0 {
		raw = b.Messages[n-1].Content
	}
	text, err := contentText(raw)
	if err != nil {
		return ""
	}
	return string(text)
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// contentText reads a message's content: a string, null, or parts, of which
// all but text count as the JSON they are written in.
func contentText(raw json.RawMessage) ([]byte, error) {
	if isNull(raw) {
		return nil, nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []byte(s), nil
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, errors.New("must be a string, null or an array of parts")
	}
	var text []byte
	for _, part := range parts {
		var p struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(part, &p); err != nil {
			return nil, errors.New("a part must be an object with a type")
		}
		if p.Type == "text" {
			text = append(text, p.Text...)
		} else {
			text = append(text, part...)
		}
	}
	return text, nil
}

// completionPrompt reads a text prompt: a string or token ids, or a list with
// just one of these.
func (b *body) completionPrompt() ([]byte, error) {
	raw := b.Prompt
	if isNull(raw) {
		return nil, errors.New("prompt is required")
	}
	if p, ok := onePrompt(raw); ok {
		return nonEmpty(p)
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		if len(list) > 1 {
			return nil, errors.New("the simulator serves one prompt per request")
		}
		if len(list) == 1 {
			if p, ok := onePrompt(list[0]); ok {
				return nonEmpty(p)
			}
		}
	}
	return nil, errors.New("prompt must be a string, token ids or a list of one of these")
}

func nonEmpty(p []byte) ([]byte, error) {
	if len(p) == 0 {
		return nil, errors.New("prompt must not be empty")
	}
	return p, nil
}

// onePrompt turns text into padded bytes and a token id into the bytes of one
// token.
func onePrompt(raw json.RawMessage) ([]byte, bool) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return pad([]byte(s)), true
	}
	var ids []uint32
	if json.Unmarshal(raw, &ids) == nil && len(ids) > 0 {
		var p []byte
		for _, id := range ids {
			p = binary.BigEndian.AppendUint32(p, id)
		}
		return p, true
	}
	return nil, false
}

// blockIDs chains the hashes of the full blocks of a text, seeded by what keeps
// caches apart.
func blockIDs(text []byte, blockSize int, seed string) []uint64 {
	size := blockSize * bytesPerToken
	ids := make([]uint64, 0, len(text)/size)
	link := make([]byte, 8+size)
	binary.BigEndian.PutUint64(link, xxhash.Sum64String(seed))
	for ; len(text) >= size; text = text[size:] {
		copy(link[8:], text)
		id := xxhash.Sum64(link)
		ids = append(ids, id)
		binary.BigEndian.PutUint64(link, id)
	}
	return ids
}
