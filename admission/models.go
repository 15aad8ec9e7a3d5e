package admission

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// modelsPath is that of the list of models.
const modelsPath = "/v1/models"

// models sees to a request that generates nothing. It finds out which model the
// request is about, so that a server which has it is chosen, and puts the model's
// own name in the place of an alias. answer is not nil when the client is to get it
// instead of a server's: it is JSON. A body that is looked into unpacked is so on
// account of the share.
func (h *Handler) models(r *http.Request, c *llmlb.Call, s *share) (answer []byte, f *refusal) {
	path := r.URL.EscapedPath()
	now := time.Now()
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if path == modelsPath {
			if list, known := c.Pool.MergedModels(c.Settings, now); known {
				return appendList(nil, list, h.Models), nil
			}
			return nil, nil
		}
		c.Model = modelIn(path)
		name, alias := h.Models[c.Model]
		if !alias {
			break
		}
		list, _ := c.Pool.MergedModels(c.Settings, now)
		if i := slices.IndexFunc(list, func(m llmlb.MergedModel) bool { return m.ID == name }); i >= 0 {
			return appendModel(nil, c.Model, list[i].Fields, name), nil
		}
		c.Model = name
		r.URL.Path, r.URL.RawPath = modelPrefix+name, modelPrefix+url.PathEscape(name)
	case http.MethodPost:
		if open[path] == nil || multipart(r) {
			return nil, nil // opened by the operator, and not read
		}
		defer func() { s.set(int64(len(c.Body))) }()
		plain, err := decode(r.Header.Get("Content-Encoding"), c.Body, h.maxBody(), s)
		if err != nil {
			return nil, nil //nolint:nilerr // too much to look into: it goes on as it came
		}
		c.Model = request.ModelOf(plain)
		if name, alias := h.Models[c.Model]; alias {
			if f := renameBody(r, c, plain, name); f != nil {
				return nil, f
			}
			c.Model = name
		}
	}
	return nil, h.unknownModel(c)
}

// modelIn returns the model whose entry a clean path asks for, or "".
func modelIn(path string) string {
	id, ok := strings.CutPrefix(path, modelPrefix)
	if !ok || !isModel(id) {
		return ""
	}
	id, err := url.PathUnescape(id)
	if err != nil {
		return ""
	}
	return id
}

// unknownModel refuses what every server would answer 404 to.
func (h *Handler) unknownModel(c *llmlb.Call) *refusal {
	if !c.Pool.UnknownModel(c.Settings, c.Model, time.Now()) {
		return nil
	}
	return &refusal{
		status: http.StatusNotFound, code: "model_not_found", param: "model",
		message: "No inference server has the model " + strconv.Quote(shortened(c.Model)) + ". GET /v1/models lists those there are.",
	}
}

// shortened cuts a name to what a message has room for.
func shortened(name string) string {
	const most = 64
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return name
}

// writeModels writes what models answered.
func writeModels(w http.ResponseWriter, r *http.Request, answer []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(answer) // a client that left is in the log already
	}
}

// appendList appends the list as OpenAI writes it: what the servers list, and
// behind it each alias of a model that is listed. An alias hides a model of the
// same name, as it does in requests.
func appendList(dst []byte, list []llmlb.MergedModel, aliases map[string]string) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	first := true
	add := func(id string, fields []llmlb.ModelField, root string) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendModel(dst, id, fields, root)
	}
	at := make(map[string]int, len(list))
	for i, m := range list {
		at[m.ID] = i
		if _, hidden := aliases[m.ID]; !hidden {
			add(m.ID, m.Fields, "")
		}
	}
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		if i, ok := at[aliases[alias]]; ok {
			add(alias, list[i].Fields, aliases[alias])
		}
	}
	return append(dst, "]}"...)
}

// appendModel appends one entry. That of an alias says with root what it stands
// for.
func appendModel(dst []byte, id string, fields []llmlb.ModelField, root string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendText(dst, id)
	object := false
	for _, f := range fields {
		if f.Name == "root" && root != "" {
			continue
		}
		object = object || f.Name == "object"
		dst = append(appendText(append(dst, ','), f.Name), ':')
		dst = append(dst, f.Value...)
	}
	if !object { // without it, clients' libraries take it for something else
		dst = append(dst, `,"object":"model"`...)
	}
	if root != "" {
		dst = appendText(append(dst, `,"root":`...), root)
	}
	return append(dst, '}')
}

// appendText appends a JSON string.
func appendText(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\ufffd")) // which cannot fail then
	return dst
}
