package health

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Of an entry everything is kept that a client could want, as the engine wrote
// it, within bounds; what is too much or no proper JSON costs its fields, not
// the model.
func TestEntriesAreKept(t *testing.T) {
	long := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for what, c := range map[string]struct {
		entry, want string
	}{
		"all of it":         {`{"id":"a","n":12345678901234567890,"x":[1,{"y":null}],"t":"<\u00fc>"}`, `{"id":"a","n":12345678901234567890,"x":[1,{"y":null}],"t":"<\u00fc>"}`},
		"without its space": {"{ \"id\" :\n\t\"a\",\"x\": [1, 2] }", `{"id":"a","x":[1,2]}`},
		"nearly too long":   {`{"id":"a","x":` + long(maxEntry-18) + `}`, `{"id":"a","x":` + long(maxEntry-18) + `}`},
		"too long":          {`{"id":"a","x":` + long(maxEntry) + `}`, ``},
		"far too long":      {`{"id":"a","x":` + long(50_000) + `}`, ``},
		"a name twice":      {`{"id":"a","x":1,"x":2}`, ``},
		"not UTF-8":         {"{\"id\":\"a\",\"x\":\"\xff\"}", ``},
	} {
		t.Run(what, func(t *testing.T) {
			list, why := readModels([]byte(`{"data":[`+c.entry+`,{"id":"b"}]}`), &vLLM)
			if why != "" || len(list) != 2 || list[0].ID != "a" || string(list[1].Raw) != `{"id":"b"}` {
				t.Fatalf("read %+v (%q)", list, why)
			}
			if got := string(list[0].Raw); got != c.want {
				t.Errorf("kept %.100q, want %.100q", got, c.want)
			}
		})
	}

	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `,{"id":"m%d","x":%s}`, i, long(3000))
	}
	list, why := readModels([]byte(`{"data":[`+b.String()[1:]+`]}`), nil)
	kept := 0
	for _, m := range list {
		kept += len(m.Raw)
	}
	if why != "" || len(list) != 1000 || kept > maxEntries || kept < maxEntries-4000 {
		t.Errorf("of 1,000 models of 3 MB %d and %d bytes are kept (%q), want 1,000 and nearly 1 MiB", len(list), kept, why)
	}
}

// What an engine answers to but does not list is known, and not told to clients.
func TestImpliedNames(t *testing.T) {
	list, _ := readModels([]byte(`{"data":[{"id":"x:latest"},{"id":"y:latest"},{"id":"y","own":true}]}`), &ollama)
	var got []string
	for _, m := range list {
		got = append(got, fmt.Sprint(m.ID, " ", m.Implied, " ", len(m.Raw) > 0))
	}
	want := "[x:latest false true y:latest false true y false true x true false]"
	if fmt.Sprint(got) != want {
		t.Errorf("read %v, want %s", got, want)
	}
}

func FuzzEntries(f *testing.F) {
	for _, seed := range []string{`{"data":[{"id":"a","x":1}]}`, `{"data":[{"id":"a","x":"\ud800"}]}`, `{"data":[{"id":"a","id":"b"}]}`, "{\"data\":[{\"id\":\"\xff\"}]}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, _ := readModels(body, &ollama)
		for _, m := range list {
			if m.Raw != nil && (!jsontext.Value(m.Raw).IsValid() || jsontext.Value(m.Raw).Kind() != '{' || len(m.Raw) > maxEntry) {
				t.Errorf("of %q is kept %q", m.ID, m.Raw)
			}
			if m.Implied && m.Raw != nil {
				t.Errorf("%q has an entry", m.ID)
			}
		}
	})
}

// Which engines are known to refuse what they do not list, and when.
func TestEnginesThatCheckNames(t *testing.T) {
	const vllm = "vllm:num_requests_running 1\n"
	const lora = "vllm:lora_requests_info{max_lora=\"%s\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.7e9\n"
	for what, c := range map[string]struct {
		page string
		want bool
	}{
		"vLLM":                               {vllm, true},
		"without adapters":                   {vllm + fmt.Sprintf(lora, "0"), true},
		"with adapters":                      {vllm + fmt.Sprintf(lora, "4"), false},
		"with adapters, before any request":  {vllm + "# HELP vllm:lora_requests_info Adapters.\n# TYPE vllm:lora_requests_info gauge\n", false},
		"with adapters, and cannot be read":  {vllm + "vllm:lora_requests_info{max_lora=\"None\"} 1\n", false},
		"with adapters turned off and on":    {vllm + fmt.Sprintf(lora, "0") + strings.Replace(fmt.Sprintf(lora, "1"), `running_lora_adapters=""`, `running_lora_adapters="a"`, 1), false},
		"LMDeploy":                           {"lmdeploy:num_requests_running 1\n", true},
		"SGLang, which takes any name":       {"sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\n", false},
		"llama.cpp, which takes any name":    {"llamacpp:requests_processing 1\n", false},
		"TGI, which takes any name":          {"tgi_batch_current_size 1\n", false},
		"TensorRT-LLM, which takes any name": {"trtllm_num_requests_running 1\n", false},
	} {
		t.Run(what, func(t *testing.T) {
			sc := scratches.Get().(*scratch)
			p := &page{body: []byte(c.page), scratch: sc, contact: contact{own: true}}
			defer p.release()
			s, by, _, why := readPage(time.Now(), p, dialects)
			if why != "" || s.ChecksModels != c.want {
				t.Errorf("checks names: %v (%q), want %v", s.ChecksModels, why, c.want)
			}
			p.own = false
			if s, _, _, _ = readPage(time.Now(), p, []*Dialect{by}); s.ChecksModels {
				t.Error("a page on another port says so of the server too")
			}
		})
	}
}

// A pool's own list is that of its servers: one that hangs and one that sends a web
// page take nothing from it.
func TestListsOfSomeServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		for address, list := range map[string]*modelServer{
			"a:1": {page: load(1, 0, 0), list: servesAs("application/json", `{"object":"list","data":[{"id":"m","max_model_len":8192,"foo":{"bar":[1]}}]}`)},
			"b:1": {page: load(1, 0, 0), list: lists("m", "n")},
			"c:1": {page: load(1, 0, 0), list: hangs},
			"d:1": {page: load(1, 0, 0), list: servesAs("text/html", "<html>")},
		} {
			net.set(address, list.answer)
		}
		h := run(t, settings(t, net, "a:1", "b:1", "c:1", "d:1"))
		time.Sleep(2 * time.Second)
		list, known := h.Pool().MergedModels(h.Pool().Current(), time.Now())
		if got := fmt.Sprintf("%+v", names(list)); got != `[m(max_model_len=8192 foo={"bar":[1]}) n()]` || !known {
			t.Errorf("the pool's list is %s (%v)", got, known)
		}
		if h.Pool().UnknownModel(h.Pool().Current(), "nope", time.Now()) {
			t.Error("a model is unknown though two servers' lists are")
		}
	})
}

func names(list []llmlb.MergedModel) (out []string) {
	for _, m := range list {
		var fields []string
		for _, f := range m.Fields {
			fields = append(fields, f.Name+"="+string(f.Value))
		}
		out = append(out, m.ID+"("+strings.Join(fields, " ")+")")
	}
	return out
}
