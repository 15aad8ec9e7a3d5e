package health

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// canaryPrompt is what a canary says where the operator says nothing else.
const canaryPrompt = "Say OK."

const (
	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions"
)

// completion is the body of a canary. It has no priority: engines that are not set
// to schedule by one refuse requests that name it.
type completion struct {
	Model       string    `json:"model"`
	Messages    []message `json:"messages,omitempty"`
	Prompt      string    `json:"prompt,omitempty"`
	MaxTokens   int       `json:"max_tokens"`
	Temperature int       `json:"temperature"`
	Stream      bool      `json:"stream"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// canaryBody returns a body that no other canary ever had: what stands first
// differs, so that nothing of it is found in a cache.
func canaryBody(o *llmlb.Canary, plain bool) []byte {
	c := completion{Model: o.Model, MaxTokens: o.MaxTokens, Stream: true}
	prompt := fmt.Sprintf("%016x\n%s", rand.Uint64(), o.Prompt)
	if plain {
		c.Prompt = prompt
	} else {
		c.Messages = []message{{"user", prompt}}
	}
	body, _ := json.Marshal(&c) // of nothing that could fail
	return body
}

// shown is what a canary has shown.
type shown struct {
	llmlb.CheckResult
	contact

	tells     bool // it is a result
	elsewhere bool // the server may take the same in another form
}

// is sets the verdict and says that there is one.
func (sh *shown) is(v llmlb.CheckVerdict, why reason) *shown {
	sh.Verdict, sh.Reason, sh.tells = v, string(why), true
	return sh
}

// sendCanary sends one canary, plain as a completion and else as a chat. When its
// time is over the exchange is aborted, so that the engine stops too.
func sendCanary(ctx context.Context, s *llmlb.Settings, address string, o *llmlb.Canary, plain bool) *shown {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	api, path := request.Chat, chatPath
	if plain {
		api, path = request.Completions, completionsPath
	}
	sh := &shown{CheckResult: llmlb.CheckResult{Began: time.Now()}}
	q := query{path: path, accept: "text/event-stream, application/json", body: canaryBody(o, plain)}
	res, why := sh.send(ctx, s, address, &q, o.Timeout)
	switch {
	case why != "" && (sh.conclusive || !sh.tried):
		return sh.is(llmlb.CheckUnsuitable, why)
	case why != "":
		if sh.Slow = errors.Is(ctx.Err(), context.DeadlineExceeded); sh.Slow && !sh.undialed {
			why = noToken(o)
		}
		return sh.is(llmlb.CheckFailed, why)
	case res.StatusCode >= http.StatusMultipleChoices:
		discard(res.Body)
		return sh.refused(res.StatusCode)
	}
	defer res.Body.Close()
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return sh.is(llmlb.CheckUnsuitable, "its answer is compressed, which was not asked for")
	}
	kind := res.Header.Get("Content-Type")
	reader := answer.New(api, kind)
	if reader == nil {
		return sh.is(llmlb.CheckFailed, reason("no answer but "+mediaWords(kind)))
	}
	read := canaryAnswer{reader: reader, began: sh.Began}
	err := read.read(res.Body)
	sh.TTFT, sh.Own = read.ttft, read.reader.Facts().Tokens > 0
	return read.judge(sh, o, err, ctx.Err())
}

// refused says what a status other than of success means. A server that has too
// much to do tells nothing of how it generates.
func (sh *shown) refused(status int) *shown {
	switch {
	case answer.OverloadStatus(status):
		return sh
	case status < http.StatusInternalServerError || status == http.StatusNotImplemented:
		switch status {
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			sh.elsewhere = true
		}
		return sh.is(llmlb.CheckUnsuitable, statusReason(status))
	}
	return sh.is(llmlb.CheckFailed, statusReason(status))
}
