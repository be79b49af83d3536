package fleet

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
)

// readRegistryFiles returns the bytes of all files of a registry of SQLite.
func readRegistryFiles(t *testing.T, home string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"atoll.db", "atoll.db-wal", "atoll.db-shm"} {
		b, err := os.ReadFile(filepath.Join(home, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}

// TestNoPlainTextIsLeftInTheFile turns encryption on for a registry that has secrets, some of which were removed: the
// file must not keep them in pages that are free.
func TestNoPlainTextIsLeftInTheFile(t *testing.T) {
	opts, file := encryptedFleet(t)
	opts.Registry = ""
	plain := opts
	plain.Keys = keyring.Options{}
	var s secretsOf
	open := func(opts Options, use func(f *Fleet)) {
		t.Helper()
		f, err := Open(t.Context(), withVirtual(opts))
		if err != nil {
			t.Fatal(err)
		}
		use(f)
		closeFleet(t, f)
	}
	open(plain, func(f *Fleet) {
		for range 10 {
			s = fillSecrets(t, f)
		}
	})
	if !strings.Contains(readRegistryFiles(t, opts.Home), marker) {
		t.Fatal("the test finds nothing in plain text")
	}
	open(opts, func(f *Fleet) {
		checkSecrets(t, f, s)
		if found := findPlain(readRegistryFiles(t, opts.Home), s); len(found) > 0 {
			t.Errorf("while the server runs, the files have in plain text: %q", found)
		}
	})
	if found := findPlain(readRegistryFiles(t, opts.Home), s); len(found) > 0 {
		t.Errorf("the files have in plain text: %q", found)
	}
	open(opts, func(f *Fleet) { // as if a process had died between the encryption and the cleaning
		for _, query := range []string{
			"update data_keys set cleaned = 0", "insert into webhooks (id, app, user, name, url, secret, types, all_owners, created, token, first) select 'left', app, user, 'left', url, 'left-" + marker + "', types, all_owners, created, token, first from webhooks limit 1",
			"delete from webhooks where id = 'left'",
		} {
			must(t, f.registry.Write(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), query)
				return err
			}))
		}
	})
	if !strings.Contains(readRegistryFiles(t, opts.Home), "left-"+marker) {
		t.Fatal("the test leaves nothing in the file")
	}
	open(opts, func(*Fleet) {})
	if strings.Contains(readRegistryFiles(t, opts.Home), "left-"+marker) {
		t.Error("an interrupted cleaning is not repeated")
	}
	var wrapped string
	open(opts, func(f *Fleet) {
		if err := f.registry.DB.QueryRowContext(t.Context(), "select wrapped from data_keys").Scan(&wrapped); err != nil {
			t.Fatal(err)
		}
	})
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	writeKeys(t, file, "", lines[len(lines)-1])
	open(opts, func(f *Fleet) {
		checkSecrets(t, f, s)
		if strings.Contains(readRegistryFiles(t, opts.Home), wrapped) {
			t.Error("after the key was replaced, the file has the data key before")
		}
	})
}

