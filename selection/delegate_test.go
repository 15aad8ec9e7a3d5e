package selection

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// three starts as many servers.
func three(t *testing.T) (list []*server) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		list = append(list, newServer(t, name))
	}
	return list
}

// decisions is how often a choice at the pool's endpoints had the reason.
func decisions(t *testing.T, r llmlb.Reason) (n int) {
	t.Helper()
	for _, e := range pool(t).Endpoints() {
		n += int(e.Decisions(r))
	}
	return n
}

// Round robin is Caddy's own, counting over the servers that can be used.
func TestStrategyRoundRobin(t *testing.T) {
	list := three(t)
	url := run(t, addressesOf(list...), "engine none\nstrategy round_robin", "")
	for i := range 12 {
		if status, _ := post(t, url, strings.NewReader(chat(fmt.Sprint(i), 2000))); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	for _, s := range list {
		if n := s.count(); n != 4 {
			t.Errorf("%s got %d of 12", s.name, n)
		}
	}
	if n := decisions(t, llmlb.ReasonPolicy); n != 12 {
		t.Errorf("%d decisions are the policy's, want 12", n)
	}
	if pick := pool(t).Explain()[0]; pick.Strategy != "round_robin" || pick.Decision != "policy" || len(pick.Candidates) != 3 {
		t.Errorf("explained as %+v", pick)
	}
	eventually(t, "all leases ended", func() bool { return openCalls(t) == 0 })
}

// Least connections, and two at random of which the less busy one, see what is
// open at each server.
func TestStrategiesThatCountConnections(t *testing.T) {
	for _, strategy := range []string{"least_conn", "random_choose 3"} {
		t.Run(strategy, func(t *testing.T) {
			list := three(t)
			hold := make(chan struct{})
			for _, s := range list {
				s.hold = hold
			}
			url := run(t, addressesOf(list...), "engine none\nstrategy "+strategy, "")
			done := make(chan struct{})
			for i := range 9 {
				go func() {
					defer func() { done <- struct{}{} }()
					if r, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chat(fmt.Sprint(i), 100))); err == nil {
						r.Body.Close()
					}
				}()
				eventually(t, "the request to arrive", func() bool { return list[0].count()+list[1].count()+list[2].count() == i+1 })
			}
			for _, s := range list {
				if n := s.count(); n != 3 {
					t.Errorf("%s got %d of 9", s.name, n)
				}
			}
			close(hold)
			for range 9 {
				<-done
			}
		})
	}
}

// A policy of Caddy's is offered a server that has just come back as long as that
// one has less than its share.
func TestPoliciesOfCaddyKeepToTheShare(t *testing.T) {
	list := three(t)
	hold := make(chan struct{})
	for _, s := range list {
		s.hold = hold
	}
	url := run(t, addressesOf(list...), "engine none\nstrategy round_robin", "")
	last, now := list[2].Listener.Addr().String(), time.Now().Add(time.Minute) // the pool is at work by then
	for _, e := range pool(t).Endpoints() {
		if e.Address() == last {
			e.Drain(now, llmlb.DrainOrder{})
			if err := e.Resume(now); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := make(chan struct{})
	for i := range 12 {
		go func() {
			defer func() { done <- struct{}{} }()
			if r, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chat(fmt.Sprint(i), 100))); err == nil {
				r.Body.Close()
			}
		}()
		eventually(t, "the request to arrive", func() bool { return list[0].count()+list[1].count()+list[2].count() == i+1 })
	}
	if n := list[2].count(); n != 1 {
		t.Errorf("the server that has come back got %d of 12, want 1", n)
	}
	close(hold)
	for range 12 {
		<-done
	}
}

// A header's value leads to the same server each time, and to another while that
// one is out.
func TestStrategyHeader(t *testing.T) {
	list := three(t)
	url := run(t, addressesOf(list...), "engine none\nstrategy header X-User", "")
	send := func(user string) string {
		r, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chat(user, 500)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-User", user)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.Header.Get("X-Server")
	}
	servers := map[string]bool{}
	for user := range 60 {
		home := send(fmt.Sprint("user ", user))
		servers[home] = true
		for range 3 {
			if at := send(fmt.Sprint("user ", user)); at != home {
				t.Errorf("user %d was at %s, then at %s", user, home, at)
			}
		}
	}
	if len(servers) != 3 {
		t.Errorf("sixty users are at %v", servers)
	}
}

