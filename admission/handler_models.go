package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// checkModels refuses names that no request can have, and aliases that lead to
// aliases: with those the answer would depend on where one stops.
func (h *Handler) checkModels() error {
	for _, alias := range slices.Sorted(maps.Keys(h.Models)) {
		if err := checkAlias(alias, h.Models[alias]); err != nil {
			return err
		}
		name := h.Models[alias]
		if further, also := h.Models[name]; also {
			return fmt.Errorf("model: '%s' stands for '%s', which itself stands for '%s'; name the model that the servers know", alias, name, further)
		}
	}
	return nil
}

// maxModelName is far beyond the names that there are.
const maxModelName = 512

func checkAlias(alias, name string) error {
	for _, s := range []string{alias, name} {
		if s == "" || len(s) > maxModelName || !printable(s) {
			return fmt.Errorf("model: %q is not the name of a model", s)
		}
	}
	if alias == name {
		return fmt.Errorf("model: '%s' stands for itself", alias)
	}
	return nil
}

// printable reports whether s is text that can stand in a header, a log and a
// metric's label.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, unicode.IsControl)
}
