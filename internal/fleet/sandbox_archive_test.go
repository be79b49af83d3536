package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/archive"
)

func exportSandbox(t testing.TB, sb *Sandbox, snapshot string) []byte {
	t.Helper()
	rc, err := sb.ExportArchive(t.Context(), ExportOptions{Snapshot: snapshot})
	must(t, err)
	b, err := io.ReadAll(rc)
	must(t, errors.Join(err, rc.Close()))
	return b
}

// readManifest returns the description of an archive.
func readManifest(t testing.TB, b []byte) atoll.SandboxArchive {
	t.Helper()
	r, err := archive.NewReader(bytes.NewReader(b))
	must(t, err)
	defer r.Close()
	return r.Manifest
}

// TestArchiveOnAnotherHost: files and settings of a sandbox come back in another fleet, as the
// importer's; secrets, mounts and the like do not leave.
func TestArchiveOnAnotherHost(t *testing.T) {
	here, there := openFleet(t, Options{}), openFleet(t, Options{})
	here.ReserveLabel("atoll.repo", "atoll.kind", "project")
	host := t.TempDir()
	sb := mustCreate(t, here.Account(LocalCaller()), atoll.Config{
		Spec: atoll.Spec{
			Name: "box", Labels: map[string]string{"team": "a", "atoll.own": "x"}, Env: []string{"A=b", "API_KEY=key-1234567890", "B=s3cret-value"},
			Mounts:  []atoll.Mount{{Source: host, Target: "/host"}},
			Network: atoll.Network{Allow: []string{"example.com", "127.0.0.1:80"}, Headers: []atoll.Header{{Host: "http://example.com", Name: "Authorization", Value: "${TOKEN}"}}},
			Limits:  atoll.Resources{Disk: 1 << 20},
		},
		Secrets: map[string]string{"TOKEN": "s3cret-value"}, Workspaces: []atoll.WorkspaceMount{{Workspace: "space", Target: "/space"}},
		Lifecycle: atoll.Lifecycle{Policy: atoll.PolicyPersistent}, PublicPorts: true,
	})
	shellOutput(t, sb, "mkdir /work; echo hi >/work/a; chmod 640 /work/a; ln -s a /work/l; echo host >/host/f; echo space >/space/f; rm /usr/bin/grep")
	b := exportSandbox(t, sb, "")
	for _, secret := range []string{"s3cret-value", "key-1234567890", host} {
		r, err := archive.NewReader(bytes.NewReader(b))
		must(t, err)
		plain, err := io.ReadAll(r)
		must(t, err)
		r.Close()
		if m := readManifest(t, b); bytes.Contains(plain, []byte(secret)) || strings.Contains(cmp.Diff(atoll.SandboxArchive{}, m), secret) {
			t.Errorf("the archive has %q", secret)
		}
	}
	want := []string{
		"mount /host", "workspace space at /space", "secret TOKEN", "environment variable API_KEY: it has a secret", "environment variable B: it has a secret", "public ports",
		"network header Authorization for http://example.com", "network allow 127.0.0.1:80",
	}
	if diff := cmp.Diff(want, readManifest(t, b).LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	other := there.Account(Caller{Owner: atoll.Owner{App: "app", User: "other"}, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	made, imported, err := other.ImportArchive(t.Context(), bytes.NewReader(b), ImportOptions{})
	must(t, err)
	if got := shellOutput(t, made, "cat /work/l; ls -l /work/a | cut -c1-10; ls /host /space; test -e /usr/bin/grep || echo removed; echo $A"); got != "hi\n-rw-r-----\n/host:\n\n/space:\nremoved\nb\n" {
		t.Errorf("the imported sandbox has %q", got)
	}
	r := readRow(t, there, made.ID())
	if r.owner.User != "other" || r.name != "box" || imported.Partial || r.cfg.Labels["team"] != "a" || len(r.cfg.Labels) != 1 || r.cfg.Limits.Disk != 1<<20 || r.cfg.Lifecycle.Policy != atoll.PolicyPersistent {
		t.Errorf("row %+v", r)
	}
	if diff := cmp.Diff([]string{"example.com"}, r.cfg.Network.Allow); diff != "" {
		t.Error(diff)
	}
	_, _, err = other.ImportArchive(t.Context(), bytes.NewReader(b), ImportOptions{})
	checkError(t, "the same name again", err, atoll.ErrExists)
}

// TestArchiveOfSnapshot: an archive has the files of a snapshot.
func TestArchiveOfSnapshot(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "box"}})
	shellOutput(t, sb, "echo one >/a")
	_, err := sb.Snapshot(t.Context(), "point")
	must(t, err)
	shellOutput(t, sb, "echo two >/a")
	must(t, sb.Stop(t.Context())) // what is stopped can be exported
	made, _, err := a.ImportArchive(t.Context(), bytes.NewReader(exportSandbox(t, sb, "point")), ImportOptions{Name: "copy"})
	must(t, err)
	if got := shellOutput(t, made, "cat /a"); got != "one\n" {
		t.Errorf("the copy has %q", got)
	}
	_, err = sb.ExportArchive(t.Context(), ExportOptions{Snapshot: "none"})
	checkError(t, "an unknown snapshot", err, atoll.ErrNotFound)
}

