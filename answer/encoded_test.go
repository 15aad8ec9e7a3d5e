package answer

import (
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

var encodedAnswers = []reading{
	{"embeddings", request.Embeddings, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-2e-05]}],"model":"m","usage":{"prompt_tokens":8,"total_tokens":8}}`, told(8).with(1, true)},
	{"in base64", request.Embeddings, `{"object":"list","data":[{"object":"embedding","embedding":"AAAA"}],"usage":{"prompt_tokens":8,"total_tokens":8,"completion_tokens":0,"prompt_tokens_details":null}}`, told(8, unknown, 0).with(1, true)},
	{"llama.cpp's list", request.Embeddings, `[{"index":0,"embedding":[[0.1]]}]`, told().with(1, true)},
	{"no usage", request.Embeddings, `{"data":[]}`, told().with(0, true)},
	{"cut", request.Embeddings, `{"object":"list","data":[{"embedding":[0.1,`, told().with(1, false)},
	{"an error", request.Embeddings, `{"error":{"message":"The queue is full.","code":503}}`, told().with(0, true).failed(503, true)},
	{"pooling", request.Pooling, `{"object":"list","data":[{"object":"pooling","data":[[0.1]]}],"usage":{"total_tokens":5,"prompt_tokens":4}}`, told(4).with(1, true)},
	{"the sum behind the number", request.Pooling, `{"data":[1],"usage":{"prompt_tokens":4,"total_tokens":5}}`, told(4).with(1, true)},
	{"classes", request.Classify, `{"object":"list","data":[{"index":0,"label":"a","probs":[0.2,0.8],"num_classes":2}],"usage":{"prompt_tokens":10,"total_tokens":10}}`, told(10).with(1, true)},
	{"SGLang's classes", request.Classify, `{"embedding":[0.1,0.2],"meta_info":{"prompt_tokens":6}}`, told(6).with(1, true)},
	{"vLLM's ranks", request.Rerank, `{"id":"r","model":"m","usage":{"total_tokens":56},"results":[{"index":1,"document":{"text":"b"},"relevance_score":0.99}]}`, told(56).with(1, true)},
	{"Cohere's ranks", request.Rerank, `{"id":"r","results":[{"index":1,"relevance_score":0.9}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1},"tokens":{"input_tokens":30,"output_tokens":0}}}`, told(30, unknown, 0).with(1, true)},
	{"SGLang's ranks", request.Rerank, `[{"score":0.9,"document":"a","index":0,"meta_info":{"prompt_tokens":12}},{"score":0.1,"document":"b","index":1,"meta_info":{"prompt_tokens":9}}]`, told(21).with(1, true)},
	{"TEI's ranks", request.Rerank, `[{"index":1,"score":0.9},{"index":0,"score":0.1}]`, told().with(0, true)},
	{"scores", request.Score, `{"object":"list","data":[{"index":0,"object":"score","score":1}],"usage":{"prompt_tokens":17,"total_tokens":17}}`, told(17).with(1, true)},
	{"SGLang's scores", request.Score, `{"scores":[[0.1,0.9]],"model":"m","usage":{"prompt_tokens":17,"completion_tokens":0,"total_tokens":17},"object":"scoring"}`, told(17, unknown, 0).with(1, true)},
	{"a text heard", request.Transcription, `{"text":"Hello."}`, told().with(1, true)},
	{"with its tokens", request.Transcription, `{"text":"Hello.","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"audio_tokens":14},"output_tokens":3,"total_tokens":17}}`, told(14, unknown, 3).with(1, true)},
	{"with its length", request.Transcription, `{"text":"","usage":{"type":"duration","seconds":3}}`, told().with(0, true)},
	{"in all detail", request.Transcription, `{"task":"transcribe","language":"en","duration":1.5,"text":"Hi","segments":[{"id":0,"text":"Hi","tokens":[1,2]}]}`, told().with(1, true)},
	{"pictures", request.Image, `{"created":1,"data":[{"b64_json":"AAAA"}],"usage":{"input_tokens":5,"output_tokens":100,"total_tokens":105}}`, told(5, unknown, 100).with(1, true)},
}

// What is computed from a prompt alone tells how long that was, wherever the
// engine puts it, and is whole when its JSON is.
func TestEncoded(t *testing.T) { check(t, encodedAnswers) }
