package fleet

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/registry"
)

// Columns of the registry that hold secrets, for [keyring.Place].
const (
	sandboxSealed   = "sandboxes.sealed"
	poolSealed      = "pools.sealed"
	webhookSecret   = "webhooks.secret"
	accessKeySecret = "access_keys.key"
	routeLinkSecret = "route_links.key"
	loginVerifier   = "logins.verifier"
)

// secretParts are the parts of a configuration that may hold secrets. If the registry is encrypted, they are in the
// column sealed instead of config and env.
type secretParts struct {
	Secrets map[string]string `json:"secrets,omitempty"`
	Env     []string          `json:"env,omitempty"`
	Headers []atoll.Header    `json:"headers,omitempty"`
	Prepare []atoll.Step      `json:"prepare,omitempty"`
	Claimed []string          `json:"claimed,omitempty"` // row.env
}

// isEmpty reports whether there is nothing to encrypt.
func (p *secretParts) isEmpty() bool {
	return len(p.Secrets)+len(p.Env)+len(p.Headers)+len(p.Prepare)+len(p.Claimed) == 0
}

// splitConfig returns a configuration without the parts that may hold secrets, and these parts.
func splitConfig(cfg atoll.Config, env []string) (atoll.Config, secretParts) {
	p := secretParts{Secrets: cfg.Secrets, Env: cfg.Env, Headers: cfg.Network.Headers, Prepare: cfg.Prepare, Claimed: env}
	cfg.Secrets, cfg.Env, cfg.Network.Headers, cfg.Prepare = nil, nil, nil, nil
	return cfg, p
}

// storedConfig are the columns of a configuration.
type storedConfig struct{ config, env, sealed string }

// taggedConfig is a configuration without its secret parts, and a digest of them: texts of equal configurations are equal.
type taggedConfig struct {
	*atoll.Config
	Digest string `json:"sealed_digest,omitempty"`
}

// encodeConfig encodes a configuration for a transaction: as plain text, or its secret parts encrypted for a place.
// With compared, the text of config depends on the secret parts, too.
func (f *Fleet) encodeConfig(ctx context.Context, tx *sql.Tx, p keyring.Place, cfg *atoll.Config, env []string, compared bool) (storedConfig, error) {
	var key *keyring.Key
	if _, parts := splitConfig(*cfg, env); !parts.isEmpty() {
		var err error
		if key, err = f.keyring.Current(ctx, tx); err != nil {
			return storedConfig{}, err
		}
	}
	return encodeConfigWith(key, p, cfg, env, compared)
}

// encodeConfigWith is encodeConfig with a key; nil: plain text.
func encodeConfigWith(key *keyring.Key, p keyring.Place, cfg *atoll.Config, env []string, compared bool) (s storedConfig, err error) {
	tagged := taggedConfig{Config: cfg}
	public, parts := splitConfig(*cfg, env)
	if key != nil && !parts.isEmpty() {
		secret, err := json.Marshal(&parts)
		if err != nil {
			return s, err
		}
		tagged.Config, env, s.sealed = &public, nil, key.Seal(p, secret)
		if compared {
			tagged.Digest = key.Digest(secret)
		}
	}
	b, err := json.Marshal(tagged)
	if err != nil {
		return s, err
	}
	s.config = string(b)
	b, err = json.Marshal(env)
	s.env = string(b)
	return s, err
}

// decodeSealed decrypts the secret parts of a configuration, and puts them into it. An empty text changes nothing.
func (f *Fleet) decodeSealed(ctx context.Context, p keyring.Place, sealed string, cfg *atoll.Config, env *[]string) error {
	if sealed == "" {
		return nil
	}
	b, err := f.keyring.Open(ctx, p, sealed)
	if err != nil {
		return fmt.Errorf("registry: %w", err)
	}
	var parts secretParts
	if err := json.Unmarshal(b, &parts); err != nil {
		return fmt.Errorf("registry: %s of %s: %w", p.Column, p.Row, err)
	}
	cfg.Secrets, cfg.Env, cfg.Network.Headers, cfg.Prepare, *env = parts.Secrets, parts.Env, parts.Headers, parts.Prepare, parts.Claimed
	return nil
}

// EncryptionKey returns the id of the key with which the secrets in the registry are encrypted; empty: they are not.
func (f *Fleet) EncryptionKey() string { return f.keyring.Active() }

