package llmlb

// slotWait is the wait in seconds for a place in a full batch, per request ahead:
// a batch of 256 sequences of 256 tokens each, 10 ms apart, frees one every 10 ms.
// Only engines with a queue have requests waiting, and most of those wait for the
// prompts before them, which are counted for themselves.
const slotWait = 0.010

// Predict returns the time to first token in seconds of a request whose prompt is
// that effort, behind so much prefill of others and so many waiting requests:
//
//	ttft = floor + (prefill + effort) / speed + slotWait × waiting
func (r Rate) Predict(prefill, effort, waiting float64) float64 {
	return r.Floor + (prefill+effort)/r.Speed + slotWait*waiting
}
