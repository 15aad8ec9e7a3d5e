package health

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func loraInfo(room, running, waiting string, at float64) string {
	return fmt.Sprintf("vllm:lora_requests_info{max_lora=\"%s\",running_lora_adapters=\"%s\",waiting_lora_adapters=\"%s\"} %v\n", room, running, waiting, at)
}

// Which LoRA adapters vLLM has in use: told by a series for every combination
// that ever was, of which the latest is true.
func TestAdaptersInUse(t *testing.T) {
	const load = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"
	many := strings.TrimSuffix(strings.Repeat("a, ", 10)+strings.Join(numbered(maxResident+50), ","), ",")
	for what, c := range map[string]struct {
		page  string
		loads llmlb.Loadable
		names string
		room  int
	}{
		"none told":              {load, llmlb.LoadsNothing, "[]", 0},
		"turned off":             {load + loraInfo("0", "", "", 1.7e9), llmlb.LoadsNothing, "[]", 0},
		"idle":                   {load + loraInfo("4", "", "", 1.7e9), llmlb.LoadsAdapters, "[]", 4},
		"running":                {load + loraInfo("4", "a1, a2", "", 1.7e9), llmlb.LoadsAdapters, "[a1 a2]", 4},
		"running and waiting":    {load + loraInfo("4", "a1", "a2,a1", 1.7e9), llmlb.LoadsAdapters, "[a1 a2]", 4},
		"the latest last":        {load + loraInfo("4", "a1", "", 1.7e9) + loraInfo("4", "a2", "a3", 1.8e9), llmlb.LoadsAdapters, "[a2 a3]", 4},
		"the latest first":       {load + loraInfo("4", "a2", "a3", 1.8e9) + loraInfo("4", "a1", "", 1.7e9), llmlb.LoadsAdapters, "[a2 a3]", 4},
		"turned off of late":     {load + loraInfo("4", "a1", "", 1.7e9) + loraInfo("0", "", "", 1.8e9), llmlb.LoadsNothing, "[]", 0},
		"times that are none":    {load + loraInfo("4", "x", "", 1.7e9) + "vllm:lora_requests_info{max_lora=\"9\"} NaN\nvllm:lora_requests_info{max_lora=\"9\"} +Inf\n", llmlb.LoadsAdapters, "[x]", 4},
		"room that is no number": {load + loraInfo("None", "x", "", 1.7e9), llmlb.LoadsNothing, "[]", 0},
		"names that are none":    {load + loraInfo("4", " , a1 ,\x01b,", strings.Repeat("y", 300), 1.7e9), llmlb.LoadsAdapters, "[a1]", 4},
		"endless":                {load + loraInfo("1e300", many, "", 1.7e9), llmlb.LoadsAdapters, "", maxRoom},
	} {
		t.Run(what, func(t *testing.T) {
			got, why := readText(t, &vLLM, c.page)
			names := fmt.Sprint(got.Resident)
			if c.names == "" {
				names = ""
				if len(got.Resident) != maxResident {
					t.Errorf("%d names, want %d", len(got.Resident), maxResident)
				}
			}
			if why != "" || got.Loads != c.loads || names != c.names || got.ResidentMax != c.room || (got.LoadSeconds == 0.5) != (c.loads == llmlb.LoadsAdapters) {
				t.Errorf("kind %d, names %s, room %d, %v s (%s); want %d, %s, %d", got.Loads, names, got.ResidentMax, got.LoadSeconds, why, c.loads, c.names, c.room)
			}
		})
	}
}

func numbered(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint("m", i))
	}
	return list
}
