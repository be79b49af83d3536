package fleet

import (
	"context"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// lastActive returns when the sandbox was last in use; now, if a call is active that counts as use, or programs inside are.
func (b *handle) lastActive(now time.Time) time.Time {
	if b.uses.Load() > 0 {
		return now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busyInside {
		return now
	}
	return b.active
}

// lastCall returns the end of the last call that counts as use; now, if one is active. What programs inside do is not in it.
func (b *handle) lastCall(now time.Time) time.Time {
	if b.uses.Load() > 0 {
		return now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.called
}

// latestUse returns the time of the last call or of the last activity inside.
func (f *Fleet) latestUse(ctx context.Context, r row) time.Time {
	active := r.active
	b := f.ensureHandle(r)
	if t := b.lastActive(f.now()); t.After(active) {
		active = t
	}
	if r.state != atoll.Running {
		return active
	}
	sb, err := b.openInner(ctx)
	if err != nil {
		return active
	}
	if st, err := sb.Status(ctx); err == nil && st.Active.After(active) {
		active = st.Active.UTC()
	}
	return active
}
