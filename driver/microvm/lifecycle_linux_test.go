package microvm_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/statedir"
	"github.com/atoll-sandbox/atoll/internal/testing/leaktest"
)

func TestSpecIsChecked(t *testing.T) {
	d := newDriver(t)
	d.MinMemory = 0
	no, yes := false, true
	for name, c := range map[string]struct {
		spec atoll.Spec
		want error
		text string
	}{
		"too little memory":     {atoll.Spec{Limits: atoll.Resources{Memory: 512 << 20}}, atoll.ErrInvalid, "limits.memory 536870912: a VM needs at least 1024 MiB"},
		"no end of memory":      {atoll.Spec{Limits: atoll.Resources{Memory: -1}}, atoll.ErrInvalid, "limits.memory"},
		"more memory than here": {atoll.Spec{Limits: atoll.Resources{Memory: 200 << 40}}, atoll.ErrInvalid, "limits.memory 209715200 MiB: this host has"},
		"too many processors":   {atoll.Spec{Limits: atoll.Resources{CPU: 300}}, atoll.ErrInvalid, "limits.cpu"},
		"few processes":         {atoll.Spec{Limits: atoll.Resources{PIDs: 2}}, atoll.ErrInvalid, "limits.pids"},
		"a small disk":          {atoll.Spec{Limits: atoll.Resources{Disk: 5}}, atoll.ErrInvalid, "limits.disk"},
		"a limit of files":      {atoll.Spec{Limits: atoll.Resources{Files: 500}}, atoll.ErrUnsupported, "limits.files"},
		"a limit of one file":   {atoll.Spec{Limits: atoll.Resources{FileSize: 500}}, atoll.ErrUnsupported, "limits.file_size"},
		"the host's network":    {atoll.Spec{Network: atoll.Network{Mode: atoll.NetworkOpen}}, atoll.ErrUnsupported, "use nat"},
		"no bridge":             {atoll.Spec{Network: atoll.Network{Mode: atoll.NetworkBridge}}, atoll.ErrUnsupported, "no bridge"},
		"rules on a bridge":     {atoll.Spec{Network: atoll.Network{Mode: atoll.NetworkBridge, Allow: []string{"example.com"}}}, atoll.ErrUnsupported, "egress proxy"},
		"an argument":           {atoll.Spec{VM: &atoll.VM{Args: []string{"-drive", "file=/etc/shadow"}}}, atoll.ErrInvalid, "machine.qemu_extra_args: "},
		"a share's protocol":    {atoll.Spec{VM: &atoll.VM{Share: "nfs"}}, atoll.ErrInvalid, "virtiofs or 9p"},
		"a host directory":      {atoll.Spec{Image: "/etc"}, atoll.ErrDenied, "image /etc"},
		"another runtime":       {atoll.Spec{Runtime: "runsc"}, atoll.ErrUnsupported, "runsc"},
		"a pod":                 {atoll.Spec{Pod: &atoll.Pod{}}, atoll.ErrUnsupported, "pod"},
		"a disk for nothing":    {atoll.Spec{VM: &atoll.VM{Disk: "x", Persist: &no}}, atoll.ErrInvalid, "persist"},
		"a disk that is none":   {atoll.Spec{VM: &atoll.VM{Disk: "x", Persist: &yes}, Limits: atoll.Resources{Memory: 1 << 30}}, atoll.ErrNotFound, "disk x"},
		"an image that is none": {atoll.Spec{Image: "127.0.0.1:1/none:1"}, nil, "127.0.0.1:1/none:1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.Create(t.Context(), c.spec)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with the text %q", err, c.want, c.text)
			}
		})
	}
	if list, err := d.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("there are %v, %v", list, err)
	}
	if left, _ := os.ReadDir(filepath.Join(d.Dir, "ids")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestVMSize(t *testing.T) {
	skipIfRace(t)
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{Name: "my.box_1", Limits: atoll.Resources{Memory: 400 << 20, CPU: 2, PIDs: 77}, Env: []string{"OF=spec"}, Dir: "/srv/work"})
	got := runShell(t, sb, "nproc; hostname; pwd; echo $OF; cat /sys/fs/cgroup/commands/pids.max; free -m | awk '/Mem/ {print ($2 > 300 && $2 <= 400)}'")
	if got != "2\nmy-box-1\n/srv/work\nspec\n77\n1\n" {
		t.Errorf("it has %q", got)
	}
	if st, err := atoll.StatsOf(t.Context(), sb); err != nil || st.MemoryUsed < 10<<20 || st.MemoryUsed > 1<<30 || st.Processes > 8 {
		t.Errorf("it uses %+v, %v", st, err)
	}
	for _, user := range []struct{ name, want string }{{"", "1000"}, {"root", "0"}, {"nobody", "65534"}, {"1234", "1234"}} {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"id", "-u"}, User: user.name})
		if err != nil || strings.TrimSpace(string(exit.Stdout)) != user.want {
			t.Errorf("user %q is %s, %v", user.name, exit.Stdout, err)
		}
	}
}