// otherDriver is a driver of another name that can't pack all files of a sandbox.
type otherDriver struct{ atoll.Driver }

func (otherDriver) Name() string { return "other" }

func (d otherDriver) Create(ctx context.Context, spec atoll.Spec) (atoll.Sandbox, error) {
	sb, err := d.Driver.Create(ctx, spec)
	return struct{ atoll.Sandbox }{sb}, err
}

func (d otherDriver) Open(ctx context.Context, id string) (atoll.Sandbox, error) {
	sb, err := d.Driver.Open(ctx, id)
	return struct{ atoll.Sandbox }{sb}, err
}

// TestArchiveForAnotherDriver: another driver gets the files of the working directory, and says so.
func TestArchiveForAnotherDriver(t *testing.T) {
	f := openFleet(t, Options{Drivers: []atoll.Driver{&virtual.Driver{Dir: t.TempDir()}, otherDriver{&virtual.Driver{Dir: t.TempDir()}}}})
	a := f.Account(LocalCaller())
	show := func(sb *Sandbox) string { return shellOutput(t, sb, "cat /work/sub/a; cat /etc/mine 2>/dev/null; pwd") }
	for name, c := range map[string]struct {
		from, to, dir, want string
	}{
		"FromVirtual":    {"virtual", "other", "/work", "hi\n/work\n"},
		"FromOther":      {"other", "virtual", "/work", "hi\n/work\n"},
		"OtherToOther":   {"other", "other", "/work", "hi\n/work\n"},
		"RootDirectory":  {"virtual", "other", "", "hi\n/\n"},
		"SameIsComplete": {"virtual", "virtual", "/work", "hi\nmine\n/work\n"},
	} {
		sb := mustCreate(t, a, atoll.Config{Driver: c.from, Spec: atoll.Spec{Dir: c.dir}})
		shellOutput(t, sb, "mkdir -p /work/sub; echo hi >/work/sub/a; echo mine >/etc/mine")
		made, imported, err := a.ImportArchive(t.Context(), bytes.NewReader(exportSandbox(t, sb, "")), ImportOptions{Driver: c.to})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := show(made); got != c.want || imported.Partial != (c.want != "hi\nmine\n/work\n") {
			t.Errorf("%s: %q, partial %v, want %q", name, got, imported.Partial, c.want)
		}
	}
	sb := mustCreate(t, a, atoll.Config{Driver: "other", Spec: atoll.Spec{Dir: "/work"}, Workspaces: []atoll.WorkspaceMount{{Workspace: "w", Target: "/work"}}})
	_, err := sb.ExportArchive(t.Context(), ExportOptions{})
	checkError(t, "a workspace as working directory", err, atoll.ErrUnsupported)
	b := exportSandbox(t, mustCreate(t, a, atoll.Config{}), "")
	_, _, err = a.ImportArchive(t.Context(), bytes.NewReader(b), ImportOptions{Driver: "none"})
	checkError(t, "an unknown driver", err, atoll.ErrInvalid)
}

