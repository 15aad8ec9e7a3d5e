package caddyfile

import "strings"

// refused are subdirectives of reverse_proxy that would work against the
// modules, with the reason. An operator who wants one of them wants
// reverse_proxy itself, where lb_policy llm works too.
var refused = map[string]string{
	"lb_policy":        "llm_proxy always chooses by 'lb_policy llm', whose options stand here directly; for another policy write 'strategy', which takes them all",
	"lb_retries":       "use 'retries'",
	"lb_retry_match":   "it could make one request generate twice",
	"lb_try_duration":  "a request that waits there is sent even after its client has left",
	"lb_try_interval":  "a retry goes to another server at once",
	"flush_interval":   "every token is passed on as it comes; another interval would delay it",
	"response_buffers": "it would hold back the tokens until the buffer is full",
	"request_buffers":  "the request is read whole already, up to 'max_body'",
	"fail_duration":    passiveReason,
	"max_fails":        passiveReason,
}

const passiveReason = "passive health checks would take a busy server for a broken one; the state of each server is kept by the pool (see 'caddy llm-pool')"

// refusal returns why reverse_proxy's subdirective is refused, or "".
func refusal(name string) string {
	if strings.HasPrefix(name, "unhealthy_") {
		return passiveReason
	}
	return refused[name]
}
