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
)

// What the ledger holds back at most, and how long.
const (
	ledgerEntries = 4096
	ledgerBytes   = 32 << 20
	ledgerBatch   = 512                    // entries of one transaction
	ledgerDelay   = 100 * time.Millisecond // from the first entry to its writing
	ledgerRetry   = time.Second            // after a write that failed
	ledgerWait    = 5 * time.Second        // that a caller waits for room
)

// entry is something to take down.
type entry interface {
	// size is how many bytes it holds, about.
	size() int

	// add puts it into a batch.
	add(b *batch)
}

// ledger takes down what need not be in the registry at once, audit and
// history, and writes it in batches. One goroutine does; close waits for it.
type ledger struct {
	store *store
	now   func() time.Time
	log   *slog.Logger

	wake   chan struct{} // something is in the queue
	urgent chan struct{} // it is to be written now
	stop   chan struct{} // closed: write all and end
	done   chan struct{} // closed: ended
	cancel context.CancelFunc

	mu      sync.Mutex
	queue   []entry          // guarded by mu, as all below
	bytes   int              // of queue
	room    chan struct{}    // closed when there is room again; nil: nobody waits
	lost    int              // entries that found no room in time, to be told
	waiting []chan<- error   // who asked for a flush
	open    int              // calls under way whose end will be noted
	idle    chan struct{}    // closed when there are none; nil: nobody waits
	closed  bool             // nothing more is taken
	failure error            // of the last write, until one succeeds
	used    map[string]int64 // when a token's use was last taken down

	kept   map[string]growth   // history of a sandbox since its last trimming; the goroutine's own
	keptOf map[atoll.Owner]int // bytes of output in the history of an owner since; likewise
	noted  map[atoll.Owner]int // calls of an owner in the audit since; likewise
}

// newLedger starts a ledger. A nil log is silent.
func newLedger(s *store, now func() time.Time, log *slog.Logger) *ledger {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &ledger{
		store: s, now: now, log: log, cancel: cancel,
		wake: make(chan struct{}, 1), urgent: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		kept: make(map[string]growth), keptOf: make(map[atoll.Owner]int), noted: make(map[atoll.Owner]int), used: make(map[string]int64),
	}
	go l.run(ctx)
	return l
}

// add takes an entry down. When the queue is full it waits, but not for ever:
// what then finds no room is counted, logged and told in the audit.
func (l *ledger) add(e entry) {
	n := e.size()
	var late *time.Timer
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			l.log.Error("entry after the end of the ledger")
			return
		}
		if len(l.queue) == 0 || len(l.queue) < ledgerEntries && l.bytes+n <= ledgerBytes {
			first := len(l.queue) == 0
			l.queue = append(l.queue, e)
			l.bytes += n
			hurry := len(l.queue) == ledgerBatch
			l.mu.Unlock()
			if first {
				poke(l.wake)
			}
			if hurry {
				poke(l.urgent)
			}
			return
		}
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		l.mu.Unlock()
		poke(l.urgent)
		if late == nil {
			late = time.NewTimer(ledgerWait)
			defer late.Stop()
		}
		select {
		case <-room:
		case <-late.C:
			l.mu.Lock()
			l.lost++
			l.mu.Unlock()
			l.log.Error("entry of the ledger lost: the registry takes nothing", "after", ledgerWait)
			return
		}
	}
}

// flush returns when all that was taken down before is in the registry.
func (l *ledger) flush(ctx context.Context) error {
	l.mu.Lock()
	if len(l.queue) == 0 {
		l.mu.Unlock()
		return nil
	}
	answer := make(chan error, 1)
	l.waiting = append(l.waiting, answer)
	l.mu.Unlock()
	poke(l.wake)
	poke(l.urgent)
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.done:
		return fmt.Errorf("%w: the fleet is closed", atoll.ErrUnavailable)
	}
}

// begin says that a call is under way that will be noted: close waits for it.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
}

