// Package keyring encrypts the secrets that a registry stores. Each value is encrypted with a data key of the
// registry (AES-256-GCM), bound to its row. The data key is stored in the registry, encrypted with a master key,
// which is outside of it: in a file, or behind a command, such as one of a key management service.
package keyring

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// dataKeyIDSize is the length of the id of a data key.
const dataKeyIDSize = 12

// Keyring encrypts and decrypts values of a registry. Its methods may be called concurrently.
type Keyring struct {
	store   *registry.Store
	options Options
	masters *masterKeys // nil: no keys are configured

	mu   sync.Mutex
	keys map[string]*Key // data keys by id; guarded by mu
}

// Open reads the master keys and decrypts the data keys of a registry. It fails if values are encrypted and
// the master key is not there. If nothing is encrypted and the key file is missing, Open creates it with a new key.
func Open(ctx context.Context, store *registry.Store, o Options) (*Keyring, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	k := &Keyring{store: store, options: o, keys: make(map[string]*Key)}
	stored, err := queryKeys(ctx, store.DB)
	if err != nil {
		return nil, err
	}
	if !o.IsSet() {
		if len(stored) > 0 {
			return nil, k.errNoMaster(stored[0].master)
		}
		return k, nil
	}
	k.masters, err = readMasters(ctx, o)
	if errors.Is(err, fs.ErrNotExist) && o.File != "" {
		if len(stored) > 0 {
			return nil, fmt.Errorf("%w: the secrets in the registry are encrypted with the key %s: restore that file", err, stored[0].master)
		}
		if err := createKeyFile(o.File); err != nil {
			return nil, err
		}
		k.masters, err = readMasters(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	for _, s := range stored {
		if _, err := k.unwrap(s); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// errNoMaster is the error of a value that no master key of this process decrypts.
func (k *Keyring) errNoMaster(id string) error {
	if k.masters == nil {
		return fmt.Errorf("%w: the secrets in the registry are encrypted with the key %s: set secrets.key_file or secrets.key_command, and restart", atoll.ErrDenied, id)
	}
	return fmt.Errorf("%w: the secrets in the registry are encrypted with the key %s, which is not in %s (it has %s)", atoll.ErrDenied, id, k.options.source(), k.masters.ids())
}

// Active returns the id of the master key that encrypts; empty: values are stored as plain text.
func (k *Keyring) Active() string {
	if k.masters == nil || k.masters.off {
		return ""
	}
	return k.masters.keys[0].id
}

// storedKey is a row of data_keys.
type storedKey struct{ id, master, wrapped string }

// queryKeys returns the data keys, the current one first.
func queryKeys(ctx context.Context, q registry.Querier) ([]storedKey, error) {
	rows, err := q.QueryContext(ctx, "select id, master, wrapped from data_keys order by created desc, id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []storedKey
	for rows.Next() {
		var s storedKey
		if err := rows.Scan(&s.id, &s.master, &s.wrapped); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// wrapContext is the associated data of an encrypted data key.
func wrapContext(id string) string { return "atoll data key\x00" + id }

// unwrap decrypts a data key.
func (k *Keyring) unwrap(s storedKey) (*Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.keys[s.id]; known != nil {
		return known, nil
	}
	if k.masters == nil || k.masters.find(s.master) == nil {
		return nil, k.errNoMaster(s.master)
	}
	secret, err := k.masters.find(s.master).box.open(s.wrapped, wrapContext(s.id))
	if err == nil && len(secret) != keySize {
		err = errChanged
	}
	if err != nil {
		return nil, fmt.Errorf("%w: data key %s of the registry: %w", atoll.ErrDenied, s.id, err)
	}
	key := newKey(s.id, s.master, secret)
	k.keys[s.id] = key
	return key, nil
}

// Current returns the key that encrypts values in a transaction; nil: they are stored as plain text. It is read
// from the registry, as another server may have replaced it, or begun to encrypt.
func (k *Keyring) Current(ctx context.Context, q registry.Querier) (*Key, error) {
	var s storedKey
	err := q.QueryRowContext(ctx, "select id, master, wrapped from data_keys order by created desc, id limit 1").Scan(&s.id, &s.master, &s.wrapped)
	switch {
	case errors.Is(err, sql.ErrNoRows) && k.Active() == "":
		return nil, nil
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("%w: another server has decrypted the secrets in the registry: restart this one, with the same keys as the others", atoll.ErrUnavailable)
	case err != nil:
		return nil, err
	}
	return k.unwrap(s)
}

// Seal encrypts a value that is written in a transaction, with the current key.
func (k *Keyring) Seal(ctx context.Context, q registry.Querier, p Place, plain string) (string, error) {
	key, err := k.Current(ctx, q)
	if err != nil {
		return "", err
	}
	return key.Seal(p, []byte(plain)), nil
}

// Open decrypts the value that is stored at a place. A value that is not encrypted is returned as it is.
func (k *Keyring) Open(ctx context.Context, p Place, text string) ([]byte, error) {
	id, rest, ok := parseSealed(text)
	if !ok {
		return []byte(text), nil
	}
	key, err := k.find(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", p.Column, p.Row, err)
	}
	plain, err := key.box.open(rest, p.context())
	if err != nil {
		return nil, fmt.Errorf("%w: %s of %s can't be decrypted: %w", atoll.ErrDenied, p.Column, p.Row, err)
	}
	return plain, nil
}

// find returns a data key by id.
func (k *Keyring) find(ctx context.Context, id string) (*Key, error) {
	k.mu.Lock()
	known := k.keys[id]
	k.mu.Unlock()
	if known != nil {
		return known, nil
	}
	s := storedKey{id: id} // another server has created it
	err := k.store.DB.QueryRowContext(ctx, "select master, wrapped from data_keys where id = ?", id).Scan(&s.master, &s.wrapped)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: it is encrypted with the data key %s, which is not in the registry", atoll.ErrDenied, id)
	}
	if err != nil {
		return nil, err
	}
	return k.unwrap(s)
}

// NeedsRotation reports whether values are encrypted with another key than the first, or not as they should be
// because encryption was turned on or off.
func (k *Keyring) NeedsRotation(ctx context.Context, q registry.Querier) (bool, error) {
	stored, err := queryKeys(ctx, q)
	if err != nil {
		return false, err
	}
	if k.Active() == "" {
		return len(stored) > 0, nil
	}
	return len(stored) != 1 || stored[0].master != k.Active(), nil
}

// NeedsCleaning reports whether the registry's file may still have values as they were before the data key.
func (k *Keyring) NeedsCleaning(ctx context.Context) (needed bool, err error) {
	if k.Active() == "" || k.store.Postgres != nil {
		return false, nil
	}
	err = k.store.DB.QueryRowContext(ctx, "select exists (select 1 from data_keys where cleaned = 0)").Scan(&needed)
	return needed, err
}

// Clean rids the registry's file of values as they were before the data key: plain text, or encrypted with a data key
// that a replaced key decrypts. An interrupted one is repeated at the next start.
func (k *Keyring) Clean(ctx context.Context) error {
	if err := k.store.Clean(ctx); err != nil {
		return err
	}
	return k.store.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "update data_keys set cleaned = 1")
		return err
	})
}

// Rotate creates a data key, encrypted with the first master key, calls reencrypt with it, and deletes the data
// keys before, all in a transaction. If encryption is off, the key is nil. reencrypt must write every value anew.
func (k *Keyring) Rotate(ctx context.Context, tx *sql.Tx, now time.Time, reencrypt func(key *Key) error) error {
	stored, err := queryKeys(ctx, tx)
	if err != nil {
		return err
	}
	for _, s := range stored {
		if _, err := k.unwrap(s); err != nil {
			return err
		}
	}
	var key *Key
	wrapped := ""
	if k.Active() != "" {
		random := make([]byte, keySize+dataKeyIDSize/2)
		_, _ = rand.Read(random) // never fails
		secret, id := random[:keySize], hex.EncodeToString(random[keySize:])
		master := &k.masters.keys[0]
		key, wrapped = newKey(id, master.id, secret), master.box.seal(secret, wrapContext(id))
	}
	if err := reencrypt(key); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "delete from data_keys"); err != nil || key == nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "insert into data_keys (id, master, wrapped, created) values (?, ?, ?, ?)", key.id, key.master, wrapped, registry.Timestamp(now))
	return err
}
