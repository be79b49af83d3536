package server

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/testing/issuertest"
)

// consent is the terminal of a user who consents at the provider as soon as the code is shown.
type consent struct {
	bytes.Buffer

	issuer *issuertest.Issuer
}

func (c *consent) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "enter the code ABCD-EFGH") {
		c.issuer.ApproveDevices()
	}
	return c.Buffer.Write(p)
}

func TestDeviceLogin(t *testing.T) {
	issuer := issuertest.New(t)
	home := t.TempDir()
	f, err := fleet.Open(t.Context(), fleet.Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	rules := []identity.Rule{{Group: "staff", Grant: identity.Grant{Owner: "company/{sub}", Role: atoll.RoleViewer}}}
	s := api.New(api.Options{Fleet: f, Identity: identity.New(identity.Options{Providers: map[string]*identity.Provider{
		"company": {Issuer: issuer.URL, ClientID: issuertest.ClientID, Rules: rules},
		"web":     {Issuer: issuer.URL, ClientID: "web", ClientSecretFile: filepath.Join(home, "secret"), Rules: rules},
	}})})
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	terminal := &consent{issuer: issuer}
	a := commands{&app.App{Streams: tty.Streams{Err: terminal}}}
	e := config.Endpoint{Host: web.URL}

	issuer.SetUser(map[string]any{"sub": "alice", "groups": []string{"staff"}})
	e.Token, err = a.obtainToken(t.Context(), e, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, terminal)
	}
	c, err := client.New(client.Options{Host: web.URL, Token: e.Token})
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info(t.Context())
	if err != nil || info.Owner.String() != "company/alice" || info.Provider != "company" {
		t.Errorf("%+v %v", info, err)
	}
	if strings.Contains(terminal.String(), "eyJ") || strings.Contains(terminal.String(), e.Token) {
		t.Errorf("a token is shown: %s", terminal)
	}
	if err := a.revokeLogin(t.Context(), e); err != nil { // even a viewer can log out
		t.Errorf("logout: %v", err)
	}
	if _, err := c.Info(t.Context()); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("after the logout: %v", err)
	}
	if err := a.revokeLogin(t.Context(), e); err != nil {
		t.Errorf("logout twice: %v", err)
	}
	made, err := f.Account(fleet.LocalCaller()).CreateToken(t.Context(), atoll.Token{Role: atoll.RoleUser, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	own := config.Endpoint{Host: web.URL, Token: made.Secret}
	if err := a.revokeLogin(t.Context(), own); err != nil {
		t.Error(err)
	}
	if _, err := f.Authenticate(t.Context(), made.Secret); err != nil {
		t.Errorf("a logout has revoked a token of nobody's login: %v", err)
	}

	issuer.SetUser(map[string]any{"sub": "eve", "groups": []string{"visitors"}})
	if _, err := a.obtainToken(t.Context(), config.Endpoint{Host: web.URL}, "company"); !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "no rule") {
		t.Errorf("without a rule: %v", err)
	}
	if _, err := a.obtainToken(t.Context(), config.Endpoint{Host: web.URL}, "web"); !errors.Is(err, atoll.ErrNotFound) || !strings.Contains(err.Error(), "company") {
		t.Errorf("a provider for the console only: %v", err)
	}
	if _, err := a.obtainToken(t.Context(), config.Endpoint{Host: "http://atoll.example.com"}, ""); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("over a line that others can read: %v", err)
	}
	issuer.SetDown(true)
	if _, err := a.obtainToken(t.Context(), config.Endpoint{Host: web.URL}, ""); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "company") {
		t.Errorf("the provider is down: %v", err)
	}
}
