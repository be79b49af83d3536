package fleet

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
)

// marker is part of every secret of these tests.
const marker = "hunter2-marker"

// writeKeys writes a key file with keys, which are made if they are "".
func writeKeys(t testing.TB, name string, keys ...string) []string {
	t.Helper()
	for i, k := range keys {
		if k == "" {
			random := make([]byte, 32)
			_, _ = rand.Read(random)
			keys[i] = base64.StdEncoding.EncodeToString(random)
		}
	}
	if err := os.WriteFile(name, []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return keys
}

// secretsOf are the secrets that an owner gave, and got, as they are read back.
type secretsOf struct {
	sandbox, webhook, link string
	accessKey, signing     string
	linkKey                []byte
}

// fillSecrets creates something of each kind that has a secret.
func fillSecrets(t *testing.T, f *Fleet) secretsOf {
	t.Helper()
	ctx := t.Context()
	a := f.Account(LocalCaller())
	sb, err := a.Create(ctx, atoll.Config{
		Spec: atoll.Spec{
			Env:     []string{"PLAIN=env-" + marker},
			Network: atoll.Network{Allow: []string{"api.example.com"}, Headers: []atoll.Header{{Host: "http://api.example.com", Name: "Authorization", Value: "Bearer header-" + marker}}},
		},
		Secrets: map[string]string{"PASSWORD": "secret-" + marker},
		Prepare: []atoll.Step{{Shell: ": prepare-" + marker}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := secretsOf{sandbox: sb.ID()}
	if s.accessKey, err = sb.AccessKey(ctx); err != nil {
		t.Fatal(err)
	}
	w, err := a.CreateWebhook(ctx, atoll.Webhook{URL: "https://hooks.example.com/a"})
	if err != nil {
		t.Fatal(err)
	}
	s.webhook, s.signing = w.ID, w.Secret
	l, err := a.CreateRouteLink(ctx, sb.ID(), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s.link = l.ID
	if s.linkKey, _, err = f.RouteLinkKey(ctx, l.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.SetPool(ctx, atoll.Pool{Name: "pool", Config: atoll.Config{Spec: atoll.Spec{Env: []string{"P=pool-" + marker}}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// checkSecrets checks that a fleet reads the secrets as they were.
func checkSecrets(t *testing.T, f *Fleet, s secretsOf) {
	t.Helper()
	ctx := t.Context()
	r, err := f.loadRow(ctx, s.sandbox)
	if err != nil {
		t.Fatal(err)
	}
	if r.cfg.Secrets["PASSWORD"] != "secret-"+marker || !slices.Contains(r.cfg.Env, "PLAIN=env-"+marker) ||
		r.cfg.Network.Headers[0].Value != "Bearer header-"+marker || r.cfg.Prepare[0].Shell != ": prepare-"+marker {
		t.Errorf("the configuration was changed: %+v", r.cfg)
	}
	if key, err := f.queryAccessKey(ctx, s.sandbox); err != nil || key != s.accessKey {
		t.Errorf("access key %q, %v", key, err)
	}
	if c, err := f.FindAccessKey(ctx, "", func(key string) bool { return key == s.accessKey }); err != nil || c.Sandbox != s.sandbox {
		t.Errorf("FindAccessKey: %+v, %v", c, err)
	}
	if key, ok, err := f.RouteLinkKey(ctx, s.link); err != nil || !ok || !bytes.Equal(key, s.linkKey) {
		t.Errorf("key of the link: %v, %v", ok, err)
	}
	if got := storedSigning(t, f, s.webhook); got != s.signing {
		t.Errorf("signing secret %q", got)
	}
	p, err := f.queryPool(ctx, f.registry.DB, "pool")
	if err != nil || !slices.Equal(p.cfg.Env, []string{"P=pool-" + marker}) {
		t.Errorf("pool %+v, %v", p.cfg, err)
	}
}

func storedSigning(t *testing.T, f *Fleet, id string) string {
	t.Helper()
	var text string
	if err := f.registry.DB.QueryRowContext(t.Context(), "select secret from webhooks where id = ?", id).Scan(&text); err != nil {
		t.Fatal(err)
	}
	b, err := f.keyring.Open(t.Context(), keyring.Place{Column: webhookSecret, Row: id}, text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// dumpRegistry returns all values of all tables, as who has a copy of the database sees them.
func dumpRegistry(t *testing.T, f *Fleet) string {
	t.Helper()
	return dumpTable(t, f, "sandboxes", "pools", "webhooks", "access_keys", "route_links", "logins", "events", "audit", "commands", "deliveries", "data_keys", "identity_keys")
}

func dumpTable(t *testing.T, f *Fleet, tables ...string) string {
	t.Helper()
	var b strings.Builder
	for _, table := range tables {
		rows, err := f.registry.DB.QueryContext(t.Context(), "select * from "+table)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				t.Fatal(err)
			}
			for i := range values {
				v := *values[i].(*any)
				if raw, ok := v.([]byte); ok {
					v = string(raw)
				}
				fmt.Fprintf(&b, "%s.%s=%v\n", table, columns[i], v)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// findPlain returns the secrets that a dump shows.
func findPlain(dump string, s secretsOf) (found []string) {
	for _, secret := range []string{marker, s.accessKey, s.signing, string(s.linkKey)} {
		if strings.Contains(dump, secret) {
			found = append(found, secret)
		}
	}
	return found
}

// encryptedFleet returns the options of a fleet with a home of its own, and the name of a key file that is not there.
func encryptedFleet(t testing.TB) (Options, string) {
	file := filepath.Join(t.TempDir(), "keys")
	return Options{Home: t.TempDir(), Keys: keyring.Options{File: file}}, file
}

// reopen opens a fleet, calls use and closes it.
func reopen(t *testing.T, opts Options, use func(f *Fleet)) {
	t.Helper()
	f, err := Open(context.Background(), withPostgres(withVirtual(opts)))
	if err != nil {
		t.Fatal(err)
	}
	defer closeFleet(t, f)
	use(f)
}

// TestSecretsAreEncrypted looks for every kind of secret in the database and its files.
func TestSecretsAreEncrypted(t *testing.T) {
	opts, file := encryptedFleet(t)
	opts = withPostgres(opts)
	var s secretsOf
	reopen(t, opts, func(f *Fleet) {
		s = fillSecrets(t, f)
		checkSecrets(t, f, s)
		if found := findPlain(dumpRegistry(t, f), s); len(found) > 0 {
			t.Errorf("the registry has in plain text: %q", found)
		}
		if f.EncryptionKey() == "" {
			t.Error("no key is active")
		}
	})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", info, err)
	}
	for _, name := range []string{"atoll.db", "atoll.db-wal"} {
		b, err := os.ReadFile(filepath.Join(opts.Home, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if found := findPlain(string(b), s); len(found) > 0 {
			t.Errorf("%s has in plain text: %q", name, found)
		}
	}
	reopen(t, opts, func(f *Fleet) { checkSecrets(t, f, s) })
}

// TestWrongKeyFailsAtStart opens an encrypted registry without its key, in each way.
func TestWrongKeyFailsAtStart(t *testing.T) {
	opts, file := encryptedFleet(t)
	opts = withPostgres(withVirtual(opts))
	reopen(t, opts, func(f *Fleet) { fillSecrets(t, f) })
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		spoil  func(o *Options)
		reason []string
	}{
		{"NoKeyIsSet", func(o *Options) { o.Keys = keyring.Options{} }, []string{"set secrets.key_file or secrets.key_command"}},
		{"FileIsMissing", func(*Options) { _ = os.Remove(file) }, []string{"secrets.key_file " + file, "restore that file"}},
		{"AnotherKey", func(*Options) { writeKeys(t, file, "") }, []string{"which is not in secrets.key_file " + file}},
		{"NoneWithoutTheKey", func(*Options) { writeKeys(t, file, "none") }, []string{"which is not in"}},
		{"Empty", func(*Options) { _ = os.WriteFile(file, nil, 0o600) }, []string{file, "there is no key"}},
		{"ReadableForAll", func(*Options) { _ = os.Chmod(file, 0o644) }, []string{file, "mode 0644", "chmod 600"}},
		{"TwoSources", func(o *Options) { o.Keys.Command = []string{"true"} }, []string{"are both set"}},
		{"CommandFails", func(o *Options) {
			o.Keys = keyring.Options{Command: []string{"sh", "-c", "echo no access >&2; exit 4"}}
		}, []string{"secrets.key_command", "no access"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := opts
			c.spoil(&o)
			f, err := Open(t.Context(), o)
			if err == nil {
				closeFleet(t, f)
				t.Fatal("it opens")
			}
			for _, r := range c.reason {
				if !strings.Contains(err.Error(), r) {
					t.Errorf("error %q lacks %q", err, r)
				}
			}
			if strings.Contains(err.Error(), strings.TrimSpace(string(right[len(right)-40:]))) {
				t.Errorf("error %q shows the key", err)
			}
			if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, right, 0o600)); err != nil {
				t.Fatal(err)
			}
		})
	}
	reopen(t, opts, func(*Fleet) {}) // nothing of that has done harm
}

// TestValuesAreBoundToTheirRows copies encrypted values to rows whose owner could then read them.
func TestValuesAreBoundToTheirRows(t *testing.T) {
	opts, _ := encryptedFleet(t)
	f := openFleet(t, opts)
	ctx := t.Context()
	a := f.Account(LocalCaller())
	victim := fillSecrets(t, f)
	sb, err := a.Create(ctx, atoll.Config{Secrets: map[string]string{"MINE": "of the attacker"}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := a.CreateWebhook(ctx, atoll.Webhook{URL: "https://attacker.example.com/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sb.AccessKey(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, swap, from, to string
		read                 func() error
	}{
		{
			"Configuration", "update sandboxes set sealed = (select sealed from sandboxes where id = ?), turn = turn + 1 where id = ?", victim.sandbox, sb.ID(),
			func() error { _, err := f.loadRow(ctx, sb.ID()); return err },
		},
		{
			"AccessKey", "update access_keys set key = (select key from access_keys where sandbox = ?) where sandbox = ?", victim.sandbox, sb.ID(),
			func() error { _, err := f.queryAccessKey(ctx, sb.ID()); return err },
		},
		{
			"AnotherColumn", "update access_keys set key = (select secret from webhooks where id = ?) where sandbox = ?", victim.webhook, sb.ID(),
			func() error { _, err := f.queryAccessKey(ctx, sb.ID()); return err },
		},
		{
			"Webhook", "update webhooks set secret = (select secret from webhooks where id = ?) where id = ?", victim.webhook, w.ID,
			func() error {
				var text string
				if err := f.registry.DB.QueryRowContext(ctx, "select secret from webhooks where id = ?", w.ID).Scan(&text); err != nil {
					t.Fatal(err)
				}
				_, err := f.keyring.Open(ctx, keyring.Place{Column: webhookSecret, Row: w.ID}, text)
				return err
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.read(); err != nil && c.name != "AnotherColumn" {
				t.Fatal(err)
			}
			err := f.registry.Write(ctx, func(tx *sql.Tx) error { _, err := tx.ExecContext(ctx, c.swap, c.from, c.to); return err })
			if err != nil {
				t.Fatal(err)
			}
			if err := c.read(); !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "can't be decrypted") {
				t.Errorf("error %v: another row's value was decrypted", err)
			}
		})
	}
	err = f.registry.Write(ctx, func(tx *sql.Tx) error { // the fleet closes without this row
		_, err := tx.ExecContext(ctx, "update sandboxes set sealed = '' where id = ?", sb.ID())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEncryptionIsTurnedOnAndOff begins with plain text, encrypts it, replaces the key, and decrypts it.
func TestEncryptionIsTurnedOnAndOff(t *testing.T) {
	opts, file := encryptedFleet(t)
	opts = withPostgres(withVirtual(opts))
	plain := opts
	plain.Keys = keyring.Options{}
	var s secretsOf
	reopen(t, plain, func(f *Fleet) {
		s = fillSecrets(t, f)
		if found := findPlain(dumpRegistry(t, f), s); len(found) != 4 {
			t.Fatalf("the test finds only %q in plain text", found)
		}
	})
	reopen(t, opts, func(f *Fleet) {
		checkSecrets(t, f, s)
		if found := findPlain(dumpRegistry(t, f), s); len(found) > 0 {
			t.Errorf("turned on: the registry has in plain text: %q", found)
		}
	})
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	old := lines[len(lines)-1]
	var before string
	reopen(t, opts, func(f *Fleet) { before = dumpRegistry(t, f) })
	keys := writeKeys(t, file, "", old)
	reopen(t, opts, func(f *Fleet) {
		checkSecrets(t, f, s)
		after := dumpRegistry(t, f)
		for line := range strings.SplitSeq(before, "\n") {
			if (strings.Contains(line, "=enc:") || strings.HasPrefix(line, "data_keys.") && !strings.HasPrefix(line, "data_keys.cleaned")) && strings.Contains(after, line) {
				t.Errorf("replaced key: not encrypted anew: %.40s", line)
			}
		}
	})
	writeKeys(t, file, keys[0]) // the old one is not needed any more
	reopen(t, opts, func(f *Fleet) { checkSecrets(t, f, s) })
	writeKeys(t, file, "none", keys[0])
	reopen(t, opts, func(f *Fleet) {
		checkSecrets(t, f, s)
		if dump := dumpRegistry(t, f); strings.Contains(dump, "=enc:") || strings.Contains(dump, "data_keys.") {
			t.Error("turned off: there are encrypted values")
		}
	})
	reopen(t, plain, func(f *Fleet) { checkSecrets(t, f, s) })
}

// TestServersReplaceTheKey replaces the key while another server runs, which has both.
func TestServersReplaceTheKey(t *testing.T) {
	opts, file := encryptedFleet(t)
	opts = withPostgres(withVirtual(opts))
	keys := writeKeys(t, file, "", "")
	first := openFleet(t, opts)
	s := fillSecrets(t, first)
	writeKeys(t, file, keys[1], keys[0])
	second := openFleet(t, opts)
	checkSecrets(t, first, s)
	w, err := first.Account(LocalCaller()).CreateWebhook(t.Context(), atoll.Webhook{URL: "https://hooks.example.com/b"})
	if err != nil {
		t.Fatal(err)
	}
	if got := storedSigning(t, second, w.ID); got != w.Secret {
		t.Errorf("the second server reads %q", got)
	}
	writeKeys(t, file, keys[1])
	third := openFleet(t, opts)
	if got := storedSigning(t, third, w.ID); got != w.Secret {
		t.Errorf("a server without the first key reads %q: the first server has used a key that was replaced", got)
	}
	checkSecrets(t, third, s)
}

// TestServerWithoutKeyWritesNoPlainText turns encryption on while a server without the key runs.
func TestServerWithoutKeyWritesNoPlainText(t *testing.T) {
	opts, _ := encryptedFleet(t)
	opts = withPostgres(withVirtual(opts))
	plain := opts
	plain.Keys = keyring.Options{}
	old := openFleet(t, plain)
	s := fillSecrets(t, old)
	fresh := openFleet(t, opts)
	checkSecrets(t, fresh, s)
	_, err := old.Account(LocalCaller()).CreateWebhook(t.Context(), atoll.Webhook{URL: "https://hooks.example.com/b"})
	if !errors.Is(err, atoll.ErrDenied) || !strings.Contains(fmt.Sprint(err), "set secrets.key_file") {
		t.Errorf("create webhook: %v", err)
	}
	_, err = old.Account(LocalCaller()).Create(t.Context(), atoll.Config{Secrets: map[string]string{"A": "late-" + marker}})
	if err == nil {
		t.Error("a sandbox with a secret was created")
	}
	if found := findPlain(dumpRegistry(t, fresh), s); len(found) > 0 {
		t.Errorf("the registry has in plain text: %q", found)
	}
}

// TestEncryptedPool claims a sandbox of a pool whose configuration is encrypted, and checks that it is the ready one.
func TestEncryptedPool(t *testing.T) {
	opts, _ := encryptedFleet(t)
	f := openFleet(t, opts)
	runFleet(t, f)
	a := f.Account(LocalCaller())
	set := func(env string) {
		_, err := a.SetPool(t.Context(), atoll.Pool{Name: "warm", Size: 1, Config: atoll.Config{Spec: atoll.Spec{Env: []string{env}}}})
		must(t, err)
		waitFor(t, "one is ready", func() bool { return getPool(t, a, "warm").Ready == 1 })
	}
	set("TOKEN=first-" + marker)
	set("TOKEN=second-" + marker) // only the encrypted part differs: the ready one is replaced
	ready, err := f.queryRows(t.Context(), f.registry.DB, "pool = 'warm' and state = 'running'")
	must(t, err)
	sb, err := a.Create(t.Context(), atoll.Config{Pool: "warm"})
	must(t, err)
	if !slices.ContainsFunc(ready, func(r row) bool { return r.id == sb.ID() }) {
		t.Errorf("%s was made new", sb.ID())
	}
	if got := shellOutput(t, sb, "echo $TOKEN"); got != "second-"+marker+"\n" {
		t.Errorf("inside: %q", got)
	}
	if dump := dumpRegistry(t, f); strings.Contains(dump, marker) {
		t.Error("the registry has plain text")
	}
}

// withVirtual returns options with the virtual driver, and its sandboxes in the home.
func withVirtual(opts Options) Options {
	if opts.Drivers == nil {
		opts.Drivers = []atoll.Driver{&virtual.Driver{Dir: filepath.Join(opts.Home, "sandboxes")}}
	}
	return opts
}
