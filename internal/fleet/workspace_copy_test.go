package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/fleet/event"
	"github.com/atoll-sandbox/atoll/internal/fleet/workspace"
)

// remote is a driver that can't mount what this host has, and has a say in
// claims.
type remote struct {
	*faulty

	mu      sync.Mutex
	claimed map[string]atoll.Spec
	refuse  func(id string) error                                             // instead of a claim; nil: none
	export  func(sb *faultySandbox, name string) (io.ReadCloser, error, bool) // instead of an export, if it says so
}

func newRemote(home string) *remote {
	return &remote{faulty: &faulty{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}, claimed: make(map[string]atoll.Spec)}
}

func (d *remote) Probe(ctx context.Context) (atoll.Features, error) {
	ft, err := d.faulty.Probe(ctx)
	ft.Mounts, ft.Programs = false, true
	return ft, err
}

func (d *remote) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	if len(spec.Mounts) > 0 {
		return nil, atoll.ErrUnsupported
	}
	return d.afar(d.faulty.Create(ctx, spec))
}

func (d *remote) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	return d.afar(d.faulty.Open(ctx, id))
}

func (d *remote) afar(sb atoll.Sandbox, err error) (atoll.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return &remoteSandbox{sb.(*faultySandbox), d}, nil
}

type remoteSandbox struct {
	*faultySandbox
	r *remote
}

func (s *remoteSandbox) Claim(_ context.Context, spec atoll.Spec) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.r.refuse != nil {
		if err := s.r.refuse(s.ID()); err != nil {
			return err
		}
	}
	if _, ok := s.r.claimed[s.ID()]; ok {
		return atoll.ErrExists
	}
	s.r.claimed[s.ID()] = spec
	return nil
}

func (s *remoteSandbox) Export(ctx context.Context, name string) (io.ReadCloser, error) {
	s.r.mu.Lock()
	hook := s.r.export
	s.r.mu.Unlock()
	if hook != nil {
		if rc, err, ours := hook(s.faultySandbox, name); ours {
			return rc, err
		}
	}
	return s.faultySandbox.Export(ctx, name)
}

func openRemote(t testing.TB) (*Fleet, *remote) {
	t.Helper()
	home := t.TempDir()
	d := newRemote(home)
	return openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}}), d
}

// atHomeOf returns a file of a workspace, or why there is none.
func atHomeOf(t testing.TB, a *Account, workspace, name string) string {
	t.Helper()
	f := reopen(t, a, workspace)
	b, err := atoll.ReadFile(t.Context(), filesAsSandbox{f}, name)
	if err != nil {
		return "error: " + fmt.Sprint(errors.Is(err, atoll.ErrNotFound))
	}
	return string(b)
}

// filesAsSandbox is the files of a workspace for what reads sandboxes.
type filesAsSandbox struct{ *Files }

func (f filesAsSandbox) ID() string                                          { return "files" }
func (f filesAsSandbox) Status(context.Context) (atoll.Status, error)        { panic("not asked") }
func (f filesAsSandbox) Exec(context.Context, atoll.Cmd) (atoll.Exit, error) { panic("not asked") }
func (f filesAsSandbox) Destroy(context.Context) error                       { panic("not asked") }

func persistent(ws ...atoll.WorkspaceMount) atoll.Config {
	return atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}, Workspaces: ws}
}

func TestCarried(t *testing.T) {
	f, _ := openRemote(t)
	a := f.For(LocalCaller())
	must(t, second(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})))
	files := reopen(t, a, "w")
	put(t, files, "/old", "old")
	must(t, files.Mkdir(t.Context(), "/dir/empty", 0o750))
	put(t, files, "/dir/gone", "gone")

	sb := mustCreate(t, a, persistent(atoll.WorkspaceMount{Workspace: "w"}, atoll.WorkspaceMount{Workspace: "state", Target: "/srv/agents"}))
	if got := said(t, sb, "cd /workspace; cat old; ls -d dir/empty; stat -c %a dir/empty"); got != "olddir/empty\n750\n" {
		t.Errorf("inside: %q", got)
	}
	said(t, sb, `cd /workspace; rm -r dir/gone; echo new >new; chmod 700 new; ln new twin; ln -s /etc/passwd out; ln -s new in; echo s >/srv/agents/s`)
	want(t, "a write at home", reopen(t, a, "w").WriteFile(t.Context(), "/x", strings.NewReader("x"), 0o644), atoll.ErrState)
	if got := atHomeOf(t, a, "w", "/new"); got != "error: true" {
		t.Errorf("at home too early: %q", got)
	}
	must(t, sb.Stop(t.Context()))
	if got := atHomeOf(t, a, "w", "/new") + atHomeOf(t, a, "w", "/twin") + atHomeOf(t, a, "w", "/in") + atHomeOf(t, a, "w", "/dir/gone"); got != "new\nnew\nnew\nerror: true" {
		t.Errorf("at home: %q", got)
	}
	files = reopen(t, a, "w")
	if info, err := files.StatFile(t.Context(), "/new"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode: %v, %v", info, err)
	}
	want(t, "a link that leads out", second(files.OpenFile(t.Context(), "/out")), atoll.ErrInvalid)
	put(t, files, "/meanwhile", "yes")
	must(t, files.Remove(t.Context(), "/old"))

	must(t, sb.Start(t.Context()))
	if got := said(t, sb, "cd /workspace; cat meanwhile; cat old 2>/dev/null || echo no; cat /srv/agents/s; echo last >last"); got != "yesno\ns\n" {
		t.Errorf("after a start: %q", got)
	}
	must(t, sb.Destroy(t.Context()))
	if got := atHomeOf(t, a, "w", "/last") + atHomeOf(t, a, "state", "/s"); got != "last\ns\n" {
		t.Errorf("after the end: %q", got)
	}
	must(t, a.RemoveWorkspace(t.Context(), "w"))
	must(t, a.RemoveWorkspace(t.Context(), "state"))
}

