package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/datalayer"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/datastore"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/handlers"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/requestcontrol"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/saturationdetector/framework/plugins/utilizationdetector"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/multi/prefix"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/picker"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/profile"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/framework/plugins/scorer"
	"sigs.k8s.io/gateway-api-inference-extension/pkg/epp/scheduling/types"
	requtil "sigs.k8s.io/gateway-api-inference-extension/pkg/epp/util/request"
)

// gie decides by the scheduler of the endpoint picker. Its datastore gets the pods
// as a cluster would send them; nothing is scraped, their metrics stand.
type gie struct {
	api        string
	ctx        context.Context //nolint:containedctx // one for all requests, to turn off logging
	scheduler  *scheduling.Scheduler
	director   *requestcontrol.Director
	prefixes   *prefix.Plugin
	candidates []types.Pod
	batch      []*types.LLMRequest
	bodies     [][]byte
}

// The weights of its chart, config/charts/inferencepool/templates/epp-config.yaml.
const (
	gieQueueWeight, gieKVWeight, giePrefixWeight = 2, 2, 3
)

var quietController = sync.OnceFunc(func() { ctrl.SetLogger(logr.Discard()) })

func newGIE(api string, pool []load) *gie {
	quietController()
	g := &gie{api: api, ctx: log.IntoContext(context.Background(), logr.Discard())}
	g.prefixes = prefix.New(g.ctx, prefix.DefaultConfig)
	g.scheduler = scheduling.NewSchedulerWithConfig(scheduling.NewSchedulerConfig(
		profile.NewSingleProfileHandler(),
		map[string]*framework.SchedulerProfile{
			"default": framework.NewSchedulerProfile().WithScorers(
				framework.NewWeightedScorer(scorer.NewQueueScorer(), gieQueueWeight),
				framework.NewWeightedScorer(scorer.NewKVCacheUtilizationScorer(), gieKVWeight),
				framework.NewWeightedScorer(g.prefixes, giePrefixWeight),
			).WithPicker(picker.NewMaxScorePicker(picker.DefaultMaxNumOfEndpoints)),
		}))

	inference := datalayer.NewEndpointPool("default", "bench")
	inference.TargetPorts = []int{8000}
	known := standing{}
	store := datastore.NewDatastore(g.ctx, known, 8000, datastore.WithEndpointPool(inference))
	for i, l := range pool {
		host, _, _ := net.SplitHostPort(l.address)
		known[host] = l
		store.PodUpdateOrAddIfNotExist(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("llama-%d", i), Namespace: "default", Labels: map[string]string{"app": "llama"},
			},
			Status: corev1.PodStatus{PodIP: host},
		})
	}
	for _, e := range store.PodList(datastore.AllPodsPredicate) {
		g.candidates = append(g.candidates, &types.PodMetrics{
			Pod: e.GetMetadata().Clone(), MetricsState: e.GetMetrics().Clone(), AttributeMap: e.GetAttributes().Clone(),
		})
	}

	locator := requestcontrol.NewDatastorePodLocator(store)
	saturation := utilizationdetector.NewDetector(&utilizationdetector.Config{
		QueueDepthThreshold:       utilizationdetector.DefaultQueueDepthThreshold,
		KVCacheUtilThreshold:      utilizationdetector.DefaultKVCacheUtilThreshold,
		MetricsStalenessThreshold: utilizationdetector.DefaultMetricsStalenessThreshold,
	}, logr.Discard())
	g.director = requestcontrol.NewDirectorWithConfig(store, g.scheduler,
		requestcontrol.NewLegacyAdmissionController(saturation, locator), locator,
		requestcontrol.NewConfig().WithPreRequestPlugins(g.prefixes))
	return g
}

// standing makes endpoints whose metrics stand as the load by their host says.
type standing map[string]load

func (s standing) SetSources([]datalayer.DataSource) {}

func (s standing) NewEndpoint(_ context.Context, of *datalayer.EndpointMetadata, _ datalayer.PoolInfo) datalayer.Endpoint {
	l := s[of.Address]
	m := datalayer.NewMetrics()
	m.RunningRequestsSize, m.WaitingQueueSize, m.KVCacheUsagePercent = l.running, l.waiting, l.kv
	m.CacheBlockSize, m.CacheNumGPUBlocks, m.KvCacheMaxTokenCapacity = 16, 27_000, 432_000
	m.ActiveModels["sql-adapter"], m.MaxActiveModels = 1, 4
	m.UpdateTime = time.Now()
	return datalayer.NewEndpoint(of, m)
}

func (s standing) ReleaseEndpoint(datalayer.Endpoint) {}

func (g *gie) name() string { return nameGIE }

func (g *gie) take(batch []request) {
	g.batch = nil
	for _, r := range batch {
		body := &types.LLMRequestBody{ChatCompletions: &types.ChatCompletionsRequest{Messages: []types.Message{
			{Role: "system", Content: types.Content{Raw: r.system}},
			{Role: "user", Content: types.Content{Raw: r.user}},
		}}}
		if g.api == completions {
			body = &types.LLMRequestBody{Completions: &types.CompletionsRequest{Prompt: r.system + r.user}}
		}
		g.batch = append(g.batch, &types.LLMRequest{
			RequestId: r.id, TargetModel: model, Body: body, Headers: map[string]string{requtil.RequestIdHeaderKey: r.id},
		})
	}
}

// worker ignores what is in flight: this side knows of no end of a request.
func (g *gie) worker(int) worker { return gieWorker{g} }

type gieWorker struct{ *gie }

func (w gieWorker) decide(i int) (string, error) {
	r := w.batch[i]
	result, err := w.scheduler.Schedule(w.ctx, r, w.candidates)
	if err != nil {
		return "", err
	}
	w.prefixes.PreRequest(w.ctx, r, result)
	to := result.ProfileResults[result.PrimaryProfileName].TargetPods[0].GetPod()
	return net.JoinHostPort(to.Address, to.Port), nil
}

func (w gieWorker) finish() {}

// gieRequest is gie from the body's bytes.
type gieRequest struct {
	*gie
	ids []string
}

func (g *gieRequest) name() string { return nameGIERequest }

func (g *gieRequest) take(batch []request) {
	g.bodies, g.ids = nil, nil
	for _, r := range batch {
		g.bodies = append(g.bodies, r.body)
		g.ids = append(g.ids, r.id)
	}
}

func (g *gieRequest) worker(int) worker { return gieRequestWorker{g} }

type gieRequestWorker struct{ *gieRequest }

func (w gieRequestWorker) decide(i int) (string, error) {
	c := &handlers.RequestContext{Request: &handlers.Request{
		Headers: map[string]string{requtil.RequestIdHeaderKey: w.ids[i]},
		Body:    make(map[string]any), Metadata: make(map[string]any),
	}}
	if err := json.Unmarshal(w.bodies[i], &c.Request.Body); err != nil {
		return "", err
	}
	c, err := w.director.HandleRequest(w.ctx, c)
	if err != nil {
		return "", err
	}
	return c.TargetEndpoint, nil
}

func (w gieRequestWorker) finish() {}
