package fleet

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

func testStore(t testing.TB, home string) *store {
	t.Helper()
	s, err := openStore(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
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
	err = a.write(t.Context(), func(tx *sql.Tx) error {
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
			s := []*store{a, b}[i%2]
			if err := s.write(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.Exec(insert, i)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var n int
	if err := b.db.QueryRow("select count(*) from prepared").Scan(&n); err != nil || n != 40 {
		t.Errorf("%d rows, %v: want 40", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.write(ctx, func(*sql.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("write with a context that is done: %v", err)
	}
	if _, err := a.w.Exec("pragma user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := openStore(t.Context(), home); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("a registry of a later version: %v", err)
	}
}
