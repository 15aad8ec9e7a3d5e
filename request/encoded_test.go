package request

import (
	"strings"
	"testing"
)

var encodedBodies = []dialectBody{
	{"text", Embeddings, `{"model":"m","input":"` + filler + `","stream":true,"max_tokens":5}`, len(filler), 0, false, 0},
	{"texts", Embeddings, `{"model":"m","input":["` + filler + `","` + filler + `"]}`, 2 * len(filler), 0, false, 0},
	{"ids", Embeddings, `{"model":"m","input":[` + strings.Repeat("7,", 299) + `7]}`, 1200, 300, false, 0},
	{"lists of ids", Embeddings, `{"model":"m","input":[[1,2],[3]]}`, 12, 3, false, 0},
	{"a chat", Embeddings, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"` + filler + `"},{"type":"image_url","image_url":{"url":"u"}}]}]}`, len(filler) + mediaBytes, 0, false, 0},
	{"objects", Embeddings, `{"input":[{"text":"` + filler + `"},{"image":"AA=="}]}`, len(filler) + mediaBytes, 0, false, 0},
	{"nothing", Embeddings, `{"model":"m"}`, 0, 0, false, 0},
	{"text", Pooling, `{"input":"` + filler + `","task":"token_embed"}`, len(filler), 0, false, 0},
	{"data of another kind", Pooling, `{"data":{"data":"` + filler + `"}}`, 0, 0, false, 0},
	{"text", Classify, `{"input":["` + filler + `"]}`, len(filler), 0, false, 0},
	{"pairs", Classify, `{"inputs":[["` + filler + `","b"],["c","d"]]}`, len(filler), 0, false, 0},
	{"texts", Rerank, `{"model":"m","query":"` + filler + `","documents":["` + filler + `","b"],"top_n":3}`, 2 * len(filler), 0, false, 0},
	{"objects", Rerank, `{"query":"q","documents":[{"text":"` + filler + `"},{"content":[{"type":"text","text":"` + filler + `"},{"type":"image_url","image_url":{"url":"u"}}]}]}`, 2*len(filler) + mediaBytes, 0, false, 0},
	{"parts", Rerank, `{"query":[{"type":"text","text":"` + filler + `"}],"documents":[[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]]}`, len(filler) + mediaBytes, 0, false, 0},
	{"documents in an object", Rerank, `{"query":"q","documents":{"content":[{"type":"text","text":"` + filler + `"}]}}`, len(filler), 0, false, 0},
	{"tei", Rerank, `{"query":"q","texts":["` + filler + `"]}`, len(filler), 0, false, 0},
	{"texts", Score, `{"text_1":"` + filler + `","text_2":["a","` + filler + `"]}`, 2 * len(filler), 0, false, 0},
	{"data", Score, `{"data_1":"` + filler + `","data_2":"a"}`, len(filler), 0, false, 0},
	{"queries", Score, `{"queries":["a"],"documents":["` + filler + `"]}`, len(filler), 0, false, 0},
	{"items", Score, `{"query":"a","items":["` + filler + `",""],"label_token_ids":[1,2]}`, len(filler), 0, false, 0},
	{"items in ids", Score, `{"query":[1,2],"items":[[3],[4,5]],"label_token_ids":[1,2]}`, 20, 5, false, 0},
}

// Ranks of other documents are other work, and what moves from the query into a
// document is too.
func TestRankBoundaries(t *testing.T) {
	seen := map[uint64]string{}
	for _, body := range []string{
		`{"query":"ab","documents":["c` + filler + `"]}`,
		`{"query":"a","documents":["bc` + filler + `"]}`,
		`{"query":"ab","documents":["c","` + filler + `"]}`,
		`{"query":["ab","c` + filler + `"],"documents":[]}`,
		`{"query":"ab","texts":["c ` + filler + `"]}`,
	} {
		f := understood(t, Rerank, body)
		if other, ok := seen[f.Key]; ok {
			t.Errorf("%.60s\nand\n%.60s\nare the same", body, other)
		}
		seen[f.Key] = body
	}
}