// TestClonesShareNoIdentity checks that VMs of one template share no secret and no identity.
func TestClonesShareNoIdentity(t *testing.T) {
	requireVMs(t)
	d := newDriverIn(t, makeShortDir(t)) // with templates of its own
	seen := make(map[string]string)
	var ids []string
	for range 3 {
		sb := createTestSandbox(t, d, atoll.Spec{})
		ids = append(ids, sb.ID())
		for what, text := range map[string]string{
			"randomness": "head -c 16 /dev/urandom | od -An -tx1", "the machine's id": "cat /etc/machine-id", "its name": "hostname", "its names": "cat /etc/hostname /etc/hosts",
			"its start": "cat /proc/sys/kernel/random/boot_id", "a uuid": "cat /proc/sys/kernel/random/uuid",
		} {
			got := runShell(t, sb, text)
			if seen[got] != "" || strings.TrimSpace(got) == "" {
				t.Errorf("two have %q for %s", got, what)
			}
			seen[got] = what
		}
		before := time.Now()
		seconds, err := strconv.ParseInt(strings.TrimSpace(runShell(t, sb, "date +%s")), 10, 64)
		if now, after := time.Unix(seconds, 0), time.Now(); err != nil || now.Before(before.Add(-time.Minute)) || now.After(after.Add(10*time.Second)) {
			t.Errorf("its clock shows %v, that of the host %v and then %v, %v", now, before, after, err)
		}
	}
	if n := leaktest.CountEntries(filepath.Join(d.Dir, "templates")); n != 2 { // the template and its lock
		t.Errorf("there are %d templates", n)
		for _, id := range ids {
			record, err := os.ReadFile(filepath.Join(d.Dir, id, statedir.RecordFile))
			t.Logf("%s, %v", record, err) // it says why a VM was not started from the first one
		}
	}
}

func TestFreshStart(t *testing.T) {
	skipIfRace(t)
	ctx, d := t.Context(), newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, sb, "echo x > /workspace/x; echo y > /home/atoll/y; sync")
	if err := atoll.StartFresh(ctx, sb); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Fresh of one that runs: %v", err)
	}
	if _, err := atoll.Snapshot(ctx, sb, "point"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(atoll.Stop(ctx, sb), atoll.Start(ctx, sb)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "cat /workspace/x /home/atoll/y"); got != "x\ny\n" {
		t.Errorf("after a start: %q", got)
	}
	if err := errors.Join(atoll.Stop(ctx, sb), atoll.StartFresh(ctx, sb)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, "ls -A /workspace | grep -v lost+found; ls -A /home/atoll; echo works > /workspace/x"); got != "" {
		t.Errorf("after a fresh start: %q", got)
	}
	if list, err := atoll.Snapshots(ctx, sb); err != nil || len(list) > 0 {
		t.Errorf("snapshots: %v, %v", list, err)
	}
	no := false
	forgets := createTestSandbox(t, d, atoll.Spec{VM: &atoll.VM{Persist: &no}})
	runShell(t, forgets, "echo x > /workspace/x; sync")
	if err := errors.Join(atoll.Stop(ctx, forgets), atoll.Start(ctx, forgets)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, forgets, "ls /workspace | grep -v lost+found; true"); got != "" {
		t.Errorf("without persist: %q", got)
	}
	if err := atoll.DestroyKeepDisk(ctx, forgets, "mine"); !errors.Is(err, atoll.ErrState) {
		t.Errorf("DestroyKeepDisk without persist: %v", err)
	}
}

