package assistant

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
)

// Limits of the repetition of turns that the model's API has refused for a while.
const (
	maxRetries = 10
	retryFirst = 2 * time.Second  // if the API named no time; doubled for each attempt
	retryMost  = 10 * time.Minute // longest wait; an API that names more is not waited for
)

// passingStatuses are the statuses of a model's API after which a turn may be repeated.
var passingStatuses = []int{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, 529}

// runWithRetries runs the agent or the model, and repeats that as the request says. The usage of all attempts is the turn's.
func (r *turnRun) runWithRetries(ctx context.Context, run func(context.Context) (agent.Result, error)) (agent.Result, error) {
	for attempt := 1; ; attempt++ {
		res, err := run(ctx)
		again, wait := r.planRetry(ctx, res, err, attempt)
		if again == nil {
			return res, err
		}
		r.emitEvent(agent.Event{Type: agent.Retrying, Retry: again})
		if res.Session != "" && r.agent != nil {
			r.chat.Sessions[r.targetName()] = res.Session
		}
		if r.warm != nil {
			r.warm.endProcess()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.handle.Interrupted():
			timer.Stop()
			return agent.Result{Outcome: agent.Aborted, Code: "interrupted", Session: res.Session}, nil
		case <-ctx.Done():
			timer.Stop()
			return res, err
		}
		r.parted.Store(false)
	}
}

// planRetry returns how the turn is repeated after a result; nil: it is not.
func (r *turnRun) planRetry(ctx context.Context, res agent.Result, err error, attempt int) (*agent.Retry, time.Duration) {
	if attempt > r.request.Retries || ctx.Err() != nil {
		return nil, 0
	}
	end := r.decideOutcome(ctx, res, err)
	if end.Outcome != agent.Failed || !slices.Contains(passingStatuses, end.Status) {
		return nil, 0
	}
	wait := time.Duration(end.RetryAfter) * time.Second
	if wait == 0 {
		wait = min(retryFirst<<(attempt-1), retryMost)
	}
	if deadline, ok := ctx.Deadline(); wait > retryMost || ok && time.Until(deadline) < wait {
		return nil, 0
	}
	return &agent.Retry{Attempt: attempt, Status: end.Status, Delay: wait, Message: end.Code}, wait
}
