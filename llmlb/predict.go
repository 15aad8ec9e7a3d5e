package llmlb

// slotWait is the wait in seconds for a place in a full batch, per request ahead:
// a batch of 256 sequences, each 256 tokens of 30 ms long, frees one every 30 ms.
// Only engines with a queue have requests waiting.
const slotWait = 0.030

// Predict returns the time to first token in seconds of a request whose prompt is
// that effort, behind so much prefill of others and so many waiting requests:
//
//	ttft = floor + (prefill + effort) / speed + slotWait × waiting
func (r Rate) Predict(prefill, effort, waiting float64) float64 {
	return r.Floor + (prefill+effort)/r.Speed + slotWait*waiting
}
