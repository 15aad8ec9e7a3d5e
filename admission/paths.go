package admission

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// kind is what a request to a path is for.
type kind uint8

const (
	closed      kind = iota // not served
	wrongMethod             // served, but not for this method
	generates               // makes an engine work: body read, endpoint granted
	passes                  // goes straight to a healthy endpoint
)

// open lists what is served, by its only accepted spelling. Anything that an
// engine also has, but that is not inference, stays out: it would let any client
// empty caches, load adapters or put a server to sleep.
var open = func() map[string]map[string]kind {
	m := make(map[string]map[string]kind)
	add := func(k kind, methods, paths string) {
		for path := range strings.FieldsSeq(paths) {
			if m[path] == nil {
				m[path] = map[string]kind{http.MethodOptions: passes}
			}
			for method := range strings.FieldsSeq(methods) {
				m[path][method] = k
			}
		}
	}
	add(generates, "POST", `
		/v1/chat/completions /v1/completions /v1/embeddings /v1/responses /v1/messages
		/api/chat /api/generate
		/ /generate /generate_stream
		/completion /completions
		/rerank /v1/rerank /v2/rerank /score /v1/score /pooling /classify
		/v1/audio/transcriptions /v1/audio/translations
		/v1/images/generations /v1/images/edits`)
	add(passes, "POST", "/tokenize /detokenize /v1/messages/count_tokens")
	add(passes, "GET HEAD", "/v1/models /health /ping /version")
	add(passes, "HEAD", "/")
	return m
}()

// modelPrefix is followed by a model's id, which often has a slash in it.
const modelPrefix = "/v1/models/"

var modelMethods = map[string]kind{http.MethodGet: passes, http.MethodHead: passes, http.MethodOptions: passes}

// all opens every path that is cleanly spelled.
const all = "all"

// of tells what the request is for, and which methods its path takes. Only the
// one plain spelling of a path is served: what was checked here must be what the
// engine sees, and engines differ in how they take escapes, doubled slashes, dots
// and backslashes.
func of(r *http.Request, more []string) (kind, map[string]kind) {
	if r.URL.Opaque != "" {
		return closed, nil
	}
	// The proxy sends this form to the upstream.
	path := r.URL.EscapedPath()
	if methods := open[path]; methods != nil {
		return forMethod(methods, r.Method)
	}
	plain, ok := clean(path)
	if !ok {
		return closed, nil
	}
	if id, ok := strings.CutPrefix(path, modelPrefix); ok && isModel(id) {
		return forMethod(modelMethods, r.Method)
	}
	for _, pattern := range more {
		if matches(pattern, plain) {
			return passes, nil
		}
	}
	return closed, nil
}

func forMethod(methods map[string]kind, method string) (kind, map[string]kind) {
	if k, ok := methods[method]; ok {
		return k, methods
	}
	return wrongMethod, methods
}

// allowed lists a path's methods for the Allow header.
func allowed(methods map[string]kind) string {
	list := make([]string, 0, len(methods))
	for method := range methods {
		list = append(list, method)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// clean returns the path without escapes, and whether it means the same to
// everybody: no empty or dot segment, no backslash, parameter or control
// character, and nothing that a second unescaping would change.
func clean(escaped string) (string, bool) {
	plain, err := url.PathUnescape(escaped)
	if err != nil || !strings.HasPrefix(plain, "/") {
		return "", false
	}
	for i := range len(plain) {
		switch c := plain[i]; {
		case c < ' ', c == 0x7f, c == '\\', c == ';', c == '%', c == '?', c == '#':
			return "", false
		}
	}
	for segment := range strings.SplitSeq(plain[1:], "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "", false
		}
	}
	return plain, true
}

// isModel reports whether the rest of a clean path is a model's id. Its slashes
// may be escaped, nothing else.
func isModel(id string) bool {
	const longest = 256
	if id == "" || len(id) > longest {
		return false
	}
	for i := 0; i < len(id); i++ {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~:@+/", c) >= 0:
		case c == '%' && len(id) > i+2 && (id[i+1:i+3] == "2F" || id[i+1:i+3] == "2f"):
			i += 2
		default:
			return false
		}
	}
	return true
}

// matches reports whether a pattern of the option paths covers a clean path.
func matches(pattern, path string) bool {
	if pattern == all {
		return true
	}
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}

// checkPattern tells what is wrong with a pattern of the option paths.
func checkPattern(pattern string) error {
	if pattern == all {
		return nil
	}
	// A pattern that ends in a slash and a star would look like an empty segment.
	body := strings.TrimSuffix(strings.TrimSuffix(pattern, "*"), "/")
	if !strings.HasPrefix(pattern, "/") || strings.Contains(body, "*") {
		return fmt.Errorf("paths: %q is not a path, or a path with one '*' at its end", pattern)
	}
	if plain, ok := clean(body); body != "" && (!ok || plain != body) {
		return fmt.Errorf("paths: %q can match no path: write it plainly, without escapes, dots or doubled slashes", pattern)
	}
	return nil
}
