// Package integration holds tests of the built gateway against programs that
// were not written here. It is a module of its own, so that what those programs
// and their clients depend on stays out of the gateway's go.mod; the vLLM
// simulator in ./sim is one more, because its dependencies clash with others.
//
// The tests start processes and take minutes when nothing is cached, so they run
// only when asked for. Nothing here survives a test: every process that one
// starts ends with it.
//
//   - LLMLB_INTEGRATION=1, which .ci/full sets, runs those against the simulator:
//     where requests go, and what clients see when a server fails. For that a
//     toxiproxy, which runs in the test's own process, stands before one of two
//     simulators and delays, cuts, resets or holds back what they write; or the
//     process of one is killed or stopped under the streams of 200 clients.
//   - LLAMA_SERVER, the path of llama.cpp's llama-server, runs those against that
//     engine. They make a small model for it, with random weights and the same
//     at every run; LLAMA_MODEL names another GGUF file to use instead, of a model
//     that takes 8,192 tokens of context. `.ci/full llama` builds the server with
//     build-llama.sh, once per version and user, and runs them.
//   - PROMETHEUS, a folder with prometheus and promtool in it, runs the monitoring
//     example against those. `.ci/full prometheus` unpacks Debian's package with
//     prometheus.sh, once per version and user.
//   - CHROMIUM, the path of a Chromium, opens the status page in it. `.ci/full
//     browser` finds or installs one with chromium.sh. With LLMLB_SHOTS the pictures
//     of docs/status.md are taken.
package integration
