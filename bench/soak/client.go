//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// waitsFor is how long a client waits for an answer to end. No answer takes half
// of it.
const waitsFor = 60 * time.Second

// keepsIdle is how long a client keeps a connection that it does not use: shorter
// than the gateway does, so that only a reload closes one under a request.
const keepsIdle = 2 * time.Second

// clients are the ways to reach the gateway.
type clients struct {
	h1 *http.Client
	h2 []*http.Client // each with connections of its own
}

func newClients() *clients {
	c := &clients{h1: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: keepsIdle, DisableCompression: true}}}
	for range 4 {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(true)
		c.h2 = append(c.h2, &http.Client{Transport: &http.Transport{Protocols: &protocols, IdleConnTimeout: keepsIdle, DisableCompression: true}})
	}
	return c
}

// hangUp closes the connections that are not in use.
func (c *clients) hangUp() {
	for _, client := range append(c.h2, c.h1) {
		client.CloseIdleConnections()
	}
}

// asking is one request on its way.
type asking struct {
	plan
	truth.Request
	leave context.CancelFunc
	left  bool
}

// ask sends a request and reads what comes, as planned.
func (c *clients) ask(url string, p plan) truth.Request {
	a := &asking{plan: p}
	a.Request = truth.Request{
		ID: p.ID, Pool: p.Pool, Tenant: p.tenant, Bounded: p.tenant == "bounded", Stream: p.Stream, Slow: p.pause > 0,
		Answer: truth.NewAnswer(p.ID), Sent: time.Now(),
	}
	client := c.h1
	if p.h2 {
		client = c.h2[int(p.Sum%uint64(len(c.h2)))]
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitsFor)
	defer cancel()
	ctx, a.leave = context.WithCancel(ctx)
	defer a.leave()
	if p.leaveAfter > 0 {
		timer := time.AfterFunc(p.leaveAfter, a.leave)
		defer timer.Stop()
	}
	path := "/v1/chat/completions"
	if p.Pool == poolOnce {
		path = "/once" + path
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+path, strings.NewReader(p.body))
	if err != nil {
		panic(err) // the address is ours
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Soak-Tenant", p.tenant)
	req.Header.Set(orderHeader, p.order.String())
	res, err := client.Do(req)
	if err != nil {
		a.over(ctx, err)
		return a.Request
	}
	defer res.Body.Close()
	a.Status, a.Endpoint = res.StatusCode, res.Header.Get("X-LLM-Endpoint")
	body := &pacedReader{from: res.Body, plan: p}
	switch {
	case a.Status != http.StatusOK:
		err = a.refusal(body)
	case p.Stream:
		err = a.stream(body)
	default:
		err = a.document(body)
	}
	a.over(ctx, err)
	if a.End == truth.TurnedAway {
		a.End = truth.Broken // it had begun
	}
	return a.Request
}

// over notes how it ended.
func (a *asking) over(ctx context.Context, err error) {
	a.Ended = time.Now()
	if err != nil {
		a.Request.Err = err.Error()
	}
	switch {
	case err == nil:
		a.End = truth.Clean
	case a.left || errors.Is(ctx.Err(), context.Canceled):
		a.End = truth.Left
	case ctx.Err() != nil:
		a.End = truth.Hung
	default:
		a.End = truth.TurnedAway
	}
}

// stream reads an answer in pieces.
func (a *asking) stream(body io.Reader) error {
	lines := bufio.NewReaderSize(body, 32<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err == io.EOF {
			a.Answer.Line([]byte("the stream ends within " + string(line)))
			return nil
		}
		if err != nil {
			return err
		}
		a.Answer.Line(bytes.TrimSuffix(line, []byte("\n")))
		if a.First.IsZero() && a.Answer.Pieces > 0 {
			a.First = time.Now()
		}
		if a.leaveAt > 0 && a.Answer.Pieces >= a.leaveAt {
			a.left = true
			a.leave()
			return context.Canceled
		}
	}
}

// document reads an answer in one piece.
func (a *asking) document(body io.Reader) error {
	buffered := bufio.NewReader(body)
	if _, err := buffered.Peek(1); err != nil && err != io.EOF {
		return err
	}
	a.First = time.Now()
	text, err := io.ReadAll(buffered)
	if err != nil {
		return err
	}
	a.Answer.Document(text)
	return nil
}

// refusal reads an error.
func (a *asking) refusal(body io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(body, 64<<10))
	var told struct {
		Error struct{ Code any }
	}
	if json.Unmarshal(text, &told) == nil && told.Error.Code != nil {
		a.Code, _ = told.Error.Code.(string)
		if a.Code == "" {
			a.Code = "engine's"
		}
	}
	return err
}

// pacedReader reads as slowly as planned.
type pacedReader struct {
	from io.Reader
	plan plan
	read int
}

func (r *pacedReader) Read(p []byte) (int, error) {
	if r.plan.pause > 0 && r.read > r.plan.pauseAt {
		time.Sleep(r.plan.pause)
		r.plan.pause = 0
	}
	if r.plan.slow > 0 {
		time.Sleep(3 * time.Millisecond)
		p = p[:min(len(p), r.plan.slow)]
	}
	n, err := r.from.Read(p)
	r.read += n
	return n, err
}
