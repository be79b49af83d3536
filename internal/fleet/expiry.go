package fleet

import (
	"time"

	"github.com/atoll-sandbox/atoll"
)

// expiryAction is the action taken when a deadline of a sandbox passes.
type expiryAction int

// The expiry actions.
const (
	noAction      expiryAction = iota
	expireDestroy              // destroy it
	expireStop                 // stop it
	expirePause                // pause it, or stop it if its driver can't pause
	expireForget               // delete the row: it was destroyed long ago
	expireRetry                // retry a destruction or creation that has failed
	expireArchive              // archive it
)

const (
	destroyedRetention = 7 * 24 * time.Hour // until the row of a destroyed sandbox is deleted
	lifetimeGrace      = 5 * time.Minute    // since the last use, in which the end of the lifetime is not enforced
	retryDelay         = time.Minute        // until a failed action is retried
)

// nextExpiry returns the next action for a sandbox that stays unused from now on, and its
// deadline. A zero time means never.
func (r *row) nextExpiry() (expiryAction, time.Time) {
	switch {
	case r.state == atoll.Destroyed:
		return expireForget, r.changed.Add(destroyedRetention)
	case r.goal != "" && r.holder == "":
		return expireRetry, r.changed.Add(retryDelay)
	case r.goal != "" || r.pool != "":
		return noAction, time.Time{} // it is being changed, or is a pool's
	}
	l := r.cfg.Lifecycle.Effective()
	what, at := noAction, time.Time{}
	sooner := func(w expiryAction, t time.Time) {
		if at.IsZero() || t.Before(at) {
			what, at = w, t
		}
	}
	if l.TTL > 0 {
		switch end := r.created.Add(l.TTL); {
		case l.Then == "" || l.Then == atoll.ExpireRemove:
			sooner(expireDestroy, end)
		case l.Then == atoll.ExpirePause && r.state == atoll.Running:
			sooner(expirePause, end)
		case l.Then == atoll.ExpireStop && (r.state == atoll.Running || r.state == atoll.Paused):
			sooner(expireStop, end)
		}
	}
	if l.Lifetime > 0 {
		t := r.created.Add(l.Lifetime)
		if quiet := r.active.Add(lifetimeGrace); quiet.After(t) && r.active.After(r.created) {
			t = quiet
		}
		sooner(expireDestroy, t)
	}
	if l.Idle > 0 {
		switch end := r.active.Add(l.Idle); {
		case l.IdleThen == atoll.ExpireRemove:
			sooner(expireDestroy, end)
		case l.IdleThen == atoll.ExpirePause && r.state == atoll.Running:
			sooner(expirePause, end)
		case l.IdleThen == atoll.ExpireStop && (r.state == atoll.Running || r.state == atoll.Paused):
			sooner(expireStop, end)
		}
	}
	if l.Archive > 0 && r.state == atoll.Stopped {
		sooner(expireArchive, r.changed.Add(l.Archive))
	}
	if l.Stopped > 0 && (r.state == atoll.Stopped || r.state == atoll.Archived) {
		sooner(expireDestroy, r.changed.Add(l.Stopped))
	}
	return what, at
}

// nextDue returns when the fleet must look at the row again; zero for never.
func (r *row) nextDue() time.Time {
	_, at := r.nextExpiry()
	return at
}
