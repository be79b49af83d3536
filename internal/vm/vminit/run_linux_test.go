package vminit

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest"
)

// TestMachine boots a VM that applies a form before its setup, as templates do, and checks its
// state from inside.
func TestMachine(t *testing.T) {
	s := basicVM(t)
	work := filepath.Join(t.TempDir(), "work")
	makeDisk(t, work, "64M", "-E", "root_owner=1000:1000")
	s.disks = append(s.disks, work)
	s.setup.Disks = append(s.setup.Disks, Disk{Serial: "disk1", Path: "/workspace"})
	s.setup.Files = map[string][]byte{"/etc/atoll/ca.pem": []byte("a certificate\n")}
	s.setup.Limits.Nested = &Nested{Memory: 64 << 20, CPUs: 1.5}
	form := s.setup
	form.Hostname, form.MachineID, form.Time, form.Seed, form.Files, form.Dirs, form.Guest.Env = "a-long-name-of-nobody", "", 0, nil, nil, nil, nil
	form.Limits.PIDs, form.Limits.Memory = 20, 32<<20
	s.form, s.setup.Disks = &form, nil
	v := startVM(t, s)
	c := v.client(t)
	for _, law := range []struct{ name, user, script, want string }{
		{"User", "", "id -un; id -u; id -g; echo $HOME", "atoll\n1000\n1000\n/home/atoll"},
		{"Names", "", "hostname; cat /etc/hostname /etc/machine-id; grep -c box /etc/hosts", "box\nbox\n0123456789abcdef0123456789abcdef\n1"},
		{"Clock", "", "date -u +%Y-%m-%dT%H", "2026-11-22T12"},
		{"Files", "", "cat /etc/atoll/ca.pem", "a certificate"},
		{"OwnDirectories", "", "touch /workspace/x ~/x /tmp/x /dev/shm/x && stat -c %u:%g /workspace /home/atoll", "1000:1000\n1000:1000"},
		{"RootIsNotTheirs", "", "touch /x 2>&1; touch /etc/passwd 2>&1 | grep -o denied", "touch: /x: Permission denied\ndenied"},
		{"NoDevices", "", "for d in vda vdb mem vport0p1 console ttyS0 hwrng; do head -c 1 /dev/$d >/dev/null 2>&1 && echo $d; done; true", ""},
		{"NoKernelLog", "", "dmesg >/dev/null 2>&1 || echo none", "none"},
		{"NoKernelAddresses", "", "head -n 1 /proc/kallsyms | cut -c1-16", "0000000000000000"},
		{"NoCores", "", "ulimit -c; cat /proc/sys/kernel/core_pattern", "0\n/dev/null"},
		{"NoWayUp", "", "(echo 0 > /proc/sys/kernel/dmesg_restrict || mount -t tmpfs t /mnt || kill -9 1) 2>/dev/null || echo none", "none"},
		{"Limits", "", "cat /sys/fs/cgroup/commands/pids.max; [ $(cat /sys/fs/cgroup/commands/memory.max) -gt 100000000 ] && cut -d/ -f2 /proc/self/cgroup", "100\ncommands"},
		{"Names", "", "cat /etc/resolv.conf | head -n 1; ifconfig lo | grep -c UP", "nameserver 127.0.0.1\n1"},
		{"NothingIsReached", "", "echo | nc -w 5 192.0.2.1 80 >/dev/null 2>&1; [ $? = 0 ] || true; ls /sys/class/net", "lo"},
		{"NestedLimits", "", "cat /sys/fs/cgroup/nested/memory.max /sys/fs/cgroup/nested/cpu.max", "67108864\n150000 100000"},
		{"NestedOnly", "root", "mknod /dev/kvm c 10 232 2>/dev/null; (: < /dev/kvm) 2>&1 | grep -o 'Operation not permitted'; echo $$ > /sys/fs/cgroup/nested/cgroup.procs; cat /proc/self/cgroup; (: < /dev/kvm) 2>&1 | grep -c 'not permitted'; true", "Operation not permitted\n0::/nested\n0"},
		{"Rest", "", "sleep 4", ""}, // the guest agent gives memory back, and files that it does not need
		{"LimitsAfterRest", "", "cut -d/ -f2 /proc/self/cgroup", "commands"},
		{"InitramfsIsEmpty", "root", "ls /modules /init /root-to-be 2>/dev/null; true", ""},
		{"RootIsRoot", "root", "id -u; mount -t tmpfs t /mnt && umount /mnt && chown 5 /mnt && stat -c %u /mnt && chown 0 /mnt; grep CapEff /proc/self/status | grep -c 1ffffffffff", "0\n5\n1"},
		{"BecomingAnother", "root", "su atoll -c 'id -u'", "1000"},
	} {
		t.Run(law.name, func(t *testing.T) {
			if got := runShell(t, c, law.user, law.script); got != law.want {
				t.Errorf("%s: %q, not %q", law.script, got, law.want)
			}
		})
	}
	if a, b := runShell(t, c, "", "cat /proc/sys/kernel/random/uuid"), runShell(t, c, "", "cat /proc/sys/kernel/random/uuid"); a == b {
		t.Error("the kernel's randomness repeats")
	}
	t.Run("ForkBomb", func(t *testing.T) { forkBomb(t, c) })
	t.Run("End", func(t *testing.T) { endVM(t, v, c, s.disks) })
}

