package assistant

import (
	"context"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// usageOf returns the usage of requests to a model.
func usageOf(u model.Usage) agent.Usage {
	return agent.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Requests: u.Requests, Cost: u.Cost, Counted: true}
}

// noteUsage records the usage of a request to the model in the session's journal.
func (r *turnRun) noteUsage(request int64, u model.Usage, charged bool) {
	if charged {
		r.journal.AddUsage(request, usageOf(u))
		return
	}
	r.journal.NoteUsage(request, usageOf(u))
}

// logModelUse logs a request to the model, and records its answer.
func (r *turnRun) logModelUse(l model.LogEntry) {
	if l.Refused != "" {
		r.mu.Lock()
		r.refused = l.Refused
		r.mu.Unlock()
	}
	if l.Failed != nil {
		r.journal.NoteAnswer(agent.ModelAnswer{Status: l.Failed.Status, RetryAfter: l.Failed.RetryAfter})
	} else if l.Status != 0 {
		r.journal.NoteAnswer(agent.ModelAnswer{Status: l.Status})
	}
	r.pipeline.log.Debug("model asked", "turn", r.id, "connector", l.Connector, "model", l.Model, "status", l.Status, "input", l.Usage.Input,
		"output", l.Usage.Output, "took", l.Duration, "first", l.FirstByte, "refused", l.Refused)
}

// adoptUsage takes over the usage that the process which began the turn has counted. Of requests that were in
// flight it charges what the journal knows.
func (r *turnRun) adoptUsage(ctx context.Context) error {
	l := r.pipeline.opts.Ledger
	sum := r.journal.AdoptPending()
	if l == nil || sum == (agent.Usage{}) {
		return nil
	}
	return l.Charge(ctx, r.modelCaller(), modelUsage(sum))
}

// modelCaller returns the caller of models, for budgets and the ledger.
func (r *turnRun) modelCaller() model.Caller {
	return model.Caller{Owner: r.chat.Owner, Chat: r.chat.ID, Assistant: r.targetName(), Turn: r.id}
}

// modelUsage is the inverse of usageOf.
func modelUsage(u agent.Usage) model.Usage {
	return model.Usage{
		Usage: dialect.Usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}, Requests: u.Requests, Cost: u.Cost,
	}
}
