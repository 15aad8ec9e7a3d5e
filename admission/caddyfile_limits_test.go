package admission

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Every option of sharing and waiting lands in its field.
func TestDirectiveOfSharing(t *testing.T) {
	for _, test := range []struct{ lines, want string }{
		{"queue 64 {\nmax_wait 5s\nmax_bytes 1GiB\nmax_tokens 2000000\n}", `{"queue":{"calls":64,"max_wait":5000000000,"max_bytes":1073741824,"max_tokens":2000000}}`},
		{"queue off", `{"queue":{"off":true}}`},
		{"queue 0", `{"queue":{"calls":0}}`},
		{
			"class edits {\nheader X-Class edits\nshare 10%\nmax_wait 10s\ndeadline 8s\nsaturation 1.5\n}",
			`{"classes":[{"name":"edits","header":"X-Class","value":"edits","share":0.1,"max_wait":10000000000,"deadline":8000000000,"saturation":1.5}]}`,
		},
		{
			"class background {\nexpression {http.auth.user.id} == \"night\"\nsaturation off\nmax_wait 0\n}\nclass rest",
			`{"classes":[{"name":"background","expression":"{http.auth.user.id} == \"night\"","max_wait":0,"saturation":0},{"name":"rest"}]}`,
		},
		{"class a {\nexpression `path('/v1/*') && method('POST')`\nshare 0.25\n}", `{"classes":[{"name":"a","expression":"path('/v1/*') \u0026\u0026 method('POST')","share":0.25}]}`},
		{"deadline_header X-Request-Timeout", `{"deadline_header":"X-Request-Timeout"}`},
		{
			"tenant {http.auth.user.id}\ntenant_limit concurrent 4\ntenant_limit tokens_per_minute 60000\ntenant_limit weight 2.5 alice\ntenant_limit concurrent 8 alice",
			`{"tenant":"{http.auth.user.id}","tenant_limits":[{"concurrent":4,"tokens_per_minute":60000},{"tenant":"alice","concurrent":8,"weight":2.5}]}`,
		},
		{"client_limit concurrent 3", `{"client_limit_concurrent":3}`},
		{"model small org/small-7b\nmodel large org/large-70b", `{"models":{"large":"org/large-70b","small":"org/small-7b"}}`},
	} {
		t.Run(test.lines, func(t *testing.T) {
			var h Handler
			if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("llm_admission {\n" + test.lines + "\n}")); err != nil {
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

// A mistake in them is answered with the option, the value and the line.
func TestDirectiveOfSharingMistakes(t *testing.T) {
	for _, test := range []struct{ option, want string }{
		{"queue -1", "queue: '-1' is not a number of requests from 0 to 1000000, or 'off'"},
		{"queue many", "queue: 'many' is not a number"},
		{"queue 2000000", "queue: '2000000' is not a number"},
		{"queue 64 off", "queue: unexpected argument 'off'; write 'queue [<calls>|off] {' and its options: max_wait, max_bytes, max_tokens"},
		{"queue {\nmax_bytes 0\n}", "queue: max_bytes: '0' is not a size"},
		{"queue {\nmax_bytes 2TiB\n}", "queue: max_bytes: '2TiB' is not a size up to 1TiB"},
		{"queue {\nmax_tokens 0\n}", "queue: max_tokens: '0' is not a number of tokens"},
		{"queue {\nmax_tokens -4\n}", "queue: max_tokens: '-4' is not a number of tokens"},
		{"queue {\nlength 5\n}", "queue: unknown option 'length'; have max_wait, max_bytes, max_tokens"},
		{"class", "wrong argument count"},
		{"class a b", "wrong argument count"},
		{`class ""`, `class: "" is not a name`},
		{`class "a b"`, `class: "a b" is not a name`},
		{"class 9to5", `class: "9to5" is not a name`},
		{"class a\nclass a", "class: 'a' is given twice"},
		{"class a {\nrank 3\n}", "class 'a': unknown option 'rank'; have header, expression, share, max_wait, deadline, saturation"},
		{"class a {\nshare 1%\nshare 2%\n}", "class 'a': option 'share' is given twice"},
		{"class a {\nheader X-Class\n}", "wrong argument count"},
		{"class a {\nheader \"x-fair id\" v\n}", `class 'a': header: "x-fair id" and "v"`},
		{"class a {\nheader x:y v\n}", `class 'a': header: "x:y" and "v"`},
		{"class a {\nheader X-Class \"\"\n}", `class 'a': header: "X-Class" and ""`},
		{"class a {\nheader X-Class \"b\nc\"\n}", `class 'a': header: "X-Class"`},
		{"class a {\nexpression\n}", "wrong argument count"},
		{"class a {\nexpression \"\"\n}", "class 'a': expression: it is empty"},
		{"class a {\nshare 5\n}", "class 'a': share: bad value '5'; write '5%'"},
		{"class a {\nshare 51%\n}", "class 'a': share: bad value '51%'; have 0 to 0.5"},
		{"class a {\nshare -1%\n}", "class 'a': share: bad value '-1%'"},
		{"class a {\nshare NaN\n}", "class 'a': share: bad value 'NaN'"},
		{"class a {\nmax_wait soon\n}", "class 'a': max_wait: bad value 'soon'"},
		{"class a {\nmax_wait -1s\n}", "class 'a': max_wait: bad value '-1s'"},
		{"class a {\ndeadline 0\n}", "class 'a': deadline: bad value '0'"},
		{"class a {\nsaturation 0\n}", "class 'a': saturation: bad value '0'; have 'off'"},
		{"class a {\nsaturation full\n}", "class 'a': saturation: bad value 'full'"},
		{"deadline_header", "wrong argument count"},
		{`deadline_header ""`, "deadline_header: the name of the header is empty"},
		{`deadline_header "x y"`, `deadline_header: "x y" is not the name of a header`},
		{"deadline_header x:y", `deadline_header: "x:y" is not the name of a header`},
		{"deadline_header \"x\ny\"", `deadline_header: "x\ny" is not the name of a header`},
		{"tenant", "wrong argument count"},
		{`tenant ""`, `tenant: "" has no placeholder`},
		{"tenant alice", `tenant: "alice" has no placeholder`},
		{"tenant {}", `tenant: "{}" has no placeholder`},
		{`tenant "{http.request.header.x-fair id}"`, `tenant: "{http.request.header.x-fair id}" has a placeholder that is never known`},
		{"tenant {http.request.header.x:y}", "has a placeholder that is never known"},
		{"tenant {http.request.header.}", "has a placeholder that is never known"},
		{"tenant_limit concurrent", "wrong argument count"},
		{"tenant_limit concurrent 4 alice bob", "wrong argument count"},
		{"tenant_limit requests 4", "tenant_limit: unknown limit 'requests'; have concurrent, tokens_per_minute, weight"},
		{"tenant_limit concurrent 0", "tenant_limit: concurrent: '0' is not a number over 0"},
		{"tenant_limit concurrent -1", "tenant_limit: concurrent: -1 is out of range"},
		{"tenant_limit concurrent 99999999999999999999", "tenant_limit: concurrent: '99999999999999999999' is not a number"},
		{"tenant_limit tokens_per_minute many", "tenant_limit: tokens_per_minute: 'many' is not a number over 0"},
		{"tenant_limit weight NaN", "tenant_limit: weight: 'NaN' is not a number over 0"},
		{"tenant_limit weight Inf", "tenant_limit: weight: +Inf is out of range; have 0.001 to 1000"},
		{`tenant_limit weight 2 ""`, "tenant_limit: the tenant's name is empty"},
		{"tenant_limit weight 2 other", `a tenant cannot be called "other"`},
		{"tenant_limit concurrent 4\ntenant_limit concurrent 5", "tenant_limit: concurrent is given twice for each tenant"},
		{"tenant_limit weight 4 a\ntenant_limit weight 5 a", "tenant_limit: weight is given twice for tenant 'a'"},
		{"client_limit 4", "wrong argument count"},
		{"client_limit requests 4", "client_limit: unknown limit 'requests'; have concurrent"},
		{"client_limit concurrent 0", "client_limit: concurrent: '0' is not a number of requests"},
		{"client_limit concurrent 1\nclient_limit concurrent 2", "option 'client_limit' is given twice, first at line 2"},
		{"model a", "wrong argument count"},
		{`model a ""`, `model: "" is not the name of a model`},
		{"model a a", "model: 'a' stands for itself"},
		{"model a b\nmodel a c", "model: 'a' is given twice, for 'b' and for 'c'"},
	} {
		var h Handler
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("llm_admission {\n" + test.option + "\n}"))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Testfile:") {
			t.Errorf("%s: got %v, want %q and the line", test.option, err, test.want)
		}
	}
}

// A JSON config is checked as well, and what contradicts itself is refused with
// both names.
func TestValidateSharing(t *testing.T) {
	moment := new(caddy.Duration(1))
	for _, test := range []struct {
		h    Handler
		want string
	}{
		{Handler{Queue: &Queue{Calls: new(-1)}}, "queue: calls"},
		{Handler{Queue: &Queue{MaxBytes: -1}}, "queue: max_bytes"},
		{Handler{Queue: &Queue{MaxTokens: -1}}, "queue: max_tokens"},
		{Handler{Queue: &Queue{Off: true, Calls: new(5)}}, "queue: 'off' and calls contradict"},
		{Handler{Queue: &Queue{Off: true, MaxWait: moment}}, "queue: 'off' and max_wait contradict"},
		{Handler{Queue: &Queue{Off: true, MaxTokens: 5}}, "queue: 'off' and max_tokens contradict"},
		{Handler{Queue: &Queue{MaxBytes: 16 << 20}}, "queue: max_bytes: 16777216 is under max_body, 33554432"},
		{Handler{Classes: []Class{{}}}, "class"},
		{Handler{Classes: make([]Class, 17)}, "class: there are 17; have at most 16"},
		{Handler{Classes: []Class{{Name: "a"}, {Name: "b"}}}, "class: 'a' and 'b' both have neither"},
		{Handler{Classes: []Class{{Name: "a"}, {Name: "a", Expression: "true"}}}, "class: 'a' is given twice"},
		{Handler{Classes: []Class{{Name: "a", Value: "b"}}}, `class 'a': value "b" has no header`},
		{Handler{Classes: []Class{{Name: "a", Header: "b c", Value: "d"}}}, "class 'a': header"},
		{Handler{Classes: []Class{{Name: "a", Header: "b"}}}, "class 'a': header"},
		{Handler{Classes: []Class{{Name: "a", Share: new(math.NaN())}}}, "class 'a': share"},
		{Handler{Classes: []Class{{Name: "a", Deadline: -1}}}, "class 'a': deadline"},
		{Handler{Classes: []Class{{Name: "a", MaxWait: new(caddy.Duration(-1))}}}, "class 'a': max_wait"},
		{Handler{Classes: []Class{{Name: "a", Saturation: new(-1.0)}}}, "class 'a': saturation"},
		{
			Handler{Classes: []Class{{Name: "a", Share: new(0.5)}, {Name: "b", Expression: "true", Share: new(0.5)}}},
			"class: the shares are 100% together; have at most 90%",
		},
		{
			Handler{Classes: []Class{{Name: "interactive", Expression: "true"}, {Name: "default", Expression: "true"}}},
			"class: one must have neither header nor expression",
		},
		{Handler{Queue: &Queue{Calls: new(0)}, Classes: []Class{{Name: "a", MaxWait: moment}}}, "class 'a': max_wait, and a queue"},
		{Handler{Queue: &Queue{Off: true}, Classes: []Class{{Name: "a", MaxWait: moment}}}, "class 'a': max_wait, and a queue"},
		{Handler{DeadlineHeader: "a b"}, "deadline_header"},
		{Handler{Tenant: "alice"}, "tenant"},
		{Handler{TenantLimits: []TenantLimit{{Concurrent: 1}}}, "tenant_limit needs the option 'tenant'"},
		{Handler{Tenant: "{a}", TenantLimits: []TenantLimit{{Concurrent: -1}}}, "tenant_limit: concurrent"},
		{Handler{Tenant: "{a}", TenantLimits: []TenantLimit{{TokensPerMinute: -1}}}, "tenant_limit: tokens_per_minute"},
		{Handler{Tenant: "{a}", TenantLimits: []TenantLimit{{Weight: math.Inf(1)}}}, "tenant_limit: weight"},
		{Handler{Tenant: "{a}", TenantLimits: []TenantLimit{{Weight: math.NaN()}}}, "tenant_limit: weight"},
		{Handler{Tenant: "{a}", TenantLimits: []TenantLimit{{Tenant: "b"}}}, "tenant_limit: nothing is said for tenant 'b'"},
		{Handler{Tenant: "{a}", TenantLimits: []TenantLimit{{Tenant: "b\n", Weight: 1}}}, `tenant_limit: "b\n" is not the name`},
		{Handler{Tenant: "{a}", TenantLimits: []TenantLimit{{TokensPerMinute: 1}, {Concurrent: 1}}}, "tenant_limit: there are two for each tenant"},
		{Handler{Tenant: "{a}", TenantLimits: []TenantLimit{{Weight: 2}}}, "name the tenant"},
		{Handler{ClientLimit: -1}, "client_limit"},
		{Handler{Models: map[string]string{"": "b"}}, "model"},
		{Handler{Models: map[string]string{"a": "a"}}, "model: 'a' stands for itself"},
		{Handler{Models: map[string]string{"a": "b", "b": "c"}}, "model: 'a' stands for 'b', which itself stands for 'c'"},
	} {
		if err := test.h.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: got %v, want %q", test.h, err, test.want)
		}
	}
}
