package fleet

import (
	"errors"
	"strings"
	"testing"

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
