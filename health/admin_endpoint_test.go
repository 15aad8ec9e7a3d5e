package health

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// twoPools has a pool "chat" of gpu-a at a:1, of a server at a unix socket and of one
// that the configuration drains, and a pool "big/odd" of one server with no name.
func twoPools(t *testing.T) (chat *llmlb.Settings, end func()) {
	t.Helper()
	c := newConfig(t, nil)
	watch := func(name string, members ...llmlb.Member) *llmlb.Settings {
		s := settings(t, nil)
		s.Pool, s.Members, s.Scrape.Engine = name, members, none
		return c.watch(t, s).Settings()
	}
	chat = watch("chat", llmlb.Member{Address: "a:1", Name: "gpu-a"}, llmlb.Member{Address: "unix//run/50%.sock", Name: "größe b?"},
		llmlb.Member{Address: "c:1", Name: "gpu-c", Drain: true})
	watch("big/odd", llmlb.Member{Address: "[::1]:80"})
	c.start(t)
	return chat, func() { c.end(t) }
}

// answered asks the admin API and returns the row that it answers with.
func answered(t *testing.T, method, path, body string) (row llmlb.EndpointStatus) {
	t.Helper()
	w := adminTold(t, method, path, body)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%s %s is %d, %v: %s", method, path, w.Code, w.Header(), w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &row); err != nil {
		t.Fatal(err)
	}
	return row
}

// An operator drains a server and has it back, whatever it is called and wherever it
// listens.
func TestDrainOverTheAdminAPI(t *testing.T) {
	_, end := twoPools(t)
	defer end()
	for _, path := range []string{
		"chat/endpoints/gpu-a",
		"chat/endpoints/a:1",
		"chat/endpoints/a%3A1",
		"chat/endpoints/" + url.PathEscape("größe b?"),
		"chat/endpoints/unix%2F%2Frun%2F50%25.sock",
		"big%2Fodd/endpoints/[::1]:80",
		"big%2Fodd/endpoints/%5B::1%5D:80",
		"big%2Fodd/endpoints/" + llmlb.DefaultName("big/odd", "[::1]:80"),
	} {
		path = "/llmlb/pools/" + path
		if row := answered(t, http.MethodGet, path, ""); row.State != "up" || row.Drain != nil {
			t.Errorf("%s: %s, %+v before", path, row.State, row.Drain)
		}
		row := answered(t, http.MethodPost, path+"/drain", "")
		if row.State != "drained" || row.Drain == nil || row.Drain.By != "order" || !row.Drain.Until.IsZero() || row.Drain.Cut {
			t.Errorf("%s: %s, %+v", path, row.State, row.Drain)
		}
		if again := answered(t, http.MethodPost, path+"/drain", ""); again.State != "drained" {
			t.Errorf("%s: %s the second time", path, again.State)
		}
		if got := adminAPI(t, http.MethodGet, path+"/drain").Body.String(); !strings.HasPrefix(got, `{"state":"drained","drain":{"by":"order","open":0`) {
			t.Errorf("%s: its drain is %s", path, got)
		}
		if row := answered(t, http.MethodDelete, path+"/drain", ""); row.State != "up" || row.Drain != nil {
			t.Errorf("%s: %s, %+v after the resume", path, row.State, row.Drain)
		}
		if got := adminAPI(t, http.MethodGet, path+"/drain").Body.String(); got != `{"state":"up","drain":null}`+"\n" {
			t.Errorf("%s: its drain is %s", path, got)
		}
	}
	var pool llmlb.PoolStatus
	if err := json.Unmarshal(adminAPI(t, http.MethodGet, "/llmlb/pools/chat").Body.Bytes(), &pool); err != nil || pool.Pool != "chat" || len(pool.Endpoints) != 3 {
		t.Errorf("pool %+v, %v", pool, err)
	}
}

// An order says how long it may take, in its body or in the query.
func TestDrainOrders(t *testing.T) {
	_, end := twoPools(t)
	defer end()
	const path = "/llmlb/pools/chat/endpoints/gpu-a/drain"
	for _, test := range []struct {
		query, body string
		limit       time.Duration // 0 for none
		cut         bool
	}{
		{"?limit=10m", "", 10 * time.Minute, false},
		{"?limit=1d&cut=true", "", 24 * time.Hour, true},
		{"?cut=false", "", 0, false},
		{"", `{}`, 0, false},
		{"", `{"limit":"90s"}`, 90 * time.Second, false},
		{"", "\n" + ` {"limit": 60000000000, "cut": true} ` + "\n", time.Minute, true},
	} {
		began := time.Now()
		d := answered(t, http.MethodPost, path+test.query, test.body).Drain
		if d == nil || d.Cut != test.cut || d.Until.IsZero() != (test.limit == 0) {
			t.Errorf("%s %s: %+v", test.query, test.body, d)
			continue
		}
		if in := d.Until.Sub(began); test.limit > 0 && (in < test.limit || in > test.limit+time.Minute) {
			t.Errorf("%s %s: over in %s", test.query, test.body, in)
		}
	}
}

