package fleet

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
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

	// prepare does what needs no registry.
	prepare()

	// write puts it into the registry.
	write(ctx context.Context, b *batch) error
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
	closed  bool             // nothing more is taken
	failure error            // of the last write, until one succeeds
	used    map[string]int64 // when a token's use was last taken down

	kept map[string]int // history written for a sandbox since its last trimming; the goroutine's own
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
		kept: make(map[string]int), used: make(map[string]int64),
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

// close writes what is left and waits until that is done, or ctx is. It is
// called once, when nobody adds any more.
func (l *ledger) close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
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

// batch is one transaction of the ledger.
type batch struct {
	l        *ledger
	tx       *sql.Tx
	prepared map[string]*sql.Stmt
	audits   int            // rows added
	grown    map[string]int // rows added to the history of a sandbox
}

// exec runs a statement, which is compiled once for the batch.
func (b *batch) exec(ctx context.Context, text string, args ...any) (sql.Result, error) {
	st := b.prepared[text]
	if st == nil {
		var err error
		if st, err = b.tx.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
		b.prepared[text] = st
	}
	return st.ExecContext(ctx, args...)
}

func (l *ledger) writeBatch(ctx context.Context, part []entry, lost int) error {
	for _, e := range part {
		e.prepare()
	}
	if lost > 0 {
		part = append(part, &auditEntry{Audit: atoll.Audit{
			Time: l.now(), Owner: fleetOwner, Action: "audit", Detail: fmt.Sprintf("%d entries were lost", lost), Outcome: "unavailable",
		}})
	}
	return l.store.write(ctx, func(tx *sql.Tx) (err error) {
		b := &batch{l: l, tx: tx, prepared: make(map[string]*sql.Stmt), grown: make(map[string]int)}
		defer func() {
			for _, st := range b.prepared {
				err = errors.Join(err, st.Close())
			}
		}()
		for _, e := range part {
			if err := e.write(ctx, b); err != nil {
				return err
			}
		}
		return b.trim(ctx)
	})
}
