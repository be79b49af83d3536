package fleet

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
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
