package report

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

var update = flag.Bool("update", false, "write the files of testdata anew")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is different; write it anew with -update if that is right. Now:\n%s", file, got)
	}
}

// example is the rows of a run with all that there can be in them.
func example() []Row {
	one := Measure([]virtual.Record{answered(0, 1500*ms, 90*ms, 10), answered(0, 20*ms, 10*ms, 2)}, 1, SLO{time.Second, time.Second})
	two := Measure([]virtual.Record{answered(0, 120*time.Second, 0, 1), {Refused: true, Last: 1, Server: -1}}, 1, SLO{time.Second, time.Second})
	row := func(name string, oracle bool, n Numbers, c *Capacity) Row {
		return Row{
			Strategy: name, Oracle: oracle, Trace: "tiny", Speed: 2, Gateways: 1, ScrapeMS: 1000, Seeds: []uint64{1, 2},
			Engine: "8b-h100", Servers: 1, Numbers: n, Capacity: c,
		}
	}
	return []Row{
		row("none", false, two, &Capacity{Seeds: []*float64{nil, nil}, Reason: "all is good enough, whatever comes"}),
		row("slow", false, two, &Capacity{Value: new(0.5), Ratio: new(0.2), Seeds: []*float64{new(0.5), new(0.6)}}),
		row("ideal", true, one, &Capacity{Value: new(2.5), Ratio: new(float64(1)), RatioInfinite: new(0.9), Seeds: []*float64{new(2.5), new(2.5)}}),
	}
}

func exampleBounds() Bounds {
	return Bounds{MeanTTFT: 10 * ms, Hits: 0.5, PooledLRU: 0.25, Load: 0.125}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	rows := append(example(), example()[2])
	rows[3].Capacity = nil
	Bound(rows, exampleBounds())
	if err := WriteJSON(&b, rows); err != nil {
		t.Fatal(err)
	}
	golden(t, "rows.json", b.String())
	b.Reset()
	if err := WriteJSON(&b, nil); err != nil || b.String() != "[]\n" {
		t.Errorf("no rows are %q, want an empty array", b.String())
	}
}

func TestTableIsForPeople(t *testing.T) {
	var b bytes.Buffer
	if err := WriteTable(&b, example(), exampleBounds()); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", b.String())
	b.Reset()
	plain := example()
	for i := range plain {
		plain[i].Capacity = nil
	}
	if err := WriteTable(&b, plain, Bounds{Note: "are of the faster kind"}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "capacity") {
		t.Error("there is a column for a capacity that nobody asked for")
	}
	if !strings.Contains(b.String(), "\nthese bounds are of the faster kind\n") {
		t.Error("the note is missing")
	}
	if !strings.Contains(b.String(), "rho_min, the least load of the servers: –") {
		t.Error("a load that is not known is not shown as unknown")
	}
}

func TestACapacityThatIsNotKnownHasAReason(t *testing.T) {
	row := func(name, reason string) Row { return Row{Strategy: name, Capacity: &Capacity{Reason: reason}} }
	got := reasons([]Row{row("a", "too light"), row("b", ""), {Strategy: "c"}, row("d", "too heavy"), row("e", "too light")})
	if want := []string{"capacity of a, e: too light", "capacity of d: too heavy"}; !slices.Equal(got, want) {
		t.Errorf("the reasons are %q, want %q", got, want)
	}
}

func TestACapacityThatNoPoolBearsForLongIsTold(t *testing.T) {
	row := func(name string, capacity *float64) Row {
		return Row{Strategy: name, Speed: 2, Capacity: &Capacity{Value: capacity}}
	}
	rows := []Row{row("much", new(5.0)), row("all", new(4.1)), row("unknown", nil), {Strategy: "unasked", Speed: 2}}
	got := beyond(rows, Bounds{Load: 0.5})
	if want := "capacity of much: more than the servers can do, which is 4.000× (at a rho_min of 1)"; len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("it says %q, want %q", got, want)
	}
	if got := beyond(rows, Bounds{}); got != nil {
		t.Errorf("where the bound is not known it says %q", got)
	}
}

func TestTimesAreWrittenShort(t *testing.T) {
	for ms, want := range map[float64]string{
		0: "0.0ms", 1.26: "1.3ms", 99.94: "99.9ms", 99.96: "100ms", 999.4: "999ms",
		1000: "1.00s", 9994: "9.99s", 9996: "10.0s", 99_940: "99.9s", 99_960: "100s", 123_456: "123s",
	} {
		if got := inTime(ms); got != want {
			t.Errorf("%v ms is %q, want %q", ms, got, want)
		}
	}
}

func TestTheMedianOfSeedsIsOfEachNumber(t *testing.T) {
	one := Numbers{Requests: 10, TTFT: Spread{Mean: 1, P99: 30}, HitRatio: 0.3}
	two := Numbers{Requests: 10, TTFT: Spread{Mean: 2, P99: 10}, HitRatio: 0.1}
	three := Numbers{Requests: 10, TTFT: Spread{Mean: 3, P99: 20}, HitRatio: 0.2}
	want := Numbers{Requests: 10, TTFT: Spread{Mean: 2, P99: 20}, HitRatio: 0.2}
	if got := Median([]Numbers{three, one, two}); got != want {
		t.Errorf("the median is %+v, want %+v", got, want)
	}
	if got := Median([]Numbers{two}); got != two {
		t.Errorf("the median of one is %+v, want that", got)
	}
	if got := Middle([]float64{4, 1, 3, 2}); got != 2 {
		t.Errorf("the middle of four is %v, want the lower of two", got)
	}
}

