package fleet

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
)

// TestIdentityKeysAreEncrypted looks for the private key in the registry, and replaces the master key.
func TestIdentityKeysAreEncrypted(t *testing.T) {
	opts, file := encryptedFleet(t)
	opts = withPostgres(withVirtual(opts))
	opts.Issuer = issuer.Options{URL: "https://atoll.example.com", Audiences: []string{"service"}}
	plain := opts
	plain.Keys = keyring.Options{}
	if f, err := Open(t.Context(), plain); !errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), "identity.issuer needs secrets.key_file") {
		if err == nil {
			closeFleet(t, f)
		}
		t.Errorf("without a master key: %v", err)
	}
	keys := writeKeys(t, file, "")
	var id string
	reopen(t, opts, func(f *Fleet) {
		sb, err := f.Account(LocalCaller()).Create(t.Context(), atoll.Config{})
		must(t, err)
		tok, err := sb.IdentityToken(t.Context(), "service")
		must(t, err)
		set, err := f.IdentityKeys(t.Context())
		must(t, err)
		id = set.Keys[0].KeyID
		dump := dumpTable(t, f, "identity_keys")
		if strings.Contains(dump, "private=MII") || !strings.Contains(dump, "private=enc:") {
			t.Errorf("the private key is plain text: %.200s", dump)
		}
		if strings.Contains(dumpRegistry(t, f), tok.Token) {
			t.Error("the registry has the token")
		}
		// Of a caller who may only read, with a link or an access key: no token.
		reader := f.Account(Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead}})
		open, err := reader.Open(t.Context(), sb.ID())
		must(t, err)
		_, err = open.IdentityToken(t.Context(), "service")
		checkError(t, "with the scope read", err, atoll.ErrDenied)
		key, err := sb.AccessKey(t.Context())
		must(t, err)
		holder, err := f.AuthenticateAccessKey(t.Context(), key)
		must(t, err)
		open, err = f.Account(holder).Open(t.Context(), sb.ID())
		must(t, err)
		_, err = open.IdentityToken(t.Context(), "service")
		checkError(t, "with an access key", err, atoll.ErrDenied)
	})
	writeKeys(t, file, "", keys[0])
	reopen(t, opts, func(f *Fleet) {
		set, err := f.IdentityKeys(t.Context())
		must(t, err)
		if len(set.Keys) != 1 || set.Keys[0].KeyID != id {
			t.Errorf("after another master key: %+v", set)
		}
	})
}

// TestIdentityInCommands gives commands tokens of their sandbox by a variable.
func TestIdentityInCommands(t *testing.T) {
	opts, _ := encryptedFleet(t)
	opts = withVirtual(opts)
	opts.Issuer = issuer.Options{URL: "https://atoll.example.com", Audiences: []string{"service"}}
	var ahead atomic.Int64
	opts.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	f := openFleet(t, opts)
	runFleet(t, f)
	ctx := t.Context()
	u := f.Account(Caller{Owner: atoll.Owner{App: "acme", User: "ann"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	cfg := atoll.Config{Secrets: map[string]string{"WHO": "identity://service"}, Prepare: []atoll.Step{{Shell: `echo "$WHO" >/first`}}}
	sb, err := u.Create(ctx, cfg)
	must(t, err)
	subject := func(token string) string {
		t.Helper()
		parsed, err := jwt.ParseSigned(strings.TrimSpace(token), []jose.SignatureAlgorithm{jose.RS256})
		must(t, err)
		set, err := f.IdentityKeys(ctx)
		must(t, err)
		var c jwt.Claims
		must(t, parsed.Claims(set, &c))
		return c.Subject
	}
	output := func(sb atoll.Sandbox, script string) string {
		t.Helper()
		var out bytes.Buffer
		_, err := sb.Exec(ctx, atoll.Cmd{Shell: script, Stdout: &out})
		must(t, err)
		return out.String()
	}
	first := output(sb, "echo $WHO")
	if got := subject(first); got != "acme/ann/"+sb.ID() || subject(output(sb, "cat /first")) != got {
		t.Errorf("subject %q", got)
	}
	if output(sb, "echo $WHO") != first {
		t.Error("a token is made for each command")
	}
	ahead.Store(int64(6 * time.Minute))
	if output(sb, "echo $WHO") == first {
		t.Error("a command gets a token whose time is nearly over")
	}
	output(sb, "echo "+strings.TrimSpace(first)) // the one of before is hidden, too
	history, err := atoll.History(ctx, sb)
	must(t, err)
	signature := strings.TrimSpace(first[strings.LastIndex(first, ".")+1:])
	for _, h := range history {
		if strings.Contains(h.Command+string(h.Stdout), signature) {
			t.Errorf("the history shows a token: %.60s", h.Stdout)
		}
	}
	dump := dumpRegistry(t, f)
	if strings.Contains(dump, signature) || !strings.Contains(dump, "for service, in commands") {
		t.Error("the registry has the token, or the audit lacks it")
	}
	fork, err := sb.Fork(ctx, "", atoll.Spec{})
	must(t, err)
	if got := subject(output(fork, "echo $WHO")); got != "acme/ann/"+fork.ID() {
		t.Errorf("subject of a fork: %q", got)
	}
	_, err = f.Account(LocalCaller()).SetPool(ctx, atoll.Pool{Name: "warm", Size: 1})
	must(t, err)
	waitFor(t, "one is ready", func() bool { return getPool(t, f.Account(LocalCaller()), "warm").Ready == 1 })
	cfg.Pool = "warm"
	claimed, err := u.Create(ctx, cfg)
	must(t, err)
	if got := subject(output(claimed, "cat /first")); got != "acme/ann/"+claimed.ID() {
		t.Errorf("subject of a claimed one: %q", got)
	}
	cfg.Pool = ""
	for name, change := range map[string]func(*atoll.Config){
		"AnotherAudience": func(c *atoll.Config) { c.Secrets = map[string]string{"WHO": "identity://other"} },
		"AtollItself":     func(c *atoll.Config) { c.Secrets = map[string]string{"WHO": "identity://https://atoll.example.com"} },
		"InAHeader": func(c *atoll.Config) {
			c.Network.Headers = []atoll.Header{{Host: "http://api.example.com", Name: "Authorization", Value: "Bearer ${WHO}"}}
		},
	} {
		bad := cfg
		change(&bad)
		if _, err := u.Create(ctx, bad); !errors.Is(err, atoll.ErrDenied) && !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := sb.SetNetwork(ctx, atoll.Network{Headers: []atoll.Header{{Host: "http://api.example.com", Name: "Authorization", Value: "Bearer ${WHO}"}}}); !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("in a header, later: %v", err)
	}
}
