package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// Limits of the recorder's queue.
const (
	maxQueued      = 4096
	maxQueuedBytes = 32 << 20
	batchSize      = 512                    // records of one transaction
	writeDelay     = 100 * time.Millisecond // from the first record to its writing
	writeRetry     = time.Second            // after a failed write
	queueTimeout   = 5 * time.Second        // that a caller waits for room
)

// record is one entry to be written.
type record interface {
	// size returns the approximate size in bytes.
	size() int

	// add adds it to a batch.
	add(b *batch)
}

// recorder writes audit entries, history and token uses to the registry in batches, as they need
// not be there at once. One goroutine writes; close waits for it. Its methods may be called
// concurrently.
type recorder struct {
	store *registry.Store
	now   func() time.Time
	log   *slog.Logger

	retention time.Duration // of audit entries; negative: for ever

	wake   chan struct{} // the queue is not empty
	urgent chan struct{} // write now
	stop   chan struct{} // closed: write everything and end
	done   chan struct{} // closed at the end
	cancel context.CancelFunc

	mu        sync.Mutex
	queue     []record         // guarded by mu, as all below
	bytes     int              // of queue
	room      chan struct{}    // closed when there is room again; nil: nothing waits
	lost      int              // records that found no room in time, still to be audited
	waiting   []chan<- error   // callers of flush
	open      int              // active calls whose end will be recorded
	idle      chan struct{}    // closed when there is none; nil: nothing waits
	closed    bool             // no more records are accepted
	failure   error            // of the last write, until one succeeds
	tokenUses map[string]int64 // when the use of a token was last recorded

	historyGrowth map[string]growth   // history of a sandbox since its last trimming; owned by the goroutine
	outputGrowth  map[atoll.Owner]int // output of an owner in the history since its last trimming; owned by the goroutine
	auditGrowth   map[atoll.Owner]int // audit entries of an owner since its last trimming; owned by the goroutine
}

// newRecorder starts a recorder. A nil log discards messages. retention is that of audit entries.
func newRecorder(s *registry.Store, now func() time.Time, log *slog.Logger, retention time.Duration) *recorder {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &recorder{
		store: s, now: now, log: log, retention: retention, cancel: cancel,
		wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		historyGrowth: make(map[string]growth), outputGrowth: make(map[atoll.Owner]int), auditGrowth: make(map[atoll.Owner]int), tokenUses: make(map[string]int64),
	}
	go l.run(ctx)
	return l
}

// add queues a record. When the queue is full, add waits for room up to queueTimeout; then the
// record is lost, which is logged and audited.
func (l *recorder) add(e record) {
	n := e.size()
	var late *time.Timer
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			l.log.Error("record after the recorder was closed")
			return
		}
		if len(l.queue) == 0 || len(l.queue) < maxQueued && l.bytes+n <= maxQueuedBytes {
			first := len(l.queue) == 0
			l.queue = append(l.queue, e)
			l.bytes += n
			hurry := len(l.queue) == batchSize
			l.mu.Unlock()
			if first {
				notify(l.wake)
			}
			if hurry {
				notify(l.urgent)
			}
			return
		}
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		l.mu.Unlock()
		notify(l.urgent)
		if late == nil {
			late = time.NewTimer(queueTimeout)
			defer late.Stop()
		}
		select {
		case <-room:
		case <-late.C:
			l.mu.Lock()
			l.lost++
			l.mu.Unlock()
			l.log.Error("record lost: the registry accepts no writes", "after", queueTimeout)
			return
		}
	}
}

// flush returns when everything queued before is in the registry.
func (l *recorder) flush(ctx context.Context) error {
	l.mu.Lock()
	if len(l.queue) == 0 {
		l.mu.Unlock()
		return nil
	}
	answer := make(chan error, 1)
	l.waiting = append(l.waiting, answer)
	l.mu.Unlock()
	notify(l.wake)
	notify(l.urgent)
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return fmt.Errorf("%w: the fleet is closed", atoll.ErrUnavailable)
	}
}

// beginCall counts an active call whose end will be recorded: close waits for it.
func (l *recorder) beginCall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
}

// endCall ends a call that beginCall has counted.
func (l *recorder) endCall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open--; l.open == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// awaitCalls waits until no call is active, for at most queueTimeout, as one that panicked never
// ends. Then no more records are accepted.
func (l *recorder) awaitCalls(ctx context.Context) {
	l.mu.Lock()
	idle := make(chan struct{})
	if l.open == 0 {
		close(idle)
	} else {
		l.idle = idle
	}
	l.mu.Unlock()
	late := time.NewTimer(queueTimeout)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// close waits for the active calls, writes the queue and waits for its end or that of ctx. It is
// called once.
func (l *recorder) close(ctx context.Context) error {
	l.awaitCalls(ctx)
	close(l.stop)
	select {
	case <-l.done:
	case <-ctx.Done():
		l.cancel()
		<-l.done
	}
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.queue); n > 0 {
		return fmt.Errorf("%d entries of audit and history are lost: %w", n, l.failure)
	}
	return nil
}

