package event

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

var (
	alice     = atoll.Owner{App: "web", User: "alice"}
	bob       = atoll.Owner{App: "web", User: "bob"}
	errEnough = errors.New("enough")
)

// newTestLog returns the log of a new registry, until the end of the test.
func newTestLog(t *testing.T) *Log {
	t.Helper()
	reg, err := registry.OpenSQLite(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLog(reg, time.Now, 0)
	reg.OnCommit = l.NotifyCommit
	t.Cleanup(func() {
		if err := errors.Join(l.Close(context.Background()), reg.Close()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func emit(t *testing.T, l *Log, list ...atoll.Event) {
	t.Helper()
	err := l.store.Write(t.Context(), func(tx *sql.Tx) error {
		for _, e := range list {
			if err := l.Emit(t.Context(), tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFollowersOfAnOwnerAreLimited follows as often as one owner may: once more
// is refused, another owner's is not.
func TestFollowersOfAnOwnerAreLimited(t *testing.T) {
	l := newTestLog(t)
	for range MaxFollowers {
		if err := l.addFollower(alice); err != nil {
			t.Fatal(err)
		}
	}
	enough := func(atoll.Event) error { return errEnough }
	emit(t, l, atoll.Event{Owner: alice, Type: "x"}, atoll.Event{Owner: bob, Type: "x"})
	if err := l.Follow(t.Context(), alice, Filter{}, enough); !errors.Is(err, atoll.ErrQuota) {
		t.Errorf("one too many: %v", err)
	}
	if err := l.Follow(t.Context(), bob, Filter{}, enough); !errors.Is(err, errEnough) {
		t.Errorf("another owner's: %v", err)
	}
	l.removeFollower(alice)
	if err := l.Follow(t.Context(), alice, Filter{}, enough); !errors.Is(err, errEnough) {
		t.Errorf("when one has gone: %v", err)
	}
	for range MaxFollowers - 1 {
		l.removeFollower(alice)
	}
	if len(l.perOwner) != 0 || l.followers != 0 {
		t.Errorf("%d followers are left, of %d owners", l.followers, len(l.perOwner))
	}
}

// TestEventsWakeOnlyTheirOwners has followers of two owners and of all, and
// events of one.
func TestEventsWakeOnlyTheirOwners(t *testing.T) {
	l := newTestLog(t)
	emit(t, l, atoll.Event{Owner: alice, Type: "x"})
	mine, others, all := l.nextEvent(alice), l.nextEvent(bob), l.nextEvent(atoll.Owner{})
	emit(t, l, atoll.Event{Owner: alice, Type: "x"}, atoll.Event{Owner: alice, Type: "y"})
	list, err := l.ownersBetween(t.Context(), 1, 3)
	if err != nil || len(list) != 1 || list[0] != alice {
		t.Fatalf("%v, %v", list, err)
	}
	l.wakeFollowers(list)
	<-mine
	<-all
	select {
	case <-others:
		t.Error("another owner's follower is woken")
	default:
	}
	l.wakeFollowers(nil)
	<-others
}
