package gate

import (
	"encoding/json"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Bounds of what is written down.
const (
	mostEntries = 1000        // in memory
	mostLogged  = 32 << 20    // bytes of the file
	mostText    = 1 << 10     // of each text
	sameTime    = time.Second // refusals that are alike and this close are one
)

// journal is what a sandbox tried, the newest mostEntries of it.
type journal struct {
	redact func(string) string
	file   io.Writer // one JSON document a line; nil: none

	mu      sync.Mutex
	entries []*entry // guarded by mu, as all below; a ring, next is the oldest
	next    int
	written int64
}

// entry is one try. The counters are of its connection; what they were before
// is not its own.
type entry struct {
	mu sync.Mutex
	c  atoll.Connection // guarded by mu

	traffic        *traffic
	sent, received int64 // guarded by mu: of traffic, before
	done           bool  // guarded by mu
}

// traffic counts the bytes of a connection from inside.
type traffic struct{ sent, received atomic.Int64 }

// begin writes down a try. What is refused is over at once.
func (j *journal) begin(c atoll.Connection, t *traffic) *entry {
	if c.Time.IsZero() {
		c.Time = time.Now()
	}
	for _, text := range []*string{&c.Host, &c.Address, &c.Method, &c.Path, &c.Rule, &c.Reason} {
		if len(*text) > mostText {
			*text = (*text)[:mostText] + "…"
		}
		*text = j.redact(*text)
	}
	e := &entry{c: c, traffic: t}
	if !c.Allowed {
		e.done = true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(j.entries); n > 0 && !c.Allowed {
		last := j.entries[(j.next+n-1)%n].copy()
		if c.Time.Sub(last.Time) < sameTime && same(last, c) {
			return e
		}
	}
	if len(j.entries) < mostEntries {
		j.entries = append(j.entries, e)
	} else {
		j.entries[j.next] = e
		j.next = (j.next + 1) % mostEntries
	}
	if e.done {
		j.write(c)
	}
	return e
}

func same(a, b atoll.Connection) bool {
	a.Time = b.Time
	return a == b
}

// end completes an entry; reason is why it failed, if it did.
func (j *journal) end(e *entry, reason string) {
	e.mu.Lock()
	if e.done {
		e.mu.Unlock()
		return
	}
	e.count()
	e.done = true
	if e.c.Duration = time.Since(e.c.Time); e.c.Duration <= 0 {
		e.c.Duration = 1
	}
	if reason != "" {
		e.c.Reason = j.redact(reason)
	}
	c := e.c
	e.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.write(c)
}

// since says what of the traffic was before.
func (e *entry) since(sent, received int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent, e.received = sent, received
}

// change changes an entry that is not over.
func (e *entry) change(f func(c *atoll.Connection)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.c)
}

// count needs e.mu.
func (e *entry) count() {
	if e.traffic != nil {
		e.c.Sent, e.c.Received = e.traffic.sent.Load()-e.sent, e.traffic.received.Load()-e.received
	}
}

func (e *entry) copy() atoll.Connection {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done {
		e.count()
	}
	return e.c
}

// keep writes entries to a file, after those that are in it.
func (j *journal) keep(file io.Writer) {
	j.file = file
	f, ok := file.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return
	}
	info, err := f.Stat()
	if err != nil {
		j.file = nil // nobody knows how much is in it
		return
	}
	j.written = info.Size()
}

// write appends to the file, up to its bound; it needs j.mu.
func (j *journal) write(c atoll.Connection) {
	if j.file == nil || j.written > mostLogged {
		return
	}
	b, err := json.Marshal(c)
	if err != nil {
		return
	}
	n, err := j.file.Write(append(b, '\n'))
	if j.written += int64(n); err != nil {
		j.file = nil // a full disk: what is in memory remains
	}
}

// list returns the entries, oldest first.
func (j *journal) list() []atoll.Connection {
	j.mu.Lock()
	entries := append(append([]*entry(nil), j.entries[j.next:]...), j.entries[:j.next]...)
	j.mu.Unlock()
	list := make([]atoll.Connection, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.copy())
	}
	return list
}