// forgeArchive returns an archive with a description and files of an attacker.
func forgeArchive(t testing.TB, change func(*atoll.SandboxArchive), entries ...tar.Header) []byte {
	t.Helper()
	var files, b bytes.Buffer
	tw := tar.NewWriter(&files)
	for _, h := range entries {
		must(t, tw.WriteHeader(&h))
		_, err := io.CopyN(tw, zeroReader{}, h.Size)
		must(t, err)
	}
	must(t, tw.Close())
	m := &atoll.SandboxArchive{
		Version: atoll.SandboxArchiveVersion, Config: atoll.Config{Driver: "virtual", Spec: atoll.Spec{Name: "forged"}},
		Files: atoll.PackedFiles{Kind: atoll.PackedLayer, Dir: "/", ReadCloser: io.NopCloser(&files)},
	}
	if change != nil {
		change(m)
	}
	must(t, archive.Write(t.Context(), &b, m))
	return b.Bytes()
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestHostileArchive: an archive gives its importer neither files outside of the sandbox, nor the
// host, nor what only servers may set, even if the importer has all rights; and it leaves nothing.
func TestHostileArchive(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	secret := t.TempDir()
	config := func(change func(*atoll.Config)) func(*atoll.SandboxArchive) {
		return func(m *atoll.SandboxArchive) { change(&m.Config) }
	}
	for name, c := range map[string]struct {
		archive []byte
		want    error
	}{
		"Mount":       {forgeArchive(t, config(func(c *atoll.Config) { c.Mounts = []atoll.Mount{{Source: secret, Target: "/m"}} })), atoll.ErrDenied},
		"Workspace":   {forgeArchive(t, config(func(c *atoll.Config) { c.Workspaces = []atoll.WorkspaceMount{{Workspace: "w", Target: "/w"}} })), atoll.ErrDenied},
		"ID":          {forgeArchive(t, config(func(c *atoll.Config) { c.ID = atoll.NewID() })), atoll.ErrDenied},
		"Secrets":     {forgeArchive(t, config(func(c *atoll.Config) { c.Secrets = map[string]string{"A": "b"} })), atoll.ErrDenied},
		"Prepare":     {forgeArchive(t, config(func(c *atoll.Config) { c.Prepare = []atoll.Step{{Shell: "true"}} })), atoll.ErrDenied},
		"Project":     {forgeArchive(t, config(func(c *atoll.Config) { c.Project = &atoll.Project{Path: secret} })), atoll.ErrDenied},
		"PublicPorts": {forgeArchive(t, config(func(c *atoll.Config) { c.PublicPorts = true })), atoll.ErrDenied},
		"Pool":        {forgeArchive(t, config(func(c *atoll.Config) { c.Pool = "p" })), atoll.ErrDenied},
		"PoolLabel":   {forgeArchive(t, config(func(c *atoll.Config) { c.Labels = map[string]string{atoll.PoolLabel: "p"} })), atoll.ErrDenied},
		"QEMUArgs":    {forgeArchive(t, config(func(c *atoll.Config) { c.VM = &atoll.VM{Args: []string{"-drive", "file=/etc/shadow"}} })), atoll.ErrDenied},
		"Disk":        {forgeArchive(t, config(func(c *atoll.Config) { c.VM = &atoll.VM{Disk: "d"} })), atoll.ErrDenied},
		"Pod":         {forgeArchive(t, config(func(c *atoll.Config) { c.Pod = &atoll.Pod{Template: "t"} })), atoll.ErrDenied},
		"NetworkOpen": {forgeArchive(t, config(func(c *atoll.Config) { c.Network.Mode = atoll.NetworkOpen })), atoll.ErrDenied},
		"Loopback":    {forgeArchive(t, config(func(c *atoll.Config) { c.Network.Allow = []string{"example.com", "127.0.0.1:22"} })), atoll.ErrDenied},
		"Header": {forgeArchive(t, config(func(c *atoll.Config) {
			c.Network.Headers = []atoll.Header{{Host: "http://a.example", Name: "A", Value: "b"}}
		})), atoll.ErrDenied},
		"NoDriver":     {forgeArchive(t, config(func(c *atoll.Config) { c.Driver = "" })), atoll.ErrInvalid},
		"BadName":      {forgeArchive(t, config(func(c *atoll.Config) { c.Name = "../x" })), atoll.ErrInvalid},
		"RelativeDir":  {forgeArchive(t, func(m *atoll.SandboxArchive) { m.Files.Dir = "../../etc" }), atoll.ErrInvalid},
		"UncleanDir":   {forgeArchive(t, func(m *atoll.SandboxArchive) { m.Files.Dir = "/a/../../etc" }), atoll.ErrInvalid},
		"Kind":         {forgeArchive(t, func(m *atoll.SandboxArchive) { m.Files.Kind = "all" }), atoll.ErrInvalid},
		"OtherKind":    {forgeArchive(t, func(m *atoll.SandboxArchive) { m.Files.Kind = atoll.PackedRoot }), atoll.ErrInvalid},
		"ImageEnv":     {forgeArchive(t, func(m *atoll.SandboxArchive) { m.Files.Env = []string{"no equals sign"} }), atoll.ErrInvalid},
		"Absolute":     {forgeArchive(t, nil, tar.Header{Name: "/etc/passwd", Typeflag: tar.TypeReg}), atoll.ErrInvalid},
		"DotDot":       {forgeArchive(t, nil, tar.Header{Name: "a/../../../etc/passwd", Typeflag: tar.TypeReg}), atoll.ErrInvalid},
		"ThroughLink":  {forgeArchive(t, nil, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: secret}, tar.Header{Name: "l/f", Typeflag: tar.TypeReg}), atoll.ErrInvalid},
		"HardLink":     {forgeArchive(t, nil, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../../etc/shadow"}), atoll.ErrInvalid},
		"NoSuchLink":   {forgeArchive(t, nil, tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "none"}), atoll.ErrNotFound},
		"LargeFile":    {forgeArchive(t, nil, tar.Header{Name: "big", Typeflag: tar.TypeReg, Size: 200 << 20}), atoll.ErrQuota},
		"WhiteoutRoot": {forgeArchive(t, nil, tar.Header{Name: ".wh..", Typeflag: tar.TypeReg}), atoll.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			sb, _, err := a.ImportArchive(t.Context(), bytes.NewReader(c.archive), ImportOptions{})
			checkError(t, "import", err, c.want)
			if err == nil {
				must(t, sb.Destroy(t.Context()))
			}
			list, err := a.List(t.Context(), Filter{})
			must(t, err)
			if len(list) > 0 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

// TestImportNeedsRights: an import is checked like the creation of a sandbox.
func TestImportNeedsRights(t *testing.T) {
	f := openFleet(t, Options{})
	owner := atoll.Owner{App: "app", User: "user"}
	b := forgeArchive(t, nil)
	_, _, err := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead}}).ImportArchive(t.Context(), bytes.NewReader(b), ImportOptions{})
	checkError(t, "with the scope read", err, atoll.ErrDenied)
	local := f.Account(LocalCaller())
	must(t, local.SetQuota(t.Context(), owner, atoll.Quota{Sandboxes: 1}))
	user := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead, atoll.ScopeRun}})
	first, _, err := user.ImportArchive(t.Context(), bytes.NewReader(b), ImportOptions{Name: "one"})
	must(t, err)
	_, _, err = user.ImportArchive(t.Context(), bytes.NewReader(b), ImportOptions{Name: "two"})
	checkError(t, "beyond the quota", err, atoll.ErrQuota)
	viewer, err := f.Account(Caller{Owner: owner, Scopes: []atoll.Scope{atoll.ScopeRead}}).Open(t.Context(), first.ID())
	must(t, err)
	_, err = viewer.ExportArchive(t.Context(), ExportOptions{})
	checkError(t, "an export with the scope read", err, atoll.ErrDenied)
}

