//go:build unix

package health

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// farmEnv makes the test binary a farm of inference servers: that many, of which
// so many hang.
const farmEnv = "LLMLB_FARM"

func TestMain(m *testing.M) {
	if size := os.Getenv(farmEnv); size != "" {
		runFarm(size)
		return
	}
	os.Exit(m.Run())
}

// plot is one server of the farm: when it was scraped and checked last, and the
// longest time between two of either.
type plot struct{ scraped, checked gap }

type gap struct{ last, most atomic.Int64 }

func (g *gap) seen(now int64) {
	if last := g.last.Swap(now); last != 0 {
		g.most.Store(max(g.most.Load(), now-last))
	}
}

// runFarm serves until its input ends. It prints the servers' addresses, and the
// longest time between two requests of a kind whenever it is sent a line.
func runFarm(size string) {
	var n, hanging int
	if _, err := fmt.Sscan(size, &n, &hanging); err != nil {
		panic(err)
	}
	body := vLLMPage(16 << 10)
	plots := make([]plot, n)
	for i := range plots {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		p := &plots[i]
		go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if i < hanging {
				<-r.Context().Done()
				return
			}
			now := time.Now().UnixNano()
			switch r.URL.Path {
			case "/metrics":
				p.scraped.seen(now)
				w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
				_, _ = w.Write(body)
			case "/health":
				p.checked.seen(now)
			default:
				http.NotFound(w, r)
			}
		}))
		fmt.Println(l.Addr())
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var scraped, checked int64
		for i := range plots {
			scraped = max(scraped, plots[i].scraped.most.Swap(0))
			checked = max(checked, plots[i].checked.most.Swap(0))
		}
		fmt.Println(scraped, checked)
	}
}

// farm is such a process.
type farm struct {
	addresses []string
	in        io.Writer
	out       *bufio.Scanner
}

func newFarm(b *testing.B, n, hanging int) *farm {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", farmEnv, n, hanging))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	f := &farm{in: in, out: bufio.NewScanner(out)}
	for range n {
		f.out.Scan()
		f.addresses = append(f.addresses, f.out.Text())
	}
	return f
}

// longest returns the longest times between two scrapes and between two checks of
// one server since it was asked last.
func (f *farm) longest(b *testing.B) (scrapes, checks time.Duration) {
	b.Helper()
	if _, err := io.WriteString(f.in, "\n"); err != nil {
		b.Fatal(err)
	}
	f.out.Scan()
	first, second, _ := strings.Cut(f.out.Text(), " ")
	s, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	c, err := strconv.ParseInt(second, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(s), time.Duration(c)
}

// 500 servers, each scraped and asked whether it is ready once a second, through
// Caddy's own transport: one iteration is a second. It tells how much of a core
// that takes, how many goroutines there are, and by how much the schedule slips.
//
//	go test ./health -run '^$' -bench Upkeep -benchtime 20x
func BenchmarkUpkeep500(b *testing.B) {
	for _, hanging := range []int{0, 50} {
		b.Run(fmt.Sprintf("hanging=%d", hanging), func(b *testing.B) {
			f := newFarm(b, 500, hanging)
			ctx, cancel := caddy.NewContext(caddy.Context{Context: b.Context()})
			defer cancel()
			a := new(App)
			if err := a.Provision(ctx); err != nil {
				b.Fatal(err)
			}
			a.logger = zap.NewNop()
			s := &llmlb.Settings{
				Pool: b.Name(), Strategy: "work", Fingerprint: b.Name(), Where: "Caddyfile:1",
				Scrape: llmlb.Scrape{Engine: auto, Interval: time.Second, StaleAfter: 5 * time.Second},
				Checks: llmlb.Checks{Readiness: llmlb.Readiness{Interval: time.Second, Timeout: 5 * time.Second}},
			}
			rt := caddyTransport(b, nil)
			s.Upstream = func() (http.RoundTripper, string) { return rt, "http" }
			for _, address := range f.addresses {
				s.Members = append(s.Members, llmlb.Member{Address: address, Name: address})
			}
			h, err := a.Watch(s)
			if err != nil {
				b.Fatal(err)
			}
			if err := a.Start(); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = a.Stop(); _ = a.Cleanup() }()
			time.Sleep(3 * time.Second) // until all are known
			f.longest(b)
			before, began, most := usage(), time.Now(), runtime.NumGoroutine()
			least := most
			for b.Loop() {
				time.Sleep(time.Second)
				most, least = max(most, runtime.NumGoroutine()), min(least, runtime.NumGoroutine())
			}
			b.ReportMetric(100*(usage()-before).Seconds()/time.Since(began).Seconds(), "%core")
			b.ReportMetric(float64(most), "goroutines")
			b.ReportMetric(float64(most-least), "goroutines-apart")
			scrapes, checks := f.longest(b)
			b.ReportMetric(1000*max(0, scrapes-time.Second).Seconds(), "ms-late-scrape")
			b.ReportMetric(1000*max(0, checks-time.Second).Seconds(), "ms-late-check")
			up := 0
			for _, r := range h.Pool().Status(time.Now()).Endpoints {
				if r.State == "up" && !r.Blind {
					up++
				}
			}
			b.ReportMetric(float64(up), "up")
		})
	}
}

// The same exchanges with a bare client of net/http, which reads nothing of what it
// gets: what of the cost is not ours to save.
func BenchmarkUpkeep500Bare(b *testing.B) {
	f := newFarm(b, 500, 0)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2, DisableCompression: true}}
	defer client.CloseIdleConnections()
	ask := func(url string, after time.Duration) {
		select {
		case <-time.After(after):
		case <-b.Context().Done():
			return
		}
		for tick := time.NewTicker(time.Second); ; {
			if res, err := client.Get(url); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			select {
			case <-tick.C:
			case <-b.Context().Done():
				tick.Stop()
				return
			}
		}
	}
	for i, address := range f.addresses {
		after := time.Duration(i%20) * slot
		go ask("http://"+address+"/metrics", after)
		go ask("http://"+address+"/health", after+slot/2)
	}
	time.Sleep(3 * time.Second)
	before, began := usage(), time.Now()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	b.ReportMetric(100*(usage()-before).Seconds()/time.Since(began).Seconds(), "%core")
}

// usage is the processor time that this process has had.
func usage() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