// What is wrong with a request is said, and nothing has changed by it.
func TestEndpointRequestsThatAreRefused(t *testing.T) {
	chat, end := twoPools(t)
	defer end()
	const a, c = "/llmlb/pools/chat/endpoints/gpu-a", "/llmlb/pools/chat/endpoints/gpu-c"
	for _, test := range []struct {
		method, path, body string
		want               string
	}{
		{"POST", "/llmlb/pools/code/endpoints/gpu-a/drain", "", `404 there is no pool "code"; have big/odd, chat`},
		{"POST", "/llmlb/pools/chat/endpoints/gpu-z/drain", "", `404 there is no endpoint "gpu-z" in pool "chat"; have gpu-a, größe b?, gpu-c`},
		{"GET", "/llmlb/pools/code", "", `404 there is no pool "code"; have`},
		{"GET", "/llmlb/pools/chat/endpoints", "", "404 no such resource; have /llmlb/explain, /llmlb/pools, /llmlb/pools/<pool>"},
		{"GET", "/llmlb/pools/chat/endpoints/", "", "404 no such resource"},
		{"GET", a + "/", "", "404 no such resource"},
		{"POST", a + "/stop", "", "404 no such resource"},
		{"POST", a + "/drain/now", "", "404 no such resource"},
		{"POST", "/llmlb/pools/chat/drain", "", "404 no such resource"},
		{"POST", "/llmlb/pools/chat/servers/gpu-a/drain", "", "404 no such resource"},
		{"PUT", a + "/drain", "", "405 method not allowed; have GET, POST, DELETE"},
		{"GET", a + "/reset", "", "405 method not allowed; have POST"},
		{"POST", a, "", "405 method not allowed; have GET"},
		{"DELETE", "/llmlb/pools/chat", "", "405 method not allowed; have GET"},
		{"DELETE", c + "/drain", "", "409 the configuration drains it"},
		{"POST", a + "/drain?limit=ten", "", `400 parameter "limit" is "ten"; have a duration such as 10m`},
		{"POST", a + "/drain?limit=", "", `400 parameter "limit" is ""`},
		{"POST", a + "/drain?limit=-1s", "", "400 the limit is -1s; have 0 for none, or up to 720h0m0s"},
		{"POST", a + "/drain?limit=31d", "", "400 the limit is 744h0m0s; have"},
		{"POST", a + "/drain?cut=maybe", "", `400 parameter "cut" is "maybe"; have true or false`},
		{"POST", a + "/drain?limits=1s", "", `400 unknown parameter "limits"; have cut, limit`},
		{"POST", a + "/drain?cut=true&cut=false", "", `400 parameter "cut" is given 2 times`},
		{"POST", a + "/drain?limit=%zz", "", "400 reading the query: "},
		{"POST", a + "/drain", `{"limits":"1s"}`, `400 reading the body: json: unknown field "limits"; have {"limit": "<duration>", "cut": <bool>}`},
		{"POST", a + "/drain", `{"limit":"ten"}`, "400 reading the body: "},
		{"POST", a + "/drain", `{"limit":"-1s"}`, "400 the limit is -1s"},
		{"POST", a + "/drain", `limit=10m`, "400 reading the body: "},
		{"POST", a + "/drain", `{} {}`, "400 reading the body: something follows the order"},
		{"POST", a + "/drain?cut=true", `{}`, "400 the order is both in the query and in the body"},
		{"POST", a + "/drain", strings.Repeat(" ", 1<<20) + `{"cut":true}`, "400 the body is longer than 4096 bytes"},
		{"POST", a + "/drain", `{"limit":"` + strings.Repeat("1", 10<<20), "400 the body is longer than 4096 bytes"},
		{"DELETE", a + "/drain", `{}`, "400 no body is expected here"},
		{"DELETE", a + "/drain?limit=1s", "", "400 no parameters are known here"},
		{"POST", a + "/reset?now", "", "400 no parameters are known here"},
		{"GET", "/llmlb/pools/chat?x", "", "400 no parameters are known here"},
	} {
		w := adminTold(t, test.method, test.path, test.body)
		if got := fmt.Sprint(w.Code, " ", w.Body); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s %s: %.200s, want %s", test.method, test.path, got, test.want)
		}
		if _, have, ok := strings.Cut(test.want, "405 method not allowed; have "); ok && w.Header().Get("Allow") != have {
			t.Errorf("%s %s: Allow is %q, want %q", test.method, test.path, w.Header().Get("Allow"), have)
		}
	}
	if row := answered(t, "GET", a, ""); row.State != "up" || row.Drain != nil {
		t.Errorf("%s is %s, %+v", row.Name, row.State, row.Drain)
	}
	if name := chat.Members[0].Endpoint.Name(); name != "gpu-a" {
		t.Errorf("its name is %q", name)
	}
}

// An operator ends the pause that a server has asked for.
func TestResetOverTheAdminAPI(t *testing.T) {
	chat, end := twoPools(t)
	defer end()
	e := chat.Members[0].Endpoint
	e.NoteOverload(time.Now(), 30*time.Second)
	if row := answered(t, "GET", "/llmlb/pools/chat/endpoints/gpu-a", ""); row.State != "overloaded" {
		t.Fatalf("it is %s", row.State)
	}
	if row := answered(t, "POST", "/llmlb/pools/chat/endpoints/gpu-a/reset", ""); row.State != "up" || !row.RetryAt.IsZero() {
		t.Errorf("it is %s until %s", row.State, row.RetryAt)
	}
}
