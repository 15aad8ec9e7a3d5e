package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/vllm-project/aibrix/pkg/utils/prefixcacheindexer"
	requtil "sigs.k8s.io/gateway-api-inference-extension/pkg/epp/util/request"
)

// Every side learns from what it decided: the next request that begins alike goes
// where the first went, although all endpoints are equal. A side whose index was
// not updated, or looked up in vain, would be measured doing less than it does.
func TestSharedPrefixStays(t *testing.T) {
	for _, api := range []string{chat, completions} {
		sides, err := newSides(api, even(8), 8<<10)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range sides {
			t.Run(api+"/"+s.name(), func(t *testing.T) {
				requests := newSource(api, 8<<10, 1, uint64(i)).batch(4 * 2 * families)
				s.take(requests)
				w := s.worker(1)
				homes := map[string][]string{} // by how the prompt begins
				for k, r := range requests {
					var to string
					if err := decideAll([]worker{at(func() (err error) { to, err = w.decide(k); return err })}, 1); err != nil {
						t.Fatal(err)
					}
					if k%2 == 0 {
						homes[r.system] = append(homes[r.system], to)
					}
					w.finish() // nothing is in flight: only the prefix speaks
				}
				if len(homes) != families {
					t.Fatalf("%d beginnings, want %d", len(homes), families)
				}
				stayed, moved := 0, 0
				for _, to := range homes {
					for _, next := range to[1:] {
						if next == to[0] {
							stayed++
						} else {
							moved++
						}
					}
				}
				if stayed < 3*moved { // of eight places, by chance one in eight would stay
					t.Errorf("%d stayed where their prefix is and %d moved", stayed, moved)
				}
			})
		}
	}
}

// at makes a worker of a function.
type at func() error

func (f at) decide(int) (string, error) { return "", f() }
func (f at) finish()                    {}

// AIBrix hashes blocks of the size in its chart, not of the four characters that
// are the default of its code and would make it look slow.
func TestChartIsInForce(t *testing.T) {
	if n := len(prefixcacheindexer.GetSharedPrefixHashTable().GetPrefixHashes(make([]byte, 256))); n != 2 {
		t.Errorf("256 characters make %d blocks, want 2", n)
	}
}

// What a side gets parsed is what the others get as a body.
func TestBodySaysTheSamePrompt(t *testing.T) {
	for _, api := range []string{chat, completions} {
		warm, cold := 0, 0
		heads := map[string]bool{}
		for _, r := range newSource(api, 4<<10, 1, 0).batch(4 * families) {
			var body map[string]any
			if err := json.Unmarshal(r.body, &body); err != nil {
				t.Fatalf("%s: %v", api, err)
			}
			if len(r.system)+len(r.user) != 4<<10 {
				t.Errorf("%s: a prompt of %d bytes, want %d", api, len(r.system)+len(r.user), 4<<10)
			}
			read, err := requtil.ExtractRequestBody(body)
			if err != nil {
				t.Fatalf("%s: %v", api, err)
			}
			var texts []string
			if api == completions {
				texts = []string{read.Completions.Prompt[:len(r.system)], read.Completions.Prompt[len(r.system):]}
			} else {
				for _, m := range read.ChatCompletions.Messages {
					texts = append(texts, m.Content.Raw)
				}
			}
			if !slices.Equal(texts, []string{r.system, r.user}) {
				t.Errorf("%s: the body says another prompt", api)
			}
			if heads[r.system] {
				warm++
			} else {
				cold++
			}
			heads[r.system] = true
		}
		if warm != families || cold != 3*families { // each family is new once
			t.Errorf("%s: %d prompts began like one before, %d did not", api, warm, cold)
		}
	}
}

// Two sources with another salt differ in the number alone.
func TestSidesGetTheSamePrompts(t *testing.T) {
	a, b := newSource(chat, 1<<10, 7, 0).batch(8), newSource(chat, 1<<10, 7, 1).batch(8)
	for i := range a {
		if a[i].id == b[i].id {
			t.Errorf("request %d: the number is the same on both sides", i)
		}
		same := a[i].system == b[i].system && a[i].user[nonceBytes:] == b[i].user[nonceBytes:]
		if i%2 == 1 {
			same = a[i].system[nonceBytes:] == b[i].system[nonceBytes:] && a[i].user == b[i].user
		}
		if !same || len(a[i].body) != len(b[i].body) {
			t.Errorf("request %d differs in more than the number", i)
		}
	}
}
