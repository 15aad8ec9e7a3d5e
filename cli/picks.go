package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// chosen marks the endpoint that was taken.
const chosen = "→"

// FormatPicks writes choices for people, in the order given: each as a line that
// says what was asked, one that says what was decided, and a table of the
// candidates, with times in the zone given. The error is w's.
func FormatPicks(w io.Writer, picks []llmlb.PickStatus, zone *time.Location) error {
	var b strings.Builder
	for i := range picks {
		if i > 0 {
			b.WriteByte('\n')
		}
		k := &picks[i]
		b.WriteString(asked(k, zone) + "\n" + decided(k) + "\n")
		writeCandidates(&b, k)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func asked(k *llmlb.PickStatus, zone *time.Location) string {
	line := fmt.Sprintf("%s  %s  %s tokens in, about %s out  pool %s (%s)",
		k.At.In(zone).Format("2006-01-02 15:04:05.000"), modelName(k.Model),
		grouped(float64(k.InputTokens)), grouped(float64(k.ExpectedOutput)),
		printable(k.Pool), printable(k.Strategy))
	if k.Attempt > 1 {
		line += fmt.Sprintf("  attempt %d", k.Attempt)
	}
	return line
}

// decided says the decision in words, after the one word that headers, logs and
// metrics have for it.
func decided(k *llmlb.PickStatus) string {
	word, at := printable(k.Decision), printable(k.Endpoint)
	of := grouped(float64(k.InputTokens)) + " prompt tokens"
	switch {
	case k.Decision == llmlb.ReasonWarm.String():
		line := fmt.Sprintf("%s: %s holds %s of %s", word, at, grouped(float64(k.Matched)), of)
		if k.Warm > 1 {
			line += fmt.Sprintf("; %d servers are warm", k.Warm)
		}
		return line
	case strings.HasPrefix(k.Decision, "spill:"):
		warm, holder, matched := leftBehind(k), "another server", k.Best
		if k.Left != "" {
			holder = printable(k.Left)
		}
		if warm != nil {
			matched = warm.Matched
		}
		takes := at + " computes them"
		if k.Matched > 0 {
			takes = fmt.Sprintf("%s, which holds %s, takes it", at, grouped(float64(k.Matched)))
		}
		return fmt.Sprintf("%s: %s holds %s of %s but %s; %s", word,
			holder, grouped(float64(matched)), of, left(k, warm), takes)
	case k.Decision == llmlb.ReasonCold.String():
		return word + ": " + missed(k, of) + "; " + taken(k)
	case k.Decision == llmlb.ReasonOnly.String():
		return fmt.Sprintf("%s: no server but %s could be used", word, at)
	case k.Decision == llmlb.ReasonPolicy.String():
		return fmt.Sprintf("%s: %s chose %s among the usable", word, printable(k.Strategy), at)
	case k.Decision == llmlb.ReasonTrial.String():
		return fmt.Sprintf("%s: %s was down, and one request shows whether it serves again", word, at)
	default:
		return word + ": " + at
	}
}

// leftBehind is the warm candidate that was left, or nil when it is not among
// those kept.
func leftBehind(k *llmlb.PickStatus) *llmlb.CandidateStatus {
	for i := range k.Candidates {
		if c := &k.Candidates[i]; c.Endpoint == k.Left {
			return c
		}
	}
	return nil
}

// left is why the warm endpoint was left. It is nil when it was not kept.
func left(k *llmlb.PickStatus, warm *llmlb.CandidateStatus) string {
	switch k.Decision {
	case llmlb.ReasonSpillWaiting.String():
		if warm != nil {
			return "has " + requests(warm.Waiting) + " waiting"
		}
		return "has too many waiting"
	case llmlb.ReasonSpillTTFT.String():
		if warm != nil && warm.RecentTTFT != nil {
			return "took " + latency(warm.RecentTTFT) + " to its last first token"
		}
		return "takes too long to a first token"
	case llmlb.ReasonSpillExplore.String():
		return "is busier than most, and one request in sixteen makes another home"
	}
	if warm != nil && warm.Score != nil {
		return "scores lower"
	}
	return "is busier"
}

// missed is why there is no warm endpoint: nobody holds the prompt, or who does
// cannot be taken.
func missed(k *llmlb.PickStatus, of string) string {
	for i := range k.Candidates {
		if c := &k.Candidates[i]; c.Barred != "" && c.Matched > 0 && c.Matched == k.Best {
			return fmt.Sprintf("%s holds %s of %s but cannot be used (%s)",
				printable(c.Endpoint), grouped(float64(c.Matched)), of, printable(c.Barred))
		}
	}
	if k.Best > 0 {
		return fmt.Sprintf("no server holds enough of the prompt, at most %s of %s", grouped(float64(k.Best)), of)
	}
	return "no server holds any of the prompt"
}

func taken(k *llmlb.PickStatus) string {
	if len(k.Candidates) > 0 && k.Candidates[0].Home {
		return printable(k.Endpoint) + " is the conversation's home"
	}
	return printable(k.Endpoint) + " takes it"
}
