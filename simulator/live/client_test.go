package live

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// seen is what a client saw of one request.
type seen struct {
	late   time.Duration // it was sent so long after it was due
	ttft   time.Duration // to its first token, since it was due
	cached int           // tokens of its prompt, by the server's word
	err    error
}

// replay sends the requests when they are due, whatever has become of those before,
// and returns when all have been answered.
func (p *pool) replay(rows *trace.Trace, bodies [][]byte) []seen {
	transport := &http.Transport{MaxIdleConnsPerHost: len(bodies), DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	list := make([]seen, len(bodies))
	var all sync.WaitGroup
	begin := time.Now().Add(100 * time.Millisecond)
	for i := range bodies {
		due := begin.Add(rows.Requests[i].At)
		time.Sleep(time.Until(due))
		all.Go(func() { list[i] = p.ask(client, bodies[i], due) })
	}
	all.Wait()
	return list
}

// ask sends one request and reads its answer to the end.
func (p *pool) ask(client *http.Client, body []byte, due time.Time) (s seen) {
	s.late = time.Since(due)
	res, err := client.Post(p.url+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		s.err = err
		return s
	}
	defer res.Body.Close()
	if server := res.Header.Get("X-Simulator"); res.StatusCode == http.StatusOK && !strings.HasPrefix(server, p.name) {
		s.err = fmt.Errorf("served by %q, which is not of pool %q", server, p.name)
		return s
	}
	in := bufio.NewReaderSize(res.Body, 16<<10)
	first, err := in.ReadBytes('\n')
	s.ttft = time.Since(due)
	if err != nil {
		s.err = fmt.Errorf("reading the first token: %w after %q", err, first)
		return s
	}
	if res.StatusCode != http.StatusOK || !bytes.HasPrefix(first, []byte("data: ")) {
		s.err = fmt.Errorf("status %d: %q", res.StatusCode, first)
		return s
	}
	rest, err := io.ReadAll(in)
	if err != nil {
		s.err = fmt.Errorf("reading the answer: %w", err)
		return s
	}
	s.cached, s.err = cachedOf(rest)
	return s
}

// cachedOf reads the usage, which is the last event before the end marker.
func cachedOf(stream []byte) (int, error) {
	events := bytes.Split(bytes.TrimSpace(stream), []byte("\n\n"))
	if len(events) < 2 || string(events[len(events)-1]) != "data: [DONE]" {
		return 0, fmt.Errorf("the answer has no end: %q", stream[max(0, len(stream)-200):])
	}
	var chunk struct {
		Usage *struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	event := bytes.TrimPrefix(events[len(events)-2], []byte("data: "))
	if err := json.Unmarshal(event, &chunk); err != nil || chunk.Usage == nil {
		return 0, fmt.Errorf("the answer tells no usage: %q", event)
	}
	return chunk.Usage.Details.Cached, nil
}
