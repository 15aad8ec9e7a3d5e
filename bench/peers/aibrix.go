package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/vllm-project/aibrix/pkg/cache"
	"github.com/vllm-project/aibrix/pkg/constants"
	routing "github.com/vllm-project/aibrix/pkg/plugins/gateway/algorithms"
	"github.com/vllm-project/aibrix/pkg/types"
	"github.com/vllm-project/aibrix/pkg/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	_ "github.com/caddy-llmlb/caddy-llmlb/bench/peers/chart" // sets what the packages above read when they start
)

var errNowhere = errors.New("no endpoint was found")

// aibrix decides by its prefix-cache router. Its store knows the pods by objects
// that a cluster would send; nothing else of a cluster is needed.
type aibrix struct {
	api    string
	store  *cache.Store
	router types.Router
	pods   *utils.PodArray

	batch    []request
	messages []string
}

func newAIBrix(api string, pool []load) (*aibrix, error) {
	a := &aibrix{api: api, pods: &utils.PodArray{}}
	for i, l := range pool {
		host, port, err := net.SplitHostPort(l.address)
		if err != nil {
			return nil, fmt.Errorf("splitting address %q: %w", l.address, err)
		}
		a.pods.Pods = append(a.pods.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("llama-%d-%d", len(pool), i), Namespace: "default",
				Labels: map[string]string{
					constants.ModelLabelName: model, constants.ModelLabelPort: port, constants.ModelLabelEngine: "vllm",
				},
			},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIP: host,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			},
		})
	}
	a.store = cache.InitWithPods(cache.InitForTest(), a.pods.Pods, model)
	var err error
	if a.router, err = routing.NewPrefixCacheRouter(); err != nil { // over the store made last
		return nil, fmt.Errorf("making the router: %w", err)
	}
	for i, l := range pool {
		for n := range l.running { // it counts what runs there by itself
			ctx := a.context("", "")
			ctx.SetTargetPod(a.pods.Pods[i])
			a.store.AddRequestCount(ctx, strconv.Itoa(n), model)
		}
	}
	return a, nil
}

func (a *aibrix) context(message, id string) *types.RoutingContext {
	return types.NewRoutingContext(context.Background(), routing.RouterPrefixCache, model, message, id, "")
}

func (a *aibrix) name() string { return nameAIBrix }

// take makes of each prompt what the gateway's reader makes of it.
func (a *aibrix) take(batch []request) {
	a.batch, a.messages = batch, nil
	for _, r := range batch {
		between := " "
		if a.api == completions {
			between = ""
		}
		a.messages = append(a.messages, r.system+between+r.user)
	}
}

func (a *aibrix) worker(n int) worker {
	return &aibrixWorker{aibrix: a, flight: newFlight[*types.RoutingContext](n)}
}

type aibrixWorker struct {
	*aibrix
	flight flight[*types.RoutingContext]
}

func (w *aibrixWorker) decide(i int) (string, error) { return w.route(i, w.pods) }

func (w *aibrixWorker) route(i int, among types.PodList) (string, error) {
	r := &w.batch[i]
	ctx := w.context(w.messages[i], r.id)
	address, err := w.router.Route(ctx, among)
	if err != nil {
		return "", err
	}
	w.store.AddRequestCount(ctx, r.id, model)
	w.pass(ctx)
	return address, nil
}

func (w *aibrixWorker) pass(ctx *types.RoutingContext) {
	if old, ok := w.flight.push(ctx); ok {
		w.end(old)
	}
}

func (w *aibrixWorker) end(ctx *types.RoutingContext) {
	w.store.DoneRequestCount(ctx, ctx.RequestID, model, ctx.TraceTerm)
	ctx.Delete()
}

func (w *aibrixWorker) finish() {
	for _, ctx := range w.flight.drain() {
		w.end(ctx)
	}
}

// aibrixRequest is aibrix with what its server does for each request to know among
// which pods the router may choose. The server itself cannot be linked beside GIE:
// they need different versions of Envoy's API.
type aibrixRequest struct{ *aibrix }

func (a *aibrixRequest) name() string { return nameAIBrixRequest }

func (a *aibrixRequest) worker(n int) worker {
	return &aibrixRequestWorker{aibrixWorker{aibrix: a.aibrix, flight: newFlight[*types.RoutingContext](n)}}
}

type aibrixRequestWorker struct{ aibrixWorker }

func (w *aibrixRequestWorker) decide(i int) (string, error) {
	if !w.store.HasModel(model) {
		return "", errNowhere
	}
	pods, err := w.store.ListPodsByModel(model)
	if err != nil {
		return "", err
	}
	ready, err := utils.FilterPodsByLabelSelector(utils.FilterRoutablePods(pods.All()), "")
	if err != nil {
		return "", err
	}
	utils.CryptoShuffle(ready)
	return w.route(i, &utils.PodArray{Pods: ready})
}
