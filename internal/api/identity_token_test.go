package api

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/fleet/issuer"
	"github.com/atoll-sandbox/atoll/internal/fleet/keyring"
)

// issuerSite is a server that issues identity tokens.
type issuerSite struct {
	url      string
	admin    *fleet.Account
	ann, mal *client.Client
	now      func() time.Time
	setClock func(time.Duration) // ahead of the host's
}

func newIssuerSite(t *testing.T) *issuerSite {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &issuerSite{url: "http://" + l.Addr().String()}
	ahead := time.Duration(0)
	s.now, s.setClock = func() time.Time { return time.Now().Add(ahead) }, func(d time.Duration) { ahead = d }
	home := t.TempDir()
	f, err := fleet.Open(t.Context(), fleet.Options{
		Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}, Now: s.now,
		Keys:   keyring.Options{File: filepath.Join(t.TempDir(), "key")},
		Issuer: issuer.Options{URL: s.url, Audiences: []string{"sts.example.com", "https://cloud.example.com/*", "workloads"}, Reserved: []string{"workloads"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	verifier := identity.New(identity.Options{Now: s.now, Providers: map[string]*identity.Provider{
		// An operator who trusts the server's own issuer.
		"self": {Issuer: s.url, Audience: "workloads", Rules: []identity.Rule{{Claims: map[string]identity.Values{"app": {"acme"}}, Grant: identity.Grant{Owner: "acme/admin", Role: atoll.RoleAdmin}}}},
	}})
	web := &http.Server{Handler: New(Options{Fleet: f, Identity: verifier, Limits: Limits{WrongTokens: -1}}).Handler(), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- web.Serve(l) }()
	t.Cleanup(func() {
		_ = web.Close()
		<-done
	})
	s.admin = f.Account(fleet.LocalCaller())
	for user, to := range map[string]**client.Client{"ann": &s.ann, "mallory": &s.mal} {
		tok, err := s.admin.CreateToken(t.Context(), atoll.Token{Owner: atoll.Owner{App: "acme", User: user}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
		if err != nil {
			t.Fatal(err)
		}
		if *to, err = client.New(client.Options{Host: s.url, Token: tok.Secret}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = (*to).Close() })
	}
	return s
}

// verify verifies a token as a service would, which knows the URL of the issuer only.
func (s *issuerSite) verify(t *testing.T, token, audience string) (*oidc.IDToken, error) {
	t.Helper()
	p, err := oidc.NewProvider(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	return p.Verifier(&oidc.Config{ClientID: audience, Now: s.now}).Verify(t.Context(), token)
}

func mustSandbox(t *testing.T, c *client.Client, name string) *client.Sandbox {
	t.Helper()
	sb, err := c.CreateSandbox(t.Context(), atoll.Config{Spec: atoll.Spec{Name: name, Labels: map[string]string{"team": "red"}}, Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}})
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// TestIdentityToken verifies a token with the library that services use.
func TestIdentityToken(t *testing.T) {
	s := newIssuerSite(t)
	sb := mustSandbox(t, s.ann, "web")
	made, err := sb.IdentityToken(t.Context(), "sts.example.com")
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.verify(t, made.Token, "sts.example.com")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		App, User, Sandbox string
		Labels             map[string]string
		ID                 string `json:"jti"`
	}
	if err := id.Claims(&c); err != nil {
		t.Fatal(err)
	}
	if id.Subject != "acme/ann/"+sb.ID() || c.App != "acme" || c.User != "ann" || c.Sandbox != sb.ID() || c.Labels["team"] != "red" || c.ID == "" ||
		!id.Expiry.Equal(made.Expires) || id.Expiry.Sub(id.IssuedAt) != issuer.DefaultLifetime {
		t.Errorf("%+v, %+v, %+v", id, c, made)
	}
	if _, err := s.verify(t, made.Token, "https://cloud.example.com/a"); err == nil {
		t.Error("another service accepts it")
	}
	s.setClock(issuer.DefaultLifetime + time.Minute)
	if _, err := s.verify(t, made.Token, "sts.example.com"); err == nil {
		t.Error("it is accepted after its end")
	}
}

// TestIdentityTokenAttacks asks for tokens of others, for atoll itself, and of sandboxes that are not there any more.
func TestIdentityTokenAttacks(t *testing.T) {
	s := newIssuerSite(t)
	ctx := t.Context()
	sb := mustSandbox(t, s.ann, "web")
	const good = "https://cloud.example.com/pool"
	made, err := sb.IdentityToken(ctx, good)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("OfAnotherOwner", func(t *testing.T) {
		_, err := s.mal.Open(ctx, sb.ID())
		if !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("open: %v", err)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/sandboxes/"+sb.ID()+"/identity-token", strings.NewReader(`{"audience":"`+good+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if a.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a token: %s", a.Status)
		}
	})
	for name, audience := range map[string]string{
		"AnotherService": "evil.example.com", "AtollItself": s.url, "AtollItselfWithASlash": s.url + "/", "AudienceOfALogin": "workloads", "OtherCase": "WORKLOADS",
		"Empty": "", "Space": "sts.example.com evil", "PrefixOnly": "sts.example.com.evil", "Long": good + strings.Repeat("x", 300),
	} {
		t.Run(name, func(t *testing.T) {
			if tok, err := sb.IdentityToken(ctx, audience); !errors.Is(err, atoll.ErrDenied) && !errors.Is(err, atoll.ErrInvalid) || tok.Token != "" {
				t.Errorf("%+v, %v", tok, err)
			}
		})
	}
	t.Run("AsALogin", func(t *testing.T) { // even where the operator trusts the issuer: no token has an audience of atoll
		c, err := client.New(client.Options{Host: s.url, Token: made.Token})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Info(ctx); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("info: %v", err)
		}
	})
	t.Run("Stopped", func(t *testing.T) {
		if err := atoll.Stop(ctx, sb); err != nil {
			t.Fatal(err)
		}
		if _, err := sb.IdentityToken(ctx, good); !errors.Is(err, atoll.ErrState) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("Removed", func(t *testing.T) {
		if err := sb.Destroy(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := sb.IdentityToken(ctx, good); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("KeysAreNotShown", func(t *testing.T) {
		for _, path := range []string{issuer.DiscoveryPath, issuer.KeysPath} {
			a, err := http.Get(s.url + path) //nolint:noctx // a test
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			var v struct {
				Keys []map[string]any `json:"keys"`
			}
			if err := json.NewDecoder(a.Body).Decode(&v); err != nil || a.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v", path, a.Status, err)
			}
			for _, k := range v.Keys {
				for _, private := range []string{"d", "p", "q", "dp", "dq", "qi"} {
					if k[private] != nil {
						t.Errorf("the private part %s is published", private)
					}
				}
			}
		}
	})
}

// TestIdentityKeysRotate checks that services that cache the keys accept every token during a change of the key.
func TestIdentityKeysRotate(t *testing.T) {
	s := newIssuerSite(t)
	sb := mustSandbox(t, s.ann, "web")
	const day = 24 * time.Hour
	keyOf := func() string {
		t.Helper()
		made, err := sb.IdentityToken(t.Context(), "sts.example.com")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.verify(t, made.Token, "sts.example.com"); err != nil {
			t.Fatal(err)
		}
		return strings.SplitN(made.Token, ".", 2)[0]
	}
	first := keyOf()
	s.setClock(29 * day)
	if keyOf() != first {
		t.Error("the key was changed too early")
	}
	s.setClock(31 * day)
	if keyOf() != first {
		t.Error("the new key is used before services know it")
	}
	s.setClock(31*day + 2*time.Hour)
	second := keyOf()
	if second == first {
		t.Error("the key was not changed")
	}
	s.setClock(31*day + 5*time.Hour)
	if keyOf() != second {
		t.Error("the key was changed again")
	}
	a, err := http.Get(s.url + issuer.KeysPath) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	var v struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.NewDecoder(a.Body).Decode(&v); err != nil || len(v.Keys) != 1 {
		t.Errorf("%d keys, %v: the first is not needed any more", len(v.Keys), err)
	}
}
