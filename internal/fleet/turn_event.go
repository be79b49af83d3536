package fleet

import (
	"context"
	"database/sql"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// turnEventTimeout bounds storing an event of a turn.
const turnEventTimeout = 10 * time.Second

// EmitTurn emits an event of the turn's owner about its state: turn.running, turn.waiting, turn.finished. The
// object is the turn's sandbox, as far as it has one. Texts of the agent are in the turn only.
func (f *Fleet) EmitTurn(r agent.Record) {
	e := atoll.Event{Time: f.now(), Type: "turn." + r.State, Owner: r.Owner, Object: r.Sandbox, Data: map[string]string{"turn": r.ID}}
	for name, v := range map[string]string{"agent": r.Agent, "assistant": r.Assistant, "chat": r.Chat} {
		if v != "" {
			e.Data[name] = truncate(v, 200)
		}
	}
	if r.Result != nil {
		e.Data["outcome"] = string(r.Result.Outcome)
	}
	ctx, cancel := context.WithTimeout(context.Background(), turnEventTimeout)
	defer cancel()
	if err := f.registry.Write(ctx, func(tx *sql.Tx) error { return f.events.Emit(ctx, tx, e) }); err != nil {
		f.log.Warn("emit turn event", "turn", r.ID, "err", err)
	}
}
