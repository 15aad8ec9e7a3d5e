// Package integration holds tests of the built gateway against programs that
// were not written here. It is a module of its own, so that what those programs
// and their clients depend on stays out of the gateway's go.mod; the vLLM
// simulator in ./sim is one more, because its dependencies clash with others.
//
// The tests start processes and take minutes when nothing is cached, so they run
// only with LLMLB_INTEGRATION=1, which .ci/full sets. Nothing here survives a
// test: every process that one starts ends with it.
package integration
