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

// remoteDriver is a driver that can't mount directories of this host, and can refuse
// claims.
type remoteDriver struct {
	*faultyDriver

	mu      sync.Mutex
	claimed map[string]atoll.Spec
	refuse  func(id string) error                                             // instead of a claim; nil: none
	export  func(sb *faultySandbox, name string) (io.ReadCloser, error, bool) // replaces the export if it returns true
}

func newRemoteDriver(home string) *remoteDriver {
	return &remoteDriver{faultyDriver: &faultyDriver{Driver: &virtual.Driver{Dir: filepath.Join(home, "sandboxes")}}, claimed: make(map[string]atoll.Spec)}
}

func (d *remoteDriver) Probe(ctx context.Context) (atoll.Features, error) {
	ft, err := d.faultyDriver.Probe(ctx)
	ft.Mounts, ft.Programs = false, true
	return ft, err
}

func (d *remoteDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	if len(spec.Mounts) > 0 {
		return nil, atoll.ErrUnsupported
	}
	return d.wrapRemote(d.faultyDriver.Create(ctx, spec))
}

func (d *remoteDriver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	return d.wrapRemote(d.faultyDriver.Open(ctx, id))
}

// OpenOwned is Open: that of the virtual driver would open a sandbox without this driver's changes.
func (d *remoteDriver) OpenOwned(ctx context.Context, id string, _ atoll.Owner) (atoll.Sandbox, error) {
	return d.Open(ctx, id)
}

func (d *remoteDriver) wrapRemote(sb atoll.Sandbox, err error) (atoll.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return &remoteSandbox{sb.(*faultySandbox), d}, nil
}

type remoteSandbox struct {
	*faultySandbox
	r *remoteDriver
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

func openRemote(t testing.TB) (*Fleet, *remoteDriver) {
	t.Helper()
	home := t.TempDir()
	d := newRemoteDriver(home)
	return openFleet(t, Options{Home: home, Drivers: []atoll.Driver{d}}), d
}

// readStored returns a stored file of a workspace, or the error as text.
func readStored(t testing.TB, a *Account, workspace, name string) string {
	t.Helper()
	f := reopenFiles(t, a, workspace)
	b, err := atoll.ReadFile(t.Context(), filesAsSandbox{f}, name)
	if err != nil {
		return "error: " + fmt.Sprint(errors.Is(err, atoll.ErrNotFound))
	}
	return string(b)
}

// filesAsSandbox makes the files of a workspace a sandbox for functions that read
// files.
type filesAsSandbox struct{ *Files }

func (f filesAsSandbox) ID() string                                          { return "files" }
func (f filesAsSandbox) Status(context.Context) (atoll.Status, error)        { panic("not asked") }
func (f filesAsSandbox) Exec(context.Context, atoll.Cmd) (atoll.Exit, error) { panic("not asked") }
func (f filesAsSandbox) Destroy(context.Context) error                       { panic("not asked") }

func persistentConfig(ws ...atoll.WorkspaceMount) atoll.Config {
	return atoll.Config{Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}, Workspaces: ws}
}

func TestWorkspaceCopy(t *testing.T) {
	f, _ := openRemote(t)
	a := f.Account(LocalCaller())
	must(t, errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: "w"})))
	files := reopenFiles(t, a, "w")
	writeTestFile(t, files, "/old", "old")
	must(t, files.Mkdir(t.Context(), "/dir/empty", 0o750))
	writeTestFile(t, files, "/dir/gone", "gone")

	sb := mustCreate(t, a, persistentConfig(atoll.WorkspaceMount{Workspace: "w"}, atoll.WorkspaceMount{Workspace: "state", Target: "/srv/agents"}))
	if got := shellOutput(t, sb, "cd /workspace; cat old; ls -d dir/empty; stat -c %a dir/empty"); got != "olddir/empty\n750\n" {
		t.Errorf("inside: %q", got)
	}
	shellOutput(t, sb, `cd /workspace; rm -r dir/gone; echo new >new; chmod 700 new; ln new twin; ln -s /etc/passwd out; ln -s new in; echo s >/srv/agents/s`)
	checkError(t, "a write at home", reopenFiles(t, a, "w").WriteFile(t.Context(), "/x", strings.NewReader("x"), 0o644), atoll.ErrState)
	if got := readStored(t, a, "w", "/new"); got != "error: true" {
		t.Errorf("stored too early: %q", got)
	}
	must(t, sb.Stop(t.Context()))
	if got := readStored(t, a, "w", "/new") + readStored(t, a, "w", "/twin") + readStored(t, a, "w", "/in") + readStored(t, a, "w", "/dir/gone"); got != "new\nnew\nnew\nerror: true" {
		t.Errorf("stored: %q", got)
	}
	files = reopenFiles(t, a, "w")
	if info, err := files.StatFile(t.Context(), "/new"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode: %v, %v", info, err)
	}
	checkError(t, "a link that leads out", errorOf(files.OpenFile(t.Context(), "/out")), atoll.ErrInvalid)
	writeTestFile(t, files, "/meanwhile", "yes")
	must(t, files.Remove(t.Context(), "/old"))

	must(t, sb.Start(t.Context()))
	if got := shellOutput(t, sb, "cd /workspace; cat meanwhile; cat old 2>/dev/null || echo no; cat /srv/agents/s; echo last >last"); got != "yesno\ns\n" {
		t.Errorf("after a start: %q", got)
	}
	must(t, sb.Destroy(t.Context()))
	if got := readStored(t, a, "w", "/last") + readStored(t, a, "state", "/s"); got != "last\ns\n" {
		t.Errorf("after the end: %q", got)
	}
	must(t, a.RemoveWorkspace(t.Context(), "w"))
	must(t, a.RemoveWorkspace(t.Context(), "state"))
}

