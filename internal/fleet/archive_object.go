package fleet

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/objectstore"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// ArchiveOptions configure the archive storage, where the files of archived sandboxes are.
type ArchiveOptions struct {
	Storage objectstore.Options // names the storage; zero, and no Store: no sandbox can be archived
	Store   objectstore.Store   // instead of Storage; nil: Storage

	// After is how long new sandboxes stay stopped until they are archived, if neither their configuration nor their
	// driver is against it; 0: until somebody archives them.
	After time.Duration
}

// archivedObject is the registry's row of an object in the archive storage. The row is written before the object and
// deleted after it, so that no crash leaves an object that the registry does not know.
type archivedObject struct {
	key     string // name in the storage: random, so that it shows neither owner nor sandbox
	sandbox string
	secret  []byte // key that the object is sealed with
	bytes   int64
	digest  string // SHA-256 of the object, hexadecimal
	created time.Time
}

// The states of objects.
const (
	objectWriting = "writing" // it is incomplete
	objectKept    = "kept"    // it has the files of its archived sandbox
	objectGarbage = "garbage" // it is to be deleted
)

// archiveSecret is the column of keys of objects, for [keyring.Place].
const archiveSecret = "archives.secret"

// place returns the name to which the sealed object is bound.
func (o *archivedObject) place() string { return o.key + "\x00" + o.sandbox }

// insertObject records an object that is about to be written for a sandbox.
func (f *Fleet) insertObject(ctx context.Context, tx *sql.Tx, sandbox string) (archivedObject, error) {
	prefix, err := f.archivePrefix(ctx, tx)
	if err != nil {
		return archivedObject{}, err
	}
	o := archivedObject{key: prefix + randomName(), sandbox: sandbox, secret: objectstore.NewSealKey(), created: f.now()}
	sealed, err := f.keyring.Seal(ctx, tx, keyring.Place{Column: archiveSecret, Row: o.key}, base64.StdEncoding.EncodeToString(o.secret))
	if err != nil {
		return o, err
	}
	_, err = tx.ExecContext(ctx, "insert into archives (key, sandbox, state, secret, created) values (?, ?, ?, ?, ?)", o.key, sandbox, objectWriting, sealed, registry.Timestamp(o.created))
	return o, err
}

// randomName returns a random name of 128 bits.
func randomName() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// archivePrefix returns what the keys of this registry's objects begin with, which other registries with the same
// storage do not use. The first call makes it.
func (f *Fleet) archivePrefix(ctx context.Context, tx *sql.Tx) (string, error) {
	var prefix string
	err := tx.QueryRowContext(ctx, "select prefix from archive_prefix").Scan(&prefix)
	if errors.Is(err, sql.ErrNoRows) {
		prefix = "fleet-" + randomName()[:12] + "/"
		_, err = tx.ExecContext(ctx, "insert into archive_prefix (id, prefix) values (1, ?)", prefix)
	}
	return prefix, err
}

// keptObject returns the object with the files of an archived sandbox.
func (f *Fleet) keptObject(ctx context.Context, q registry.Querier, sandbox string) (archivedObject, error) {
	o := archivedObject{sandbox: sandbox}
	var sealed string
	var created int64
	err := q.QueryRowContext(ctx, "select key, secret, bytes, digest, created from archives where sandbox = ? and state = ?", sandbox, objectKept).
		Scan(&o.key, &sealed, &o.bytes, &o.digest, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return o, fmt.Errorf("%w: the registry knows no object with its files", atoll.ErrState)
	}
	if err != nil {
		return o, err
	}
	o.created = registry.Time(created)
	b, err := f.keyring.Open(ctx, keyring.Place{Column: archiveSecret, Row: o.key}, sealed)
	if err == nil {
		o.secret, err = base64.StdEncoding.DecodeString(string(b))
	}
	if err != nil {
		return o, fmt.Errorf("registry: the key of the object: %w", err)
	}
	return o, nil
}

// keepObject records that a written object has the files of its sandbox.
func keepObject(ctx context.Context, tx *sql.Tx, o *archivedObject) error {
	res, err := tx.ExecContext(ctx, "update archives set state = ?, bytes = ?, digest = ? where key = ? and state = ?", objectKept, o.bytes, o.digest, o.key, objectWriting)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errLostTurn)
	}
	return nil
}

// dropObjects records that the objects of a sandbox are to be deleted: those in a state, or all.
func dropObjects(ctx context.Context, tx *sql.Tx, sandbox, state string) error {
	_, err := tx.ExecContext(ctx, "update archives set state = ?1 where sandbox = ?2 and (state = ?3 or ?3 = '')", objectGarbage, sandbox, state)
	return err
}

