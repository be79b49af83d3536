package server

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

// Limits bound what one caller can take: an owner, with all tokens that he has.
// 0 means the default, negative none. The people of this machine, without a
// token, are one caller more, who has no rate.
type Limits struct {
	Rate        float64 // requests per second of one caller; 0: 1,000
	Burst       int     // that may come at once; 0: twice the rate
	Concurrent  int     // requests of one caller under way, streams too; 0: 1,024
	Connections int     // open at once, of one listener, but for those of WebSockets; a quarter from one address; 0: 8,192
	Guesses     int     // wrong tokens that may come at once from one address, then one a second; 0: 20
	Body        int64   // bytes of a JSON body; 0: 1 MiB
	Header      int     // bytes of all headers; 0: 32 KiB

	HeaderTime time.Duration // until the headers of a request are there; 0: 10 s
	BodyTime   time.Duration // until a JSON body is there; 0: 30 s
	Stall      time.Duration // without a byte, of what a request or an answer still has to carry; 0: 1 min
	Idle       time.Duration // of a connection between requests; 0: 2 min
	Heartbeat  time.Duration // of event streams; 0: 15 s
}

// The rest of the limits, which nobody needs to change.
const (
	maxURL     = 16 << 10 // bytes of path and query
	maxCallers = 10_000   // that are remembered for their rate
)

func (l Limits) effective() Limits {
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
		l.Connections = 8192
	}
	if l.Guesses == 0 {
		l.Guesses = 20
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

// checkSize refuses what is too large to be looked at.
func (s *Server) checkSize(r *http.Request) error {
	if len(r.RequestURI) > maxURL {
		return refuse(http.StatusRequestURITooLong, "the URL has %d bytes: at most %d are taken", len(r.RequestURI), maxURL)
	}
	size := 0
	for k, values := range r.Header {
		for _, v := range values {
			size += len(k) + len(v) + 4
		}
	}
	if size > s.limits.Header {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "the headers have %d bytes: at most %d are taken", size, s.limits.Header)
	}
	return nil
}

// checkForm refuses what no honest client sends.
func checkForm(r *http.Request) error {
	for k, values := range r.Header {
		if !utf8.ValidString(strings.Join(values, "")) {
			return refuse(http.StatusBadRequest, "header %s: must be valid UTF-8", k)
		}
	}
	p := r.URL.Path
	if !utf8.ValidString(p) || strings.IndexByte(p, 0) >= 0 {
		return refuse(http.StatusBadRequest, "the path must be valid UTF-8 without NUL bytes")
	}
	if p != "/" && p != path.Clean(p) || !strings.HasPrefix(p, "/") {
		return &refusal{status: http.StatusNotFound, kind: "not_found", detail: fmt.Sprintf("%q: no path here has empty parts, dots or a slash at its end", p)}
	}
	return checkQuery(r.URL.RawQuery)
}

// repeatable are the parameters that may be there more than once.
var repeatable = []string{"state", "label", "type", "arg"}

// checkQuery refuses parameters that are not what they seem.
func checkQuery(raw string) error {
	if raw == "" {
		return nil
	}
	q, err := url.ParseQuery(raw)
	if err != nil {
		return refuse(http.StatusBadRequest, "the query is not one: %v", err)
	}
	for k, values := range q {
		if len(values) > 1 && !slices.Contains(repeatable, k) {
			return refuse(http.StatusBadRequest, "query.%s is there %d times: once is enough", k, len(values))
		}
		if all := k + strings.Join(values, ""); !utf8.ValidString(all) || strings.IndexByte(all, 0) >= 0 {
			return refuse(http.StatusBadRequest, "query.%q: must be valid UTF-8 without NUL bytes", k)
		}
	}
	return nil
}

// callers counts who calls how often.
type callers struct {
	limits  Limits
	metrics *metrics

	mu      sync.Mutex
	known   map[string]*tally        // by owner, guarded by mu
	guesses map[string]*rate.Limiter // of wrong tokens, by address, guarded by mu
}

// tally is one caller's share.
type tally struct {
	rate  *rate.Limiter
	under int // way

	streams map[string]int // of each kind, likewise
}