// reencryptSecrets encrypts the secrets in the registry with a new data key, if the first master key is another than
// before or there is plain text, or decrypts them, if encryption was turned off.
func (f *Fleet) reencryptSecrets(ctx context.Context) error {
	needed, err := f.needsReencryption(ctx, f.registry.DB)
	if err != nil {
		return err
	}
	if !needed {
		f.cleanRegistry(ctx)
		return nil
	}
	err = f.registry.Write(ctx, func(tx *sql.Tx) error {
		if needed, err = f.needsReencryption(ctx, tx); err != nil || !needed {
			return err // another server was faster
		}
		return f.keyring.Rotate(ctx, tx, f.now(), func(key *keyring.Key) error {
			if err := f.dropPlainIdentityKeys(ctx, tx, key == nil); err != nil {
				return err
			}
			for _, c := range []struct{ column, table, id, value string }{
				{webhookSecret, "webhooks", "id", "secret"},
				{accessKeySecret, "access_keys", "sandbox", "key"},
				{routeLinkSecret, "route_links", "id", "key"},
				{loginVerifier, "logins", "browser", "verifier"},
				{identityKeySecret, "identity_keys", "id", "private"},
				{archiveSecret, "archives", "key", "secret"},
			} {
				if err := f.reencryptColumn(ctx, tx, key, c.column, c.table, c.id, c.value); err != nil {
					return err
				}
			}
			return f.reencryptConfigs(ctx, tx, key)
		})
	})
	if err == nil && needed {
		f.log.Info("the secrets in the registry were encrypted anew", "key", f.keyring.Active())
	}
	if err != nil {
		return fmt.Errorf("encrypt the secrets in the registry: %w", err)
	}
	f.cleanRegistry(ctx)
	return nil
}

// cleanRegistry rids the registry's file of secrets as they were before they were encrypted, unless that is done. If it
// fails, such as on a full disk, the next start tries it again.
func (f *Fleet) cleanRegistry(ctx context.Context) {
	needed, err := f.keyring.NeedsCleaning(ctx)
	if err == nil && needed {
		err = f.keyring.Clean(ctx)
	}
	if err != nil {
		f.log.Warn("the registry's file may still have secrets as they were before they were encrypted; the next start tries again to remove them", "err", err)
	}
}

// needsReencryption reports whether secrets are not stored as the keys want it.
func (f *Fleet) needsReencryption(ctx context.Context, q registry.Querier) (bool, error) {
	if needed, err := f.keyring.NeedsRotation(ctx, q); err != nil || needed || f.keyring.Active() == "" {
		return needed, err
	}
	// An older version of atoll may have written plain text.
	var plain bool
	err := q.QueryRowContext(ctx, `select exists (select 1 from webhooks where secret not like 'enc:%') or exists (select 1 from access_keys where key not like 'enc:%')
		or exists (select 1 from archives where secret not like 'enc:%')`).Scan(&plain)
	if err != nil || plain {
		return plain, err
	}
	rows, err := f.queryRows(ctx, q, `sealed = '' and (env <> 'null' or config like '%"secrets":%' or config like '%"env":%' or config like '%"headers":%' or config like '%"prepare":%')`)
	for i := range rows {
		if _, parts := splitConfig(rows[i].cfg, rows[i].env); !parts.isEmpty() {
			return true, err
		}
	}
	return false, err
}

// reencryptColumn writes the values of a column anew.
func (f *Fleet) reencryptColumn(ctx context.Context, tx *sql.Tx, key *keyring.Key, column, table, id, value string) error {
	type entry struct {
		id   any
		text []byte
	}
	rows, err := tx.QueryContext(ctx, fmt.Sprintf("select %s, %s from %s", id, value, table))
	if err != nil {
		return err
	}
	defer rows.Close()
	var list []entry
	for rows.Next() {
		var e entry
		if err := rows.Scan(&e.id, &e.text); err != nil {
			return err
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, e := range list {
		p := keyring.Place{Column: column, Row: placeRow(e.id)}
		plain, err := f.keyring.Open(ctx, p, string(e.text))
		if err != nil {
			return err
		}
		var next any = key.Seal(p, plain)
		if column == routeLinkSecret {
			next = []byte(key.Seal(p, plain))
		}
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("update %s set %s = ? where %s = ?", table, value, id), next, e.id); err != nil {
			return err
		}
	}
	return nil
}

// placeRow returns a primary key as the row of a [keyring.Place].
func placeRow(id any) string {
	if b, ok := id.([]byte); ok {
		return hex.EncodeToString(b)
	}
	return fmt.Sprint(id)
}

// reencryptConfigs writes the configurations of all sandboxes and pools anew.
func (f *Fleet) reencryptConfigs(ctx context.Context, tx *sql.Tx, key *keyring.Key) error {
	rows, err := f.queryRows(ctx, tx, "true")
	if err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		s, err := encodeConfigWith(key, keyring.Place{Column: sandboxSealed, Row: r.id}, &r.cfg, r.env, r.pool != "")
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "update sandboxes set config = ?, env = ?, sealed = ? where id = ?", s.config, s.env, s.sealed, r.id); err != nil {
			return err
		}
	}
	pools, err := f.queryPools(ctx, tx, "true")
	if err != nil {
		return err
	}
	for i := range pools {
		p := &pools[i]
		s, err := encodeConfigWith(key, keyring.Place{Column: poolSealed, Row: p.name}, &p.cfg, nil, true)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "update pools set config = ?, sealed = ? where name = ?", s.config, s.sealed, p.name); err != nil {
			return err
		}
	}
	return nil
}
