package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// version is what /version says; clients look for a vLLM version there.
const version = "0.11.0+simulator"

type route struct {
	methods []string
	reads   bool // the request's body, to its end
	serve   func(*server, http.ResponseWriter, *http.Request) error
}

var (
	get     = []string{http.MethodGet, http.MethodHead}
	getPost = []string{http.MethodGet, http.MethodHead, http.MethodPost}
	post    = []string{http.MethodPost}
)

var routes = map[string]route{
	"/v1/chat/completions": {post, true, (*server).chat},
	"/v1/completions":      {post, true, (*server).completions},
	"/v1/models":           {get, false, (*server).models},
	"/health":              {get, false, (*server).health},
	"/ping":                {getPost, false, (*server).health},
	"/version":             {get, false, (*server).version},
	"/metrics":             {get, false, (*server).metrics},
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
	c := s.options.engine
	return c.KVTokens / c.BlockSize * c.BlockSize
}

// apiError is the body of an error, in vLLM's shape.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// fail answers a request that the API understood but does not serve.
func fail(w http.ResponseWriter, status int, message string) error {
	kind := "BadRequestError"
	if status == http.StatusNotFound {
		kind = "NotFoundError"
	}
	return writeJSON(w, status, struct {
		Error apiError `json:"error"`
	}{apiError{Message: message, Type: kind, Code: status}})
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
