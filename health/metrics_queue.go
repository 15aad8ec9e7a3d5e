package health

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func poolDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_llmlb_"+name, help, append([]string{"pool"}, labels...), nil)
}

// Of the queue, and of what the gateway answers itself.
var (
	descRequests     = poolDesc("requests_total", "Requests that have ended, refused ones included, by class and by how they ended.", "class", "outcome")
	descRefusals     = poolDesc("refusals_total", "Requests that the gateway has answered itself, by the code of the answer.", "reason")
	descQueueCalls   = poolDesc("queue_requests", "Requests that wait for a server.", "class")
	descQueueTokens  = poolDesc("queue_tokens", "Tokens of the requests that wait, prompts and expected output.", "class")
	descQueueWait    = poolDesc("queue_wait_seconds", "How long requests waited that got their place.", "class")
	descBodyBytes    = poolDesc("body_bytes", "Memory that request bodies take, until a server begins to answer.")
	descSaturation   = poolDesc("saturation", "How much the servers have to do by what they can take, 1 being all of it.")
	descTenantCalls  = poolDesc("tenant_requests_total", "Requests that have ended of the tenants that the configuration names, and of all others.", "tenant")
	descTenantDenied = poolDesc("tenant_refusals_total", "Those of them that the gateway has answered itself.", "tenant")
	descTenantTokens = poolDesc("tenant_tokens_total", "Tokens that tenants have used.", "tenant", "kind")
	descEstimates    = poolDesc("estimate_error", "Estimated tokens of a request by those it had in truth.", "kind")
)

func describeQueue(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRequests, descRefusals, descQueueCalls, descQueueTokens, descQueueWait, descBodyBytes,
		descSaturation, descTenantCalls, descTenantDenied, descTenantTokens, descEstimates,
	} {
		ch <- d
	}
}

func collectQueue(ch chan<- prometheus.Metric, p *llmlb.Pool, q *llmlb.QueueStatus) {
	number := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{p.Name()}, labels...)...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		number(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		number(d, prometheus.CounterValue, float64(n), labels...)
	}
	histogram := func(d *prometheus.Desc, h *llmlb.Histogram, label string) {
		count, sum, buckets := h.Snapshot()
		ch <- prometheus.MustNewConstHistogram(d, count, sum, buckets, p.Name(), label)
	}
	for i := range q.Classes {
		c := &q.Classes[i]
		gauge(descQueueCalls, float64(c.Calls), c.Name)
		gauge(descQueueTokens, float64(c.Tokens), c.Name)
		histogram(descQueueWait, c.Waits, c.Name)
	}
	gauge(descBodyBytes, float64(q.BodyBytes))
	gauge(descSaturation, q.Saturation)
	p.Requests(func(class string, o llmlb.Outcome, n uint64) { counter(descRequests, n, class, o.String()) })
	p.Refusals(func(reason string, n uint64) { counter(descRefusals, n, reason) })
	p.Tenants(func(name string, t llmlb.TenantTally) {
		counter(descTenantCalls, t.Requests, name)
		counter(descTenantDenied, t.Refused, name)
		counter(descTenantTokens, t.PromptTokens, name, "prompt")
		counter(descTenantTokens, t.OutputTokens, name, "output")
	})
	input, output := p.EstimateErrors()
	histogram(descEstimates, input, "input")
	histogram(descEstimates, output, "output")
}
