//go:build unix

package fleet

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/secretref"
)

// secretProviders returns providers of which one counts its calls in a file.
func secretProviders(t testing.TB) (providers map[string]*secretref.Provider, dir, calls string) {
	t.Helper()
	dir = t.TempDir()
	calls = filepath.Join(t.TempDir(), "calls")
	for name, text := range map[string]string{"db": "files-" + marker + "\n", "other": "other-" + marker} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]*secretref.Provider{
		"files": {Directory: dir, Allow: []string{"*"}},
		"team":  {Directory: dir, Allow: []string{"db"}, Owners: []string{"acme/*"}},
		"vault": {Command: []string{"sh", "-c", `echo "$1" >>"$2"; echo "vault-$1-` + marker + `"`, "sh", "{name}", calls}, Allow: []string{"team/*"}},
		"gone":  {Command: []string{"sh", "-c", "echo vault is sealed >&2; exit 2", "{name}"}, Allow: []string{"*"}},
	}, dir, calls
}

// TestReferencedSecrets checks that references give values to commands, that nothing stores the values, and that no text
// shows them.
func TestReferencedSecrets(t *testing.T) {
	providers, dir, calls := secretProviders(t)
	opts := withVirtual(Options{Home: t.TempDir(), SecretProviders: providers})
	f := openFleet(t, opts)
	ctx := t.Context()
	a := f.Account(LocalCaller())
	sb, err := a.Create(ctx, atoll.Config{
		Spec: atoll.Spec{Name: "web"},
		Secrets: map[string]string{
			"DB": "secret://files/db", "TOKEN": "secret://vault/team/api", "PLAIN": "ordinary",
		},
		Prepare: []atoll.Step{{Shell: `case $DB in files-*) ;; *) exit 1 ;; esac`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var out bytes.Buffer
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: `echo $DB $TOKEN $PLAIN`, Stdout: &out})
		if want := "files-" + marker + " vault-team/api-" + marker + " ordinary\n"; err != nil || exit.Code != 0 || out.String() != want {
			t.Fatalf("%q, %+v, %v", out.String(), exit, err)
		}
	}
	if b, err := os.ReadFile(calls); err != nil || string(b) != "team/api\n" {
		t.Errorf("the command ran for %q, %v: want it once", b, err)
	}
	var out bytes.Buffer
	if exit, err := sb.Exec(ctx, atoll.Cmd{Shell: `echo ${DB:-none}`, Env: []string{"DB=own"}, Stdout: &out}); err != nil || exit.Code != 0 || out.String() != "own\n" {
		t.Errorf("a command's own variable: %q, %v", out.String(), err)
	}
	history, err := atoll.History(ctx, sb)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range history {
		if strings.Contains(string(h.Stdout), marker) {
			t.Errorf("the history shows %q", h.Stdout)
		}
	}
	if text := a.sandboxFor(mustRow(t, f, sb.ID())).Redactor().RedactText("x files-" + marker); strings.Contains(text, marker) {
		t.Errorf("a text shows %q", text)
	}
	if strings.Contains(dumpRegistry(t, f), marker) {
		t.Error("the registry has values")
	}
	closeFleet(t, f)
	err = filepath.WalkDir(filepath.Join(opts.Home, "sandboxes"), func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if bytes.Contains(b, []byte(marker)) {
			t.Errorf("%s has a value", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// Another process, with another value: it is asked for again.
	if err := os.WriteFile(filepath.Join(dir, "db"), []byte("second-"+marker), 0o600); err != nil {
		t.Fatal(err)
	}
	next := openFleet(t, opts)
	again, err := next.Account(LocalCaller()).Open(ctx, "web")
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if _, err := again.Exec(ctx, atoll.Cmd{Shell: `echo $DB`, Stdout: &out}); err != nil || out.String() != "second-"+marker+"\n" {
		t.Errorf("after a restart: %q, %v", out.String(), err)
	}
}

func mustRow(t *testing.T, f *Fleet, id string) row {
	t.Helper()
	r, err := f.loadRow(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReferencesNeedRights lets callers name secrets of the host that are not theirs.
func TestReferencesNeedRights(t *testing.T) {
	providers, _, calls := secretProviders(t)
	f := openFleet(t, Options{SecretProviders: providers})
	user := func(app string, scopes ...atoll.Scope) *Account {
		return f.Account(Caller{Owner: atoll.Owner{App: app, User: "ann"}, Scopes: append(scopes, atoll.ScopeRead, atoll.ScopeRun), Token: "t"})
	}
	for _, c := range []struct {
		name, ref string
		account   *Account
		err       error
	}{
		{"HostScope", "secret://files/other", user("beta", atoll.ScopeHost), nil},
		{"OwnerOfTheProvider", "secret://team/db", user("acme"), nil},
		{"AnotherNameOfTheProvider", "secret://team/other", user("acme"), atoll.ErrDenied},
		{"AnotherOwner", "secret://team/db", user("beta"), atoll.ErrDenied},
		{"WithoutTheScope", "secret://files/db", user("acme"), atoll.ErrDenied},
		{"CommandWithoutTheScope", "secret://vault/team/api", user("acme"), atoll.ErrDenied},
		{"Operator", "secret://files/db", user("acme", atoll.ScopeOperate), atoll.ErrDenied},
		{"NoSuchProviderIsNotShown", "secret://nothing/db", user("acme"), atoll.ErrDenied},
		{"NoSuchProvider", "secret://file/db", user("beta", atoll.ScopeHost), atoll.ErrNotFound},
		{"NotAllowed", "secret://vault/prod/root", user("beta", atoll.ScopeHost), atoll.ErrDenied},
		{"OutOfTheDirectory", "secret://files/../db", user("beta", atoll.ScopeHost), atoll.ErrInvalid},
		{"Option", "secret://vault/team/-h", user("beta", atoll.ScopeHost), atoll.ErrInvalid},
		{"Command", "secret://vault/team/$(id)", user("beta", atoll.ScopeHost), atoll.ErrInvalid},
		{"Malformed", "secret://", user("beta", atoll.ScopeHost), atoll.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			sb, err := c.account.Create(t.Context(), atoll.Config{Secrets: map[string]string{"A": c.ref}})
			if !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err == nil {
				var out bytes.Buffer
				if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo $A", Stdout: &out}); err != nil || !strings.Contains(out.String(), marker) {
					t.Errorf("%q, %v", out.String(), err)
				}
			}
			for _, secret := range []string{"prod", "root"} {
				if err != nil && !slices.Contains(strings.Split(c.ref, "/"), secret) && strings.Contains(err.Error(), secret) {
					t.Errorf("error %v", err)
				}
			}
		})
	}
	if b, err := os.ReadFile(calls); err == nil {
		t.Errorf("the provider was asked for %q", b)
	}
	// The sandbox of a turn has the rights of its operator, but a hook may have copied a value of the request into a secret.
	for ref, want := range map[string]error{"secret://files/db": atoll.ErrDenied, "secret://team/db": nil} {
		if _, err := user("acme").CreateForTurn(t.Context(), TurnSandbox{Config: atoll.Config{Secrets: map[string]string{"A": ref}}}); !errors.Is(err, want) {
			t.Errorf("a turn with %s: %v", ref, err)
		}
	}
	// A claim gives no more rights.
	admin := f.Account(LocalCaller())
	if _, err := admin.SetPool(t.Context(), atoll.Pool{Name: "pool", Config: atoll.Config{Secrets: map[string]string{"A": "secret://files/db"}}}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a pool with a secret: %v", err)
	}
	if _, err := admin.SetPool(t.Context(), atoll.Pool{Name: "pool"}); err != nil {
		t.Fatal(err)
	}
	if _, err := user("acme").Create(t.Context(), atoll.Config{Pool: "pool", Secrets: map[string]string{"A": "secret://files/db"}}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a claim with a reference: %v", err)
	}
}

// TestUnresolvedReferenceFailsClosed checks that no command and no start goes on without a secret.
func TestUnresolvedReferenceFailsClosed(t *testing.T) {
	providers, dir, _ := secretProviders(t)
	f := openFleet(t, Options{SecretProviders: providers})
	ctx := t.Context()
	a := f.Account(LocalCaller())
	sb, err := a.Create(ctx, atoll.Config{Secrets: map[string]string{"A": "secret://gone/x"}})
	if err != nil {
		t.Fatal(err) // nothing needs the value yet
	}
	_, err = sb.Exec(ctx, atoll.Cmd{Shell: "echo runs"})
	if err == nil || !strings.Contains(err.Error(), "secret A: reference secret://gone/x: command sh: exit status 2: vault is sealed") {
		t.Errorf("exec: %v", err)
	}
	header := atoll.Config{
		Spec: atoll.Spec{Network: atoll.Network{Allow: []string{"api.example.com"}, Headers: []atoll.Header{{Host: "http://api.example.com", Name: "Authorization", Value: "Bearer ${A}"}}}},
	}
	header.Secrets = map[string]string{"A": "secret://gone/x"}
	if _, err := a.Create(ctx, header); err == nil || !strings.Contains(err.Error(), "vault is sealed") {
		t.Errorf("a sandbox whose header has no value: %v", err)
	}
	header.Secrets = map[string]string{"A": "secret://files/db"}
	withHeader, err := a.Create(ctx, header)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := withHeader.Exec(ctx, atoll.Cmd{Shell: "echo [$A]", Stdout: &out}); err != nil || out.String() != "[]\n" {
		t.Errorf("a secret of a header is inside: %q, %v", out.String(), err)
	}
	if err := os.Remove(filepath.Join(dir, "db")); err != nil {
		t.Fatal(err)
	}
}