// A cookie leads back to the server that answered first, and is set once.
func TestStrategyCookie(t *testing.T) {
	list := three(t)
	url := run(t, addressesOf(list...), "engine none\nstrategy cookie llm secret", "")
	first, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chat("hello", 500)))
	if err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	cookies := first.Cookies()
	if len(cookies) != 1 || cookies[0].Name != "llm" {
		t.Fatalf("cookies %v", cookies)
	}
	for range 4 {
		r, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chat("hello", 500)))
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(cookies[0])
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if at := res.Header.Get("X-Server"); at != first.Header.Get("X-Server") || len(res.Cookies()) != 0 {
			t.Errorf("with the cookie of %s it went to %s, which set %v", first.Header.Get("X-Server"), at, res.Cookies())
		}
	}
}

// The client gets one cookie, that of the server which answered it, also when the
// policy chose one before that could not be reached.
func TestTheCookieOfAServerThatCouldNotBeReachedIsTakenBack(t *testing.T) {
	b := newServer(t, "b")
	url := run(t, []string{refused(t), b.address()}, "engine none\nstrategy cookie llm secret {\nfallback first\n}", "lb_retries 1")
	res, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chat("hello", 500)))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || len(res.Cookies()) != 1 {
		t.Fatalf("status %d, cookies %v, want one", res.StatusCode, res.Cookies())
	}
	r, err := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chat("hello", 500)))
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(res.Cookies()[0])
	if res, err = client.Do(r); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.Header.Get("X-Server") != "b" || len(res.Cookies()) != 0 {
		t.Errorf("the cookie led to %q, which set %v", res.Header.Get("X-Server"), res.Cookies())
	}
	if n := decisions(t, llmlb.ReasonPolicy); n != 2 {
		t.Errorf("%d decisions of the policy, want 2: one for each request", n)
	}
}

// The filter stays ours: what is drained, at its limit, or of another zone is not
// there for Caddy's policy to choose.
func TestOnlyUsableServersAreOffered(t *testing.T) {
	list := three(t)
	block := func(s *server, lines string) string { return "endpoint " + s.address() + " {\n" + lines + "\n}\n" }
	url := run(t, addressesOf(list...), "engine none\nstrategy first\nlocal_zone here\n"+
		block(list[0], "drain\nzone here")+block(list[1], "max_concurrent 1\nzone here")+block(list[2], "zone there"), "")
	if _, by := post(t, url, strings.NewReader(chat("one", 100))); by != "b" {
		t.Errorf("went to %s, want b: a drains, c is elsewhere", by)
	}
	hold := make(chan struct{})
	list[1].mu.Lock()
	list[1].hold = hold
	list[1].mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chat("two", 100))); err == nil {
			r.Body.Close()
		}
	}()
	eventually(t, "b to be full", func() bool { return list[1].count() == 2 })
	if _, by := post(t, url, strings.NewReader(chat("three", 100))); by != "c" {
		t.Errorf("went to %s, want c, which is left", by)
	}
	close(hold)
	<-done
	if list[0].count() != 0 {
		t.Error("the draining server got a request")
	}
}

// Admission learns before the body goes on whether there is a place at all; which
// one it will be is the policy's to say.
func TestGrantWhereAPolicyOfCaddysChooses(t *testing.T) {
	w := newWorld(t, addresses(1)...)
	w.settings.Strategy, w.settings.Delegated = "first", true
	w.settings.Members[0].MaxConcurrent = 1
	c := w.call(prompt(part{"question", 800}))
	if v := Grant(c, w.now); v != Later || c.Lease != nil {
		t.Fatalf("verdict %v, want Later", v)
	}
	p, us := w.bound()
	p.selector = reverseproxy.FirstSelection{}
	if u := p.Select(us, w.admitted(c), nil); u != us[0] || c.Lease == nil {
		t.Fatalf("got %v", u)
	}
	if v := Grant(w.call(prompt(part{"another", 800})), w.now); v != Full {
		t.Errorf("at the limit: %v, want Full", v)
	}
	w.only()
	if v := Grant(w.call(prompt(part{"another", 800})), w.now); v != None {
		t.Errorf("with all drained: %v, want None", v)
	}
}

// picky is a policy that wants none of what it is offered, or takes what it was
// not.
type picky struct{ u *reverseproxy.Upstream }

func (p picky) Select(reverseproxy.UpstreamPool, *http.Request, http.ResponseWriter) *reverseproxy.Upstream {
	return p.u
}

func TestAPolicyThatChoosesNothingUsable(t *testing.T) {
	w := newWorld(t, addresses(2)...)
	w.settings.Strategy, w.settings.Delegated = "picky", true
	p, us := w.bound()
	w.only(us[0].Dial)
	for name, u := range map[string]*reverseproxy.Upstream{"nothing": nil, "the draining one": us[1]} {
		p.selector = picky{u}
		c := w.call(prompt(part{"question", 800}))
		if got := p.Select(us, w.admitted(c), nil); got != nil || c.Lease != nil || !c.Exhausted {
			t.Errorf("%s: got %v, lease %v", name, got, c.Lease)
		}
	}
}
