package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// version is what /version says; clients look for a vLLM version there.
const version = "0.11.0+simulator"

// route is what is at a path: an answer that is generated in a format, or one
// that is at hand.
type route struct {
	methods []string
	format  *format
	serve   func(*server, http.ResponseWriter, *http.Request) error
}

var (
	get     = []string{http.MethodGet, http.MethodHead}
	getPost = []string{http.MethodGet, http.MethodHead, http.MethodPost}
	post    = []string{http.MethodPost}
)

var routes = map[string]route{
	"/v1/chat/completions": {methods: post, format: &chatFormat},
	"/v1/completions":      {methods: post, format: &textFormat},
	"/v1/models":           {methods: get, serve: (*server).models},
	"/health":              {methods: get, serve: (*server).health},
	"/ping":                {methods: getPost, serve: (*server).health},
	"/version":             {methods: get, serve: (*server).version},
	"/metrics":             {methods: get, serve: (*server).metrics},
}

// health answers with an empty 200.
func (s *server) health(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *server) version(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"version": version})
}

type modelCard struct {
	ID          string  `json:"id"`
	Object      string  `json:"object"`
	Created     int64   `json:"created"`
	OwnedBy     string  `json:"owned_by"`
	Root        string  `json:"root"`
	Parent      *string `json:"parent"`
	MaxModelLen int     `json:"max_model_len"`
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{"list", []modelCard{{
		ID:          s.options.model,
		Object:      "model",
		Created:     s.started.Unix(),
		OwnedBy:     "vllm",
		Root:        s.options.model,
		MaxModelLen: s.contextLength(),
	}}})
}

// contextLength is the longest sequence that fits.
func (s *server) contextLength() int {
	c := s.engine
	return c.KVTokens / c.BlockSize * c.BlockSize
}

// apiError is the body of an error, in vLLM's shape.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// loadingError is what llama.cpp's server says while it loads a model; vLLM's
// does not listen yet then.
type loadingError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
}

type errorBody struct {
	Error any `json:"error"`
}

// failure is an error's body, or its event in a stream.
func failure(status int, message string) errorBody {
	kind := "BadRequestError"
	switch {
	case status == http.StatusNotFound:
		kind = "NotFoundError"
	case status == http.StatusInternalServerError:
		kind = "InternalServerError"
	case status == http.StatusTooManyRequests || status > http.StatusInternalServerError:
		if kind = http.StatusText(status); kind == "" {
			kind = "OverloadedError" // 529 has no text
		}
	}
	return errorBody{apiError{Message: message, Type: kind, Code: status}}
}

// fail answers a request that the API understood but does not serve.
func fail(w http.ResponseWriter, status int, message string) error {
	return writeJSON(w, status, failure(status, message))
}

// detail is how FastAPI answers where no route is.
type detail struct {
	Detail string `json:"detail"`
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, err = w.Write(body)
	return err
}