func TestKeptDisk(t *testing.T) {
	skipIfRace(t)
	ctx, d := t.Context(), newDriver(t)
	first := createTestSandbox(t, d, atoll.Spec{})
	runShell(t, first, "echo first > /workspace/x; echo y > /tmp/y")
	for range 2 {
		if err := atoll.DestroyKeepDisk(ctx, first, "mine"); err != nil {
			t.Fatalf("DestroyKeepDisk: %v", err)
		}
	}
	if _, err := d.Open(ctx, first.ID()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Open: %v", err)
	}
	list, err := d.Disks(ctx)
	if err != nil || len(list) != 1 || list[0].Name != "mine" || list[0].CreatedFor != first.ID() || list[0].Sandbox != "" || list[0].Used == 0 {
		t.Errorf("Disks: %+v, %v", list, err)
	}
	other := createTestSandbox(t, d, atoll.Spec{})
	if err := atoll.DestroyKeepDisk(ctx, other, "mine"); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	if got := runShell(t, other, "echo works"); got != "works\n" {
		t.Errorf("whose disk was not kept: %q", got)
	}
	with := atoll.Spec{VM: &atoll.VM{Disk: "mine"}}
	second := createTestSandbox(t, d, with)
	if got := runShell(t, second, "cat /workspace/x; ls /tmp; echo second >> /workspace/x"); got != "first\n" {
		t.Errorf("with the disk: %q", got)
	}
	if _, err := d.Create(ctx, with); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Create with a disk that is in use: %v", err)
	}
	if err := d.RemoveDisk(ctx, "mine"); !errors.Is(err, atoll.ErrState) {
		t.Errorf("RemoveDisk: %v", err)
	}
	if _, err := atoll.Snapshot(ctx, second, "point"); err != nil {
		t.Fatal(err)
	}
	runShell(t, second, "echo third >> /workspace/x")
	fork, err := atoll.Fork(ctx, second, "", atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, fork, "cat /workspace/x; echo fork > /workspace/x"); got != "first\nsecond\nthird\n" {
		t.Errorf("the fork: %q", got)
	}
	if err := fork.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if err := atoll.Restore(ctx, second, "point"); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, second, "cat /workspace/x; sync"); got != "first\nsecond\n" {
		t.Errorf("restored: %q", got)
	}
	if err := atoll.DestroyKeepDisk(ctx, second, "renamed"); err != nil {
		t.Errorf("DestroyKeepDisk: %v", err)
	}
	third := createTestSandbox(t, d, atoll.Spec{VM: &atoll.VM{Disk: "renamed"}})
	if got := runShell(t, third, "cat /workspace/x"); got != "first\nsecond\n" {
		t.Errorf("renamed: %q", got)
	}
	if err := third.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if err := d.RemoveDisk(ctx, "renamed"); err != nil {
		t.Errorf("RemoveDisk: %v", err)
	}
	if err := d.RemoveDisk(ctx, "renamed"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("RemoveDisk twice: %v", err)
	}
}