func (l *recorder) run(ctx context.Context) {
	defer close(l.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-l.wake:
		case <-l.stop:
			l.writeAll(ctx)
			return
		}
		delay := writeDelay
		if l.isFailing() {
			delay = writeRetry
		}
		timer.Reset(delay)
		select {
		case <-timer.C:
		case <-l.urgent:
		case <-l.stop:
		}
		l.writeAll(ctx)
	}
}

func (l *recorder) isFailing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure != nil
}

// writeAll writes the queue until an error, and answers the callers of flush.
func (l *recorder) writeAll(ctx context.Context) {
	var err error
	for err == nil {
		l.mu.Lock()
		n := min(len(l.queue), batchSize)
		part, lost := l.queue[:n:n], l.lost
		waiting := l.waiting
		if n == 0 {
			l.waiting = nil
			l.mu.Unlock()
			answerAll(waiting, nil)
			return
		}
		l.mu.Unlock()
		err = l.writeBatch(ctx, part, lost)
		l.removeWritten(part, lost, err)
	}
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	answerAll(waiting, err)
	notify(l.wake) // try again
}

func answerAll(waiting []chan<- error, err error) {
	for _, c := range waiting {
		c <- err
	}
}

// removeWritten removes written records from the queue, or records the error.
func (l *recorder) removeWritten(part []record, lost int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.failure == nil {
			l.log.Error("audit and history are delayed: the registry accepts no writes", "error", err)
		}
		l.failure = err
		return
	}
	l.failure = nil
	for i := range part {
		l.bytes -= part[i].size()
		part[i] = nil
	}
	l.queue = l.queue[len(part):]
	if len(l.queue) == 0 {
		l.queue = nil
	}
	l.lost -= lost
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// batch is written in one transaction.
type batch struct {
	audit         insertRows
	history       insertRows
	historyGrowth map[string]growth   // by sandbox
	outputGrowth  map[atoll.Owner]int // by owner
	auditGrowth   map[atoll.Owner]int // by owner
	tokenUses     map[string]int64
}

// insertRows are rows to insert into a table.
type insertRows struct {
	insert string // statement up to the values
	width  int    // columns
	args   []any
}

func (r *insertRows) rowCount() int { return len(r.args) / r.width }

func (r *insertRows) add(args ...any) { r.args = append(r.args, args...) }

// write inserts all rows, many with one statement, which costs half as much as one statement each.
func (r *insertRows) write(ctx context.Context, tx *sql.Tx) error {
	for args := r.args; len(args) > 0; {
		n := min(len(args)/r.width, 64)
		one := "(" + strings.Repeat("?,", r.width-1) + "?)"
		text := r.insert + one + strings.Repeat(","+one, n-1)
		if _, err := tx.ExecContext(ctx, text, args[:n*r.width]...); err != nil {
			return err
		}
		args = args[n*r.width:]
	}
	return nil
}

func newBatch() *batch {
	return &batch{
		audit:         insertRows{insert: `insert into audit (time, app, user, token, action, object, detail, outcome, duration) values `, width: 9},
		history:       insertRows{insert: `insert into commands (sandbox, process, command, stdout, stderr, code, truncated, internal, error, time, duration) values `, width: 11},
		historyGrowth: make(map[string]growth), outputGrowth: make(map[atoll.Owner]int), auditGrowth: make(map[atoll.Owner]int), tokenUses: make(map[string]int64),
	}
}

// dropForgotten drops the history of sandboxes without a row in the registry.
func (b *batch) dropForgotten(ctx context.Context, tx *sql.Tx) error {
	ids := make(map[string]bool, len(b.historyGrowth))
	for some := range slices.Chunk(slices.Collect(maps.Keys(b.historyGrowth)), registry.MaxListed) {
		found, err := registry.QueryStrings(ctx, tx, "select id from sandboxes where id in "+registry.Placeholders(len(some)), registry.Args(some)...)
		if err != nil {
			return err
		}
		for _, id := range found {
			ids[id] = true
		}
	}
	args := b.history.args
	b.history.args = nil
	for row := range slices.Chunk(args, b.history.width) {
		if ids[row[0].(string)] {
			b.history.add(row...)
		}
	}
	return nil
}

func (l *recorder) writeBatch(ctx context.Context, part []record, lost int) error {
	b := newBatch()
	for _, e := range part {
		e.add(b)
	}
	if lost > 0 {
		(&auditRecord{Audit: atoll.Audit{
			Time: l.now(), Owner: fleetOwner, Action: "audit", Detail: fmt.Sprintf("%d entries were lost", lost), Outcome: "unavailable",
		}}).add(b)
	}
	write := l.store.WriteFenced
	select {
	case <-l.stop:
		write = l.store.WriteLast
	default:
	}
	return write(ctx, func(tx *sql.Tx) error {
		ctx := context.WithoutCancel(ctx) // it is short, and watching ctx costs time
		if err := b.dropForgotten(ctx, tx); err != nil {
			return err
		}
		if err := errors.Join(b.audit.write(ctx, tx), b.history.write(ctx, tx)); err != nil {
			return err
		}
		for id, at := range b.tokenUses {
			if _, err := tx.ExecContext(ctx, `update tokens set used = case when used < ?1 then ?1 else used end where id = ?2`, at, id); err != nil {
				return err
			}
		}
		return errors.Join(l.trimHistory(ctx, tx, b), l.trimAudit(ctx, tx, b))
	})
}
