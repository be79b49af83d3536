package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// deniedSandbox is a sandbox whose connections are denied.
type deniedSandbox struct {
	atoll.Sandbox
	notices chan atoll.Notice
	log     []atoll.Connection
}

func (s *deniedSandbox) Notices(ctx context.Context, f func(atoll.Notice) error) error {
	for {
		select {
		case n := <-s.notices:
			if err := f(n); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
func (s *deniedSandbox) SetNetwork(context.Context, atoll.Network) error { return nil }
func (s *deniedSandbox) CheckNetwork(context.Context, string) (atoll.Connection, error) {
	return atoll.Connection{}, nil
}
func (s *deniedSandbox) Connections(context.Context) ([]atoll.Connection, error) { return s.log, nil }

func TestDenialsArePrintedAsTheyHappen(t *testing.T) {
	s := &deniedSandbox{notices: make(chan atoll.Notice, 1)}
	s.notices <- atoll.Notice{Kind: atoll.NoticeReady}
	printed := make(chan string, 10)
	stop := FollowDenials(t.Context(), s, "box", func(format string, args ...any) { printed <- fmt.Sprintf(format, args...) })
	s.notices <- atoll.Notice{Kind: atoll.NoticeDenied, Message: "a is denied", Suggestion: "GET https://a/$(x)'y"}
	if got := <-printed; got != "  network: a is denied" { // before stop
		t.Errorf("%q", got)
	}
	if got := <-printed; got != `  allow it: atoll network allow box 'GET https://a/$(x)'\''y'` {
		t.Errorf("%q", got)
	}
	now := time.Now()
	rule := strings.Repeat("; a long rule", 20) // it is not shortened
	s.log = []atoll.Connection{
		{Time: now.Add(-time.Hour), Reason: "before the command"}, {Time: now, Reason: "a is denied"}, {Time: now, Reason: "b is\ndenied" + rule, Suggestion: "b:443=10.1.2.3"}, {Time: now, Allowed: true, Reason: "failed"},
	}
	stop()
	close(printed)
	if got := slices.Collect(func(yield func(string) bool) {
		for p := range printed {
			yield(p)
		}
	}); len(got) != 2 || got[0] != "  network: b is denied"+rule || got[1] != "  allow it: atoll network allow box b:443=10.1.2.3" {
		t.Errorf("afterwards: %q", got)
	}
}

// quietSandbox has neither notices nor connections.
type quietSandbox struct{ atoll.Sandbox }

func (quietSandbox) ID() string { return "quiet" }

// A sandbox without notices does not keep the command from running.
func TestDenialsWithoutNotices(t *testing.T) {
	FollowDenials(t.Context(), quietSandbox{}, "quiet", t.Errorf)()
}
