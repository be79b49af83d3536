package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/docker"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/enginetest"
)

// createTestSandbox creates a sandbox that is destroyed when the test ends.
func createTestSandbox(t *testing.T, d *docker.Driver, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	sb, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return sb
}

// runShell runs shell text and returns its output and errors.
func runShell(t *testing.T, sb atoll.Sandbox, cmd atoll.Cmd) string {
	t.Helper()
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	if _, err := sb.Exec(t.Context(), cmd); err != nil {
		t.Fatalf("Exec %s: %v", cmd.Shell, err)
	}
	return b.String()
}

// engineClient returns a client of the engine, for properties that the driver does not return.
func engineClient(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(client.WithHost(enginetest.Host(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestIsolationSettings(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{Name: "walls", Env: []string{"TOKEN=secret-value"}})
	r, err := engineClient(t).ContainerInspect(t.Context(), "atoll-"+sb.ID(), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, h := r.Container, r.Container.HostConfig
	for what, ok := range map[string]bool{
		"no capability but the guest's": slices.Equal(h.CapDrop, []string{"ALL"}) && len(h.CapAdd) == 7 && !slices.Contains(h.CapAdd, "CAP_SYS_ADMIN"),
		"not privileged":                !h.Privileged,
		"no new privileges":             slices.Contains(h.SecurityOpt, "no-new-privileges"),
		"a seccomp profile of our own":  slices.ContainsFunc(h.SecurityOpt, func(s string) bool { return strings.HasPrefix(s, "seccomp={") }),
		"no network":                    h.NetworkMode == "none",
		"processes are limited":         h.PidsLimit != nil && *h.PidsLimit == docker.DefaultPIDs+32,
		"memory and swap are limited":   h.Memory == docker.DefaultMemory && h.MemorySwap == h.Memory,
		"the processor is limited":      h.NanoCPUs == 2e9,
		"a cgroup namespace":            h.CgroupnsMode == "private",
		"IPC of its own":                h.IpcMode == "private",
		"processes of its own":          h.PidMode == "" && h.UTSMode == "",
		"no restarts":                   h.RestartPolicy.Name == "no",
		"masked paths":                  slices.Contains(h.MaskedPaths, "/proc/kcore") && slices.Contains(h.ReadonlyPaths, "/proc/sys"),
		"no devices":                    len(h.Devices) == 0,
		"labels":                        c.Config.Labels["atoll.id"] == sb.ID() && c.Config.Labels["atoll.name"] == "walls",
		"no secret in labels":           !strings.Contains(strings.Join(mapValues(c.Config.Labels), " "), "secret-value"),
		"no health check":               c.Config.Healthcheck == nil || slices.Equal(c.Config.Healthcheck.Test, []string{"NONE"}),
	} {
		if !ok {
			t.Errorf("not so: %s (%+v)", what, h)
		}
	}
}

// TestMasks checks that at least the files are masked that the engine masks by default.
func TestMasks(t *testing.T) {
	sb, c := createTestSandbox(t, newDriver(t), atoll.Spec{}), engineClient(t)
	plain, err := c.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: "busybox:latest"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.ContainerRemove(context.Background(), plain.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	})
	theirs, err := c.ContainerInspect(t.Context(), plain.ID, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := c.ContainerInspect(t.Context(), "atoll-"+sb.ID(), client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := theirs.Container.HostConfig, ours.Container.HostConfig
	if len(a.MaskedPaths) == 0 || len(a.ReadonlyPaths) == 0 {
		t.Errorf("the engine hides nothing: %v, %v", a.MaskedPaths, a.ReadonlyPaths)
	}
	for _, name := range a.MaskedPaths {
		if !slices.Contains(b.MaskedPaths, name) {
			t.Errorf("%s is not masked, as it is by the engine", name)
		}
	}
	for _, name := range a.ReadonlyPaths {
		if !slices.Contains(b.ReadonlyPaths, name) {
			t.Errorf("%s can be written, which the engine prevents", name)
		}
	}
	if got := runShell(t, sb, atoll.Cmd{Shell: "cd /proc; cat config.gz kallsyms key-users interrupts modules 2>/dev/null | wc -c"}); strings.TrimSpace(got) != "0" {
		t.Errorf("%s bytes of the kernel's are read", got)
	}
}

func mapValues(m map[string]string) []string {
	var list []string
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

func TestIsolationFromInside(t *testing.T) {
	t.Setenv("ATOLL_TEST_OF_THE_HOST", "secret-of-the-host")
	sb := createTestSandbox(t, newDriver(t), atoll.Spec{Env: []string{"GIVEN=yes"}})
	status := runShell(t, sb, atoll.Cmd{Shell: "cat /proc/self/status"})
	for _, want := range []string{
		"Uid:\t1000\t1000\t1000\t1000", "Gid:\t1000\t1000\t1000\t1000", "NoNewPrivs:\t1", "Seccomp:\t2",
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000",
	} {
		if !strings.Contains(status, want+"\n") {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	if env := runShell(t, sb, atoll.Cmd{Shell: "env; cat /proc/*/environ 2>/dev/null"}); !strings.Contains(env, "GIVEN=yes") || strings.Contains(env, "secret-of-the-host") || strings.Contains(env, "ATOLL_GUEST") {
		t.Errorf("the environment is\n%s", env)
	}
	for _, text := range []string{
		"ls /.atoll", "cat /.atoll/guest", "ls /.atoll/run", "echo x > /.atoll/run/x", "mount -t tmpfs none /mnt", "mount -t proc none /tmp", "unshare -r true", "chroot / true",
		"mknod /tmp/m b 8 0", "echo 1 > /proc/sys/kernel/panic", "echo c > /proc/sysrq-trigger", "cat /proc/kcore", "kill -9 1", "cat /proc/1/environ | grep .",
		"ls -l /proc/1/root/", "echo 0 > /proc/1/oom_score_adj", "hostname evil", "date -s 2001-01-01; [ $(date +%Y) = 2001 ]", "ping -c1 -W1 127.0.0.1", "ip link set lo down", "ip addr add 10.1.1.1/8 dev lo", "su -c id",
		"ulimit -p 100000", "dmesg", "swapoff -a", "reboot -f",
	} {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text})
		if err != nil || exit.Code == 0 {
			t.Errorf("%s: status %d, %q, %v", text, exit.Code, exit.Stdout, err)
		}
	}
	root := runShell(t, sb, atoll.Cmd{Shell: "id -u; grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status", User: "root"})
	if !strings.HasPrefix(root, "0\n") || strings.Count(root, "0000000000000000") != 3 {
		t.Errorf("root inside is %q", root)
	}
}

func TestUsers(t *testing.T) {
	d := newDriver(t)
	for _, c := range []struct{ user, want string }{{"", "1000:1000"}, {"root", "0:0"}, {"1234", "1234:1234"}, {"1234:99", "1234:99"}, {"nobody", "65534:65534"}} {
		sb := createTestSandbox(t, d, atoll.Spec{User: c.user})
		if got := strings.TrimSpace(runShell(t, sb, atoll.Cmd{Shell: `echo "$(id -u):$(id -g)"`})); got != c.want {
			t.Errorf("user %q is %s, want %s", c.user, got, c.want)
		}
		if got := runShell(t, sb, atoll.Cmd{Shell: "pwd; echo x > f && cat f"}); got != "/workspace\nx\n" {
			t.Errorf("user %q in the working directory: %q", c.user, got)
		}
	}
}

// TestDirOfTheImage checks that the working directory belongs to the commands' user, and its content in
// the image does not.
func TestDirOfTheImage(t *testing.T) {
	d := newDriver(t)
	const ref = "atolltest/dir:latest"
	files := map[string]string{"bin/sh": "/bin/busybox", "bin/id": "/bin/busybox", "bin/stat": "/bin/busybox", "workspace/old": "/etc/hostname", "src/old": "/etc/hostname"}
	if _, err := d.ImportImage(t.Context(), ref, makeRootFS(t, files), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.RemoveImage(context.Background(), ref); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		spec atoll.Spec
		want string
	}{
		{atoll.Spec{Image: ref}, "/workspace 1000:1000 0:0\nx\n"},
		{atoll.Spec{Image: ref, User: "1234"}, "/workspace 1234:1234 0:0\nx\n"},
		{atoll.Spec{Image: ref, Dir: "/src"}, "/src 1000:1000 0:0\nx\n"},
	} {
		sb := createTestSandbox(t, d, c.spec)
		got := runShell(t, sb, atoll.Cmd{Shell: `echo "$(pwd) $(stat -c %u:%g .) $(stat -c %u:%g old)"; echo x >new && read x <new && echo $x`})
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.spec, got, c.want)
		}
		if err := sb.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestMountBelongsToItsOwner checks that commands run as the owner of a writable mount.
func TestMountBelongsToItsOwner(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 4321, 4322)); err != nil {
		t.Skipf("giving a directory away: %v", err) // without root there is no engine either
	}
	sb := createTestSandbox(t, newDriver(t), atoll.Spec{Mounts: []atoll.Mount{{Source: dir, Target: "/workspace"}}})
	if got := runShell(t, sb, atoll.Cmd{Shell: "id -u; id -g; echo x > f; ls -ln f | cut -c1-10"}); got != "4321\n4322\n-rw-r--r--\n" {
		t.Errorf("got %q", got)
	}
}

// TestMountOfRoot checks that commands have the permissions of others on files of root in a directory
// that everyone can write; the API has all permissions.
func TestMountOfRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the directory must be root's") // without root there is no engine either
	}
	home := t.TempDir() // its parent has mode 0700, as the fleet's workspaces have
	dir := filepath.Join(home, "work")
	err := errors.Join(os.Chmod(home, 0o700), os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777))
	for name, perm := range map[string]os.FileMode{"private": 0o600, "shown": 0o644, "open": 0o666} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte("host\n"), perm), os.Chmod(filepath.Join(dir, name), perm))
	}
	if err != nil {
		t.Fatal(err)
	}
	sb := createTestSandbox(t, newDriver(t), atoll.Spec{Mounts: []atoll.Mount{{Source: dir, Target: "/workspace"}}})
	got := runShell(t, sb, atoll.Cmd{Shell: `id -u; echo inside > made; cat made shown
for f in private shown open; do { echo inside >> $f; } 2>/dev/null && echo "$f: edited" || echo "$f: refused"; done
cp shown copy && mv -f copy shown && echo inside >> shown && cat shown`})
	if want := "1000\ninside\nhost\nprivate: refused\nshown: refused\nopen: edited\nhost\ninside\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/private", []byte("api\n"), 0o600); err != nil {
		t.Errorf("WriteFile over a file of root: %v", err)
	}
	for name, want := range map[string]string{"made": "inside\n", "private": "api\n", "open": "host\ninside\n"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("on the host %s is %q, %v", name, b, err)
		}
	}
}

