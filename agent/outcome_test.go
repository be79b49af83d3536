package agent_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// TestEnding checks how a turn's result follows from what is recorded about it.
func TestEnding(t *testing.T) {
	code := func(n int) *int { return &n }
	failed := agent.Result{Outcome: agent.Failed, Code: "agent", Message: "it failed"}
	ok := agent.Result{Outcome: agent.OK, Text: "done"}
	deadline := &agent.StopReason{Outcome: agent.Timeout, Message: "too long"}
	counted := agent.Usage{Input: 100, Output: 5, Counted: true}
	for name, test := range map[string]struct {
		end     agent.Ending
		outcome agent.Outcome
		code    string
		message string // a part of it
		status  int
		retry   int
	}{
		"AnsweredIsOK":                  {end: agent.Ending{Report: ok}, outcome: agent.OK},
		"OldFailureIsNotTheCause":       {end: agent.Ending{Report: ok, Answer: agent.ModelAnswer{Status: 500}}, outcome: agent.OK},
		"StatusIsTheCause":              {end: agent.Ending{Report: failed, Answer: agent.ModelAnswer{Status: 429, RetryAfter: 7}}, outcome: agent.Failed, code: "rate_limit", message: "it failed", status: 429, retry: 7},
		"OverloadedIsTheCause":          {end: agent.Ending{Report: failed, Answer: agent.ModelAnswer{Status: 529}}, outcome: agent.Failed, code: "overloaded", status: 529},
		"WordingDoesNotMatter":          {end: agent.Ending{Report: agent.Result{Outcome: agent.Failed, Code: "rate_limit"}, Answer: agent.ModelAnswer{Status: 402}}, outcome: agent.Failed, code: "billing", status: 402},
		"AnsweredModelIsNotTheCause":    {end: agent.Ending{Report: failed, Answer: agent.ModelAnswer{Status: 200}}, outcome: agent.Failed, code: "agent"},
		"AgentKnowsItsSession":          {end: agent.Ending{Report: agent.Result{Outcome: agent.Failed, Code: "session_not_found"}, Answer: agent.ModelAnswer{Status: 404}}, outcome: agent.Failed, code: "session_not_found"},
		"DeadlineTellsTheStatus":        {end: agent.Ending{Stop: deadline, Answer: agent.ModelAnswer{Status: 429, RetryAfter: 2}}, outcome: agent.Timeout, code: "rate_limit", message: "too long; the last answer of the model's API was 429", status: 429, retry: 2},
		"DeadlineOverAborted":           {end: agent.Ending{Report: agent.Result{Outcome: agent.Aborted}, Stop: deadline}, outcome: agent.Timeout, code: "timeout", message: "too long"},
		"AnswerOverDeadline":            {end: agent.Ending{Report: ok, Stop: deadline}, outcome: agent.OK},
		"AbortedIsNoFailureOfTheModel":  {end: agent.Ending{Stop: &agent.StopReason{Outcome: agent.Aborted, Message: "interrupted"}, Answer: agent.ModelAnswer{Status: 500}}, outcome: agent.Aborted, code: "aborted", message: "interrupted"},
		"ExitWithoutReport":             {end: agent.Ending{Exit: code(3), Stderr: "segmentation fault"}, outcome: agent.Crashed, message: "status 3 and without a result: segmentation fault"},
		"ExitAfterStatus":               {end: agent.Ending{Exit: code(173), Answer: agent.ModelAnswer{Status: 429}}, outcome: agent.Failed, code: "rate_limit", status: 429},
		"KilledIsNoFailureOfTheModel":   {end: agent.Ending{Exit: code(137), Answer: agent.ModelAnswer{Status: 500}}, outcome: agent.Crashed, message: "SIGKILL"},
		"BudgetOverStatus":              {end: agent.Ending{Report: failed, Budget: "3 requests", Refused: true, Answer: agent.ModelAnswer{Status: 403}}, outcome: agent.BudgetExceeded, code: "budget", message: "3 requests"},
		"FinishedWithinBudget":          {end: agent.Ending{Report: ok, Budget: "3 requests"}, outcome: agent.OK},
		"ErrorOfTheSandbox":             {end: agent.Ending{Err: fmt.Errorf("create: %w", atoll.ErrUnavailable), Answer: agent.ModelAnswer{Status: 500}}, outcome: agent.Failed, code: "unavailable", message: "create"},
		"ErrorOfADeadline":              {end: agent.Ending{Err: fmt.Errorf("create: %w", atoll.ErrTimeout)}, outcome: agent.Timeout, code: "timeout"},
		"UnknownError":                  {end: agent.Ending{Err: errors.New("broken")}, outcome: agent.Failed, code: "internal", message: "broken"},
		"ServerEndedKeepsItsOwnMessage": {end: agent.Ending{Report: agent.Result{Outcome: agent.Crashed, Code: "unavailable", Message: "the server ended"}}, outcome: agent.Crashed, code: "unavailable", message: "the server ended"},
	} {
		t.Run(name, func(t *testing.T) {
			test.end.Session, test.end.Usage = "s1", counted
			r := test.end.Result()
			if r.Outcome != test.outcome || r.Code != test.code || !strings.Contains(r.Message, test.message) || r.Status != test.status || r.RetryAfter != test.retry {
				t.Errorf("%+v", r)
			}
			if r.Session != "s1" || r.Usage != counted {
				t.Errorf("session %q, usage %+v", r.Session, r.Usage)
			}
			again := test.end
			again.Report, again.Answer = r, agent.ModelAnswer{} // as for a turn whose process has taken it into account
			if diff := cmp.Diff(r, again.Result()); diff != "" {
				t.Errorf("computed again:\n%s", diff)
			}
		})
	}
}