func TestWorkspaceCopyOnce(t *testing.T) {
	f, _ := openRemote(t)
	a := f.Account(LocalCaller())
	w := atoll.WorkspaceMount{Workspace: "w"}
	cfg := persistentConfig(w)
	cfg.Name = "first"
	first := mustCreate(t, a, cfg)
	shellOutput(t, first, "echo 1 >/workspace/f")
	err := errorOf(a.Create(t.Context(), persistentConfig(w)))
	checkError(t, "a second that writes", err, atoll.ErrState)
	if err == nil || !strings.Contains(err.Error(), "first") {
		t.Errorf("%v: does not name the first", err)
	}
	checkError(t, "two copies in one", errorOf(a.Create(t.Context(), persistentConfig(atoll.WorkspaceMount{Workspace: "x"}, atoll.WorkspaceMount{Workspace: "x", Target: "/x"}))), atoll.ErrState)
	reader := mustCreate(t, a, persistentConfig(atoll.WorkspaceMount{Workspace: "w", ReadOnly: true}))
	shellOutput(t, reader, "echo mine >/workspace/mine")
	must(t, reader.Destroy(t.Context()))
	if got := readStored(t, a, "w", "/mine"); got != "error: true" {
		t.Errorf("a read-only copy came back: %q", got)
	}
	must(t, first.Stop(t.Context()))
	second2 := mustCreate(t, a, persistentConfig(w))
	if got := shellOutput(t, second2, "cat /workspace/f; echo 2 >/workspace/f"); got != "1\n" {
		t.Errorf("in the second: %q", got)
	}
	checkError(t, "a start while another has it", first.Start(t.Context()), atoll.ErrState)
	must(t, second2.Destroy(t.Context()))
	must(t, first.Start(t.Context()))
	if got := shellOutput(t, first, "cat /workspace/f"); got != "2\n" {
		t.Errorf("in the first: %q", got)
	}
	must(t, first.Destroy(t.Context()))
}

// TestWorkspaceCopyOverQuota: the sandbox and the stored files are kept until there is
// space.
func TestWorkspaceCopyOverQuota(t *testing.T) {
	f, _ := openRemote(t)
	a := f.Account(LocalCaller())
	must(t, a.SetQuota(t.Context(), atoll.Local, atoll.Quota{Disk: 200 << 20}))
	cfg := persistentConfig(atoll.WorkspaceMount{Workspace: "w"})
	cfg.Limits.Disk = 10 << 20
	sb := mustCreate(t, a, cfg)
	shellOutput(t, sb, "echo small >/workspace/f")
	must(t, sb.SaveWorkspaces(t.Context()))
	shellOutput(t, sb, "head -c 2000000 /dev/zero >/workspace/big; echo large >/workspace/f")
	must(t, a.SetQuota(t.Context(), atoll.Local, atoll.Quota{Disk: 11 << 20}))
	checkError(t, "save", sb.SaveWorkspaces(t.Context()), atoll.ErrQuota)
	checkError(t, "destroy", sb.Destroy(t.Context()), atoll.ErrQuota)
	if got := readStored(t, a, "w", "/f"); got != "small\n" {
		t.Errorf("stored: %q", got)
	}
	must(t, a.SetQuota(t.Context(), atoll.Local, atoll.Quota{Disk: 200 << 20}))
	must(t, sb.Destroy(t.Context()))
	if got := readStored(t, a, "w", "/f"); got != "large\n" {
		t.Errorf("stored, with free space: %q", got)
	}
	if left := countStaging(t, f); left != 0 {
		t.Errorf("%d desks are left", left)
	}
}

