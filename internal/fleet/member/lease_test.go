package member

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry/pgtest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// idleLease is so long that no member renews its lease by itself during a test.
const idleLease = time.Hour

// joinServers starts a PostgreSQL server and returns members of one registry in it.
func joinServers(t *testing.T, n int) []*leaseMember {
	t.Helper()
	testenv.Real(t, "postgres")
	c, err := pgtest.Start(context.Background())
	if errors.Is(err, pgtest.ErrMissing) {
		testenv.Skip(t, "postgres", "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	members := make([]*leaseMember, n)
	for i := range members {
		s, err := registry.OpenPostgres(t.Context(), c.URL("public"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // before the server stops
		m, err := JoinRegistry(t.Context(), LeaseOptions{
			Registry: s.Postgres, Lease: idleLease, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			OnClock: func(_, _ time.Duration) {}, OnDue: func() {}, OnRestored: func() {},
		})
		if err != nil {
			t.Fatal(err)
		}
		members[i] = m.(*leaseMember)
		t.Cleanup(func() { _ = members[i].Leave() })
	}
	return members
}

// setLease moves the last renewal of a server to the past, and the beginning of its
// uninterrupted renewals.
func setLease(t *testing.T, m *leaseMember, seen, since time.Duration) {
	t.Helper()
	_, err := m.p.MemberDB.ExecContext(t.Context(), "update instances set seen = clock_timestamp() - make_interval(secs => ?), since = clock_timestamp() - make_interval(secs => ?) where id = ?",
		seen.Seconds(), since.Seconds(), m.id)
	if err != nil {
		t.Fatal(err)
	}
}

func isFenced(t *testing.T, m *leaseMember) (fenced bool) {
	t.Helper()
	if err := m.p.MemberDB.QueryRowContext(t.Context(), "select fenced from instances where id = ?", m.id).Scan(&fenced); err != nil {
		t.Fatal(err)
	}
	return fenced
}

// judge lets a server do everything that may fence another.
func judge(t *testing.T, by, other *leaseMember) {
	t.Helper()
	if _, err := by.DeadMembers(); err != nil {
		t.Fatal(err)
	}
	if _, err := by.IsAlive(other.id); err != nil {
		t.Fatal(err)
	}
	resign, err := by.TryLead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if resign != nil {
		if err := resign(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFencingNeedsFreshRenewal: a server whose own last renewal was before an outage of the
// database fences no other. Neither does it after its first renewals.
func TestFencingNeedsFreshRenewal(t *testing.T) {
	m := joinServers(t, 2)
	one, two := m[0], m[1]
	for _, outage := range []time.Duration{idleLease / 2, idleLease * 95 / 100, 2 * idleLease, 6 * idleLease} {
		late := max(outage, idleLease) + idleLease/10 // a renewal of the other was due when the outage began
		setLease(t, one, outage, outage+3*idleLease)
		setLease(t, two, late, late+3*idleLease)
		if _, err := two.p.MemberDB.ExecContext(t.Context(), "update instances set leads = true where id = ?", two.id); err != nil {
			t.Fatal(err)
		}
		judge(t, one, two)
		if isFenced(t, two) {
			t.Fatalf("after an outage of %v a server fenced another before its own renewal", outage)
		}
		if err := one.renewLease(t.Context()); err != nil {
			t.Fatal(err)
		}
		judge(t, one, two)
		if isFenced(t, two) {
			t.Fatalf("after an outage of %v a server fenced another right after its own renewal", outage)
		}
		if err := two.renewLease(t.Context()); err != nil {
			t.Fatalf("after an outage of %v: %v", outage, err)
		}
	}
}

// TestFencingOfDeadServer: a server that renews without a gap fences one whose lease has expired.
func TestFencingOfDeadServer(t *testing.T) {
	m := joinServers(t, 2)
	setLease(t, m[0], idleLease/5, idleLease+idleLease/5)
	setLease(t, m[1], idleLease-time.Minute, 3*idleLease)
	judge(t, m[0], m[1])
	if isFenced(t, m[1]) {
		t.Error("a server was fenced before its lease expired")
	}
	setLease(t, m[1], idleLease+time.Minute, 3*idleLease)
	if err := m[0].renewLease(t.Context()); err != nil {
		t.Fatal(err)
	}
	judge(t, m[0], m[1])
	if !isFenced(t, m[1]) {
		t.Error("a server whose lease has expired was not fenced")
	}
}
