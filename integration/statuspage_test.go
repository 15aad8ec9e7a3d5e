package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// rowIs is an expression that is true when the server's row shows the state.
func rowIs(server, state string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('.server')].some((r) => r.querySelector('.open').textContent === %q && r.querySelector('.word').textContent === %q)`, server, state)
}

// An operator opens the page: every server is there with its state, in a word and a
// shape and not by colour alone, plots are drawn, and nothing is asked for elsewhere
// or refused by the page's own policy. A phone shows the same without scrolling
// sideways, and what is written can be read in the dark, too.
func TestStatusPageShowsEveryState(t *testing.T) {
	b := openBrowser(t)
	r := startPage(t)
	r.troubled()
	b.screen(1440, 1100, 1, false)
	b.open(strings.TrimSuffix(r.page(), "/")) // which leads to where it is
	b.until("all servers", "document.querySelectorAll('.server').length === 9")
	want := map[string]string{
		"gpu-1": "up", "gpu-4": "overloaded", "gpu-5": "down", "gpu-6": "draining",
		"gpu-7": "drained", "gpu-8": "starting", "gpu-9": "degraded",
	}
	for server, state := range want {
		b.until(server+" as "+state, rowIs(server, state))
	}
	if shapes := value[int](b, `new Set([...document.querySelectorAll('.server .shape path')].map((p) => p.getAttribute('d'))).size`); shapes != 7 {
		t.Errorf("there are %d different shapes beside the states, want one for each of 7", shapes)
	}
	if first := value[string](b, `document.querySelector('.server .open').textContent`); first != "gpu-5" {
		t.Errorf("the table begins with %s, want the server that is down", first)
	}
	for what, words := range map[string]string{
		"why it is down": "connection refused", "what comes next": "trial", "why it starts": "loading its model",
		"the queue": "nothing waits here", "choices": "warm", "refusals": "efused",
	} {
		if !value[bool](b, fmt.Sprintf("document.body.innerText.includes(%q)", words)) {
			t.Errorf("the page does not say %s: no %q in it", what, words)
		}
	}
	b.until("plots with lines in them", painted(".plots canvas", 5))
	b.until("plots in rows", painted(".spark canvas", 3))
	b.shows(t, "light")

	b.screen(1440, 1100, 1, true)
	b.until("plots in other colours", painted(".plots canvas", 5))
	b.shows(t, "dark")

	for _, width := range []int64{360, 400} {
		b.screen(width, 800, 2, false)
		b.open(r.page())
		b.until("all servers", "document.querySelectorAll('.server').length === 9")
		b.until("a plot", painted(".plots canvas", 1))
		if over := value[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("a page %d wide is %d pixels wider than the screen", width, over)
		}
		b.shows(t, fmt.Sprintf("%d wide", width))
	}
	b.calm(r.address)
}

// painted is true when so many canvases have something drawn on them.
func painted(selector string, least int) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%q)].filter((c) => c.width > 0 && c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((x) => x > 0)).length >= %d`, selector, least)
}

// shows reckons the contrast of every text that can be seen with what is behind it.
// WCAG asks for 4.5.
func (b *browser) shows(t *testing.T, when string) {
	t.Helper()
	const reckon = `(() => {
		const parse = (c) => { const n = c.match(/[\d.]+/g).map(Number); return { rgb: n.slice(0, 3), a: n[3] ?? 1 }; };
		const light = (rgb) => { const [r, g, b] = rgb.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
		const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a === 1) return c.rgb; } return [255, 255, 255]; };
		const low = [];
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let n = walk.nextNode(); n; n = walk.nextNode()) {
			const e = n.parentElement;
			if (!n.data.trim() || !e.checkVisibility() || e.closest('noscript, option, .unseen, .skip')) continue;
			const a = light(parse(getComputedStyle(e).color).rgb), g = light(ground(e));
			const contrast = (Math.max(a, g) + 0.05) / (Math.min(a, g) + 0.05);
			if (contrast < 4.5) low.push(n.data.trim().slice(0, 30) + ' has ' + contrast.toFixed(2));
		}
		return [...new Set(low)];
	})()`
	for _, l := range value[[]string](b, reckon) {
		t.Errorf("%s, contrast under 4.5: %s", when, l)
	}
	// What would find nothing in a page that is too pale would prove nothing.
	value[bool](b, "(document.documentElement.style.setProperty('--muted', matchMedia('(prefers-color-scheme: dark)').matches ? '#666' : '#999'), true)")
	if len(value[[]string](b, reckon)) == 0 {
		t.Errorf("%s: pale words are not found", when)
	}
	value[bool](b, "(document.documentElement.style.removeProperty('--muted'), true)")
}

