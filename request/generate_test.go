package request

import (
	"strings"
	"testing"
)

var generateBodies = []dialectBody{
	{"tgi", Generate, `{"inputs":"` + filler + `","parameters":{"max_new_tokens":20,"best_of":3}}`, len(filler), 0, false, 60},
	{"tgi stream", GenerateStream, `{"inputs":"` + filler + `","stream":false,"parameters":{"max_new_tokens":20}}`, len(filler), 0, true, 20},
	{"tgi root", Root, `{"inputs":"` + filler + `","stream":true,"parameters":null}`, len(filler), 0, true, 0},
	{"sglang", Generate, `{"text":"` + filler + `","stream":true,"sampling_params":{"n":2,"max_new_tokens":20}}`, len(filler), 0, true, 40},
	{"several texts", Generate, `{"text":["` + filler + `","b","c"],"sampling_params":{"n":2,"max_new_tokens":20}}`, len(filler), 0, false, 120},
	{"a list of parameters", Generate, `{"text":["` + filler + `","b"],"sampling_params":[{"max_new_tokens":20},{"max_new_tokens":5,"n":2},null]}`, len(filler), 0, false, 30},
	{"ids", Generate, `{"input_ids":[` + strings.Repeat("7,", 299) + `7],"sampling_params":{"max_new_tokens":9}}`, 1200, 300, false, 9},
	{"lists of ids", Generate, `{"input_ids":[[1,2,3],[4,5],[]],"sampling_params":{"max_new_tokens":9}}`, 20, 5, false, 27},
	{"pictures", Generate, `{"text":"` + filler + `","image_data":["a",["b","c"]],"audio_data":"d","video_data":null}`, len(filler) + 4*mediaBytes, 0, false, 0},
	{"embeddings", Generate, `{"input_embeds":[[0.5,0.25]]}`, mediaBytes, 0, false, 0},
	{"absurd", Generate, `{"inputs":"x","parameters":{"max_new_tokens":2000000000,"best_of":2000000000}}`, 0, 0, false, maxCount},
	{"wrong types", Generate, `{"inputs":["` + filler + `"],"text":7,"input_ids":"x","parameters":[],"sampling_params":"x"}`, len(filler), 0, false, 0},
	{"nothing", Generate, `{"model":"m"}`, 0, 0, false, 0},
}

// Both engines' names for the prompt say the same, and what they say of it tells
// prompts apart.
func TestGeneratePrompts(t *testing.T) {
	want := understood(t, Generate, `{"inputs":"`+filler+`"}`)
	if got := understood(t, Generate, `{"text":"`+filler+`"}`); got.Key != want.Key {
		t.Error("the two names of a prompt make two prompts of it")
	}
	if got := understood(t, Generate, `{"text":"`+filler+filler+`"}`); !isPrefix(want.Blocks, got.Blocks) || len(got.Blocks) <= len(want.Blocks) {
		t.Error("a longer prompt lost the blocks of its beginning")
	}
	for name, body := range map[string]string{
		"adapter": `{"inputs":"` + filler + `","parameters":{"adapter_id":"a"}}`,
		"picture": `{"text":"` + filler + `","image_data":"a"}`,
		"ids":     `{"input_ids":[` + strings.Repeat("7,", 299) + `7]}`,
	} {
		if got := understood(t, Generate, body); got.Key == want.Key || got.Blocks[0] == want.Blocks[0] {
			t.Errorf("%s: the same prompt", name)
		}
	}
}

var llamaBodies = []dialectBody{
	{"text", Completion, `{"prompt":"` + filler + `","n_predict":16,"max_tokens":8}`, len(filler), 0, false, 16},
	{"the other name", Completion, `{"prompt":"` + filler + `","max_tokens":8,"stream":true}`, len(filler), 0, true, 8},
	{"endless", Completion, `{"prompt":"` + filler + `","n_predict":-1}`, len(filler), 0, false, 0},
	{"ids and text", Completion, `{"prompt":[1,2,"` + filler + `"],"n_predict":5}`, len(filler) + 8, 2, false, 5},
	{"several", Completion, `{"prompt":["` + filler + `",[1,2],"c"],"n_predict":5}`, len(filler) + 8, 2, false, 15},
	{"several answers", Completion, `{"prompt":"` + filler + `","n_predict":5,"n_cmpl":4}`, len(filler), 0, false, 20},
	{"pictures", Completion, `{"prompt":{"prompt_string":"` + filler + `","multimodal_data":["AA=="]},"image_data":[{"data":"AA==","id":1}]}`, len(filler) + 2*mediaBytes, 0, false, 0},
}
