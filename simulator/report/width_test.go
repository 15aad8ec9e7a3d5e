package report

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The axis of a run of a quarter of an hour had marks at 8.3 and 16.7 minutes.
func TestTheTimeAxisHasRoundMarks(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node to run the page's script with")
	}
	functions, _, ok := strings.Cut(pageJS, "// decades are")
	if !ok {
		t.Fatal("the script has no more decades, up to which it is run")
	}
	for most, want := range map[string]string{
		"95":    "0 s, 20 s, 40 s, 60 s, 80 s",
		"1000":  "0 min, 5 min, 10 min, 15 min",
		"7100":  "0 min, 50 min, 100 min",
		"30000": "0 h, 2 h, 4 h, 6 h, 8 h",
	} {
		out, err := exec.CommandContext(t.Context(), node, "-e", functions+"const x = times("+most+"); console.log(x.steps(5).map(x.format).join(', '))").CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("of %s seconds the marks are %s, %v; want %s", most, got, err, want)
		}
	}
}

// The table of a run with -capacity has fifteen columns. The last ones, which the run
// was made for, used to be out of sight on a window of 1000 pixels, and nothing told
// that they were there.
func TestAllColumnsAreInSightOnAThousandPixels(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium to show the page in")
	}
	if testing.Short() {
		t.Skip("starting a browser takes some seconds")
	}
	p := Page{Rows: example()}
	for i := range p.Rows {
		p.Rows[i].Strategy = "oracle:least_requests"[:21-i]
		p.Curves = append(p.Curves, NewCurves(p.Rows[i].Strategy, nil, nil))
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "x.html")
	const tell = `<script>const s = document.querySelector('.scroll');
document.title = 'wide: ' + s.scrollWidth + ' of ' + s.clientWidth + (s.scrollWidth > s.clientWidth ? ', cut' : ', whole');</script></body>`
	if err := os.WriteFile(file, []byte(strings.Replace(b.String(), "</body>", tell, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	dom, err := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--user-data-dir="+dir, "--window-size=1000,900", "--dump-dom", "file://"+file).Output()
	if err != nil {
		t.Skipf("the browser does not run here: %v", err)
	}
	_, title, _ := strings.Cut(string(dom), "<title>")
	title, _, _ = strings.Cut(title, "</title>")
	if !strings.HasSuffix(title, ", whole") {
		t.Errorf("on a thousand pixels the table is %q, want it whole", title)
	}
}
