package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// startingSandbox is a sandbox that another process is starting: it runs after some looks.
type startingSandbox struct {
	atoll.Sandbox

	looks int // that find it starting
}

func (s *startingSandbox) Status(context.Context) (atoll.Status, error) {
	if s.looks--; s.looks >= 0 {
		return atoll.Status{State: atoll.Starting}, nil
	}
	return atoll.Status{State: atoll.Running}, nil
}

// TestStartingSandboxIsWaitedFor: a sandbox that another process is starting after a kill is not in error.
func TestStartingSandboxIsWaitedFor(t *testing.T) {
	for _, test := range []struct {
		looks int
		want  atoll.State
	}{{0, atoll.Running}, {3, atoll.Running}, {1e9, atoll.Starting}} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			st, err := settledStatus(t.Context(), &startingSandbox{looks: test.looks})
			if err != nil || st.State != test.want {
				t.Errorf("after %d looks it is %s, %v", test.looks, st.State, err)
			}
			if time.Since(begun) > settlePatience+time.Second {
				t.Error("it was waited for too long")
			}
		})
	}
}
