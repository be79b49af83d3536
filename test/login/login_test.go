// Package login_test logs in at a real OpenID Connect provider: see scripts/oidc.
package login_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// loginTest is a server and the provider that its users log in at.
type loginTest struct {
	*testing.T

	url    string
	fleet  *fleet.Fleet
	issuer string
	stop   func() // ends the provider
	ahead  atomic.Int64
}

// users of the provider.
const (
	developer = "test-user@localhost"
	visitor   = "test-user2"
	password  = "verysecure"
)

func newLoginTest(t *testing.T, config string) *loginTest {
	t.Helper()
	program := testenv.Program(t, "oidc", "ATOLL_OIDC")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &loginTest{T: t, url: "http://" + l.Addr().String()}
	s.startProvider(program)
	home := t.TempDir()
	secret := filepath.Join(home, "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	providers, err := identity.ParseProviders(strings.NewReplacer("ISSUER", s.issuer, "SECRET", secret).Replace(config))
	if err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	s.fleet, err = fleet.Open(t.Context(), fleet.Options{Home: home, Drivers: []atoll.Driver{&virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}})
	if err != nil {
		t.Fatal(err)
	}
	server := api.New(api.Options{Fleet: s.fleet, Limits: api.Limits{WrongTokens: -1}, Identity: identity.New(identity.Options{Providers: providers, URL: s.url, Now: now})})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := errors.Join(server.Shutdown(ctx), <-served, s.fleet.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
	return s
}

// startProvider starts the provider until stop is called or the test ends.
func (s *loginTest) startProvider(program string) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	c := exec.CommandContext(ctx, program, "-callback", s.url+"/login/company/callback")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		s.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait() // it is killed
	}()
	s.stop = func() { cancel(); <-ended }
	s.Cleanup(s.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.Fatalf("the provider does not start: %v", err)
	}
	s.issuer = strings.TrimSpace(line)
}

// newBrowser returns a browser that follows redirects within the provider, and none to the server or the console.
func (s *loginTest) newBrowser() *http.Client {
	s.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), s.url) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// send sends a request of a browser, a form if there is one, and returns where it is sent.
func (s *loginTest) send(b *http.Client, target string, form url.Values) (to string) {
	s.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r, err := http.NewRequestWithContext(s.Context(), method, target, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 400 {
		s.Fatalf("%s %s: %s %s %v", method, target, resp.Status, text, err)
	}
	if to := resp.Header.Get("Location"); to != "" {
		return to
	}
	return resp.Request.URL.String()
}

// logIn logs a user in with a browser, and returns where the console is opened.
func (s *loginTest) logIn(b *http.Client, user string) string {
	s.Helper()
	page, err := url.Parse(s.send(b, s.send(b, s.url+"/login/company", nil), nil))
	if err != nil || page.Path != "/login/username" {
		s.Fatalf("the provider shows %s", page)
	}
	callback := s.send(b, s.issuer+"login/username", url.Values{"id": {page.Query().Get("authRequestID")}, "username": {user}, "password": {password}})
	if !strings.HasPrefix(callback, s.url+"/login/company/callback?") {
		s.Fatalf("the provider sends the browser to %s", callback)
	}
	return s.send(b, callback, nil)
}

// claim takes the token of a login as the console does.
func (s *loginTest) claim(b *http.Client) string {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.url+"/login/claim", nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Origin", s.url)
	resp, err := b.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	var t wire.ExchangedToken
	if err := json.NewDecoder(resp.Body).Decode(&t); err != nil || t.AccessToken == "" {
		s.Fatalf("claim: %s %v", resp.Status, err)
	}
	return t.AccessToken
}

// who returns the owner of a token.
func (s *loginTest) who(token string) (string, error) {
	s.Helper()
	c, err := client.New(client.Options{Host: s.url, Token: token})
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = c.Close() }() // only its idle connections
	info, err := c.Info(s.Context())
	return info.Owner.String(), err
}

// approve lets a user enter the code of a device and consent.
func (s *loginTest) approve(user, code string) {
	s.Helper()
	b := s.newBrowser()
	s.send(b, s.issuer+"device/login", url.Values{"user_code": {code}, "username": {user}, "password": {password}})
	s.send(b, s.issuer+"device/confirm?action=allowed", nil)
}

