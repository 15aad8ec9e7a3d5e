package integration

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a headless Chromium with one page, and what was amiss in it.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	complain []string // console errors, exceptions, what the page's policy refused
	asked    []string // every request's URL
}

// openBrowser starts CHROMIUM, until the test ends. Its own background traffic is
// off, so that what it asks for is what the page does.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	program := os.Getenv("CHROMIUM")
	if program == "" {
		t.Skip("starts a browser; set CHROMIUM to its path to run it, as .ci/full browser does")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("hide-scrollbars", true),
	)
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closePage := chromedp.NewContext(allocated)
	b := &browser{t: t, ctx: ctx}
	t.Cleanup(func() {
		closePage()
		stop() // ends the program that this test has started, and waits for it
	})
	// The first call starts the program, which lives as long as the call's context.
	if err := chromedp.Listen(ctx, b.heard); err != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
	for _, enable := range []cdp.Command[cdp.Empty, cdp.Empty]{log.Enable, runtime.Enable} {
		if _, err := chromedp.Call(ctx, enable, cdp.Empty{}); err != nil {
			t.Fatalf("listening to the page: %v", err)
		}
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatalf("listening to the network: %v", err)
	}
	return b
}

// heard notes what the page complains about and asks for.
func (b *browser) heard(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if (e.Type == "error" || e.Type == "warning") && len(e.Args) > 0 {
			b.complain = append(b.complain, fmt.Sprintf("console: %s %s", e.Args[0].Value, e.Args[0].Description))
		}
	case *runtime.EventExceptionThrown:
		b.complain = append(b.complain, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		// Violations of the Content-Security-Policy are among these. A stream that
		// ended is an error of the network, and no complaint of the page.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			b.complain = append(b.complain, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *network.EventRequestWillBeSent:
		b.asked = append(b.asked, e.Request.URL)
	}
}

// run runs an action within the limit.
func run[T any](b *browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return v
}

// screen makes the window so large, with so many pixels for each of its own, and
// light or dark.
func (b *browser) screen(width, height int64, pixels float64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	size := []chromedp.EmulateViewportOption{chromedp.EmulateScale(pixels)}
	if width < 600 {
		size = append(size, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	run(b, "setting the screen", chromedp.EmulateViewport(width, height, size...))
	run(b, "setting the colours", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// open loads a page.
func (b *browser) open(page string) {
	b.t.Helper()
	run(b, "opening "+page, chromedp.Navigate(page))
}

// value evaluates an expression, or awaits a promise.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	return run(b, "evaluating "+expression, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits for an expression to be true.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	eventually(b.t, what, func() error {
		if !value[bool](b, "Boolean("+expression+")") {
			return fmt.Errorf("the page has %.600s", value[string](b, "document.body.innerText"))
		}
		return nil
	})
}

// press presses keys one after the other, as a person would who has no mouse.
func (b *browser) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		run(b, "pressing a key", chromedp.KeyEvent(k))
	}
}

// calm fails the test if the page complained about anything, or asked anybody but
// its own server for something.
func (b *browser) calm(server string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complain {
		b.t.Errorf("the page complains: %s", c)
	}
	for _, a := range b.asked {
		if u, err := url.Parse(a); err != nil || u.Host != server && !strings.HasPrefix(a, "data:") && u.Scheme != "chrome" && u.Scheme != "about" {
			b.t.Errorf("the page asks for %s, want nothing from elsewhere than %s", a, server)
		}
	}
}
