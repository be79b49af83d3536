package api

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// Limits bound what one caller can use: an owner, with all its tokens. 0 means the default,
// negative unlimited. Local users without a token are one further caller, without a rate limit.
type Limits struct {
	Rate        float64 // requests per second of a caller; 0: 1,000
	Burst       int     // requests at once; 0: twice the rate
	Concurrent  int     // concurrent requests of a caller, including streams; 0: 1,024
	Connections int     // open connections of a listener, without WebSockets; a quarter from one address; 0: 8,192, or a third of the process's descriptors
	WrongTokens int     // wrong tokens at once from one address, then one per second; 0: 20
	Body        int64   // bytes of a JSON body; 0: 1 MiB
	Header      int     // bytes of all headers; 0: 32 KiB

	HeaderTime time.Duration // for the headers of a request; 0: 10 s
	BodyTime   time.Duration // for a JSON body; 0: 30 s
	Stall      time.Duration // without progress in reading a request or writing a response; 0: 1 min
	Idle       time.Duration // of a connection between requests; 0: 2 min
	Heartbeat  time.Duration // of event streams; 0: 15 s
}

// Limits that can't be configured.
const (
	maxURL     = 16 << 10 // bytes of path and query
	maxCallers = 10_000   // remembered for their rate
)

func (l Limits) withDefaults() Limits {
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if l.Rate == 0 {
		l.Rate = 1000
	}
	if l.Burst == 0 {
		l.Burst = int(2 * l.Rate)
	}
	if l.Concurrent == 0 {
		l.Concurrent = 1024
	}
	if l.Connections == 0 {
		l.Connections = maxConnections()
	}
	if l.WrongTokens == 0 {
		l.WrongTokens = 20
	}
	if l.Body <= 0 {
		l.Body = 1 << 20
	}
	if l.Header <= 0 {
		l.Header = 32 << 10
	}
	def(&l.HeaderTime, 10*time.Second)
	def(&l.BodyTime, 30*time.Second)
	def(&l.Stall, time.Minute)
	def(&l.Idle, 2*time.Minute)
	def(&l.Heartbeat, 15*time.Second)
	return l
}

// checkSize refuses a URL or headers that are too large.
func (s *Server) checkSize(r *http.Request) error {
	if len(r.RequestURI) > maxURL {
		return newRequestError(http.StatusRequestURITooLong, "the URL has %d bytes: the limit is %d", len(r.RequestURI), maxURL)
	}
	size := 0
	for k, values := range r.Header {
		for _, v := range values {
			size += len(k) + len(v) + 4
		}
	}
	if size > s.limits.Header {
		return newRequestError(http.StatusRequestHeaderFieldsTooLarge, "the headers have %d bytes: the limit is %d", size, s.limits.Header)
	}
	return nil
}

// checkEncoding refuses malformed headers, paths and queries.
func checkEncoding(r *http.Request) error {
	for k, values := range r.Header {
		if !utf8.ValidString(strings.Join(values, "")) {
			return newRequestError(http.StatusBadRequest, "header %s: must be valid UTF-8", k)
		}
	}
	p := r.URL.Path
	if !utf8.ValidString(p) || strings.IndexByte(p, 0) >= 0 {
		return newRequestError(http.StatusBadRequest, "the path must be valid UTF-8 without NUL bytes")
	}
	if p != "/" && p != path.Clean(p) || !strings.HasPrefix(p, "/") {
		return &requestError{status: http.StatusNotFound, kind: "not_found", detail: fmt.Sprintf("%q: paths must not have empty parts, dots or a trailing slash", p)}
	}
	return checkQuery(r.URL.RawQuery)
}

// repeatable are the query parameters that may be repeated.
var repeatable = []string{"state", "label", "type", "arg"}

// checkQuery refuses malformed and repeated parameters.
func checkQuery(raw string) error {
	if raw == "" {
		return nil
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return newRequestError(http.StatusBadRequest, "malformed query: %v", err)
	}
	for k, values := range q {
		if len(values) > 1 && !slices.Contains(repeatable, k) {
			return newRequestError(http.StatusBadRequest, "query.%s is repeated %d times: it may occur once", k, len(values))
		}
		if all := k + strings.Join(values, ""); !utf8.ValidString(all) || strings.IndexByte(all, 0) >= 0 {
			return newRequestError(http.StatusBadRequest, "query.%q: must be valid UTF-8 without NUL bytes", k)
		}
	}
	return nil
}

