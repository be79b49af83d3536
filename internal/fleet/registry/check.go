package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/filelock"
)

// Rebuilt describes a damaged registry that was replaced by an empty one.
type Rebuilt struct {
	Damage string // in one line
	Backup string // the damaged file
}

// lockName is the name of the file that each process with an open registry has locked, shared.
const lockName = "registry.lock"

// openLocked locks the registry of a home, until the file is closed. If no other process has it
// open, it checks the file and moves a damaged one aside. Rebuilt is nil if the file is sound.
func openLocked(ctx context.Context, home string) (lock *os.File, rebuilt *Rebuilt, err error) {
	lock, err = os.OpenFile(filepath.Join(home, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
			lock = nil
		}
	}()
	alone, err := filelock.Try(lock)
	if errors.Is(err, atoll.ErrUnsupported) {
		return lock, nil, nil // without locks it is unknown whether others use the file
	}
	if err == nil && alone {
		rebuilt, err = replaceDamaged(ctx, filepath.Join(home, FileName))
	}
	if err == nil {
		err = filelock.PollShared(ctx, lock) // another process may be checking
	}
	return lock, rebuilt, err
}

// replaceDamaged moves a damaged registry aside. It returns nil if the file is sound or missing.
func replaceDamaged(ctx context.Context, name string) (*Rebuilt, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil //nolint:nilnil // it is new
	}
	if err != nil {
		return nil, err
	}
	damage, err := findDamage(ctx, name)
	if err != nil || damage == "" {
		return nil, err
	}
	backup := name + ".damaged-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(name, backup); err != nil {
		return nil, fmt.Errorf("registry %s is damaged (%s): %w", name, damage, err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Rename(name+suffix, backup+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err // the log of the old file must not be applied to the new one
		}
	}
	return &Rebuilt{Damage: damage, Backup: backup}, nil
}

// findDamage checks a SQLite file that no other process uses. It returns the damage in one line;
// empty: none.
func findDamage(ctx context.Context, name string) (damage string, err error) {
	db := openFile(name, "deferred")
	defer func() {
		if cerr := db.Close(); damage == "" {
			err = errors.Join(err, cerr)
		}
	}()
	db.SetMaxOpenConns(1)
	lines, err := QueryStrings(ctx, db, "pragma quick_check(3)")
	switch {
	case isDamage(err):
		return oneLine(err.Error()), nil
	case err != nil:
		return "", fmt.Errorf("check: %w", err)
	case len(lines) == 1 && lines[0] == "ok":
		return "", nil
	}
	return oneLine(strings.Join(lines, "; ")), nil
}

// isDamage reports whether SQLite can't read a file because of its content.
func isDamage(err error) bool {
	var failed *sqlite.Error
	if !errors.As(err, &failed) {
		return false
	}
	code := failed.Code() & 0xff
	return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB
}

// oneLine returns a text in one line of at most 300 bytes.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// LockExclusive locks the registry of a home, which no process may have open, until unlock is
// called. It returns ErrUnavailable if one has.
func LockExclusive(home string) (unlock func() error, err error) {
	lock, err := os.OpenFile(filepath.Join(home, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := filelock.Try(lock)
	if err == nil && !ok {
		err = fmt.Errorf("%w: another process of atoll uses %s: wait until it ends", atoll.ErrUnavailable, home)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock.Close, nil
}

// ListRunning checks the SQLite file of a home that LockExclusive has locked, and returns the names
// or ids of the sandboxes of some drivers that run. A missing file has none.
func ListRunning(ctx context.Context, home string, drivers ...string) ([]string, error) {
	name := filepath.Join(home, FileName)
	if info, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil
	}
	damage, err := findDamage(ctx, name)
	if err == nil && damage != "" {
		err = fmt.Errorf("%w: registry %s is damaged (%s): the next start of atoll rebuilds it", atoll.ErrState, name, damage)
	}
	if err != nil {
		return nil, err
	}
	db := openFile(name, "deferred")
	list, err := QueryStrings(ctx, db, "select case name when '' then id else name end from sandboxes where state in ('running', 'paused') and driver in "+Placeholders(len(drivers)), Args(drivers)...)
	return list, errors.Join(err, db.Close())
}

// IsEncrypted reports whether secrets in the SQLite file of a home that LockExclusive has locked are encrypted.
func IsEncrypted(ctx context.Context, home string) (encrypted bool, err error) {
	name := filepath.Join(home, FileName)
	if info, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return false, nil
	}
	db := openFile(name, "deferred")
	defer func() { err = errors.Join(err, db.Close()) }()
	var table bool // a file of an older version has none
	err = db.QueryRowContext(ctx, "select exists (select 1 from sqlite_master where name = 'data_keys')").Scan(&table)
	if err != nil || !table {
		return false, err
	}
	err = db.QueryRowContext(ctx, "select exists (select 1 from data_keys)").Scan(&encrypted)
	return encrypted, err
}