// maxStreams is how many streams of a kind one caller may have under way: what
// watches files takes something of the machine that there is little of.
var maxStreams = map[string]int{"watch": 16, "events": 64, "notices": 64, "images": 8, "turns": 256}

func newCallers(l Limits, m *metrics) *callers {
	return &callers{limits: l, metrics: m, known: make(map[string]*tally), guesses: make(map[string]*rate.Limiter)}
}

// ofMachine is the name of those who need no token; no owner has it.
const ofMachine = ""

// of returns the tally of a caller. It is called with mu held.
func (c *callers) of(who *call) *tally {
	name := ofMachine
	if who.caller.Token != "" {
		name = who.caller.Owner.String()
	}
	t := c.known[name]
	if t == nil {
		c.forget()
		t = &tally{rate: c.newRate(), streams: make(map[string]int)}
		if name == ofMachine {
			t.rate.SetLimit(rate.Inf)
		}
		c.known[name] = t
	}
	return t
}

// admit counts a request in, or says when to come again.
func (c *callers) admit(who *call) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.of(who)
	if c.limits.Concurrent > 0 && t.under >= c.limits.Concurrent {
		c.metrics.refused.WithLabelValues("concurrent").Inc()
		return nil, tooMany(time.Second, "%d requests are under way: wait until one has ended", t.under)
	}
	if wait := reserve(t.rate); wait > 0 {
		c.metrics.refused.WithLabelValues("rate").Inc()
		return nil, tooMany(wait, "more than %v requests a second", c.limits.Rate)
	}
	t.under++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.under--
	}, nil
}

// follow counts a stream in, of a request that was admitted.
func (c *callers) follow(who *call, kind string) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.of(who)
	if n := t.streams[kind]; n >= maxStreams[kind] {
		c.metrics.refused.WithLabelValues("streams").Inc()
		return nil, tooMany(time.Second, "%d streams of this kind (%s) are under way: wait until one has ended", n, kind)
	}
	t.streams[kind]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.streams[kind]--
	}, nil
}

func (c *callers) newRate() *rate.Limiter {
	if c.limits.Rate < 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(c.limits.Rate), max(c.limits.Burst, 1))
}

// forget makes room: for who has nothing under way and has not called for so
// long that all is his again. It is called with mu held.
func (c *callers) forget() {
	if len(c.known) >= maxCallers {
		for k, t := range c.known {
			if t.under == 0 && (len(c.known) >= 2*maxCallers || t.rate.Tokens() >= float64(t.rate.Burst())) {
				delete(c.known, k)
			}
		}
	}
	if len(c.guesses) >= maxCallers {
		clear(c.guesses)
	}
}

// reserve takes one from a limiter, or says how long to wait for it.
func reserve(l *rate.Limiter) time.Duration {
	if l.Allow() {
		return 0
	}
	if l.Limit() <= 0 {
		return time.Minute
	}
	return time.Duration((1 - l.Tokens()) / float64(l.Limit()) * float64(time.Second))
}

// guessed notes a wrong token, and refuses an address from which too many came.
// Good tokens from there are still taken: many callers may share an address.
func (c *callers) guessed(r *http.Request) error {
	if c.limits.Guesses < 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.guesses[address(r)]
	if l == nil {
		c.forget()
		l = rate.NewLimiter(1, c.limits.Guesses)
		c.guesses[address(r)] = l
	}
	if wait := reserve(l); wait > 0 {
		c.metrics.refused.WithLabelValues("guesses").Inc()
		return tooMany(wait, "too many wrong tokens came from your address")
	}
	return nil
}

// address returns where a request came from, without the port.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func tooMany(wait time.Duration, format string, a ...any) error {
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	return &refusal{status: http.StatusTooManyRequests, kind: "unavailable", detail: fmt.Sprintf(format, a...) + fmt.Sprintf("; try again in %d s", seconds),
		header: http.Header{"Retry-After": {strconv.Itoa(seconds)}}}
}

// body is a request's body that must not stall.
type body struct {
	io.ReadCloser

	ctl   *http.ResponseController
	stall time.Duration
	end   time.Time   // when all of it must be there; zero: never
	whole atomic.Bool // all of it was read
	over  atomic.Bool // no more of it is read
}

