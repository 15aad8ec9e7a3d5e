// Package caddyfile registers what this module adds to the Caddyfile: the
// directives llm_admission and llm_proxy, and the global option llmlb. The
// policy and the transport named llm need no registration here: reverse_proxy
// finds them by their module IDs.
//
// # What it owns
//
// The grammar of llm_proxy, the shorthand that expands to llm_admission and
// reverse_proxy. The options themselves belong to the modules: each reads its
// own with its method Option, so that an option means the same in the
// shorthand and in the module's own block. This package routes the lines,
// refuses what would work against the modules, and gives the rest to
// reverse_proxy's own parser.
//
// # Who calls it
//
// Caddy's Caddyfile adapter. Importing the package also brings in the modules
// that the expansion names, so a build cannot have the directive without them.
// Nothing here lives at run time.
package caddyfile

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	_ "github.com/caddy-llmlb/caddy-llmlb/health" // the app that watches the pools
)

func init() {
	httpcaddyfile.RegisterGlobalOption("llmlb", parseApp)
	httpcaddyfile.RegisterHandlerDirective("llm_admission", parseAdmission)
	httpcaddyfile.RegisterDirectiveOrder("llm_admission", httpcaddyfile.Before, "reverse_proxy")
	httpcaddyfile.RegisterDirective("llm_proxy", parseProxy)
	httpcaddyfile.RegisterDirectiveOrder("llm_proxy", httpcaddyfile.Before, "reverse_proxy")
}
