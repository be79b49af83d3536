package fleet

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TestThen: what happens after the TTL depends on Then, and a sandbox that was stopped or paused stays.
func TestThen(t *testing.T) {
	now := time.Now()
	for _, k := range []struct {
		then  atoll.Expiry
		state atoll.State
		want  expiryAction
	}{
		{"", atoll.Running, expireDestroy},
		{atoll.ExpireRemove, atoll.Paused, expireDestroy},
		{atoll.ExpireRemove, atoll.Stopped, expireDestroy},
		{atoll.ExpirePause, atoll.Running, expirePause},
		{atoll.ExpirePause, atoll.Paused, noAction},
		{atoll.ExpirePause, atoll.Stopped, noAction},
		{atoll.ExpireStop, atoll.Running, expireStop},
		{atoll.ExpireStop, atoll.Paused, expireStop},
		{atoll.ExpireStop, atoll.Stopped, noAction},
	} {
		r := row{state: k.state, created: now, cfg: atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent, TTL: time.Minute, Then: k.then}}}
		what, at := r.nextExpiry()
		if what != k.want || what != noAction && !at.Equal(now.Add(time.Minute)) || what == noAction && !at.IsZero() {
			t.Errorf("%q, %s: %v at %v", k.then, k.state, what, at)
		}
	}
	cfg := atoll.Config{Lifecycle: atoll.Lifecycle{Then: "explode"}}
	if cfg.Check() == nil {
		t.Error("an unknown expiry is accepted")
	}
}

// TestPausesAtTheEnd: a sandbox whose time has come is paused, and goes on when it is resumed.
func TestPausesAtTheEnd(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	ctx := minuteContext(t)
	sb := newSandbox(t, f, atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent, TTL: time.Nanosecond, Then: atoll.ExpirePause}})
	r, err := f.loadRow(ctx, sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.applyExpiry(ctx, r); err != nil {
		t.Fatal(err)
	}
	if info, err := sb.Info(ctx); err != nil || info.State != atoll.Paused || !info.Expires.IsZero() {
		t.Errorf("%s, expires %v, %v", info.State, info.Expires, err)
	}
}

// TestExtendedLifeIsKept: a sandbox whose life is extended while the fleet is about to end it goes on.
func TestExtendedLifeIsKept(t *testing.T) {
	for _, then := range []atoll.Expiry{atoll.ExpirePause, atoll.ExpireStop, atoll.ExpireRemove} {
		t.Run(string(then), func(t *testing.T) {
			f := openMemoryFleet(t, "", nil)
			ctx := minuteContext(t)
			l := atoll.Lifecycle{Policy: atoll.PolicyPersistent, TTL: time.Nanosecond, Then: then}
			sb := newSandbox(t, f, atoll.Config{Lifecycle: l})
			due, err := f.loadRow(ctx, sb.ID())
			if err != nil {
				t.Fatal(err)
			}
			l.TTL = time.Hour
			if _, err := f.Account(LocalCaller()).Update(ctx, sb.ID(), Change{Lifecycle: &l}); err != nil {
				t.Fatal(err)
			}
			if err := f.applyExpiry(ctx, due); err != nil {
				t.Fatal(err)
			}
			if info, err := sb.Info(ctx); err != nil || info.State != atoll.Running || info.Expires.IsZero() {
				t.Errorf("%s, expires %v, %v", info.State, info.Expires, err)
			}
			l.TTL = time.Nanosecond
			if _, err := f.Account(LocalCaller()).Update(ctx, sb.ID(), Change{Lifecycle: &l}); err != nil {
				t.Fatal(err)
			}
			if err := f.applyExpiry(ctx, due); err != nil {
				t.Fatal(err)
			}
			if info, err := sb.Info(ctx); err == nil && info.State == atoll.Running {
				t.Error("at the end it runs on")
			}
		})
	}
}

// TestUseDuringRescue: a sandbox whose life is extended, or that is called, while the fleet saves the work in it goes
// on, whether that work could be saved or not.
func TestUseDuringRescue(t *testing.T) {
	for _, k := range []struct {
		name   string
		life   atoll.Lifecycle
		failed error
	}{
		{"extended", atoll.Lifecycle{TTL: time.Nanosecond}, nil},
		{"extendedAndFailed", atoll.Lifecycle{TTL: time.Nanosecond}, errors.New("disk full")},
		{"called", atoll.Lifecycle{Idle: time.Hour, IdleThen: atoll.ExpireRemove}, nil},
		{"calledAndFailed", atoll.Lifecycle{Idle: time.Hour, IdleThen: atoll.ExpireRemove}, errors.New("disk full")},
		{"calledBeforeStop", atoll.Lifecycle{Idle: time.Hour, IdleThen: atoll.ExpireStop}, nil},
	} {
		t.Run(k.name, func(t *testing.T) {
			var later atomic.Int64
			f := openMemoryFleet(t, "", func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
			ctx := minuteContext(t)
			k.life.Policy = atoll.PolicyPersistent
			sb := newSandbox(t, f, atoll.Config{Lifecycle: k.life})
			due, err := f.loadRow(ctx, sb.ID())
			if err != nil {
				t.Fatal(err)
			}
			f.opts.Rescue = func(ctx context.Context, _ atoll.Info, _ atoll.Sandbox) error {
				if k.life.TTL > 0 {
					l := k.life
					l.TTL = time.Hour
					_, err := f.Account(LocalCaller()).Update(ctx, sb.ID(), Change{Lifecycle: &l})
					return errors.Join(err, k.failed)
				}
				_, err := sb.Exec(ctx, atoll.Cmd{Shell: "true"})
				return errors.Join(err, k.failed)
			}
			if k.life.Idle > 0 {
				later.Store(int64(2 * time.Hour))
			}
			if err := f.applyExpiry(ctx, due); err != nil {
				t.Fatal(err)
			}
			if info, err := sb.Info(ctx); err != nil || info.State != atoll.Running {
				t.Errorf("%s, %v", info.State, err)
			}
		})
	}
}
