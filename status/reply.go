package status

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// secure sets what every answer has, whatever it is: nothing from elsewhere, no
// script that is not a file of ours, no frame around the page, and no copy kept.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// allow answers 405 and returns false unless the method is among those given.
func allow(w http.ResponseWriter, r *http.Request, methods ...string) bool {
	if slices.Contains(methods, r.Method) {
		return true
	}
	list := strings.Join(methods, ", ")
	w.Header().Set("Allow", list)
	refuse(w, r, http.StatusMethodNotAllowed, "method_not_allowed", "method not allowed; have "+list)
	return false
}

// refuse answers with an error that says what to do. An answer that comes before a
// body was read ends an HTTP/1 connection: the rest could be taken for requests.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	_ = reply(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func reply(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}
