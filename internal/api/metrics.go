package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// metrics are the server's Prometheus metrics.
type metrics struct {
	registry     *prometheus.Registry
	requests     *prometheus.CounterVec
	durations    *prometheus.HistogramVec
	authFailures prometheus.Counter
	refused      *prometheus.CounterVec
	quota        prometheus.Counter
	panics       prometheus.Counter
	connections  prometheus.Gauge
	streams      *prometheus.GaugeVec
	execs        *prometheus.CounterVec
	execTimes    prometheus.Histogram

	unimplemented *prometheus.CounterVec
}

func newMetrics(s *Server) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: vector("atoll_requests_total", "Requests answered.", "route", "method", "status"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "atoll_request_duration_seconds", Help: "Time from a request to the end of its response.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"route", "method"}),
		authFailures:  counter("atoll_auth_failures_total", "Requests without a valid token."),
		refused:       vector("atoll_limit_refusals_total", "Requests refused by a limit of their caller.", "limit"),
		quota:         counter("atoll_quota_refusals_total", "Requests refused because a quota was reached."),
		panics:        counter("atoll_panics_total", "Requests that ended in a panic."),
		connections:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "atoll_connections_open", Help: "Open connections, without WebSockets."}),
		streams:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "atoll_streams_open", Help: "Open streams."}, []string{"kind"}),
		unimplemented: vector("atoll_unknown_vendor_routes_total", "Requests to the API of another vendor for which atoll has no route.", "api"),
		execs:         vector("atoll_execs_total", "Commands that have ended.", "outcome"),
		execTimes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "atoll_exec_duration_seconds", Help: "Time that commands ran.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800},
		}),
	}
	m.registry.MustRegister(m.requests, m.durations, m.authFailures, m.refused, m.quota, m.panics, m.connections, m.streams, m.execs, m.execTimes, m.unimplemented,
		fleetCollector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// countRequest counts a request. Labels are route patterns and known methods only, to bound their
// number.
func (m *metrics) countRequest(method, pattern string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(pattern, method, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(pattern, method).Observe(took.Seconds())
}

// countStream counts a stream. The caller calls the returned function at its end.
func (m *metrics) countStream(kind string) func() {
	g := m.streams.WithLabelValues(kind)
	g.Inc()
	return g.Dec
}

// countExec counts a command that has ended: "ok", "failed" (its status is not 0), or the kind of
// the error that ended it.
func (m *metrics) countExec(exit atoll.Exit, err error) {
	outcome := "ok"
	switch {
	case err != nil:
		outcome = wire.ReasonOf(err).Kind
	case exit.Code != 0:
		outcome = "failed"
	}
	m.execs.WithLabelValues(outcome).Inc()
	m.execTimes.Observe(exit.Duration.Seconds())
}

// registerMetrics registers the metrics, for callers with the scope operate.
func (s *Server) registerMetrics(mux *http.ServeMux) {
	h := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if caller := &callOf(r.Context()).caller; !caller.Allows(atoll.ScopeOperate) {
			s.writeProblem(w, r, &requestError{status: http.StatusForbidden, kind: "denied", detail: "metrics need a token with the scope operate"})
			return
		}
		h.ServeHTTP(w, r)
	})
}

// fleetCollector collects the state of the fleet at the time of a scrape.
type fleetCollector struct{ s *Server }

var (
	sandboxesDesc = prometheus.NewDesc("atoll_sandboxes", "Sandboxes of all owners.", []string{"state", "driver"}, nil)
	commandsDesc  = prometheus.NewDesc("atoll_commands_running", "Running commands.", nil, nil)
	readyDesc     = prometheus.NewDesc("atoll_pool_ready", "Ready sandboxes of a warm pool.", []string{"pool"}, nil)
	sizeDesc      = prometheus.NewDesc("atoll_pool_size", "Configured size of a warm pool.", []string{"pool"}, nil)
	tokensDesc    = prometheus.NewDesc("atoll_model_tokens_total", "Tokens that models read and wrote for all owners.", []string{"kind"}, nil)
	modelsDesc    = prometheus.NewDesc("atoll_model_requests_total", "Requests to models of all owners.", []string{"outcome"}, nil)
	costDesc      = prometheus.NewDesc("atoll_model_cost_dollars_total", "US dollars for models of all owners, where their prices are known.", nil, nil)
	fullDesc      = prometheus.NewDesc("atoll_disk_full", "1 if the disk of the state directory is full, else 0.", nil, nil)
	deliveryDesc  = prometheus.NewDesc("atoll_webhook_deliveries", "Deliveries of all webhooks that wait (pending) or were given up (dead).", []string{"state"}, nil)
	buildDesc     = prometheus.NewDesc("atoll_build_info", "Version of the server; always 1.", []string{"version"}, nil)
)

// Describe sends the descriptions of the metrics.
func (fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sandboxesDesc, commandsDesc, readyDesc, sizeDesc, tokensDesc, modelsDesc, costDesc, fullDesc, deliveryDesc, buildDesc} {
		ch <- d
	}
}

// collectTimeout bounds one collection.
const collectTimeout = 5 * time.Second

// Collect sends the metrics. It leaves out those whose values are not available.
func (c fleetCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(c.s.lifetime, collectTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(buildDesc, 1, c.s.opts.Version)
	all, err := c.s.fleet.CountSandboxes(ctx)
	if err != nil {
		c.s.log.WarnContext(ctx, "metrics", "err", err)
	} else {
		for k, n := range all.Sandboxes {
			gauge(sandboxesDesc, n, string(k.State), k.Driver)
		}
		gauge(commandsDesc, all.Commands)
	}
	pools, err := c.s.fleet.Account(fleet.LocalCaller()).Pools(ctx)
	if err != nil {
		c.s.log.WarnContext(ctx, "metrics", "err", err)
	}
	for _, p := range pools {
		gauge(readyDesc, p.Ready, p.Name)
		gauge(sizeDesc, p.Size, p.Name)
	}
	full := 0
	if errors.Is(c.s.fleet.CheckSpace(), atoll.ErrQuota) {
		full = 1
	}
	gauge(fullDesc, full)
	if pending, dead, err := c.s.fleet.CountDeliveries(ctx); err != nil {
		c.s.log.WarnContext(ctx, "metrics", "err", err)
	} else {
		gauge(deliveryDesc, pending, string(atoll.DeliveryPending))
		gauge(deliveryDesc, dead, string(atoll.DeliveryDead))
	}
	c.collectModels(ctx, ch)
}

// collectModels sends the metrics of model usage.
func (c fleetCollector) collectModels(ctx context.Context, ch chan<- prometheus.Metric) {
	all, err := c.s.fleet.Usage().Usage(ctx, model.Caller{})
	if err != nil {
		c.s.log.WarnContext(ctx, "metrics", "err", err)
		return
	}
	count := func(d *prometheus.Desc, n float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, n, labels...)
	}
	count(tokensDesc, float64(all.Input), "input")
	count(tokensDesc, float64(all.Output), "output")
	count(tokensDesc, float64(all.CacheRead), "cache_read")
	count(tokensDesc, float64(all.CacheWrite), "cache_write")
	count(modelsDesc, float64(all.Requests), "asked")
	count(modelsDesc, float64(all.Refused), "refused")
	count(costDesc, all.Cost)
}
