package baseline

import "testing"

// What one server of the ideal pool has computed, all find: as often as the caches
// together can hold it, or always where the cache is infinite. The engines that
// were given stay as they are.
func TestIdealPool(t *testing.T) {
	tr, engines := heavyTail(600, 6), pool(4)
	for i := range engines {
		engines[i].KVTokens = 150_000
	}
	if got := IdealPool(nil, true); len(got) != 0 {
		t.Errorf("a pool of no engines has %d", len(got))
	}
	shared, infinite := IdealPool(engines, false), IdealPool(engines, true)
	for i := range engines {
		if engines[i].Store != nil {
			t.Error("the engines that were given share a cache too")
		}
		if shared[i].Store == nil || shared[i].Store != shared[0].Store || shared[i].Store == infinite[i].Store {
			t.Errorf("server %d of the pool does not share one cache of this pool", i)
		}
		if shared[i].KVTokens != engines[i].KVTokens || shared[i].Costs != engines[i].Costs {
			t.Errorf("server %d is another engine", i)
		}
	}
	hits := map[string]float64{
		"oracle:min_ttft": sum(play(t, "oracle:min_ttft", tr, engines).Records).hits,
		"ideal":           sum(play(t, "ideal", tr, engines).Records).hits,
	}
	if hits["ideal"] < 1.1*hits["oracle:min_ttft"] {
		t.Errorf("the pool with a shared cache finds %.3f of all tokens, one without %.3f", hits["ideal"], hits["oracle:min_ttft"])
	}
}
