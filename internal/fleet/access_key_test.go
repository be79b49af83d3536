package fleet

import (
	"errors"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestAccessKey: the access key of a sandbox is one, gives access to it and to nothing else, and ends with it.
func TestAccessKey(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	ctx := minuteContext(t)
	alice := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "alice"}, Scopes: []atoll.Scope{atoll.ScopeRun}})
	sb, err := alice.Create(ctx, atoll.Config{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := alice.Create(ctx, atoll.Config{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := sb.AccessKey(ctx)
	again, err2 := sb.AccessKey(ctx)
	theirs, err3 := other.AccessKey(ctx)
	if err := errors.Join(err, err2, err3); err != nil || key != again || key == theirs {
		t.Fatalf("%v: %s, %s, %s", err, key, again, theirs)
	}
	c, err := f.AuthenticateAccessKey(ctx, key)
	if err != nil || c.Sandbox != sb.ID() || c.Owner.User != "alice" {
		t.Fatalf("%+v, %v", c, err)
	}
	a := f.Account(c)
	mine, err := a.Open(ctx, sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mine.Exec(ctx, atoll.Cmd{Shell: "true"}); err != nil {
		t.Error(err)
	}
	if _, err := a.Open(ctx, other.ID()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("another sandbox: %v", err)
	}
	_, list := a.List(ctx, Filter{})
	_, create := a.Create(ctx, atoll.Config{})
	_, token := a.CreateToken(ctx, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead}})
	_, space := a.Workspaces(ctx)
	_, snapshots := a.Snapshots(ctx)
	_, files := a.Files(ctx, "w")
	_, update := a.Update(ctx, sb.ID(), Change{Labels: map[string]string{"a": "b"}})
	_, fork := mine.Fork(ctx, "", atoll.Spec{})
	_, again2 := mine.AccessKey(ctx)
	for what, err := range map[string]error{"list": list, "create": create, "token": token, "workspaces": space, "snapshots": snapshots, "files": files, "update": update, "fork": fork, "access key": again2, "destroy": mine.Destroy(ctx), "network": mine.SetNetwork(ctx, atoll.Network{})} {
		if !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, wrong := range []string{"", "ea_", strings.Repeat("0", len(key)), strings.ToUpper(key), key + "0"} {
		if _, err := f.AuthenticateAccessKey(ctx, wrong); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	is := func(k string) func(string) bool { return func(have string) bool { return have == k } }
	if c, err := f.FindAccessKey(ctx, "", is(theirs)); err != nil || c.Sandbox != other.ID() {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := f.FindAccessKey(ctx, sb.ID(), is(theirs)); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("of another sandbox: %v", err)
	}
	if err := sb.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AuthenticateAccessKey(ctx, key); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := f.FindAccessKey(ctx, "", is(key)); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("after its end: %v", err)
	}
}

// TestE2BKey: both forms of a token's secret are accepted, and no other.
func TestE2BKey(t *testing.T) {
	f := openMemoryFleet(t, "", nil)
	ctx := minuteContext(t)
	tok, err := f.Account(LocalCaller()).CreateToken(ctx, atoll.Token{Scopes: []atoll.Scope{atoll.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	key, err := E2BKey(tok.Secret)
	if err != nil || !strings.HasPrefix(key, "e2b_") || len(key) != 44 {
		t.Fatalf("%s, %v", key, err)
	}
	for _, secret := range []string{key, tok.Secret} {
		if c, err := f.Authenticate(ctx, secret); err != nil || c.Token != tok.ID {
			t.Errorf("%+v, %v", c, err)
		}
	}
	for _, wrong := range []string{"e2b_", "e2b_0", key[:43], key + "00", "e2b_" + strings.ToUpper(key[4:]), "e2b_" + strings.Repeat("g", 40), "e2b_" + tok.Secret} {
		if _, err := f.Authenticate(ctx, wrong); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := E2BKey("secret"); !errors.Is(err, atoll.ErrInvalid) {
		t.Error(err)
	}
}
