package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
)

// An access key is this prefix and 160 random bits in hexadecimal digits.
const (
	accessKeyPrefix = "ea_"
	accessKeySize   = 20 // bytes
)

// errBadAccessKey is the error of every access key that belongs to no sandbox.
var errBadAccessKey = &atoll.Error{Op: "authenticate", Err: fmt.Errorf("%w: no sandbox has this access key", atoll.ErrDenied)}

// AccessKey returns the access key of the sandbox, which is created at the first call. It gives access
// to the commands, files and ports of this sandbox and to nothing else, for as long as the sandbox
// exists.
func (s *Sandbox) AccessKey(ctx context.Context) (string, error) {
	const op = "access key"
	if err := s.checkAccess(op, atoll.ScopeRun); err != nil {
		return "", err
	}
	key, err := s.f.queryAccessKey(ctx, s.b.id)
	if !errors.Is(err, sql.ErrNoRows) {
		return key, s.wrapError(op, err)
	}
	random := make([]byte, accessKeySize)
	_, _ = rand.Read(random) // never fails
	fresh := accessKeyPrefix + hex.EncodeToString(random)
	hash := sha256.Sum256([]byte(fresh))
	err = s.f.registry.Write(ctx, func(tx *sql.Tx) error {
		stored, err := s.f.keyring.Seal(ctx, tx, accessKeyPlace(s.b.id), fresh)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `insert into access_keys (sandbox, hash, key) values (?, ?, ?) on conflict (sandbox) do nothing`, s.b.id, hash[:], stored)
		return err
	})
	if err == nil {
		key, err = s.f.queryAccessKey(ctx, s.b.id) // a concurrent call may have created another
	}
	return key, s.wrapError(op, err)
}

func (f *Fleet) queryAccessKey(ctx context.Context, sandbox string) (key string, err error) {
	if err := f.registry.DB.QueryRowContext(ctx, `select key from access_keys where sandbox = ?`, sandbox).Scan(&key); err != nil {
		return "", err
	}
	b, err := f.keyring.Open(ctx, accessKeyPlace(sandbox), key)
	return string(b), err
}

func accessKeyPlace(sandbox string) keyring.Place {
	return keyring.Place{Column: accessKeySecret, Row: sandbox}
}

// accessKeyScopes are the scopes of the holder of an access key.
var accessKeyScopes = []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}

// AuthenticateAccessKey returns the caller of an access key, who reaches only its sandbox, which is
// [Caller].Sandbox. A key that no sandbox has gives the same ErrDenied, whatever the reason; the key
// of a sandbox that was destroyed gives ErrNotFound, as long as the sandbox is remembered.
func (f *Fleet) AuthenticateAccessKey(ctx context.Context, key string) (Caller, error) {
	if len(key) != len(accessKeyPrefix)+2*accessKeySize {
		return Caller{}, errBadAccessKey
	}
	hash := sha256.Sum256([]byte(key))
	var state atoll.State
	c := Caller{Scopes: accessKeyScopes}
	err := f.registry.TokenDB.QueryRowContext(ctx, `select sandboxes.id, sandboxes.app, sandboxes.user, sandboxes.state from access_keys
		join sandboxes on sandboxes.id = access_keys.sandbox where access_keys.hash = ?`, hash[:]).Scan(&c.Sandbox, &c.Owner.App, &c.Owner.User, &state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Caller{}, errBadAccessKey
	case err != nil:
		return Caller{}, &atoll.Error{Op: "authenticate", Err: err}
	case state == atoll.Destroyed:
		return Caller{}, &atoll.Error{Op: "authenticate", ID: c.Sandbox, Err: errDestroyed}
	}
	return c, nil
}

// FindAccessKey returns the caller of the access key for which match returns true, as
// [Fleet.AuthenticateAccessKey] does: for requests that show something made with a key. It calls match
// with the key of the sandbox named, or, if sandbox is empty, with those of all sandboxes that are not
// destroyed.
func (f *Fleet) FindAccessKey(ctx context.Context, sandbox string, match func(key string) bool) (Caller, error) {
	rows, err := f.registry.TokenDB.QueryContext(ctx, `select sandboxes.id, sandboxes.app, sandboxes.user, access_keys.key from access_keys
		join sandboxes on sandboxes.id = access_keys.sandbox where sandboxes.state <> 'destroyed' and (? = '' or sandboxes.id = ?)`, sandbox, sandbox)
	if err != nil {
		return Caller{}, &atoll.Error{Op: "authenticate", Err: err}
	}
	defer rows.Close()
	var holders []Caller
	var keys []string
	for rows.Next() {
		c, key := Caller{Scopes: accessKeyScopes}, ""
		if err := rows.Scan(&c.Sandbox, &c.Owner.App, &c.Owner.User, &key); err != nil {
			return Caller{}, &atoll.Error{Op: "authenticate", Err: err}
		}
		holders, keys = append(holders, c), append(keys, key)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return Caller{}, &atoll.Error{Op: "authenticate", Err: err}
	}
	found := Caller{}
	for i, c := range holders {
		key, err := f.keyring.Open(ctx, accessKeyPlace(c.Sandbox), keys[i])
		if err != nil {
			return Caller{}, &atoll.Error{Op: "authenticate", Err: err}
		}
		if match(string(key)) { // all keys are compared: the time does not show which
			found = c
		}
	}
	if found.Sandbox == "" {
		return Caller{}, errBadAccessKey
	}
	return found, nil
}

// accessKeyOps are the operations that an access key allows, besides the calls of callRulesByOp. All
// others, including future ones, are refused.
var accessKeyOps = []string{
	"open", "info", "status", "start", "resume", "process", "attach", "signal", "write input", "close input", "resize",
	"write", "mkdir", "remove", "import",
}

// checkOwnerOp refuses an operation on what belongs to an owner, rather than to one of its sandboxes, to a
// caller with an access key. It is for operations whose names sandboxes have, too.
func (a *Account) checkOwnerOp(op string) error {
	if a.caller.Sandbox == "" {
		return nil
	}
	a.startAudit(op, "", "the caller has an access key")(atoll.ErrDenied)
	return &atoll.Error{Op: op, ID: a.caller.Sandbox, Err: errOneSandbox}
}

var errOneSandbox = fmt.Errorf("%w: an access key gives access to its sandbox only", atoll.ErrDenied)

// checkAccessKeyOp refuses an operation that the caller's access key does not allow.
func (a *Account) checkAccessKeyOp(op string) error {
	if a.caller.Sandbox == "" || slices.Contains(accessKeyOps, op) {
		return nil
	}
	if _, ok := callRulesByOp[op]; ok {
		return nil
	}
	a.startAudit(op, "", "the caller has an access key")(atoll.ErrDenied)
	return &atoll.Error{Op: op, ID: a.caller.Sandbox, Err: errOneSandbox}
}
