package hypervisor

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// statusOf returns the fields of /proc/PID/status.
func statusOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		k, v, _ := strings.Cut(line, ":")
		m[k] = strings.Join(strings.Fields(v), " ")
	}
	return m
}

// TestRightsAreGivenUp checks both processes of a VM, and of a clone.
func TestRightsAreGivenUp(t *testing.T) {
	skipShort(t)
	if os.Geteuid() != 0 {
		t.Skip("needs root: others have no rights to give up")
	}
	c := vmConfig(t)
	c.CPUs = 2
	c.User = unusedUser(t)
	c.Disks = []Disk{newDisk(t, c, "root", 1<<20)}
	template := t.TempDir() + "/template"
	if err := SaveTemplate(deadline(t), c, template); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"", template} {
		t.Run("From"+from[max(0, len(from)-8):], func(t *testing.T) {
			one := *c
			one.Template, one.Dir = from, sandboxDir(t)
			m := startVM(t, &one)
			q, mon := statusOf(t, m.record.PID), statusOf(t, m.record.Monitor)
			id := fmt.Sprint(c.User.UID)
			for key, want := range map[string]string{
				"Uid": strings.Join([]string{id, id, id, id}, " "), "Gid": strings.Join([]string{id, id, id, id}, " "), "Groups": "",
				"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
			} {
				if q[key] != want {
					t.Errorf("the hypervisor's %s: %q, want %q", key, q[key], want)
				}
			}
			for key, want := range map[string]string{"CapPrm": fmt.Sprintf("%016x", 1<<unix.CAP_KILL), "CapEff": fmt.Sprintf("%016x", 1<<unix.CAP_KILL), "NoNewPrivs": "1"} {
				if mon[key] != want {
					t.Errorf("the monitor's %s: %q, want %q", key, mon[key], want)
				}
			}
			for _, ns := range []string{"net", "ipc", "uts"} {
				own, err1 := os.Readlink("/proc/self/ns/" + ns)
				its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", m.record.PID, ns))
				if err1 != nil || err2 != nil || own == its {
					t.Errorf("%s: %v %v %s", ns, err1, err2, its)
				}
			}
			noWritableFiles(t, m.record.PID, one.Disks[0].File)
		})
	}
}

// noWritableFiles reports open files of a process that it can write to, except one.
func noWritableFiles(t *testing.T, pid int, but string) {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		name := fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name())
		to, err := os.Readlink(name)
		if err != nil || !strings.HasPrefix(to, "/") || to == but || strings.HasPrefix(to, "/dev/") {
			continue
		}
		info, err := os.Lstat(name) // its mode is that of the descriptor
		if err == nil && info.Mode().Perm()&0o200 != 0 {
			t.Errorf("descriptor %s can write to %s", e.Name(), to)
		}
	}
}