// TestInterruptedImport: an archive that ends too early, or whose sender says nothing more, leaves
// nothing.
func TestInterruptedImport(t *testing.T) {
	f := openFleet(t, Options{})
	a := f.Account(LocalCaller())
	sb := mustCreate(t, a, atoll.Config{Spec: atoll.Spec{Name: "box"}})
	shellOutput(t, sb, "head -c 300000 /dev/urandom >/random")
	b := exportSandbox(t, sb, "")
	_, _, err := a.ImportArchive(t.Context(), bytes.NewReader(b[:len(b)/2]), ImportOptions{Name: "cut"})
	checkError(t, "half an archive", err, atoll.ErrInvalid)
	ctx, cancel := context.WithCancel(t.Context())
	silent, sender := io.Pipe()
	defer silent.Close()
	go func() {
		_, _ = sender.Write(b[:len(b)/2]) // the reader may be closed
		cancel()
	}()
	_, _, err = a.ImportArchive(ctx, silent, ImportOptions{Name: "silent"})
	if err == nil {
		t.Error("an import whose caller has gone succeeded")
	}
	list, err := a.List(t.Context(), Filter{})
	must(t, err)
	if len(list) != 1 || list[0].Name != "box" {
		t.Errorf("left behind: %v", list)
	}
}

