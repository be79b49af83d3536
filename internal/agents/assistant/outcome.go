package assistant

import (
	"context"
	"errors"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/session"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/model/dialect"
)

// newJournal returns the journal of the turn's session.
func (r *turnRun) newJournal() *session.Journal {
	rec := agent.SessionRecord{
		ID: r.chat.ID, Owner: r.chat.Owner, Assistant: r.assistant.ID, Model: r.modelOptions().Model, Sandbox: r.request.Sandbox, Workspace: r.placement.workspace,
		Labels: r.request.Labels, Session: r.chat.Sessions[r.targetName()], Turn: r.id,
	}
	if r.agent != nil {
		rec.Agent = r.agent.Name()
	}
	if r.connector != nil {
		rec.Connector = r.connector.Name
	}
	return r.pipeline.sessions.Begin(rec)
}

// adoptSession takes over the agent's session id from the journal: a turn whose process was killed has not
// saved its chat.
func (t *Turn) adoptSession() {
	rec, err := t.pipeline.sessions.Get(t.chat.Owner, t.chat.ID)
	if err != nil || rec.Session == "" || rec.Assistant != t.assistant.ID || t.agent == nil || rec.Agent != t.agent.Name() || !rec.Updated.After(t.chat.Updated) {
		return
	}
	t.chat.Sessions[t.targetName()] = rec.Session
}

// canResume reports whether the next turn of the chat can resume the conversation.
func (t *Turn) canResume() bool { return t.agent == nil || t.agent.Features().Resume }

// decideOutcome computes the turn's result from what is recorded about it. An error of the turn becomes an
// outcome: nothing that was counted or known is lost with it.
func (r *turnRun) decideOutcome(ctx context.Context, res agent.Result, err error) agent.Result {
	end := r.journal.Ending()
	end.Report, end.Err = res, err
	if res.Outcome == "" && err == nil {
		end.Report.Outcome = agent.OK
	}
	if ctx.Err() != nil && (r.agent == nil || err != nil) { // else the agent's session has stopped for it
		why := agent.StopReasonOf(ctx)
		end.Stop = &why
	}
	if r.agent != nil && err == nil {
		end.Answer = agent.ModelAnswer{} // the agent's session has taken it into account
	}
	var api *dialect.Error
	if errors.As(err, &api) {
		end.Answer = agent.ModelAnswer{Status: api.Status, RetryAfter: api.RetryAfter}
	}
	if r.access != nil && r.access.Usage().Refused > 0 && end.Report.Outcome == agent.Failed {
		r.mu.Lock()
		end.Budget = r.refused
		r.mu.Unlock()
	}
	return end.Result()
}

// auditError returns the error of a turn's result for the audit log.
func auditError(res agent.Result) error {
	switch res.Outcome {
	case agent.OK, "":
		return nil
	case agent.Timeout:
		return atoll.ErrTimeout
	case agent.BudgetExceeded:
		return atoll.ErrQuota
	case agent.Aborted:
		return context.Canceled
	}
	return errors.Join(atoll.ErrUnavailable, errors.New(res.Code))
}

// SettleTurn returns the result of a turn whose process has ended and that no process continues, from the journal
// of its session, and charges the requests to the model that were in flight.
func (p *Pipeline) SettleTurn(ctx context.Context, rec agent.Record) agent.Result {
	end := agent.Ending{}
	j := p.sessions.Reopen(rec.Owner, rec.Chat, rec.ID)
	if j != nil {
		if sum := j.AdoptPending(); p.opts.Ledger != nil && sum != (agent.Usage{}) {
			who := model.Caller{Owner: rec.Owner, Chat: rec.Chat, Assistant: targetOf(rec.Assistant, rec.Agent), Turn: rec.ID}
			if err := p.opts.Ledger.Charge(ctx, who, modelUsage(sum)); err != nil {
				p.log.Error("usage of a turn not charged", "turn", rec.ID, "err", err)
			}
		}
		end = j.Ending()
	}
	end.Answer = agent.ModelAnswer{} // the server was killed, whatever the model's API answered
	end.Report = agent.Result{Outcome: agent.Crashed, Code: "unavailable", Message: "the server ended during the turn"}
	res := end.Result()
	if j != nil {
		a := p.opts.Agents[rec.Agent]
		j.Finish(res, a == nil || a.Features().Resume)
	}
	return res
}
