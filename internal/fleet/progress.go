package fleet

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// progressTick is between two events of one part of a preparation.
const progressTick = 500 * time.Millisecond

// progressOf returns what tells those who follow events how far the making of a
// sandbox has come; nil: nobody is to be told.
func (f *Fleet) progressOf(ctx context.Context, r *row) func(atoll.Progress) {
	if r.pool != "" {
		return nil // it is nobody's yet
	}
	e := atoll.Event{Type: "sandbox.progress", Owner: r.owner, Object: r.id, Name: r.name}
	hide := redactor(r.cfg)
	var last time.Time
	var part string
	return func(p atoll.Progress) {
		now := time.Now()
		ended := p.Total > 0 && p.Done >= p.Total
		if id := p.ID + "\x00" + p.Message; id == part && !ended && now.Sub(last) < progressTick {
			return
		} else if id != part {
			part = id
		}
		last = now
		e := e
		e.Time, e.Message = f.now(), clip(hide(p.Message), 200)
		e.Data = map[string]string{"part": clip(p.ID, 100)}
		if p.Done > 0 || p.Total > 0 {
			e.Data["done"], e.Data["total"] = strconv.FormatInt(p.Done, 10), strconv.FormatInt(p.Total, 10)
		}
		err := f.store.write(ctx, func(tx *sql.Tx) error { return f.emit(ctx, tx, e) })
		if err != nil && ctx.Err() == nil {
			f.log.Warn("progress not told", "id", r.id, "err", err)
		}
	}
}