// makeRootFS returns a root directory as a tar stream.
func makeRootFS(t *testing.T, files map[string]string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, from := range files {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))})
		if _, werr := w.Write(content); err != nil || werr != nil {
			t.Fatal(err, werr)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestImageWithoutShell runs a program in an image that has no shell.
func TestImageWithoutShell(t *testing.T) {
	d := newDriver(t)
	const ref = "atolltest/scratch:latest"
	im, err := d.ImportImage(t.Context(), ref, makeRootFS(t, map[string]string{"echo": "/bin/busybox"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.RemoveImage(context.Background(), ref); err != nil {
			t.Error(err)
		}
	})
	if im.Ref != ref || im.Layers != 1 || im.Size < 1<<20 || !strings.HasPrefix(im.Digest, "sha256:") || im.Platform != "linux/amd64" && im.Platform != "linux/arm64" {
		t.Errorf("the image is %+v", im)
	}
	sb := createTestSandbox(t, d, atoll.Spec{Image: ref})
	if got := runShell(t, sb, atoll.Cmd{Args: []string{"/echo", "hi"}}); got != "hi\n" {
		t.Errorf("got %q", got)
	}
	if err := atoll.WriteFile(t.Context(), sb, "/workspace/f", []byte("x"), 0o644); err != nil {
		t.Error(err)
	}
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "true"})
	if err != nil || exit.Code != 127 {
		t.Errorf("a shell that is not there: %+v, %v", exit, err)
	}
	if err := d.RemoveImage(t.Context(), ref); !errors.Is(err, atoll.ErrState) {
		t.Errorf("removing an image in use: %v", err)
	}
}