// deviceToken returns the ID token of a device login at a client of the provider.
func (s *loginTest) deviceToken(clientID, user string) string {
	s.Helper()
	p, err := oidc.NewProvider(s.Context(), s.issuer)
	if err != nil {
		s.Fatal(err)
	}
	endpoint := p.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	c := oauth2.Config{ClientID: clientID, Endpoint: endpoint, Scopes: []string{"openid", "groups"}}
	begun, err := c.DeviceAuth(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.approve(user, begun.UserCode)
	t, err := c.DeviceAccessToken(s.Context(), begun)
	if err != nil {
		s.Fatal(err)
	}
	text, _ := t.Extra("id_token").(string)
	return text
}

const rules = `"rules": [{"group": "developers", "owner": "company/{sub}", "role": "user"}]`

const bothClients = `{"company": {"issuer": "ISSUER", "client_id": "web", "client_secret_file": "SECRET", "cli_client_id": "cli", ` + rules + `}}`

func TestConsoleLogin(t *testing.T) {
	s := newLoginTest(t, bothClients)
	b := s.newBrowser()
	if to := s.logIn(b, developer); to != "/ui/#login" {
		t.Fatalf("sent to %s", to)
	}
	token := s.claim(b)
	if owner, err := s.who(token); err != nil || owner != "company/id1" {
		t.Errorf("%s %v", owner, err)
	}
	if to := s.logIn(s.newBrowser(), visitor); to != "/ui/#login-denied" {
		t.Errorf("a user without a rule is sent to %s", to)
	}

	s.rotateKey()
	s.ahead.Add(int64(11 * time.Second)) // the keys are read again
	if to := s.logIn(s.newBrowser(), developer); to != "/ui/#login" {
		t.Errorf("with a new key: sent to %s", to)
	}
	s.stop()
	if owner, err := s.who(token); err != nil {
		t.Errorf("a session ended with its provider: %s %v", owner, err)
	}
	if err := s.fleet.Account(fleet.LocalCaller()).RevokeToken(t.Context(), s.tokenID(token)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.who(token); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("revoked: %v", err)
	}
}

func (s *loginTest) rotateKey() {
	s.Helper()
	s.send(http.DefaultClient, s.issuer+"test/rotate", url.Values{})
}

func (s *loginTest) tokenID(token string) string {
	s.Helper()
	c, err := s.fleet.Authenticate(s.Context(), token)
	if err != nil {
		s.Fatal(err)
	}
	return c.Token
}

func TestTokensOfProvider(t *testing.T) {
	s := newLoginTest(t, bothClients)
	token := s.deviceToken("cli", developer)
	c, err := client.New(client.Options{Host: s.url})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.ExchangeToken(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	for law, secret := range map[string]string{"Exchanged": got.Secret, "Bearer": token} {
		if owner, err := s.who(secret); err != nil || owner != "company/id1" {
			t.Errorf("%s: %s %v", law, owner, err)
		}
	}
	if _, err := c.ExchangeToken(t.Context(), s.deviceToken("cli", visitor)); !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "no rule") {
		t.Errorf("a user without a rule: %v", err)
	}
	if _, err := c.ExchangeToken(t.Context(), token[:strings.LastIndexByte(token, '.')+1]); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("without the signature: %v", err)
	}
	s.rotateKey()
	s.ahead.Add(int64(11 * time.Minute)) // the keys are read again
	if _, err := s.who(token); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("signed with a withdrawn key: %v", err)
	}
	if _, err := s.who(got.Secret); err != nil {
		t.Errorf("the session of that: %v", err)
	}
}

func TestWrongAudience(t *testing.T) {
	s := newLoginTest(t, `{"company": {"issuer": "ISSUER", "client_id": "web", "client_secret_file": "SECRET", `+rules+`}}`)
	if owner, err := s.who(s.deviceToken("cli", developer)); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a token for another client: %s %v", owner, err)
	}
}

// TestCommandLine logs in with 'atoll login', works and logs out.
func TestCommandLine(t *testing.T) {
	s := newLoginTest(t, bothClients)
	atollProgram := testenv.Atoll(t)
	home := t.TempDir()
	run := func(stderr io.Writer, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, atollProgram, args...)
		c.Env = append(os.Environ(), "HOME="+home, "ATOLL_CONFIG="+filepath.Join(home, "atoll.yaml"), "ATOLL_HOME="+filepath.Join(home, "state"))
		c.Stderr = stderr
		out, err := c.Output()
		return string(out), err
	}
	var said bytes.Buffer
	reader, writer := io.Pipe()
	approved := make(chan string, 1)
	go func() {
		defer close(approved)
		lines := bufio.NewScanner(io.TeeReader(reader, &said))
		for lines.Scan() {
			if _, code, ok := strings.Cut(lines.Text(), "enter the code "); ok {
				approved <- code
			}
		}
	}()
	done := make(chan error, 1)
	go func() {
		_, err := run(writer, "login", "--name", "team", s.url)
		_ = writer.Close() // never fails
		done <- err
	}()
	code, ok := <-approved
	if !ok {
		t.Fatalf("no code: %v\n%s", <-done, &said)
	}
	s.approve(developer, code)
	err := <-done
	<-approved // all lines were read
	if err != nil {
		t.Fatalf("login: %v\n%s", err, &said)
	}
	out, err := run(os.Stderr, "--context", "team", "context", "show", "--json")
	if err != nil || !strings.Contains(out, `"id1"`) {
		t.Errorf("%s %v", out, err)
	}
	stored, err := os.ReadFile(filepath.Join(home, "atoll.yaml"))
	if err != nil || !bytes.Contains(stored, []byte("token: atoll_")) || strings.Contains(said.String(), "atoll_") {
		t.Errorf("stored %v; shown %s", err, &said)
	}
	if out, err := run(os.Stderr, "logout", "team"); err != nil {
		t.Errorf("logout: %s %v", out, err)
	}
	left, err := s.fleet.Account(fleet.LocalCaller()).Tokens(t.Context())
	if err != nil || len(left) != 0 {
		t.Errorf("after the logout: %s %v", fmt.Sprint(left), err)
	}
}