// TestValueThatLooksLikeAReference is given to commands as it is: it is neither resolved nor left out.
func TestValueThatLooksLikeAReference(t *testing.T) {
	t.Setenv("ATTACK_A", "secret://env/ATTACK_B")
	t.Setenv("ATTACK_B", "other")
	f := openFleet(t, withVirtual(Options{Home: t.TempDir(), SecretProviders: map[string]*secretref.Provider{"env": {Environment: true, Allow: []string{"ATTACK_*"}}}}))
	sb, err := f.Account(LocalCaller()).Create(t.Context(), atoll.Config{Secrets: map[string]string{"A": "secret://env/ATTACK_A"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo $A", Stdout: &out}); err != nil || out.String() != "secret://env/ATTACK_B\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestHeaderBomb names a large secret many times in a header: 64 KiB times a thousand, and more headers than there may be.
func TestHeaderBomb(t *testing.T) {
	cfg := atoll.Config{Secrets: map[string]string{"A": strings.Repeat("x", 64<<10)}}
	bomb := atoll.Header{Host: "example.com", Name: "X-A", Value: strings.Repeat("${A}", 1000)}
	if n := len(expandSecrets(bomb.Value, cfg.Secrets)); n > maxHeaderValue+1 {
		t.Errorf("a value of %d bytes becomes %d bytes", len(bomb.Value), n)
	}
	f := openFleet(t, withVirtual(Options{Home: t.TempDir()}))
	small := atoll.Header{Host: "example.com", Name: "X-A", Value: "a"}
	for name, headers := range map[string][]atoll.Header{
		"Expanded": {bomb},
		"Long":     {{Host: "example.com", Name: "X-A", Value: strings.Repeat("x", maxHeaderValue+1)}},
		"Many":     slices.Repeat([]atoll.Header{small}, maxHeaders+1),
	} {
		cfg.Network = atoll.Network{Allow: []string{"example.com"}, Headers: headers}
		var field *atoll.FieldError
		if _, err := f.Account(LocalCaller()).Create(t.Context(), cfg); !errors.Is(err, atoll.ErrInvalid) || !errors.As(err, &field) || !strings.HasPrefix(field.Field, "network.headers") {
			t.Errorf("%s: error %.200v, want one of network.headers", name, err)
		}
	}
}

// TestReferencesDoNotExceedTheEnvironment refers to one large secret by many names.
func TestReferencesDoNotExceedTheEnvironment(t *testing.T) {
	t.Setenv("ATTACK_LARGE", strings.Repeat("x", 64<<10))
	f := openFleet(t, withVirtual(Options{Home: t.TempDir(), SecretProviders: map[string]*secretref.Provider{"env": {Environment: true, Allow: []string{"ATTACK_*"}}}}))
	secrets := make(map[string]string)
	for i := range 100 {
		secrets[fmt.Sprint("A", i)] = "secret://env/ATTACK_LARGE"
	}
	sb, err := f.Account(LocalCaller()).Create(t.Context(), atoll.Config{Secrets: secrets})
	if err == nil {
		_, err = sb.Exec(t.Context(), atoll.Cmd{Shell: "true"})
	}
	if !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "references have more than") {
		t.Errorf("error %.200v", err)
	}
}

// TestPlainIdentityKeyIsRefused lets one who can write to the registry plant a signing key that he has, and turns
// encryption off: no signing key is read from, or written as, plain text.
func TestPlainIdentityKeyIsRefused(t *testing.T) {
	opts, file := encryptedFleet(t)
	opts = withPostgres(opts)
	with := opts
	with.Issuer = issuer.Options{URL: "https://atoll.example.com", Audiences: []string{"service"}}
	plant := func(f *Fleet) {
		k, err := issuer.NewKey(f.now())
		must(t, err)
		text, err := k.Encode()
		must(t, err)
		must(t, f.registry.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "insert into identity_keys (id, private, created) values (?, ?, ?)", k.ID, text, 1)
			return err
		}))
	}
	count := func(f *Fleet) (n int) {
		must(t, f.registry.DB.QueryRowContext(t.Context(), "select count(*) from identity_keys").Scan(&n))
		return n
	}
	reopen(t, with, func(f *Fleet) {
		keys, err := f.IdentityKeys(t.Context())
		if err != nil || len(keys.Keys) != 1 {
			t.Fatalf("%d keys, %v", len(keys.Keys), err)
		}
		plant(f)
		if keys, err := f.signingKeys(t.Context()); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("a planted key: %d keys, error %v", len(keys), err)
		}
	})
	b, err := os.ReadFile(file)
	must(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	writeKeys(t, file, "", lines[len(lines)-1])
	reopen(t, with, func(f *Fleet) {
		if n := count(f); n != 1 {
			t.Errorf("after the key was replaced there are %d signing keys, want 1", n)
		}
	})
	b, err = os.ReadFile(file)
	must(t, err)
	writeKeys(t, file, "none", strings.SplitN(string(b), "\n", 2)[0])
	reopen(t, opts, func(f *Fleet) {
		if n := count(f); n != 0 {
			t.Errorf("without encryption there are %d signing keys", n)
		}
	})
}