// end says that the call was noted.
func (l *ledger) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open--; l.open == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// await waits until no call is under way, but not for ever: one that panicked
// never ends. Then nothing more is taken.
func (l *ledger) await(ctx context.Context) {
	l.mu.Lock()
	idle := make(chan struct{})
	if l.open == 0 {
		close(idle)
	} else {
		l.idle = idle
	}
	l.mu.Unlock()
	late := time.NewTimer(ledgerWait)
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

// close waits for the calls under way, writes what is left and waits until that
// is done, or ctx is. It is called once.
func (l *ledger) close(ctx context.Context) error {
	l.await(ctx)
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

func (l *ledger) run(ctx context.Context) {
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
		delay := ledgerDelay
		if l.failing() {
			delay = ledgerRetry
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

func (l *ledger) failing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure != nil
}

// writeAll writes the queue, as far as that succeeds, and answers those who
// wait for it.
func (l *ledger) writeAll(ctx context.Context) {
	var err error
	for err == nil {
		l.mu.Lock()
		n := min(len(l.queue), ledgerBatch)
		part, lost := l.queue[:n:n], l.lost
		waiting := l.waiting
		if n == 0 {
			l.waiting = nil
			l.mu.Unlock()
			answer(waiting, nil)
			return
		}
		l.mu.Unlock()
		err = l.writeBatch(ctx, part, lost)
		l.settle(part, lost, err)
	}
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	answer(waiting, err)
	poke(l.wake) // to try again
}

func answer(waiting []chan<- error, err error) {
	for _, c := range waiting {
		c <- err
	}
}

// settle takes what was written out of the queue, or notes why it was not.
func (l *ledger) settle(part []entry, lost int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if l.failure == nil {
			l.log.Error("audit and history wait: the registry takes nothing", "error", err)
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

// batch is what is written in one transaction.
type batch struct {
	audit   rows
	history rows
	grown   map[string]growth   // history, by sandbox
	grownOf map[atoll.Owner]int // bytes of its output, by owner
	noted   map[atoll.Owner]int // rows of audit, by owner
	used    map[string]int64
}

// rows are to be inserted into a table.
type rows struct {
	insert string // up to the values
	width  int    // columns
	args   []any
}

func (r *rows) count() int { return len(r.args) / r.width }

func (r *rows) add(args ...any) { r.args = append(r.args, args...) }

// write inserts all rows, many with one statement: that costs half of as many
// statements.
func (r *rows) write(ctx context.Context, tx *sql.Tx) error {
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
		audit:   rows{insert: `insert into audit (time, app, user, token, action, object, detail, outcome, duration) values `, width: 9},
		history: rows{insert: `insert into commands (sandbox, process, command, stdout, stderr, code, truncated, error, time, duration) values `, width: 10},
		grown:   make(map[string]growth), grownOf: make(map[atoll.Owner]int), noted: make(map[atoll.Owner]int), used: make(map[string]int64),
	}
}

// known drops the history of sandboxes that the registry has forgotten by now.
func (b *batch) known(ctx context.Context, tx *sql.Tx) error {
	ids := make(map[string]bool, len(b.grown))
	for some := range slices.Chunk(slices.Collect(maps.Keys(b.grown)), listed) {
		found, err := texts(ctx, tx, "select id from sandboxes where id in "+places(len(some)), values(some)...)
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

// texts returns the one column that a query has.
func texts(ctx context.Context, q querier, text string, args ...any) (list []string, err error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

func (l *ledger) writeBatch(ctx context.Context, part []entry, lost int) error {
	b := newBatch()
	for _, e := range part {
		e.add(b)
	}
	if lost > 0 {
		(&auditEntry{Audit: atoll.Audit{
			Time: l.now(), Owner: fleetOwner, Action: "audit", Detail: fmt.Sprintf("%d entries were lost", lost), Outcome: "unavailable",
		}}).add(b)
	}
	return l.store.tell(ctx, func(tx *sql.Tx) error {
		ctx := context.WithoutCancel(ctx) // it won't take long now, and watching it does
		if err := b.known(ctx, tx); err != nil {
			return err
		}
		if err := errors.Join(b.audit.write(ctx, tx), b.history.write(ctx, tx)); err != nil {
			return err
		}
		for id, at := range b.used {
			if _, err := tx.ExecContext(ctx, `update tokens set used = case when used < ?1 then ?1 else used end where id = ?2`, at, id); err != nil {
				return err
			}
		}
		return errors.Join(l.trimHistory(ctx, tx, b), l.trimAudit(ctx, tx, b))
	})
}
