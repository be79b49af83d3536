package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what the server counts, for Prometheus.
type metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	strangers prometheus.Counter
	quota     prometheus.Counter
	panics    prometheus.Counter
	streams   *prometheus.GaugeVec
	execs     *prometheus.CounterVec
	execTimes prometheus.Histogram
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "atoll_requests_total", Help: "Requests answered."}, []string{"route", "method", "status"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "atoll_request_duration_seconds", Help: "Time from a request to the end of its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}}, []string{"route", "method"}),
		strangers: prometheus.NewCounter(prometheus.CounterOpts{Name: "atoll_auth_failures_total", Help: "Requests without a good token."}),
		quota:     prometheus.NewCounter(prometheus.CounterOpts{Name: "atoll_quota_refusals_total", Help: "Requests refused because a quota or limit was reached."}),
		panics:    prometheus.NewCounter(prometheus.CounterOpts{Name: "atoll_panics_total", Help: "Requests that ended in a panic."}),
		streams:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "atoll_streams_open", Help: "Streams open now."}, []string{"kind"}),
		execs:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "atoll_execs_total", Help: "Commands that have ended."}, []string{"outcome"}),
		execTimes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "atoll_exec_duration_seconds", Help: "Time that commands ran.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800}}),
	}
	m.registry.MustRegister(m.requests, m.durations, m.strangers, m.quota, m.panics, m.streams, m.execs, m.execTimes)
	return m
}

// request counts a request. Only patterns of routes and known methods become
// labels, so that nobody can make any number of them.
func (m *metrics) request(method, pattern string, status int, took time.Duration) {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE":
	default:
		method = "other"
	}
	m.requests.WithLabelValues(pattern, method, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(pattern, method).Observe(took.Seconds())
}

// stream counts a stream in; the caller calls what it returns at its end.
func (m *metrics) stream(kind string) func() {
	g := m.streams.WithLabelValues(kind)
	g.Inc()
	return g.Dec
}

// exec counts a command that has ended: "ok", "failed" (its status is not 0), or
// the kind of the error that ended it.
func (m *metrics) exec(outcome string, took time.Duration) {
	m.execs.WithLabelValues(outcome).Inc()
	m.execTimes.Observe(took.Seconds())
}