func TestForksLimits(t *testing.T) {
	skipIfRace(t)
	ctx, d := t.Context(), newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{Limits: atoll.Resources{Disk: 16 << 20}})
	runShell(t, sb, "echo x > /workspace/x")
	fork, err := atoll.Fork(ctx, sb, "", atoll.Spec{Name: "small", Limits: atoll.Resources{PIDs: 50, CPU: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, fork, "cat /workspace/x /sys/fs/cgroup/commands/pids.max; nproc; hostname; ! dd if=/dev/zero of=/workspace/big bs=1M count=20 2>/dev/null"); got != "x\n50\n2\nsmall\n" {
		t.Errorf("the fork: %q", got)
	}
	if err := fork.Destroy(ctx); err != nil {
		t.Error(err)
	}
	if _, err := atoll.Fork(ctx, sb, "", atoll.Spec{Limits: atoll.Resources{Disk: 32 << 20}}); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("a fork with a larger disk: %v", err)
	}
}

// TestNetwork reaches a service of the host through the egress proxy, as far as the rules allow.
func TestNetwork(t *testing.T) {
	ctx, d := t.Context(), newDriver(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("reached")) }))
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	get := "printf 'GET http://host.atoll.internal:" + port + "/ HTTP/1.0\\r\\n\\r\\n' | nc -w 20 127.0.0.1 3128 | tail -n 1"
	rules := atoll.Network{Allow: []string{"host.atoll.internal:" + port}}
	sb := createTestSandbox(t, d, atoll.Spec{Network: rules})
	if got := runShell(t, sb, get); got != "reached" {
		t.Errorf("through the egress proxy: %q", got)
	}
	if got := runShell(t, sb, "ls /sys/class/net"); got != "lo\n" {
		t.Errorf("its interfaces: %q", got)
	}
	list, err := atoll.Connections(ctx, sb)
	if err != nil || len(list) == 0 || !list[len(list)-1].Allowed {
		t.Errorf("connections: %+v, %v", list, err)
	}
	if err := atoll.SetNetwork(ctx, sb, atoll.Network{Allow: []string{"example.com"}}); err != nil {
		t.Fatal(err)
	}
	if exit, err := sb.Exec(ctx, atoll.Cmd{Shell: get}); err != nil || strings.Contains(string(exit.Stdout), "reached") {
		t.Errorf("after the rules have changed: %+v, %v", exit, err)
	}
	if err := errors.Join(atoll.SetNetwork(ctx, sb, rules), atoll.Stop(ctx, sb), atoll.Start(ctx, sb)); err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, sb, get); got != "reached" {
		t.Errorf("after a start: %q", got)
	}
	none := createTestSandbox(t, d, atoll.Spec{})
	if exit, err := none.Exec(ctx, atoll.Cmd{Shell: get}); err != nil || strings.Contains(string(exit.Stdout), "reached") {
		t.Errorf("without a network: %+v, %v", exit, err)
	}
}

// TestInspect checks that programs inside trust the egress proxy that inspects TLS.
func TestInspect(t *testing.T) {
	skipIfRace(t)
	sb := createTestSandbox(t, newDriver(t), atoll.Spec{Network: atoll.Network{Allow: []string{"https://example.com/x/"}, Inspect: true}})
	if got := runShell(t, sb, "head -n 1 /run/atoll/ca.pem; [ -s \"$SSL_CERT_FILE\" ] && echo trusted"); got != "-----BEGIN CERTIFICATE-----\ntrusted\n" {
		t.Errorf("inside: %q", got)
	}
}

// TestUseFromOtherProcess uses and destroys a sandbox from another process with the same directory.
func TestUseFromOtherProcess(t *testing.T) {
	d := newDriver(t)
	sb := createTestSandbox(t, d, atoll.Spec{Name: "one"})
	other := newDriverIn(t, d.Dir)
	again, err := other.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := runShell(t, again, "echo hi"); got != "hi\n" {
		t.Errorf("%q", got)
	}
	if err := atoll.Stop(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "true"}); !errors.Is(err, atoll.ErrState) {
		t.Errorf("Exec: %v", err)
	}
	if err := again.Destroy(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := sb.Status(t.Context()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Status: %v", err)
	}
}
