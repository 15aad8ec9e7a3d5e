// Package sim pins the vLLM simulator of the llm-d project as a tool. It cannot
// be had with "go install", and its dependencies (Kubernetes among them) clash
// with those of other modules, so it has this module to itself:
//
//	CGO_ENABLED=0 go build -o llm-d-inference-sim github.com/llm-d/llm-d-inference-sim/cmd/llm-d-inference-sim
//
// The tests in the folder above do that once and keep the binary.
package sim