// callerLimits enforces the limits of each caller.
type callerLimits struct {
	limits  Limits
	trusted []netip.Prefix // proxies in front of the server
	metrics *metrics

	mu      sync.Mutex
	known   map[string]*callerUsage        // by owner; guarded by mu
	guesses map[netip.Prefix]*rate.Limiter // wrong tokens, by network; guarded by mu
}

// callerUsage is the usage of one caller.
type callerUsage struct {
	rate   *rate.Limiter
	active int // requests in progress

	streams map[string]int // by kind
}

// maxStreams limits the streams of each kind per caller: watching files uses scarce resources of
// the host.
var maxStreams = map[string]int{"watch": 16, "events": 64, "notices": 64, "images": 8, "turns": 256}

func newCallers(l Limits, m *metrics, trusted []netip.Prefix) *callerLimits {
	return &callerLimits{limits: l, trusted: trusted, metrics: m, known: make(map[string]*callerUsage), guesses: make(map[netip.Prefix]*rate.Limiter)}
}

// localCaller is the name of callers without a token; no owner has it.
const localCaller = ""

// usageOf returns the usage of a caller. The caller holds mu.
func (c *callerLimits) usageOf(req *call) *callerUsage {
	name := localCaller
	if req.caller.Token != "" {
		name = req.caller.Owner.String()
	}
	t := c.known[name]
	if t == nil {
		c.dropIdle()
		t = &callerUsage{rate: c.newRate(), streams: make(map[string]int)}
		if name == localCaller {
			t.rate.SetLimit(rate.Inf)
		}
		c.known[name] = t
	}
	return t
}

// admitRequest counts a request, or refuses it with the time to wait.
func (c *callerLimits) admitRequest(req *call) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.usageOf(req)
	if c.limits.Concurrent > 0 && t.active >= c.limits.Concurrent {
		c.metrics.refused.WithLabelValues("concurrent").Inc()
		return nil, tooMany(time.Second, "%d requests are in progress: wait until one ends", t.active)
	}
	if wait := takeToken(t.rate); wait > 0 {
		c.metrics.refused.WithLabelValues("rate").Inc()
		return nil, tooMany(wait, "more than %v requests a second", c.limits.Rate)
	}
	t.active++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.active--
	}, nil
}

// admitStream counts a stream of an admitted request, or refuses it.
func (c *callerLimits) admitStream(req *call, kind string) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.usageOf(req)
	if n := t.streams[kind]; n >= maxStreams[kind] {
		c.metrics.refused.WithLabelValues("streams").Inc()
		return nil, tooMany(time.Second, "%d streams of the kind %s are open: wait until one ends", n, kind)
	}
	t.streams[kind]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.streams[kind]--
	}, nil
}

func (c *callerLimits) newRate() *rate.Limiter {
	if c.limits.Rate < 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(c.limits.Rate), max(c.limits.Burst, 1))
}

// dropIdle forgets callers without requests whose rate has recovered, when there are too many. The
// caller holds mu.
func (c *callerLimits) dropIdle() {
	if len(c.known) >= maxCallers {
		for k, t := range c.known {
			if t.active == 0 && (len(c.known) >= 2*maxCallers || t.rate.Tokens() >= float64(t.rate.Burst())) {
				delete(c.known, k)
			}
		}
	}
	if len(c.guesses) >= maxCallers {
		clear(c.guesses)
	}
}

// takeToken takes a token from a rate limiter, or returns the time to wait for one.
func takeToken(l *rate.Limiter) time.Duration {
	if l.Allow() {
		return 0
	}
	if l.Limit() <= 0 {
		return time.Minute
	}
	return time.Duration((1 - l.Tokens()) / float64(l.Limit()) * float64(time.Second))
}

// recordWrongToken counts a wrong token, and refuses an address that has sent too many. Valid
// tokens from there are still accepted: many callers may share an address.
func (c *callerLimits) recordWrongToken(r *http.Request) error {
	if c.limits.WrongTokens < 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	from := clientNetwork(r, c.trusted)
	l := c.guesses[from]
	if l == nil {
		c.dropIdle()
		l = rate.NewLimiter(1, c.limits.WrongTokens)
		c.guesses[from] = l
	}
	if wait := takeToken(l); wait > 0 {
		c.metrics.refused.WithLabelValues("guesses").Inc()
		return tooMany(wait, "too many logins or wrong tokens came from your address")
	}
	return nil
}

func tooMany(wait time.Duration, format string, a ...any) error {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return &requestError{
		status: http.StatusTooManyRequests, kind: "unavailable", detail: fmt.Sprintf(format, a...) + fmt.Sprintf("; try again in %d s", seconds),
		header: http.Header{"Retry-After": {strconv.Itoa(seconds)}},
	}
}