func TestCarriedOnce(t *testing.T) {
	f, _ := openRemote(t)
	a := f.For(LocalCaller())
	w := atoll.WorkspaceMount{Workspace: "w"}
	cfg := persistent(w)
	cfg.Name = "first"
	first := mustCreate(t, a, cfg)
	said(t, first, "echo 1 >/workspace/f")
	err := second(a.Create(t.Context(), persistent(w)))
	want(t, "a second that writes", err, atoll.ErrState)
	if err == nil || !strings.Contains(err.Error(), "first") {
		t.Errorf("%v: does not name the first", err)
	}
	want(t, "two copies in one", second(a.Create(t.Context(), persistent(atoll.WorkspaceMount{Workspace: "x"}, atoll.WorkspaceMount{Workspace: "x", Target: "/x"}))), atoll.ErrState)
	reader := mustCreate(t, a, persistent(atoll.WorkspaceMount{Workspace: "w", ReadOnly: true}))
	said(t, reader, "echo mine >/workspace/mine")
	must(t, reader.Destroy(t.Context()))
	if got := atHomeOf(t, a, "w", "/mine"); got != "error: true" {
		t.Errorf("a read-only copy came back: %q", got)
	}
	must(t, first.Stop(t.Context()))
	second2 := mustCreate(t, a, persistent(w))
	if got := said(t, second2, "cat /workspace/f; echo 2 >/workspace/f"); got != "1\n" {
		t.Errorf("in the second: %q", got)
	}
	want(t, "a start while another has it", first.Start(t.Context()), atoll.ErrState)
	must(t, second2.Destroy(t.Context()))
	must(t, first.Start(t.Context()))
	if got := said(t, first, "cat /workspace/f"); got != "2\n" {
		t.Errorf("in the first: %q", got)
	}
	must(t, first.Destroy(t.Context()))
}

// TestCarriedOverQuota keeps the sandbox and what is at home until there is room.
func TestCarriedOverQuota(t *testing.T) {
	f, _ := openRemote(t)
	a := f.For(LocalCaller())
	must(t, a.SetQuota(t.Context(), atoll.Local, atoll.Quota{Disk: 200 << 20}))
	cfg := persistent(atoll.WorkspaceMount{Workspace: "w"})
	cfg.Limits.Disk = 10 << 20
	sb := mustCreate(t, a, cfg)
	said(t, sb, "echo small >/workspace/f")
	must(t, sb.Save(t.Context()))
	said(t, sb, "head -c 2000000 /dev/zero >/workspace/big; echo large >/workspace/f")
	must(t, a.SetQuota(t.Context(), atoll.Local, atoll.Quota{Disk: 11 << 20}))
	want(t, "save", sb.Save(t.Context()), atoll.ErrQuota)
	want(t, "destroy", sb.Destroy(t.Context()), atoll.ErrQuota)
	if got := atHomeOf(t, a, "w", "/f"); got != "small\n" {
		t.Errorf("at home: %q", got)
	}
	must(t, a.SetQuota(t.Context(), atoll.Local, atoll.Quota{Disk: 200 << 20}))
	must(t, sb.Destroy(t.Context()))
	if got := atHomeOf(t, a, "w", "/f"); got != "large\n" {
		t.Errorf("at home, with room: %q", got)
	}
	if left := desks(t, f); left != 0 {
		t.Errorf("%d desks are left", left)
	}
}

// desks counts what is left of work on the shelf.
func desks(t testing.TB, f *Fleet) (n int) {
	t.Helper()
	for _, in := range []string{workspace.IncomingDir, workspace.RemovedDir} {
		dir, err := f.workspaces.Root.Open(in)
		must(t, err)
		names, err := dir.Readdirnames(-1)
		must(t, errors.Join(err, dir.Close()))
		n += len(names)
	}
	return n
}

