package fleet

import (
	"context"
	"errors"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/archive"
)

// maxComparisons is how many comparisons of snapshots a server runs at once: each may need 200 MB of memory.
const maxComparisons = 2

// CompareSnapshots lists the files that differ between a snapshot, by id or name, and another one, or the files as
// they are now if to is empty. The driver must be an [atoll.FilePacker]. The caller needs [atoll.ScopeRun]. At most
// maxComparisons run at once in a server, and one of an owner; others wait.
func (s *Sandbox) CompareSnapshots(ctx context.Context, from, to string) (d atoll.SnapshotDifference, err error) {
	noted := s.startAudit("compare snapshots", from+" "+to)
	err = callInner(ctx, s, "compare snapshots", func(ctx context.Context, t atoll.FilePacker) error {
		end, err := s.f.comparisons.acquire(ctx, s.b.getOwner())
		if err != nil {
			return err
		}
		defer end()
		old, err := t.PackFiles(ctx, from)
		if err != nil {
			return err
		}
		now, err := t.PackFiles(ctx, to)
		if err != nil {
			return errors.Join(err, old.Close())
		}
		d, err = archive.Compare(ctx, old, now)
		return errors.Join(err, old.Close(), now.Close())
	})
	d.From, d.To = from, to
	noted(err)
	return d, err
}

// comparisonSlots bounds the comparisons that run at once: all, and those of an owner. Its methods may be called
// concurrently.
type comparisonSlots struct {
	all chan struct{} // has one element for each comparison that runs

	mu     sync.Mutex
	owners map[atoll.Owner]*ownerSlot // of the owners who have one that runs or waits
}

// ownerSlot is the place of one owner.
type ownerSlot struct {
	slot    chan struct{} // has one element while a comparison of the owner runs, or waits only for those of others
	callers int           // comparisons that run or wait
}

func newComparisonSlots() *comparisonSlots {
	return &comparisonSlots{all: make(chan struct{}, maxComparisons), owners: make(map[atoll.Owner]*ownerSlot)}
}

// acquire waits until a comparison of an owner may run. The caller releases its place afterwards.
func (c *comparisonSlots) acquire(ctx context.Context, o atoll.Owner) (release func(), err error) {
	c.mu.Lock()
	own := c.owners[o]
	if own == nil {
		own = &ownerSlot{slot: make(chan struct{}, 1)}
		c.owners[o] = own
	}
	own.callers++
	c.mu.Unlock()
	var held []chan struct{}
	release = func() {
		for _, slots := range held {
			<-slots
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if own.callers--; own.callers == 0 {
			delete(c.owners, o)
		}
	}
	for _, slots := range []chan struct{}{own.slot, c.all} {
		select {
		case slots <- struct{}{}:
			held = append(held, slots)
		case <-ctx.Done():
			release()
			return nil, timeoutError(context.Cause(ctx))
		}
	}
	return release, nil
}
