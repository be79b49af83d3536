package browser_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/testing/issuertest"
	"github.com/atoll-sandbox/atoll/test/browser"
)

// TestLogin logs in at a provider with the console's button, as a browser does it with cookies and policies.
func TestLogin(t *testing.T) {
	b := sharedBrowser(t)
	issuer := issuertest.New(t)
	var ahead atomic.Int64
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	home, url := t.TempDir(), "http://"+l.Addr().String()
	f, err := fleet.Open(t.Context(), fleet.Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}})
	if err != nil {
		t.Fatal(err)
	}
	s := api.New(api.Options{Fleet: f, Identity: identity.New(identity.Options{URL: url, Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, Providers: map[string]*identity.Provider{
		"company": {Issuer: issuer.URL, ClientID: issuertest.ClientID, Rules: []identity.Rule{{Group: "staff", Grant: identity.Grant{Owner: "company/{sub}", Role: atoll.RoleUser}}}},
	}})})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := errors.Join(s.Shutdown(ctx), <-served, f.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	tokens := func() []atoll.Token {
		list, err := f.Account(fleet.LocalCaller()).Tokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	p := b.Open(t, url+"/ui/", browser.Window{})
	defer p.Close()

	issuer.SetUser(map[string]any{"sub": "eve", "groups": "visitors"})
	p.Click(".knock .login")
	p.WaitText(".knock", "You may not use this server by this login")
	p.Screenshot("login")

	issuer.SetUser(map[string]any{"sub": "alice", "groups": "staff"})
	p.Click(".knock .login")
	p.WaitText(".link", "live")
	var address string
	p.Eval("location.href + document.referrer + document.cookie", &address)
	list := tokens()
	if len(list) != 1 || list[0].Subject != "alice" || strings.Contains(address, "atoll_") || strings.Contains(address, "code=") {
		t.Errorf("tokens %+v, address %s", list, address)
	}

	p.Goto(url + "/ui/#/settings")
	p.WaitText("main", "ends the session that the login has begun")
	p.Click("main .danger")
	p.WaitText(".knock", "needs a token")
	if list := tokens(); len(list) != 0 {
		t.Errorf("after the logout: %+v", list)
	}

	issuer.SetDown(true)
	ahead.Store(int64(11 * time.Second)) // until then its discovery document counts
	p.Click(".knock .login")
	p.WaitText(".knock", "does not answer")
	for _, m := range p.ConsoleMessages() {
		if strings.Contains(m, "Content Security Policy") || strings.Contains(m, "cookie") {
			t.Errorf("the browser's console: %s", m)
		}
	}
}
