package egress

import (
	"encoding/json"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Limits of the journal.
const (
	maxEntries    = 1000        // in memory
	maxLogFile    = 32 << 20    // bytes of the file
	maxText       = 1 << 10     // bytes of each text
	mergeInterval = time.Second // equal refusals in this interval are one entry
)

// journal records the connection attempts of a sandbox, the newest maxEntries of them in memory.
type journal struct {
	redact func(string) string
	file   io.Writer // one JSON document per line; nil: none

	mu      sync.Mutex
	entries []*entry // guarded by mu, like the fields below; a ring whose oldest entry is at next
	next    int
	written int64
}

// entry is one attempt. A connection can carry several attempts (HTTP requests), so the entry holds
// the counters' values at its beginning.
type entry struct {
	mu sync.Mutex
	c  atoll.Connection // guarded by mu

	traffic        *traffic
	sent, received int64 // guarded by mu; values of traffic before this entry
	done           bool  // guarded by mu
}

// traffic counts the bytes of a connection from inside.
type traffic struct{ sent, received atomic.Int64 }

// addEntry records an attempt. A refused one is finished at once.
func (j *journal) addEntry(c atoll.Connection, t *traffic) *entry {
	if c.Time.IsZero() {
		c.Time = time.Now()
	}
	for _, text := range []*string{&c.Host, &c.Address, &c.Method, &c.Path, &c.Rule, &c.Reason, &c.Suggestion} {
		if len(*text) > maxText {
			*text = (*text)[:maxText] + "…"
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
		if c.Time.Sub(last.Time) < mergeInterval && equalIgnoringTime(last, c) {
			return e
		}
	}
	if len(j.entries) < maxEntries {
		j.entries = append(j.entries, e)
	} else {
		j.entries[j.next] = e
		j.next = (j.next + 1) % maxEntries
	}
	if e.done {
		j.write(c)
	}
	return e
}

func equalIgnoringTime(a, b atoll.Connection) bool {
	a.Time = b.Time
	return a == b
}

// finishEntry completes an entry. reason is why it failed; "": it did not.
func (j *journal) finishEntry(e *entry, reason string) {
	e.mu.Lock()
	if e.done {
		e.mu.Unlock()
		return
	}
	e.updateCounts()
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

// setBaseline sets the values of the counters before this entry.
func (e *entry) setBaseline(sent, received int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sent, e.received = sent, received
}

// update changes an entry that is not finished.
func (e *entry) update(f func(c *atoll.Connection)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.c)
}

// updateCounts updates the byte counts. The caller must hold e.mu.
func (e *entry) updateCounts() {
	if e.traffic != nil {
		e.c.Sent, e.c.Received = e.traffic.sent.Load()-e.sent, e.traffic.received.Load()-e.received
	}
}

func (e *entry) copy() atoll.Connection {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.done {
		e.updateCounts()
	}
	return e.c
}

// setFile makes the journal append entries to a file.
func (j *journal) setFile(file io.Writer) {
	j.file = file
	f, ok := file.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return
	}
	info, err := f.Stat()
	if err != nil {
		j.file = nil // its size is unknown
		return
	}
	j.written = info.Size()
}

// write appends an entry to the file, up to its limit. The caller must hold j.mu.
func (j *journal) write(c atoll.Connection) {
	if j.file == nil || j.written > maxLogFile {
		return
	}
	b, err := json.Marshal(c)
	if err != nil {
		return
	}
	n, err := j.file.Write(append(b, '\n'))
	if j.written += int64(n); err != nil {
		j.file = nil // disk full: entries stay in memory
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
