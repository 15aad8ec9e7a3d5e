package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// adminRoutes are all of the module's routes in Caddy's admin API, and what each is
// for. Those that change something say so by their method alone.
var adminRoutes = []struct{ method, path string }{
	{http.MethodGet, "/llmlb/pools"},
	{http.MethodGet, "/llmlb/explain"},
	{http.MethodGet, "/llmlb/pools/default"},
	{http.MethodGet, "/llmlb/pools/default/endpoints/a"},
	{http.MethodGet, "/llmlb/pools/default/endpoints/a/drain"},
	{http.MethodPost, "/llmlb/pools/default/endpoints/a/drain"},
	{http.MethodDelete, "/llmlb/pools/default/endpoints/a/drain"},
	{http.MethodPost, "/llmlb/pools/default/endpoints/a/reset"},
}

// A page in an operator's browser, or a name that resolves to this machine, gets as
// far with our routes as with Caddy's own: not at all, and nothing has changed.
func TestForeignPagesCannotUseTheAdminAPI(t *testing.T) {
	g, _, _ := pair(t, "")
	for name, header := range map[string]http.Header{
		"foreign host":        {"Host": {"attacker.example"}},
		"foreign host, port":  {"Host": {"attacker.example:2019"}},
		"foreign origin":      {"Origin": {"https://attacker.example"}},
		"foreign fetch":       {"Sec-Fetch-Mode": {"cors"}},
		"fetch without cors":  {"Sec-Fetch-Mode": {"no-cors"}, "Content-Type": {"text/plain"}},
		"origin of a sandbox": {"Origin": {"null"}},
		"a form":              {"Origin": {"http://attacker.example"}, "Content-Type": {"application/x-www-form-urlencoded"}},
		"a websocket":         {"Upgrade": {"websocket"}, "Connection": {"Upgrade"}},
	} {
		for _, route := range adminRoutes {
			r := g.told(route.method, route.path, "", header)
			own := g.told(http.MethodGet, "/config/", "", header)
			if r.status != own.status || r.status != http.StatusForbidden && r.status != http.StatusBadRequest {
				t.Errorf("%s: %s %s is %d, and Caddy's own /config/ %d", name, route.method, route.path, r.status, own.status)
			}
			if strings.Contains(name, "foreign") && r.status != http.StatusForbidden {
				t.Errorf("%s: %s %s is %d, want 403", name, route.method, route.path, r.status)
			}
			if strings.Contains(r.body, "endpoints") || strings.Contains(r.body, "127.0.0.1:") {
				t.Errorf("%s: %s %s tells %s", name, route.method, route.path, r.body)
			}
		}
		if row := g.endpoint("a"); row.State != "up" || row.Drain != nil {
			t.Fatalf("%s: the server is %s, %+v", name, row.State, row.Drain)
		}
	}
	own := http.Header{"Origin": {"http://" + g.admin}}
	for _, route := range adminRoutes {
		if r := g.told(route.method, route.path, "", own); r.status != http.StatusOK {
			t.Errorf("with its own origin %s %s is %d: %s", route.method, route.path, r.status, r.body)
		}
	}
}

// Reading changes nothing, whatever is asked for with it, and what is wrong is told.
func TestAdminRoutesChangeNothingByMistake(t *testing.T) {
	g, _, _ := pair(t, "")
	const a = "/llmlb/pools/default/endpoints/a"
	ten := strings.Repeat("x", 10<<20)
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", a + "/drain", "", 200},
		{"GET", a + "/drain?cut=true", "", 400},
		{"HEAD", a + "/drain", "", 405},
		{"GET", a + "/reset", "", 405},
		{"PUT", a + "/drain", "", 405},
		{"PATCH", a + "/drain", "", 405},
		{"POST", "/llmlb/pools", "", 405},
		{"POST", "/llmlb/explain", "", 405},
		{"POST", "/llmlb/pools/default/endpoints/c/drain", "", 404},
		{"DELETE", "/llmlb/pools/default/endpoints/c/drain", "", 404},
		{"POST", "/llmlb/pools/default/endpoints/c/reset", "", 404},
		{"POST", "/llmlb/pools/other/endpoints/a/drain", "", 404},
		{"POST", "/llmlb/pools/default/endpoints/c/drain", ten, 404},
		{"POST", a + "/drain", ten, 400},
		{"POST", a + "/drain", `{"limit":"1s","` + ten, 400},
		{"DELETE", a + "/drain", ten, 400},
		{"POST", a + "/reset", ten, 400},
		{"GET", a + "/drain", ten, 400},
		{"POST", a + "/drain", `{"drain":false}`, 400},
		{"POST", a + "/drain?force", "", 400},
	} {
		r := g.told(test.method, test.path, test.body, nil)
		if r.status != test.status || len(r.body) > 1000 {
			t.Errorf("%s %s is %d, want %d: %.200s", test.method, test.path, r.status, test.status, r.body)
		}
		if row := g.endpoint("a"); row.State != "up" || row.Drain != nil {
			t.Fatalf("%s %s has changed it: %s, %+v", test.method, test.path, row.State, row.Drain)
		}
	}
	r := g.told("POST", "/llmlb/pools/default/endpoints/c/drain", "", nil)
	if !strings.Contains(r.body, `there is no endpoint \"c\" in pool \"default\"; have a, b`) {
		t.Errorf("an unknown server: %s", r.body)
	}
}

// The public listener has none of the admin routes, in any spelling, and they tell
// neither keys nor prompts.
func TestAdminRoutesStayInside(t *testing.T) {
	g, a, _ := pair(t, "upstream_auth bearer SECRET125\n")
	for i := range 6 {
		req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(chat(i%2 == 0, "", fmt.Sprint("SECRET123 ", i))))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer SECRET124")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		read(t, res)
	}
	a.set(load{kv: 0.99})
	a.seen()
	for _, route := range adminRoutes {
		r := g.told(route.method, route.path, "", nil)
		if r.status != http.StatusOK || strings.Contains(r.body+fmt.Sprint(r.header), "SECRET12") {
			t.Errorf("%s %s is %d: %s", route.method, route.path, r.status, r.body)
		}
		for _, path := range []string{route.path, "/" + route.path, "/x/.." + route.path, strings.ToUpper(route.path), strings.Replace(route.path, "l", "%6c", 1)} {
			if status, ok := request(t, g, route.method, path); ok && status != http.StatusNotFound && status != http.StatusBadRequest {
				t.Errorf("the public listener answers %d to %s %s", status, route.method, path)
			}
		}
		req, err := http.NewRequest(route.method, g.url+route.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = g.admin // as if the name led there
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if strings.Contains(string(text), "endpoints") {
			t.Errorf("the public listener answers %s %s with %s", route.method, route.path, text)
		}
	}
	if row := g.endpoint("a"); row.Drain != nil {
		t.Errorf("it drains: %+v", row.Drain)
	}
}