// checkNothingLeft fails when a driver's sandboxes have left something behind.
func checkNothingLeft(t *testing.T, dir string) {
	t.Helper()
	c := engineClient(t)
	home, err := os.ReadFile(filepath.Join(dir, "home"))
	if err != nil {
		t.Fatal(err)
	}
	mine := make(client.Filters).Add("label", "atoll.home="+strings.TrimSpace(string(home)))
	if list, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: mine}); err != nil || len(list.Items) > 0 {
		t.Errorf("containers: %+v, %v", list.Items, err)
	}
	if list, err := c.ImageList(t.Context(), client.ImageListOptions{All: true, Filters: mine}); err != nil || len(list.Items) > 0 {
		t.Errorf("images: %+v, %v", list.Items, err)
	}
	if list, err := c.VolumeList(t.Context(), client.VolumeListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("volumes: %+v, %v", list.Items, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("files of this host: %v, %v", entries, err)
	}
}

func TestSandboxesLeaveNothing(t *testing.T) {
	d := newDriver(t)
	if _, err := d.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		sb, err := d.Create(t.Context(), atoll.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := atoll.Snapshot(t.Context(), sb, "a"); err != nil {
			t.Fatal(err)
		}
		fork, err := atoll.Fork(t.Context(), sb, "a", atoll.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := atoll.Fork(t.Context(), fork, "", atoll.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if err := atoll.Restore(t.Context(), sb, "a"); err != nil {
			t.Fatal(err)
		}
		for _, one := range []atoll.Sandbox{sb, fork, again} {
			if err := one.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	checkNothingLeft(t, d.Dir)
}

// TestCreateReturnsGuestLog checks that Create returns the log of a guest that exits at once, and leaves
// nothing behind.
func TestCreateReturnsGuestLog(t *testing.T) {
	bin := t.TempDir()
	b, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(bin, "atoll-guest"), b, 0o755), os.Chmod(bin, 0o755)); err != nil {
		t.Fatal(err)
	}
	d := &docker.Driver{Host: enginetest.Host(t), Dir: t.TempDir(), Helpers: helper.Finder{Dir: bin}}
	_, err = d.Create(t.Context(), atoll.Spec{})
	if !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "applet not found") || !strings.Contains(err.Error(), "status 127") {
		t.Errorf("Create: %v", err)
	}
	checkNothingLeft(t, d.Dir)
	if err := os.WriteFile(filepath.Join(bin, "atoll-guest"), []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = d.Create(t.Context(), atoll.Spec{})
	if err == nil || !strings.Contains(err.Error(), "format") {
		t.Errorf("Create: %v", err)
	}
	checkNothingLeft(t, d.Dir)
}

func TestRefusals(t *testing.T) {
	d := newDriver(t)
	for _, spec := range []atoll.Spec{
		{Limits: atoll.Resources{CPU: 4096}},
		{Limits: atoll.Resources{Files: 10}},
		{Limits: atoll.Resources{Disk: 1 << 30}},
		{VM: &atoll.VM{}},
		{Runtime: "no-such"},
		{Network: atoll.Network{Mode: atoll.NetworkBridge}},
		{Mounts: []atoll.Mount{{Source: "/", Target: "/x", Limit: 1}}},
	} {
		_, err := d.Create(t.Context(), spec)
		if !errors.Is(err, atoll.ErrUnsupported) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	_, err := d.Create(t.Context(), atoll.Spec{Image: "127.0.0.1:1/no/such:image"})
	if !errors.Is(err, atoll.ErrUnavailable) && !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("an image that no registry has: %v", err)
	}
	_, err = d.Create(t.Context(), atoll.Spec{Image: "Not An Image"})
	if !errors.Is(err, atoll.ErrInvalid) {
		t.Errorf("a name that no image has: %v", err)
	}
	if _, err := d.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, d.Dir)
}

func TestReadOnlyRoot(t *testing.T) {
	d := newDriver(t)
	d.ReadOnly = true
	sb := createTestSandbox(t, d, atoll.Spec{})
	if got := runShell(t, sb, atoll.Cmd{Shell: "echo x > /tmp/f && echo x > f && cat /tmp/f f; { echo x > /etc/f; } 2>/dev/null || echo refused"}); got != "x\nx\nrefused\n" {
		t.Errorf("got %q", got)
	}
	if got := runShell(t, sb, atoll.Cmd{Shell: "echo x > /etc/f || echo refused", User: "root"}); !strings.Contains(got, "refused\n") {
		t.Errorf("root: %q", got)
	}
	if _, err := atoll.Snapshot(t.Context(), sb, ""); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("Snapshot: %v", err)
	}
	d = newDriver(t)
	d.ReadOnly, d.Remote = true, true
	if _, err := d.Create(t.Context(), atoll.Spec{}); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("with a remote engine: %v", err)
	}
}