// Somebody without a mouse drains a server: Tab leads to its button, Enter asks
// first, Escape leaves it be, and agreeing drains it, which the gateway and the page
// both say. Another button has it resume.
func TestStatusPageDrainsByKeyboard(t *testing.T) {
	b := openBrowser(t)
	r := startPage(t)
	b.screen(1280, 1000, 1, false)
	b.open(r.page())
	b.until("all servers", "document.querySelectorAll('.server').length === 9")

	b.press(kb.Tab)
	if first := value[string](b, "document.activeElement.textContent"); first != "Skip to the pools" {
		t.Errorf("the first Tab leads to %q, want the link that skips to the pools", first)
	}
	b.tabTo("Drain gpu-2")
	if outline := value[string](b, "getComputedStyle(document.activeElement).outlineStyle"); outline == "none" {
		t.Error("the button with the focus does not look as if it had it")
	}
	b.press(kb.Enter)
	b.until("the question", "document.getElementById('confirm').open")
	if on := value[string](b, "document.activeElement.textContent"); on != "Cancel" {
		t.Errorf("the question begins on %q, want Cancel: Enter by mistake must drain nothing", on)
	}
	b.press(kb.Escape)
	b.until("the question to be gone", "!document.getElementById('confirm').open")
	if on := value[string](b, "document.activeElement.getAttribute('aria-label')"); on != "Drain gpu-2" {
		t.Errorf("after Escape the focus is on %q, want the button it came from", on)
	}
	if states, err := r.states(); err != nil || states["gpu-2"] != "up" {
		t.Fatalf("after Escape gpu-2 is %q (%v), want it left alone", states["gpu-2"], err)
	}

	b.press(kb.Enter)
	b.until("the question", "document.getElementById('confirm').open")
	b.press(kb.Tab)
	if on := value[string](b, "document.activeElement.textContent"); on != "Drain" {
		t.Fatalf("Tab in the question leads to %q, want Drain", on)
	}
	b.press(kb.Enter)
	b.until("gpu-2 to drain", rowIs("gpu-2", "draining")+" || "+rowIs("gpu-2", "drained"))
	b.until("it to be told to those who hear the page", "document.getElementById('news').textContent.includes('gpu-2')")
	r.await(map[string]string{"gpu-2": "drained"})

	b.tabTo("Resume gpu-2")
	b.press(kb.Enter)
	b.until("gpu-2 to be up", rowIs("gpu-2", "up"))
	r.await(map[string]string{"gpu-2": "up"})
	if !value[bool](b, "document.querySelector('[aria-label=\"Resume gpu-7\"]').disabled") {
		t.Error("the button of a server that the configuration drains can be pressed, which would do nothing")
	}
	b.calm(r.address)
}

// tabTo presses Tab until the control with that label has the focus.
func (b *browser) tabTo(label string) {
	b.t.Helper()
	for range 80 {
		b.press(kb.Tab)
		if value[string](b, "document.activeElement.getAttribute('aria-label') ?? ''") == label {
			return
		}
	}
	b.t.Fatalf("80 times Tab do not lead to %q", label)
}

// A reload of the configuration ends the page's stream at once, and the page comes
// back by itself. Its buttons go on working: their token is the process's.
func TestStatusPageComesBackAfterReload(t *testing.T) {
	b := openBrowser(t)
	r := startPage(t)
	b.open(r.page())
	b.until("the page to be live", "document.getElementById('link').textContent === 'live'")
	// Everything that the page says of its link, also what it says for a moment.
	value[bool](b, `(() => { window.said = []; new MutationObserver(() => window.said.push(document.getElementById('link').textContent)).observe(document.getElementById('link'), { childList: true, characterData: true, subtree: true }); return true; })()`)
	for range 3 {
		r.reload()
		b.until("the page to say that it is cut off", "window.said.some((s) => s.includes('disconnected'))")
		b.until("the page to be live again", "document.getElementById('link').textContent === 'live'")
		value[bool](b, "(window.said = [], true)")
	}
	value[bool](b, `(() => { document.querySelector('[aria-label="Drain gpu-3"]').click(); document.getElementById('confirm-yes').click(); return true; })()`)
	r.await(map[string]string{"gpu-3": "drained"})
	b.until("the page to show it", rowIs("gpu-3", "drained"))
	b.calm(r.address)
}

// After a restart of Caddy the page comes back, says that its buttons need it to be
// loaded anew, and a button that is pressed all the same says so too and does nothing.
func TestStatusPageAfterRestart(t *testing.T) {
	b := openBrowser(t)
	r := startPage(t)
	b.open(r.page())
	b.until("all servers", "document.querySelectorAll('.server').length === 9")
	r.send(http.MethodPost, "/stop", "")
	b.until("the page to say that it is cut off", "document.getElementById('link').textContent.includes('disconnected')")
	runGateway(t, r.address, r.caddyfile("again"))
	b.until("the page to be live again, and say what happened", "document.getElementById('link').textContent === 'live' && document.getElementById('notice').textContent.includes('Reload the page')")
	value[bool](b, `(() => { document.querySelector('[aria-label="Drain gpu-3"]').click(); document.getElementById('confirm-yes').click(); return true; })()`)
	b.until("the reason", "document.getElementById('notice').textContent.includes('gpu-3: the page is from before')")
	if states, err := r.states(); err != nil || states["gpu-3"] != "up" {
		t.Errorf("gpu-3 is %q (%v), want it left alone", states["gpu-3"], err)
	}
	b.open(r.page())
	b.until("all servers", "document.querySelectorAll('.server').length === 9")
	value[bool](b, `(() => { document.querySelector('[aria-label="Drain gpu-3"]').click(); document.getElementById('confirm-yes').click(); return true; })()`)
	b.until("gpu-3 to drain", rowIs("gpu-3", "drained"))
	b.calm(r.address)
}

// What is known of one server opens below its row, with plots of its own; the filter
// leaves those that are looked for.
func TestStatusPageOpensAndFilters(t *testing.T) {
	b := openBrowser(t)
	r := startPage(t)
	b.screen(1280, 1000, 1, false)
	b.open(r.page())
	b.until("all servers", "document.querySelectorAll('.server').length === 9")
	b.until("numbers", `document.querySelector('.server .number') !== null`)
	value[bool](b, `([...document.querySelectorAll('.open')].find((e) => e.textContent === 'gpu-1').click(), true)`)
	b.until("its details", "document.querySelector('.details')?.innerText.includes('vllm')")
	b.until("its plots", painted(".details canvas", 5))
	value[bool](b, `(() => { const f = document.querySelector('input[type=search]'); f.value = 'down'; f.dispatchEvent(new Event('input')); return true; })()`)
	b.until("the server that is down, alone", "document.querySelectorAll('.server').length === 1 && document.querySelector('.found').textContent === '1 of 9 servers'")
	b.calm(r.address)
}
