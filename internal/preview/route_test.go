package preview_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/preview"
	"github.com/atoll-sandbox/atoll/internal/project"
)

func info(id, name, of string) atoll.Info {
	i := atoll.Info{Status: atoll.Status{ID: id, Name: name}}
	if of != "" {
		i.Labels = map[string]string{project.Label: of}
	}
	return i
}

// Every sandbox has one name in hosts, and no two have the same.
func TestLabels(t *testing.T) {
	got := preview.HostNames([]atoll.Info{
		info("s1", "web", ""),
		info("s2", "web-2", "web"), // the name is another's
		info("s3", "box", "shop"),
		info("s4", "box-2", "shop"), // the project of an older one
		info("s5", "Not.A.Label", ""),
		info("s6", "", "bad_label"),
		info("s7", "s1", "s3"), // ids of others
		info("s8", "api", "api"),
	})
	want := map[string]string{"s1": "web", "s2": "web-2", "s3": "shop", "s4": "box-2", "s5": "s5", "s6": "s6", "s7": "s7", "s8": "api"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Who comes without a link reaches what the people of this machine have, by id,
// name and project, and of others nothing.
func TestFinder(t *testing.T) {
	f, err := fleet.Open(t.Context(), fleet.Options{Home: t.TempDir(), Drivers: []atoll.Driver{virtual.New()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	made := func(a *fleet.Account, name, of string) string {
		t.Helper()
		sb, err := a.Create(t.Context(), atoll.Config{Spec: atoll.Spec{Name: name, Labels: map[string]string{project.Label: of, project.LabelPort: "8080"}}})
		if err != nil {
			t.Fatal(err)
		}
		return sb.ID()
	}
	local := f.Account(fleet.LocalCaller())
	other := f.Account(fleet.Caller{Owner: atoll.Owner{App: "team", User: "ci"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	box, theirs := made(local, "box", "shop"), made(other, "theirs", "shop")
	same := made(other, "box", "")
	open, locked := &preview.Registry{Fleet: f}, &preview.Registry{Fleet: f, Access: preview.LinkAccess(f)}
	for _, c := range []struct {
		routes     *preview.Registry
		name, want string // want empty: it is not there
	}{
		{open, "box", box},
		{open, "shop", box},
		{open, box, box},
		{open, "theirs", ""},
		{open, theirs, ""},
		{open, same, ""},
		{locked, "box", box},
		{locked, "theirs", ""},
		{locked, theirs, theirs}, // a link names it; without one the request is refused
	} {
		got, err := c.routes.Finder().Find(t.Context(), c.name)
		switch {
		case c.want == "" && !errors.Is(err, atoll.ErrNotFound):
			t.Errorf("%s: %v, want that it is not there", c.name, err)
		case c.want != "" && (err != nil || got.ID() != c.want || c.want == box && got.MainPort() != 8080):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	someday := time.Now().Add(time.Hour)
	site := preview.Address{Scheme: "http", Port: 7080}
	open.Address, locked.Address = site, site
	if list, err := open.Routes(t.Context(), other, ""); err != nil || len(list) != 0 {
		t.Errorf("names that lead nowhere: %v, %v", list, err)
	}
	if list, err := locked.Routes(t.Context(), other, theirs); err != nil || len(list) != 1 || list[0].URL != "http://"+theirs+".localhost:7080/" || !list[0].Locked {
		t.Errorf("the other's names: %+v, %v", list, err)
	}
	if _, err := open.CreateLink(t.Context(), local, "box", 0, someday); !errors.Is(err, atoll.ErrState) {
		t.Errorf("a link where none is needed: %v", err)
	}
	if _, err := locked.CreateLink(t.Context(), other, box, 0, someday); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a link to another's: %v", err)
	}
	if _, err := locked.CreateLink(t.Context(), other, "box", 3000, someday); err != nil {
		t.Error(err)
	}
}
