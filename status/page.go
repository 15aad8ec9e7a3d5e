package status

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

//go:generate bash web/uplot/fetch.sh

//go:embed web/*.html web/*.css web/*.js web/*.svg web/uplot/*.js web/uplot/*.css web/uplot/LICENSE
var web embed.FS

var pageTemplate = template.Must(template.ParseFS(web, "web/page.html"))

// asset is a file that the page names.
type asset struct {
	kind string
	body []byte
}

// assets are all files but the page itself, by their last name: they all stand
// beside the page, however they are sorted here.
var assets = func() map[string]asset {
	kinds := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	}
	list := make(map[string]asset)
	err := fs.WalkDir(web, "web", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kinds[path.Ext(name)] == "" {
			return err
		}
		body, err := web.ReadFile(name)
		list[path.Base(name)] = asset{kind: kinds[path.Ext(name)], body: body}
		return err
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	return list
}()

func (a *asset) serve(w http.ResponseWriter, r *http.Request) error {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return nil
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(a.body)
	return err
}

// lastPart is what stands behind the last slash. There the page itself has
// nothing.
func lastPart(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }

// page answers with the page, or leads to where its relative addresses are right.
func (h *Handler) page(w http.ResponseWriter, r *http.Request) error {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return nil
	}
	if part := lastPart(originalPath(r)); part != "" {
		return redirect(w, r, part)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.Method == http.MethodHead {
		return nil
	}
	view := struct{ Token string }{}
	if h.AllowActions {
		view.Token = token()
	}
	if err := pageTemplate.Execute(w, view); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// toPage answers for a path that is nothing of ours. Without a dot in its last part
// it is taken for the page's own, which lacks its slash.
func toPage(w http.ResponseWriter, r *http.Request, part string) error {
	if strings.Contains(part, ".") {
		refuse(w, r, http.StatusNotFound, "not_found", "there is no such file; the page is at the path that ends in a slash")
		return nil
	}
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return nil
	}
	return redirect(w, r, lastPart(originalPath(r)))
}

// originalPath is the path as the browser has it, escaped: from before any
// handle_path.
func originalPath(r *http.Request) string {
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok && original.URL != nil {
		return original.URL.EscapedPath()
	}
	return r.URL.EscapedPath()
}

// redirect leads to the same path with a slash at its end. "./" keeps a part such
// as "javascript:x" from being a scheme.
func redirect(w http.ResponseWriter, r *http.Request, part string) error {
	to := "./" + part + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusPermanentRedirect)
	return nil
}
