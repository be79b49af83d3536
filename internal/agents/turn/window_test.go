package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// TestFollowersGetWhatTheLogDrops checks that those who follow a turn from its beginning get every event of one whose
// log is full, that the log says how many it does not have, and that it has each request for permission.
func TestFollowersGetWhatTheLogDrops(t *testing.T) {
	d := open(t, Options{LogBytes: 50_000})
	defer d.closeNow(t)
	const events, requests = 100_000, 5
	begin := make(chan struct{})
	x := start(t, d, func(_ context.Context, x *Turn) (agent.Result, error) {
		x.Emit(textEvent("first"))
		<-begin
		for i := range events {
			x.Emit(textEvent(fmt.Sprintf("%d %s", i, strings.Repeat("y", 80))))
			if i%(events/requests) == events/requests-1 {
				id := fmt.Sprint("p", i)
				x.Emit(agent.Event{Type: agent.PermissionRequested, Permission: &agent.Permission{ID: id}})
				x.Emit(agent.Event{Type: agent.PermissionResolved, Permission: &agent.Permission{ID: id}})
			}
		}
		return agent.Result{Text: "end"}, nil
	})
	texts, last, begun := 0, int64(0), false
	err := d.Follow(t.Context(), alice, x.ID(), 0, func(e agent.Event) error {
		if e.Seq != last+1 {
			return fmt.Errorf("event %d follows %d", e.Seq, last)
		}
		last = e.Seq
		if e.Type == textEvent("").Type && e.Text != "first" {
			if !strings.HasPrefix(e.Text, fmt.Sprint(texts, " ")) {
				return fmt.Errorf("text %d is %.20q", texts, e.Text)
			}
			texts++
		}
		if !begun {
			begun = true
			close(begin)
		}
		return nil
	})
	if err != nil || texts != events {
		t.Errorf("%d of %d texts were followed: %v", texts, events, err)
	}
	<-x.Done()
	stored, asked, told := 0, 0, ""
	for _, e := range d.readEvents(t, x.ID(), 0) {
		switch e.Type {
		case textEvent("").Type:
			stored++
		case agent.PermissionRequested:
			asked++
		case agent.Dropped:
			told = e.Text
		}
	}
	if want := fmt.Sprintf("%d events are not in the log", events+1-stored); asked != requests || told != want {
		t.Errorf("the log has %d of %d requests and says %q, not %q", asked, requests, told, want)
	}
}

// TestLateFollowerLearnsOfGap checks that a follower who comes when the window has moved on is told what it
// misses, and gets the rest.
func TestLateFollowerLearnsOfGap(t *testing.T) {
	d := open(t, Options{LogBytes: 1000})
	defer d.closeNow(t)
	full, end := make(chan struct{}), make(chan struct{})
	x := start(t, d, func(_ context.Context, x *Turn) (agent.Result, error) {
		for range 2 * windowBytes / 1000 {
			x.Emit(textEvent(strings.Repeat("y", 1000)))
		}
		close(full)
		<-end
		return agent.Result{Text: "end"}, nil
	})
	<-full
	gaps, last := 0, int64(0)
	err := d.Follow(t.Context(), alice, x.ID(), 0, func(e agent.Event) error {
		if e.Seq <= last {
			t.Errorf("event %d follows %d", e.Seq, last)
		}
		if e.Type == agent.Dropped && strings.Contains(e.Text, "before this") {
			gaps++
			close(end)
		} else if e.Seq != last+1 {
			t.Errorf("event %d follows %d", e.Seq, last)
		}
		last = e.Seq
		return nil
	})
	if err != nil || gaps != 1 {
		t.Errorf("%d gaps, %v", gaps, err)
	}
}

// TestStuckFollowerStopsNothing checks that a turn does not wait for ever for a follower that gets nothing.
func TestStuckFollowerStopsNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, err := Open(Options{Dir: dir, LogBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		begin := make(chan struct{})
		x, err := d.Start(agent.Record{Owner: alice}, func(_ context.Context, x *Turn) (agent.Result, error) {
			x.Emit(textEvent("first"))
			<-begin
			for range 2 * windowBytes / 1000 {
				x.Emit(textEvent(strings.Repeat("y", 1000)))
			}
			return agent.Result{Text: "end"}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan error, 1)
		go func() {
			over <- d.Follow(ctx, alice, x.ID(), 0, func(agent.Event) error {
				close(begin)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		began := time.Now()
		<-x.Done()
		if took := time.Since(began); took != followerPatience {
			t.Errorf("the turn took %v", took)
		}
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := d.Close(context.Background()); err != nil && !errors.Is(err, atoll.ErrTimeout) {
			t.Error(err)
		}
	})
}