// TestExportCanBeClosed: an export that is not read to its end ends.
func TestExportCanBeClosed(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{})
	shellOutput(t, sb, "head -c 5000000 /dev/urandom >/random")
	rc, err := sb.ExportArchive(t.Context(), ExportOptions{})
	must(t, err)
	_, err = rc.Read(make([]byte, 10))
	must(t, err)
	must(t, rc.Close())
	must(t, sb.Destroy(t.Context()))
}

// TestImportPullsNoImage: an archive can't make this host contact a registry of its maker's choice, whoever imports it.
func TestImportPullsNoImage(t *testing.T) {
	f := openFleet(t, Options{Drivers: []atoll.Driver{imageStoreDriver{fakeImageDriver{virtual.New()}}}, Default: "imaged"})
	a := f.Account(LocalCaller())
	of := func(ref string) []byte {
		return forgeArchive(t, func(m *atoll.SandboxArchive) {
			m.Config.Driver, m.Config.Image, m.Files.Kind = "imaged", ref, atoll.PackedDirectory
		})
	}
	for _, ref := range []string{"127.0.0.1:5000/x", "evil.test/busybox", "busybox:1"} {
		if _, _, err := a.ImportArchive(t.Context(), bytes.NewReader(of(ref)), ImportOptions{}); !errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), "has not been pulled") {
			t.Errorf("%s: %v", ref, err)
		}
	}
	_, _, err := a.ImportArchive(t.Context(), bytes.NewReader(of("busybox")), ImportOptions{})
	must(t, err)
}

// TestCompareSnapshots: two snapshots, and a snapshot and the files of today, differ in what was done between.
func TestCompareSnapshots(t *testing.T) {
	f := openFleet(t, Options{})
	sb := mustCreate(t, f.Account(LocalCaller()), atoll.Config{Spec: atoll.Spec{Name: "box"}})
	shellOutput(t, sb, "mkdir -p /work/empty; echo 1 >/work/a; echo 1 >/work/b; ln -s a /work/l")
	_, err := sb.Snapshot(t.Context(), "one")
	must(t, err)
	shellOutput(t, sb, "cd /work; echo 2 >a; rm b; echo 3 >c; chmod 600 a; ln -sf c l; rm /usr/bin/grep")
	_, err = sb.Snapshot(t.Context(), "two")
	must(t, err)
	shellOutput(t, sb, "echo now >/work/d")
	list := func(from, to string) (all []string) {
		t.Helper()
		d, err := sb.CompareSnapshots(t.Context(), from, to)
		must(t, err)
		for _, f := range d.Files {
			all = append(all, f.Status+" "+f.Path)
		}
		return all
	}
	between := []string{"deleted /usr/bin/grep", "modified /work/a", "deleted /work/b", "added /work/c", "modified /work/l"}
	if diff := cmp.Diff(between, list("one", "two")); diff != "" {
		t.Errorf("between the snapshots (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"added /work/d"}, list("two", "")); diff != "" {
		t.Errorf("since the second one (-want +got):\n%s", diff)
	}
	if got := list("two", "two"); len(got) > 0 {
		t.Errorf("a snapshot differs from itself: %q", got)
	}
	if _, err := sb.CompareSnapshots(t.Context(), "one", "three"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("with a missing snapshot: %v", err)
	}
	if n := len(f.comparisons.all); n != 0 {
		t.Errorf("%d comparisons have not ended", n)
	}
	reader, err := f.Account(Caller{Owner: atoll.Local, Scopes: []atoll.Scope{atoll.ScopeRead}}).Open(t.Context(), "box")
	must(t, err)
	if _, err := reader.CompareSnapshots(t.Context(), "one", "two"); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("without the scope run: %v", err)
	}
}
