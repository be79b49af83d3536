package fleet

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
)

// archivedBox returns an archived sandbox with a word in the file /a.
func archivedBox(t testing.TB, a *Account, cfg atoll.Config, word string) *Sandbox {
	t.Helper()
	sb := mustCreate(t, a, cfg)
	shellOutput(t, sb, "echo "+word+" >/a")
	must(t, sb.Stop(t.Context()))
	must(t, sb.Archive(t.Context()))
	return sb
}

// TestArchiveExpiry: a sandbox that has been stopped for its time is archived, by default after the server's; the time
// until it is removed goes on.
func TestArchiveExpiry(t *testing.T) {
	clock := newFakeClock()
	o := storeIn(t.TempDir())
	o.After = 3 * time.Hour
	f := openFleet(t, Options{Archive: o, Now: clock.now})
	a := f.Account(LocalCaller())
	reap := func(after time.Duration) {
		clock.advance(after)
		r := &reaper{f: f, slots: make(chan struct{}, 1), archiving: make(chan struct{}, 1), busy: make(map[string]struct{})}
		must(t, r.reapDue(t.Context()))
		r.wg.Wait()
	}
	cfg := persistent("own")
	cfg.Lifecycle.Archive, cfg.Lifecycle.Stopped = time.Hour, 5*time.Hour
	own, usual := mustCreate(t, a, cfg), mustCreate(t, a, persistent("usual"))
	cfg = persistent("never")
	cfg.Lifecycle.Archive = -1
	never := mustCreate(t, a, cfg)
	for _, sb := range []*Sandbox{own, usual, never} {
		shellOutput(t, sb, "echo one >/a")
		must(t, sb.Stop(t.Context()))
	}
	check := func(want ...atoll.State) {
		t.Helper()
		for i, sb := range []*Sandbox{own, usual, never} {
			checkState(t, f, sb.ID(), want[i])
		}
	}
	reap(59 * time.Minute)
	check(atoll.Stopped, atoll.Stopped, atoll.Stopped)
	reap(2 * time.Minute)
	check(atoll.Archived, atoll.Stopped, atoll.Stopped)
	reap(2 * time.Hour)
	check(atoll.Archived, atoll.Archived, atoll.Stopped)
	reap(2 * time.Hour) // five hours and a minute since the stop
	check(atoll.Destroyed, atoll.Archived, atoll.Stopped)
	if got := shellOutput(t, usual, "cat /a"); got != "one\n" {
		t.Errorf("it came back with %q", got)
	}
	if keys := storedKeys(t, f.opts.Archive.Store); len(keys) != 0 {
		t.Errorf("objects are left: %v", keys)
	}
}

// TestArchiveQuota: an archived sandbox counts with the size of its object, and returns only within the quota.
func TestArchiveQuota(t *testing.T) {
	f := openFleet(t, Options{Archive: storeIn(t.TempDir()), Quota: atoll.Quota{Disk: 100 << 20, Sandboxes: 2, Memory: 1 << 30}})
	a := f.Account(Caller{Owner: alice, Scopes: LocalCaller().Scopes})
	sized := func(name string, disk int64) atoll.Config {
		cfg := persistent(name)
		cfg.Limits.Disk, cfg.Limits.Memory = disk, 64<<20
		return cfg
	}
	one := archivedBox(t, a, sized("one", 80<<20), "one")
	l, err := a.Allowance(t.Context())
	must(t, err)
	if l.Used.Sandboxes != 1 || l.Used.Memory != 0 || l.Used.Disk <= 0 || l.Used.Disk > 1<<20 {
		t.Errorf("used %+v", l.Used)
	}
	two := mustCreate(t, a, sized("two", 80<<20))
	_, err = a.Create(t.Context(), sized("three", 1<<20))
	checkError(t, "a third one", err, atoll.ErrQuota)
	checkError(t, "the return", one.Start(t.Context()), atoll.ErrQuota)
	checkState(t, f, one.ID(), atoll.Archived)
	must(t, two.Destroy(t.Context()))
	must(t, one.Start(t.Context()))
}

// TestArchiveKeysAreSecrets: the keys of objects are encrypted in the registry like other secrets, also when that is
// turned on later.
func TestArchiveKeysAreSecrets(t *testing.T) {
	home := t.TempDir()
	o := Options{Home: home, Archive: storeIn(filepath.Join(home, "objects"))}
	f := openFleet(t, o)
	sb := archivedBox(t, f.Account(LocalCaller()), persistent("box"), "one")
	secret := func(f *Fleet) (text string) {
		must(t, f.registry.DB.QueryRowContext(t.Context(), "select secret from archives").Scan(&text))
		return text
	}
	if keyring.IsSealed(secret(f)) {
		t.Error("the key is encrypted without a master key")
	}
	closeFleet(t, f)
	o.Keys = keyring.Options{File: filepath.Join(t.TempDir(), "key")}
	f = openFleet(t, o)
	if !keyring.IsSealed(secret(f)) {
		t.Error("the key is plain text")
	}
	sb, err := f.Account(LocalCaller()).Open(t.Context(), sb.ID())
	must(t, err)
	if got := shellOutput(t, sb, "cat /a"); got != "one\n" {
		t.Errorf("it came back with %q", got)
	}
}

// TestArchiveOrphans: objects that the registry does not know are found when they are old, and removed on request of
// an operator; those of other registries with the same storage are not touched.
func TestArchiveOrphans(t *testing.T) {
	store := t.TempDir()
	ahead := 48 * time.Hour // of the clock of the files
	now := func() time.Time { return time.Now().Add(ahead) }
	f, other := openFleet(t, Options{Archive: storeIn(store), Now: now}), openFleet(t, Options{Archive: storeIn(store), Now: now})
	a := f.Account(LocalCaller())
	known, lost := archivedBox(t, a, persistent("known"), "known"), archivedBox(t, a, persistent("lost"), "lost")
	theirs := archivedBox(t, other.Account(LocalCaller()), persistent("theirs"), "theirs")
	must(t, f.registry.Write(t.Context(), func(tx *sql.Tx) error { // as a backup does not know it
		_, err := tx.ExecContext(t.Context(), "delete from archives where sandbox = ?", lost.ID())
		return err
	}))
	_, err := f.Account(Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}}).ArchiveOrphans(t.Context(), true)
	checkError(t, "a user", err, atoll.ErrDenied)
	list, err := a.ArchiveOrphans(t.Context(), false)
	must(t, err)
	if len(list) != 1 || !strings.HasPrefix(list[0].Key, "fleet-") || list[0].Bytes == 0 {
		t.Fatalf("orphans %+v", list)
	}
	removed, err := a.ArchiveOrphans(t.Context(), true)
	must(t, err)
	if diff := cmp.Diff(list, removed); diff != "" {
		t.Error(diff)
	}
	if n := len(storedKeys(t, f.opts.Archive.Store)); n != 2 {
		t.Errorf("%d objects are left, not 2", n)
	}
	checkError(t, "the lost one", lost.Start(t.Context()), atoll.ErrState)
	must(t, known.Start(t.Context()))
	must(t, theirs.Start(t.Context()))
	ahead = 0
	list, err = a.ArchiveOrphans(t.Context(), false)
	must(t, err)
	if len(list) != 0 {
		t.Errorf("young orphans %+v", list)
	}
}
