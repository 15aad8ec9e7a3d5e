package admission

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Every option lands in its field.
func TestDirective(t *testing.T) {
	for _, test := range []struct {
		name, input, want string
	}{
		{"bare", `llm_admission`, `{}`},
		{"everything", `llm_admission {
			pool chat
			paths + /v1/audio/speech /v1/files/*
			paths + /v1/batches
			max_body 4MiB
			body_timeout 1m
			queue {
				max_wait 5s
			}
			allow_fields priority rid
			usage inject
			heartbeat 200ms
			errors pass
		}`, `{"pool":"chat","paths":["/v1/audio/speech","/v1/files/*","/v1/batches"],"max_body":4194304,"body_timeout":60000000000,"queue":{"max_wait":5000000000},"allow_fields":["priority","rid"],"usage":"inject","heartbeat":200000000,"errors":"pass"}`},
		{"nothing of it", `llm_admission {
			queue {
				max_wait 0
			}
			usage observe
			heartbeat off
		}`, `{"queue":{"max_wait":0},"usage":"observe"}`},
		{"all paths", `llm_admission {
			paths all
			errors write
		}`, `{"paths":["all"],"errors":"write"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var h Handler
			if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.input)); err != nil {
				t.Fatal(err)
			}
			if err := h.Validate(); err != nil {
				t.Errorf("what was read is not valid: %v", err)
			}
			got, err := json.Marshal(&h)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s (%v), want %s", got, err, test.want)
			}
		})
	}
}

// A mistake is answered with the option, the value and the line.
func TestDirectiveMistakes(t *testing.T) {
	for _, test := range []struct{ option, want string }{
		{"max_bodies 3", "unknown option 'max_bodies'; have pool, paths, max_body, body_timeout, queue, class, deadline_header, tenant, tenant_limit, client_limit, model, allow_fields, usage, heartbeat, errors"},
		{"max_body", "wrong argument count"},
		{"max_body lots", "max_body: 'lots' is not a size"},
		{"max_body 0", "max_body: '0' is not a size"},
		{"max_body -1", "max_body: '-1' is not a size"},
		{"body_timeout soon", "body_timeout: 'soon' is not a duration"},
		{"body_timeout -1s", "body_timeout: '-1s' is not a duration"},
		{"body_timeout 1s 2s", "wrong argument count"},
		{"paths", "paths: write '+'"},
		{"paths /v1/files", "paths: write '+'"},
		{"paths + all", "'all' stands alone"},
		{"paths + files", `paths: "files" is not a path`},
		{"paths + /a/*/b", `paths: "/a/*/b" is not a path`},
		{"paths + /a//b", `paths: "/a//b" can match no path`},
		{"paths + /a/../b", `paths: "/a/../b" can match no path`},
		{"paths + /a%20b", `paths: "/a%20b" can match no path`},
		{"allow_fields", "wrong argument count"},
		{"allow_fields temperature", `allow_fields: "temperature" is not a field that is refused; have priority`},
		{"errors hide", "errors: 'hide' is neither"},
		{"queue {\nmax_wait soon\n}", "queue: max_wait: 'soon' is not a duration"},
		{"queue {\nmax_wait -1s\n}", "queue: max_wait: '-1s' is not a duration"},
		{"queue {\nmax_wait\n}", "wrong argument count"},
		{"queue {\nmax_wait 1s\nmax_wait 2s\n}", "queue: option 'max_wait' is given twice"},
		{"usage", "wrong argument count"},
		{"usage guess", "usage: 'guess' is neither 'observe' nor 'inject'"},
		{"heartbeat", "wrong argument count"},
		{"heartbeat often", "heartbeat: 'often' is not an interval from 50ms to 5m0s, or 'off'"},
		{"heartbeat 49ms", "heartbeat: '49ms' is not an interval"},
		{"heartbeat 6m", "heartbeat: '6m' is not an interval"},
		{"heartbeat 0", "heartbeat: '0' is not an interval"},
		{"pool a b", "wrong argument count"},
		{"max_body 100PiB", "max_body: '100PiB' is over the most"},
		{"pool a\npool b", "option 'pool' is given twice, first at line 2"},
	} {
		var h Handler
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("llm_admission {\n" + test.option + "\n}"))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Testfile:") {
			t.Errorf("%s: got %v, want %q and the line", test.option, err, test.want)
		}
	}
}

// A JSON config is checked as well.
func TestValidate(t *testing.T) {
	for _, test := range []struct {
		h    Handler
		want string
	}{
		{Handler{Paths: []string{"x"}}, "paths"},
		{Handler{MaxBody: -1}, "max_body"},
		{Handler{MaxBody: 1 << 50}, "max_body"},
		{Handler{BodyTimeout: caddy.Duration(-time.Second)}, "body_timeout"},
		{Handler{AllowFields: []string{"x"}}, "allow_fields"},
		{Handler{Queue: &Queue{MaxWait: new(caddy.Duration(-1))}}, "queue: max_wait"},
		{Handler{Usage: "x"}, "usage"},
		{Handler{Heartbeat: 1}, "heartbeat"},
		{Handler{Heartbeat: caddy.Duration(time.Hour)}, "heartbeat"},
		{Handler{Errors: "x"}, "errors"},
	} {
		if err := test.h.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want an error about %s", test.h, err, test.want)
		}
	}
}

// Another block's options are left to it.
func TestOptionLeavesOthersAlone(t *testing.T) {
	var h Handler
	d := caddyfile.NewTestDispenser("strategy work")
	d.Next()
	if known, err := h.Option(d); known || err != nil || d.Val() != "strategy" {
		t.Errorf("known %v, %v, now at %q", known, err, d.Val())
	}
	if !reflect.DeepEqual(h, Handler{}) {
		t.Error("the handler was changed")
	}
}