func TestTheBestIsFirst(t *testing.T) {
	row := func(name string, mean float64, capacity *float64) Row {
		r := Row{Strategy: name, Numbers: Numbers{Requests: 1, TTFT: Spread{Mean: mean}}}
		if capacity != nil {
			r.Capacity = &Capacity{Value: capacity}
		}
		return r
	}
	unlimited := row("f", 9, nil)
	unlimited.Capacity = new(Capacity)
	rows := Best([]Row{row("a", 3, new(float64(1))), row("b", 2, new(float64(2))), row("c", 1, nil), row("d", 1, new(float64(2))), row("e", 1, new(float64(2))), unlimited})
	var got []string
	for _, r := range rows {
		got = append(got, r.Strategy)
	}
	if s := strings.Join(got, " "); s != "f d e b a c" {
		t.Errorf("the order is %s, want f d e b a c", s)
	}
}

func TestPage(t *testing.T) {
	rows := example()
	var curves []Curves
	for _, r := range rows {
		c := NewCurves(r.Strategy, []virtual.Record{answered(0, 20*ms, 10*ms, 2)}, []virtual.Sample{
			{Waiting: []int{0}, Running: []int{1}, Pending: []int{2}, Held: 3},
		})
		curves = append(curves, c)
	}
	p := Page{
		Command: "llmlb-sim -trace <tiny>.jsonl", About: "tiny: 2 requests", Trace: "</script><b>tiny",
		Rows: rows, Curves: curves, Bounds: exampleBounds(), SLO: SLO{5 * time.Second, 100 * ms},
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	for _, no := range []string{"http:", "https:", "src=", "<link", "@import", "<b>tiny", "url("} {
		if i := strings.Index(strings.ReplaceAll(html, "http://www.w3.org/2000/svg", ""), no); i >= 0 {
			t.Errorf("the page has %q: it must need nothing else, and show names as text", no)
		}
	}
	// What is written by hand is looked at in its own files.
	html = strings.Replace(html, pageCSS, "(css)", 1)
	html = strings.Replace(html, pageJS, "(js)", 1)
	golden(t, "page.html", html)
}

func TestAPageOfManyStrategiesDrawsAFew(t *testing.T) {
	p := Page{}
	for i := range 20 {
		name := string(rune('a' + i))
		p.Rows = append(p.Rows, Row{Strategy: name, Oracle: i%2 == 0, Numbers: Numbers{Requests: 1, TTFT: Spread{Mean: float64(i)}}})
		p.Curves = append(p.Curves, NewCurves(name, nil, nil))
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := `"shown":[1,3,5,7,9,11]`; !strings.Contains(b.String(), want) {
		t.Errorf("the page does not show the best six that can be had, %s", want)
	}
	b.Reset()
	p.First = []string{"q", "none", "c"}
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := `"shown":[16,2]`; !strings.Contains(b.String(), want) {
		t.Errorf("the page does not show those that were named, %s", want)
	}
}

// A pool that was sent requests for 25 seconds, each of which takes 78, was told to
// carry seven times as much as it can.
func TestALoadThatIsNeverSteadyIsTold(t *testing.T) {
	row := func(name string, arrivals, answer float64, capacity *Capacity) Row {
		return Row{Strategy: name, Speed: 2, Arrivals: arrivals, Capacity: capacity, Numbers: Numbers{Requests: 9, E2E: Spread{Mean: 1000 * answer}}}
	}
	for _, tc := range []struct {
		name string
		rows []Row
		want string
	}{
		{"no answers", []Row{{Strategy: "a", Arrivals: 25, Numbers: Numbers{Requests: 9, Refused: 9}}}, ""},
		{"steady", []Row{row("a", 240, 78, nil)}, ""},
		{"one strategy's answers are short enough", []Row{row("a", 25, 78, nil), row("b", 25, 8, nil)}, ""},
		{"never steady", []Row{row("a", 25, 78, nil)}, "arrivals span 25.0s, an answer takes 78.0s on average: the load is never steady, and these numbers mean little"},
		{"with a capacity", []Row{row("a", 25, 78, &Capacity{Value: new(0.5)})}, "arrivals span 25.0s, an answer takes 78.0s on average: the load is never steady, and capacity means little"},
		{"steady at the run's speed alone", []Row{row("a", 240, 78, &Capacity{Value: new(16.0)})}, "at 16 times the rate arrivals span 30.0s, an answer"},
		{"steady up to the capacity", []Row{row("a", 400, 8, &Capacity{Value: new(16.0)}), row("b", 400, 8, &Capacity{})}, ""},
	} {
		got := strings.Join(unsteady(tc.rows), "\n")
		if (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: it says %q, want %q", tc.name, got, tc.want)
		}
	}
}
