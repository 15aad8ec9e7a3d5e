package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// weighted picks the seat with the highest weighted sum of what the scorers say.
func (ch *choice) weighted(warm int) (*seat, llmlb.Reason) {
	s := ch.least(ch.left, warm == 0)
	return s, llmlb.ReasonCold
}