// countStaging returns the number of unfinished uploads and removals in the workspace
// store.
func countStaging(t testing.TB, f *Fleet) (n int) {
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

// TestWorkspaceCopyOfLostSandbox: if a sandbox is lost, the last saved copy is kept,
// and an event reports it.
func TestWorkspaceCopyOfLostSandbox(t *testing.T) {
	f, d := openRemote(t)
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, persistentConfig(atoll.WorkspaceMount{Workspace: "w"}))
	shellOutput(t, sb, "echo saved >/workspace/f")
	must(t, sb.SaveWorkspaces(t.Context()))
	shellOutput(t, sb, "echo lost >/workspace/f")
	inner, err := d.Driver.Open(t.Context(), sb.ID())
	must(t, err)
	must(t, inner.Destroy(t.Context()))
	must(t, f.Reconcile(t.Context()))
	must(t, sb.Destroy(t.Context()))
	if got := readStored(t, a, "w", "/f"); got != "saved\n" {
		t.Errorf("stored: %q", got)
	}
	var told []string
	must(t, a.Events(t.Context(), event.Filter{Types: []string{"workspace.outdated"}}, false, func(e atoll.Event) error {
		told = append(told, e.Object+": "+e.Message)
		return nil
	}))
	if len(told) != 1 || !strings.Contains(told[0], "w: sandbox "+sb.ID()) {
		t.Errorf("events: %q", told)
	}
	again := mustCreate(t, a, persistentConfig(atoll.WorkspaceMount{Workspace: "w"}))
	must(t, again.Destroy(t.Context()))
}

// TestWorkspaceCopyOfHostileArchive: a hostile archive from a sandbox changes no stored
// file, and stopping the sandbox fails.
func TestWorkspaceCopyOfHostileArchive(t *testing.T) {
	f, d := openRemote(t)
	a := f.Account(LocalCaller())
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
			must(t, errorOf(a.CreateWorkspace(t.Context(), atoll.Workspace{Name: ws})))
			writeTestFile(t, reopenFiles(t, a, ws), "/f", "home")
			sb := mustCreate(t, a, persistentConfig(atoll.WorkspaceMount{Workspace: ws}))
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
			checkError(t, "stop", sb.Stop(t.Context()), atoll.ErrInvalid)
			if got := readStored(t, a, ws, "/f"); got != "home" {
				t.Errorf("stored: %q", got)
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

// TestWorkspaceCopyAtSandboxEnd copies the files of sandboxes that end by themselves.
func TestWorkspaceCopyAtSandboxEnd(t *testing.T) {
	f, _ := openRemote(t)
	a := f.Account(LocalCaller())
	for _, policy := range []atoll.Policy{atoll.PolicyOneshot, atoll.PolicySession} {
		cfg := persistentConfig(atoll.WorkspaceMount{Workspace: string(policy)})
		cfg.Lifecycle = atoll.Lifecycle{Policy: policy, TTL: time.Millisecond}
		sb := mustCreate(t, a, cfg)
		shellOutput(t, sb, "echo here >/workspace/f")
	}
	waitFor(t, "their time is over", func() bool {
		must(t, f.ExpireSandboxes(t.Context()))
		list, err := a.List(t.Context(), Filter{})
		must(t, err)
		return len(list) == 0
	})
	if got := readStored(t, a, "oneshot", "/f") + readStored(t, a, "session", "/f"); got != "here\nhere\n" {
		t.Errorf("stored: %q", got)
	}
}

// TestCopyProgram copies an agent's program into a turn's sandbox.
func TestCopyProgram(t *testing.T) {
	f, _ := openRemote(t)
	a := f.Account(Caller{Owner: atoll.Owner{App: "app", User: "u"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "agent"), []byte("#!/bin/sh\necho runs\n"), 0o755))
	sb, err := a.CreateForTurn(t.Context(), TurnSandbox{
		Config:        persistentConfig(atoll.WorkspaceMount{Workspace: "w"}),
		ProgramMounts: []atoll.Mount{{Source: dir, Target: "/opt/agent", ReadOnly: true}},
	})
	must(t, err)
	if got := shellOutput(t, sb, "/opt/agent/agent"); got != "runs\n" {
		t.Errorf("inside: %q", got)
	}
	must(t, sb.Destroy(t.Context()))
}