// TestCarriedByOneThatDied keeps what was saved last, and says so.
func TestCarriedByOneThatDied(t *testing.T) {
	f, d := openRemote(t)
	a := f.For(LocalCaller())
	sb := mustCreate(t, a, persistent(atoll.WorkspaceMount{Workspace: "w"}))
	said(t, sb, "echo saved >/workspace/f")
	must(t, sb.Save(t.Context()))
	said(t, sb, "echo lost >/workspace/f")
	inner, err := d.Driver.Open(t.Context(), sb.ID())
	must(t, err)
	must(t, inner.Destroy(t.Context()))
	must(t, f.Reconcile(t.Context()))
	must(t, sb.Destroy(t.Context()))
	if got := atHomeOf(t, a, "w", "/f"); got != "saved\n" {
		t.Errorf("at home: %q", got)
	}
	var told []string
	must(t, a.Events(t.Context(), event.Filter{Types: []string{"workspace.outdated"}}, false, func(e atoll.Event) error {
		told = append(told, e.Object+": "+e.Message)
		return nil
	}))
	if len(told) != 1 || !strings.Contains(told[0], "w: sandbox "+sb.ID()) {
		t.Errorf("told: %q", told)
	}
	again := mustCreate(t, a, persistent(atoll.WorkspaceMount{Workspace: "w"}))
	must(t, again.Destroy(t.Context()))
}

// TestCarriedFiles that are sent home by a guest that is not ours any more change
// nothing.
func TestCarriedFiles(t *testing.T) {
	f, d := openRemote(t)
	a := f.For(LocalCaller())
	entry := func(h tar.Header) tar.Header { h.Mode = 0o644; return h }
	for name, list := range map[string][]tar.Header{
		"Above":       {{Name: "workspace/../../x", Typeflag: tar.TypeReg}},
		"Absolute":    {{Name: "/workspace/x", Typeflag: tar.TypeReg}},
		"Sibling":     {{Name: "workspaces/x", Typeflag: tar.TypeReg}},
		"Elsewhere":   {{Name: "x", Typeflag: tar.TypeReg}},
		"ThroughLink": {{Name: "workspace/l", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, {Name: "workspace/l/x", Typeflag: tar.TypeReg}},
		"HardLinkOut": {{Name: "workspace/h", Typeflag: tar.TypeLink, Linkname: "workspace/../../atoll.db"}},
		"NotADir":     {{Name: "workspace", Typeflag: tar.TypeReg}},
		"CutOff":      {{Name: "workspace/x", Typeflag: tar.TypeReg, Size: 1 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			ws := strings.ToLower(name)
			must(t, second(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: ws})))
			put(t, reopen(t, a, ws), "/f", "home")
			sb := mustCreate(t, a, persistent(atoll.WorkspaceMount{Workspace: ws}))
			var b bytes.Buffer
			tw := tar.NewWriter(&b)
			for _, h := range list {
				h = entry(h)
				must(t, tw.WriteHeader(&h))
			}
			d.mu.Lock()
			d.export = func(*faultySandbox, string) (io.ReadCloser, error, bool) {
				return io.NopCloser(bytes.NewReader(b.Bytes())), nil, true
			}
			d.mu.Unlock()
			want(t, "stop", sb.Stop(t.Context()), atoll.ErrInvalid)
			if got := atHomeOf(t, a, ws, "/f"); got != "home" {
				t.Errorf("at home: %q", got)
			}
			d.mu.Lock()
			d.export = nil
			d.mu.Unlock()
			if st, err := sb.Status(t.Context()); err != nil || st.State != atoll.Running {
				t.Errorf("after it: %v, %v", st.State, err)
			}
			must(t, sb.Destroy(t.Context()))
		})
	}
}

// TestCarriedToTheEnd brings home what sandboxes have that end by themselves.
func TestCarriedToTheEnd(t *testing.T) {
	f, _ := openRemote(t)
	a := f.For(LocalCaller())
	for _, policy := range []atoll.Policy{atoll.PolicyOneshot, atoll.PolicySession} {
		cfg := persistent(atoll.WorkspaceMount{Workspace: string(policy)})
		cfg.Lifecycle = atoll.Lifecycle{Policy: policy, TTL: time.Millisecond}
		sb := mustCreate(t, a, cfg)
		said(t, sb, "echo here >/workspace/f")
	}
	eventually(t, "their time is over", func() bool {
		must(t, f.Tidy(t.Context()))
		list, err := a.List(t.Context(), Filter{})
		must(t, err)
		return len(list) == 0
	})
	if got := atHomeOf(t, a, "oneshot", "/f") + atHomeOf(t, a, "session", "/f"); got != "here\nhere\n" {
		t.Errorf("at home: %q", got)
	}
}

// TestCarriedProgram copies an agent's program into what a turn is done in.
func TestCarriedProgram(t *testing.T) {
	f, _ := openRemote(t)
	a := f.For(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "agent"), []byte("#!/bin/sh\necho runs\n"), 0o755))
	sb, err := a.CreateFor(t.Context(), Order{
		Config:  persistent(atoll.WorkspaceMount{Workspace: "w"}),
		Program: []atoll.Mount{{Source: dir, Target: "/opt/agent", ReadOnly: true}},
	})
	must(t, err)
	if got := said(t, sb, "/opt/agent/agent"); got != "runs\n" {
		t.Errorf("inside: %q", got)
	}
	must(t, sb.Destroy(t.Context()))
}