// cut ends the reading of the body, at any time.
func (b *body) cut() {
	b.over.Store(true)
	_ = b.ctl.SetReadDeadline(time.Unix(1, 0))
}

// newBody returns the body of r, with a deadline for each read that ends with
// the body: later reads of the connection are only to see whether it is there.
func (s *Server) newBody(w http.ResponseWriter, r *http.Request) *body {
	if r.Body == nil || r.Body == http.NoBody || s.limits.Stall < 0 {
		return nil
	}
	return &body{ReadCloser: r.Body, ctl: http.NewResponseController(w), stall: s.limits.Stall}
}

// Read reads, but does not wait longer than the stall limit.
func (b *body) Read(p []byte) (int, error) {
	if b.whole.Load() {
		return 0, io.EOF
	}
	until := time.Now().Add(b.stall)
	if !b.end.IsZero() && b.end.Before(until) {
		until = b.end
	}
	_ = b.ctl.SetReadDeadline(until) // what has no deadlines has no stalls
	if b.over.Load() {
		return 0, errSpent
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF { //nolint:errorlint // as io.Reader has it
		b.whole.Store(true)
		_ = b.ctl.SetReadDeadline(time.Time{})
	}
	if b.over.Load() {
		return n, errSpent
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, refuse(http.StatusRequestTimeout, "the body came too slowly")
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return n, tooLarge(large.Limit)
	}
	return n, err
}

// Close ends the reading of the body.
func (b *body) Close() error {
	b.leave()
	return b.ReadCloser.Close()
}

// lastRead is how long is waited for what is left of a body that nobody wants.
const lastRead = 5 * time.Second

// leave is called when nobody wants the rest of the body: net/http reads some
// of it before it answers, and must not wait long for it.
func (b *body) leave() {
	if !b.whole.Load() {
		_ = b.ctl.SetReadDeadline(time.Now().Add(min(b.stall, lastRead)))
	}
	if b.over.Load() {
		_ = b.ctl.SetReadDeadline(time.Unix(1, 0))
	}
}

// writer is an answer under way: it must not stall either.
type writer struct {
	http.ResponseWriter

	ctl     *http.ResponseController
	stall   time.Duration
	body    *body       // of the request; may be nil
	status  int         // 0: nothing is written yet
	written int64       // bytes
	broken  bool        // the connection is to be broken off: the answer is not whole
	over    atomic.Bool // last holds
	last    time.Time   // when it must be written
}

// cut gives an answer under way not much longer, at any time.
func (w *writer) cut() {
	if !w.over.Load() { // those who cut take turns
		w.last = time.Now().Add(lastRead)
		w.over.Store(true)
	}
	_ = w.ctl.SetWriteDeadline(w.last)
	if w.body != nil {
		w.body.cut()
	}
}

func (s *Server) newWriter(w http.ResponseWriter, r *http.Request) *writer {
	out := &writer{ResponseWriter: w, stall: s.limits.Stall}
	if isPipe(r.Context()) {
		out.stall = -1
	}
	out.ctl = http.NewResponseController(w)
	if out.stall > 0 {
		_ = out.ctl.SetWriteDeadline(time.Now().Add(out.stall)) // that of an earlier request may be over
	}
	return out
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader notes and sends the status.
func (w *writer) WriteHeader(status int) {
	if status >= 200 && w.status == 0 || status == http.StatusSwitchingProtocols {
		w.status = status
		if w.body != nil && status != http.StatusSwitchingProtocols {
			w.body.leave()
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes, but does not wait longer than the stall limit.
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.stall > 0 {
		_ = w.ctl.SetWriteDeadline(time.Now().Add(w.stall)) // what has no deadlines has no stalls
	}
	if w.over.Load() {
		_ = w.ctl.SetWriteDeadline(w.last)
	}
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// finish is called when the answer is complete, or never will be.
func (w *writer) finish() {
	if w.broken && w.status == 0 {
		w.status = 499
	}
	if w.broken {
		return
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.stall > 0 {
		_ = w.ctl.SetWriteDeadline(time.Now().Add(w.stall + lastRead)) // what is left of the body may be read first
	}
}