// errNoArchiveStorage is the error of a server that can't archive.
var errNoArchiveStorage = fmt.Errorf("%w: this server has no archive storage; its operator sets archive.storage", atoll.ErrUnsupported)

// deleteTimeout bounds the deletion of one object.
const deleteTimeout = 30 * time.Second

// sweepObjects deletes the objects that are to be deleted: those of a sandbox, or all if it is empty. Objects whose
// sandbox no longer needs them are among these.
func (f *Fleet) sweepObjects(ctx context.Context, sandbox string) error {
	if f.opts.Archive.Store == nil {
		return nil
	}
	if sandbox == "" {
		if err := f.findGarbage(ctx); err != nil {
			return err
		}
	}
	keys, err := registry.QueryStrings(ctx, f.registry.DB, "select key from archives where state = ?1 and (sandbox = ?2 or ?2 = '')", objectGarbage, sandbox)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		if err := f.deleteObject(ctx, key); err != nil {
			errs = append(errs, fmt.Errorf("object %s: %w", key, err))
			if errors.Is(err, atoll.ErrUnavailable) {
				break // the others would fail, too
			}
		}
	}
	return errors.Join(errs...)
}

// findGarbage marks the objects that no sandbox needs: of acts that were interrupted, and of sandboxes that are gone.
func (f *Fleet) findGarbage(ctx context.Context) error {
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `update archives set state = ?1 where
			state = ?2 and not exists (select 1 from sandboxes s where s.id = archives.sandbox and s.goal = ?3) or
			state = ?4 and not exists (select 1 from sandboxes s where s.id = archives.sandbox and s.state <> 'destroyed')`,
			objectGarbage, objectWriting, goalArchive, objectKept)
		return err
	})
}

func (f *Fleet) deleteObject(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := f.registry.SyncWrites(); err != nil {
		return err
	}
	if err := f.opts.Archive.Store.Delete(ctx, key); err != nil {
		return err
	}
	return f.registry.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "delete from archives where key = ? and state = ?", key, objectGarbage)
		return err
	})
}

// sweepNow deletes the objects of a sandbox that are to be deleted. What fails the leader tries again.
func (f *Fleet) sweepNow(ctx context.Context, sandbox string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := f.sweepObjects(ctx, sandbox); err != nil {
		f.log.Warn("an object in the archive storage could not be deleted; it is tried again", "sandbox", sandbox, "err", err)
	}
}

// orphanAge is how old an unknown object must be to count as an orphan: a server that was fenced may still write one.
const orphanAge = 24 * time.Hour

// ArchiveOrphans returns the objects below this registry's prefix in the archive storage that the registry does not
// know, older than a day: such as those that were stored after the backup that the registry was restored from. With
// remove they are deleted: never do that in a copy of a registry whose original is in use. It needs ScopeOperate.
func (a *Account) ArchiveOrphans(ctx context.Context, remove bool) ([]atoll.ArchiveOrphan, error) {
	const op = "archive orphans"
	if err := a.checkScope(op, atoll.ScopeOperate); err != nil {
		return nil, err
	}
	noted := func(error) {}
	if remove {
		noted = a.startAudit(op, "", "remove")
	}
	list, err := a.f.archiveOrphans(ctx, remove)
	noted(err)
	return list, wrapOpError(op, "", err)
}

func (f *Fleet) archiveOrphans(ctx context.Context, remove bool) ([]atoll.ArchiveOrphan, error) {
	if f.opts.Archive.Store == nil {
		return nil, errNoArchiveStorage
	}
	var prefix string
	err := f.registry.DB.QueryRowContext(ctx, "select prefix from archive_prefix").Scan(&prefix)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil // nothing was archived ever
	}
	if err != nil {
		return nil, err
	}
	list := []atoll.ArchiveOrphan{}
	for o, err := range f.opts.Archive.Store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(o.Key, prefix) || f.now().Sub(o.Modified) < orphanAge {
			continue
		}
		var n int
		if err := f.registry.DB.QueryRowContext(ctx, "select count(*) from archives where key = ?", o.Key).Scan(&n); err != nil {
			return nil, err
		}
		if n == 0 {
			list = append(list, atoll.ArchiveOrphan{Key: o.Key, Bytes: o.Size, Modified: o.Modified})
		}
	}
	if !remove {
		return list, nil
	}
	for _, o := range list {
		if err := f.opts.Archive.Store.Delete(ctx, o.Key); err != nil {
			return nil, err
		}
	}
	return list, nil
}
