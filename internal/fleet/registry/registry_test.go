package registry

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

func testStore(t testing.TB, home string) *Store {
	t.Helper()
	s, err := OpenSQLite(t.Context(), home, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	home := filepath.Join(t.TempDir(), "a b?#%20", "home")
	a, b := testStore(t, home), testStore(t, home) // as two processes would
	info, err := os.Stat(filepath.Join(home, "atoll.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the registry is %v, %v: others must not read it", info, err)
	}
	insert := "insert into prepared values ('a', 'u', 'p', ?, 1)"
	boom := errors.New("boom")
	err = a.Write(t.Context(), func(tx *sql.Tx) error {
		if _, err := tx.Exec(insert, "lost"); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("write: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			s := []*Store{a, b}[i%2]
			if err := s.Write(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.Exec(insert, i)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n int
	if err := b.DB.QueryRow("select count(*) from prepared").Scan(&n); err != nil || n != 40 {
		t.Errorf("%d rows, %v: want 40", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Write(ctx, func(*sql.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("write with a context that is done: %v", err)
	}
	if _, err := a.WriteDB.Exec("pragma user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSQLite(t.Context(), home, nil); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("a registry of a later version: %v", err)
	}
}

func TestTranslateSQL(t *testing.T) {
	for text, want := range map[string]string{
		"a = ? and b = ?":                      "a = $1 and b = $2",
		"a = ?2 or b = ?1 or c = ?":            "a = $2 or b = $1 or c = $3",
		"user = 'user?' and m.user = \"user\"": "\"user\" = 'user?' and m.\"user\" = \"user\"",
		"users, user_id, x.inner":              "users, user_id, x.\"inner\"",
		"'it''s ?' || ?":                       "'it''s ?' || $1",
		"'open":                                "'open",
	} {
		if got := translateSQL(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	for _, address := range []string{"mysql://x/y", "host=/tmp", "postgres://h:port/", "::"} {
		if _, err := parseAddress(address); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestSyncWrites: the file that SyncWrites makes durable is the one that has the last writes.
func TestSyncWrites(t *testing.T) {
	home := t.TempDir()
	s, err := OpenSQLite(t.Context(), home, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wal := filepath.Join(home, FileName+"-wal")
	before, err := os.Stat(wal)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "insert into archive_prefix (id, prefix) values (1, 'fleet-x/')")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.SyncWrites(); err != nil {
		t.Error(err)
	}
	after, err := os.Stat(wal)
	if err != nil {
		t.Fatal(err)
	}
	if after.Size() == before.Size() && after.ModTime().Equal(before.ModTime()) {
		t.Error("the write is elsewhere")
	}
}
