package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// llama is one running llama.cpp server: a real engine, which computes what it
// answers.
type llama struct {
	name string
	port int
}

func (l llama) address() string { return fmt.Sprintf("127.0.0.1:%d", l.port) }

// needLlama skips a test unless there is a llama.cpp server to run, and returns
// its path and that of a model for it.
func needLlama(t *testing.T) (binary, model string) {
	t.Helper()
	binary = os.Getenv("LLAMA_SERVER")
	if binary == "" {
		t.Skip("runs a real engine; set LLAMA_SERVER to llama.cpp's llama-server, as .ci/full does in its part llama")
	}
	if model = os.Getenv("LLAMA_MODEL"); model == "" {
		model = filepath.Join(t.TempDir(), "tiny.gguf")
		if err := tinyModel().write(model); err != nil {
			t.Fatalf("writing a model: %v", err)
		}
	}
	return binary, model
}

// startLlama runs a server with four slots, each with room for a long prompt,
// and waits until it has loaded the model.
func startLlama(t *testing.T, name, binary, model string) llama {
	t.Helper()
	l := llama{name: name, port: freePort(t)}
	// What only newer builds know goes by the environment, which older ones ignore.
	spawn(t, name, []string{"LLAMA_ARG_OFFLINE=1", "LLAMA_ARG_UI=0"}, binary,
		"--host", "127.0.0.1", "--port", strconv.Itoa(l.port),
		"--model", model, "--alias", "llama",
		"-np", "4", "-c", strconv.Itoa(4*tinyContext), "--threads", "1", "--threads-batch", "1",
		"--metrics",
	)
	eventually(t, name+" to be ready", func() error {
		_, err := get(t, "http://"+l.address()+"/health")
		return err
	})
	return l
}

// tokens is how many tokens a text has by the server's own count.
func (l llama) tokens(t *testing.T, text string) int {
	t.Helper()
	body, err := json.Marshal(map[string]string{"content": text})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: limit}
	res, err := client.Post("http://"+l.address()+"/tokenize", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatalf("counting tokens: %v", err)
	}
	defer res.Body.Close()
	var said struct{ Tokens []json.RawMessage }
	if err := json.NewDecoder(res.Body).Decode(&said); err != nil {
		t.Fatalf("reading the count of tokens: %v", err)
	}
	return len(said.Tokens)
}

// generated is how many tokens the server has generated since it started.
func (l llama) generated(t *testing.T) int64 {
	t.Helper()
	page, err := get(t, "http://"+l.address()+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		if count, found := strings.CutPrefix(line, "llamacpp:tokens_predicted_total "); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
			if err != nil {
				t.Fatal(err)
			}
			return int64(n)
		}
	}
	t.Fatalf("%s does not tell how many tokens it generated:\n%s", l.name, page)
	return 0
}