// forkBomb starts more processes than the limit: afterwards the VM serves as before.
func forkBomb(t *testing.T, c *guest.Client) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	_, err := c.Exec(ctx, atoll.Cmd{Shell: "i=0; while [ $i -lt 300 ]; do sleep 100 & i=$((i+1)); done 2>&1; echo made", Stdout: &out, Stderr: &out})
	if err != nil || strings.Contains(out.String(), "made") && !strings.Contains(out.String(), "fork") {
		t.Errorf("more processes than the limit: %v, %q", err, out.String())
	}
	if got := runShell(t, c, "", "echo well"); got != "well" {
		t.Errorf("afterwards: %q", got)
	}
}

// endVM ends a VM in order: what was written is on its disks, which need no repair.
func endVM(t *testing.T, v *vm, c *guest.Client, disks []string) {
	runShell(t, c, "", "echo kept > /workspace/kept; echo kept > ~/kept")
	link := &guest.Link{ID: "x", Connect: v.open}
	defer link.Disconnect()
	if _, err := link.Client(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !link.Quit(t.Context()) {
		t.Fatal("the guest does not quit")
	}
	select {
	case <-v.ended:
	case <-time.After(patience):
		t.Fatal("the VM does not end")
	}
	if text := v.console.String(); strings.Contains(text, "atoll:") || strings.Contains(text, "panic") {
		t.Errorf("an orderly end says %q", text)
	}
	for _, d := range disks {
		cmd := exec.CommandContext(t.Context(), "e2fsck", "-f", "-n", d)
		cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
		if out, err := cmd.CombinedOutput(); err != nil || bytes.Contains(out, []byte("recovering journal")) || bytes.Contains(out, []byte("Clearing")) {
			t.Errorf("%s after an orderly end: %v: %s", d, err, out)
		}
	}
}

// TestWhatIsWrong sends wrong setups to VMs, and gives them damaged disks: each reports what is
// wrong.
func TestWhatIsWrong(t *testing.T) {
	damage := func(at int64, b ...byte) func(t *testing.T, s *start) {
		return func(t *testing.T, s *start) {
			f, err := os.OpenFile(s.disks[0], os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(b, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, want, reason string
		do                 func(t *testing.T, s *start)
	}{
		{"NoFileSystem", "disk root of /: unavailable: its file system is damaged: it has no superblock", "unavailable", damage(superblock, make([]byte, 1024)...)},
		{"HadErrors", "the kernel found errors in it", "unavailable", damage(stateAt, 3)},
		{"BadGroups", "its file system is damaged", "unavailable", damage(2*superblock, bytes.Repeat([]byte{0xa5}, 4096)...)},
		{"NoRoot", "is not that of /", "invalid", func(_ *testing.T, s *start) { s.setup.Disks = nil }},
		{"NoShare", "the kernel of the VM has no 9p", "unsupported", func(_ *testing.T, s *start) {
			s.setup.Shares = []Share{{Tag: "x", Path: "/x", Proto: "9p"}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := basicVM(t)
			c.do(t, &s)
			v := startVM(t, s)
			if !strings.Contains(v.verdict.Error, c.want) || v.verdict.Reason != c.reason {
				t.Errorf("%+v, not %q (%s)", v.verdict, c.want, c.reason)
			}
			_ = v.mux.Close()
			select {
			case <-v.ended:
			case <-time.After(patience):
				t.Fatal("a VM that can't serve does not end")
			}
			if !strings.Contains(v.console.String(), "atoll: ") {
				t.Errorf("the console does not say why: %q", v.console)
			}
		})
	}
}

// TestNIC gives a VM an interface in a network of QEMU with a DHCP server. It opens no connections.
func TestNIC(t *testing.T) {
	s := basicVM(t)
	s.setup.Guest.Egress = false
	s.setup.Network.NIC = "52:54:00:12:34:56"
	s.args = []string{"-netdev", "user,id=n0,net=10.9.8.0/24,dns=10.9.8.3", "-device", "virtio-net-device,netdev=n0,mac=52:54:00:12:34:56"}
	v := startVM(t, s)
	c := v.client(t)
	for script, want := range map[string]string{
		"ifconfig eth0 | grep -o 'inet addr:[0-9.]*'": "inet addr:10.9.8.15",
		"route -n | grep ^0.0.0.0 | cut -c17-30":      "10.9.8.2",
		"cat /etc/resolv.conf":                        "nameserver 10.9.8.3",
	} {
		if got := runShell(t, c, "", script); strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, not %q", script, got, want)
		}
	}
}
