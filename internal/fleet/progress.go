package fleet

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// progressInterval is the minimum time between two events of one part of a preparation.
const progressInterval = 500 * time.Millisecond

// progressReporter returns a function that emits events about the creation of a sandbox; nil for a
// sandbox of a pool.
func (f *Fleet) progressReporter(ctx context.Context, r *row) func(atoll.Progress) {
	if r.pool != "" {
		return nil // it has no owner yet
	}
	e := atoll.Event{Type: "sandbox.progress", Owner: r.owner, Object: r.id, Name: r.name}
	hide := f.fullMask(&r.cfg).redact
	var last time.Time
	var part string
	return func(p atoll.Progress) {
		now := time.Now()
		ended := p.Total > 0 && p.Done >= p.Total
		if id := p.ID + "\x00" + p.Message; id == part && !ended && now.Sub(last) < progressInterval {
			return
		} else if id != part {
			part = id
		}
		last = now
		e := e
		e.Time, e.Message = f.now(), truncate(hide(p.Message), 200)
		e.Data = map[string]string{"part": truncate(p.ID, 100)}
		if p.Done > 0 || p.Total > 0 {
			e.Data["done"], e.Data["total"] = strconv.FormatInt(p.Done, 10), strconv.FormatInt(p.Total, 10)
		}
		err := f.registry.Write(ctx, func(tx *sql.Tx) error { return f.events.Emit(ctx, tx, e) })
		if err != nil && ctx.Err() == nil {
			f.log.Warn("emit progress event", "id", r.id, "err", err)
		}
	}
}
