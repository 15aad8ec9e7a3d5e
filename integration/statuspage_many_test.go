package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A pool of 2,000 servers stays a page that one can use: it is there within
// seconds, shows a hundred rows and the rest when asked, finds one among all at
// once, and draws no plot that nobody sees.
func TestStatusPageOfManyServers(t *testing.T) {
	b := openBrowser(t)
	const servers = 2000
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	var c strings.Builder
	fmt.Fprintf(&c, "{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\tdefault_bind 127.0.0.1\n}\nhttp://%s {\n\tllm_status /status*\n\trespond /v1/models ok\n\tllm_proxy", address)
	for i := range servers {
		fmt.Fprintf(&c, " 127.1.%d.%d:9", i/250, 1+i%250)
	}
	// Nothing is sent to any of them: no scrapes, no checks, no requests.
	c.WriteString(" {\n\t\tengine none\n\t\treadiness off\n")
	for i := range servers {
		fmt.Fprintf(&c, "\t\tendpoint 127.1.%d.%d:9 {\n\t\t\tname gpu-%d\n\t\t}\n", i/250, 1+i%250, i+1)
	}
	c.WriteString("\t}\n}\n")
	runGateway(t, address, c.String())

	b.screen(1280, 900, 1, false)
	began := time.Now()
	b.open("http://" + address + "/status/")
	b.until("the first rows", "document.querySelectorAll('.server').length === 100 && document.querySelector('.found').textContent === '2,000 servers'")
	t.Logf("a hundred of %d rows after %v", servers, time.Since(began))
	if took := time.Since(began); took > limit/2 {
		t.Errorf("the page took %v", took)
	}
	b.until("plots where they can be seen", "document.querySelectorAll('.spark canvas').length > 0")
	if drawn := value[int](b, "document.querySelectorAll('.spark canvas').length"); drawn > 40 {
		t.Errorf("%d plots are drawn in rows, most of which nobody sees", drawn)
	}
	took := value[float64](b, `(() => {
		const f = document.querySelector('input[type=search]'), begin = performance.now();
		f.value = 'gpu-1777';
		f.dispatchEvent(new Event('input'));
		return performance.now() - begin;
	})()`)
	t.Logf("filtering took %.0f ms", took)
	if took > 1000 {
		t.Errorf("filtering took %.0f ms", took)
	}
	if found := value[string](b, "document.querySelector('.found').textContent + ' ' + document.querySelector('.open').textContent"); found != "1 of 2,000 servers gpu-1777" {
		t.Errorf("the filter finds %q", found)
	}
	value[bool](b, `(() => { const f = document.querySelector('input[type=search]'); f.value = ''; f.dispatchEvent(new Event('input')); document.querySelector('.rest').click(); return true; })()`)
	b.until("the next hundred", "document.querySelectorAll('.server').length === 200")
	b.calm(address)
}
