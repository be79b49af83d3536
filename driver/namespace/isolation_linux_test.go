package namespace_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestIsolation checks each layer of isolation from inside.
func TestIsolation(t *testing.T) {
	sb, err := newDriver(t).Create(t.Context(), atoll.Spec{Name: "walls"})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(context.WithoutCancel(t.Context()))
	for _, w := range []struct{ law, text, want string }{
		{"NoCapability", `grep -c '^Cap\(Inh\|Prm\|Eff\|Bnd\|Amb\):[[:space:]]*0000000000000000$' /proc/self/status`, "5"},
		{"NoNewPrivileges", "grep NoNewPrivs /proc/self/status | cut -f2", "1"},
		{"Filter", "grep '^Seccomp:' /proc/self/status | cut -f2", "2"},
		{"NotRoot", "id -u", "1000"},
		{"OnlyLoopback", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo"},
		{"NoUserNamespace", "cat /proc/sys/user/max_user_namespaces; unshare -U true 2>/dev/null || echo refused", "0\nrefused"},
		{"GuestIsProcess1", "tr '\\0' ' ' < /proc/1/cmdline", "atoll-guest init "},
		{"GuestCantBeKilled", "kill -9 1 2>/dev/null; kill -TERM 1 2>/dev/null; cat /proc/1/environ 2>/dev/null; echo alive", "alive"},
		{"SignalsAreDefault", "cat /proc/self/status | grep -c '^Sig\\(Blk\\|Ign\\|Cgt\\):[[:space:]]*0000000000000000$'", "3"},
		{"FewProcesses", "ls -d /proc/[0-9]* | wc -l | awk '{print $1 < 20}'", "1"},
		{"SystemIsReadOnly", "for d in /usr /etc /etc/ssl /etc/alternatives /proc/sys /dev; do touch $d/x 2>/dev/null && echo $d; done; true", ""},
		{"SecretsAreNot", "ls -d /etc/shadow /etc/gshadow /etc/ssl/private /etc/ssh /etc/profile.d /etc/sudoers /etc/docker /etc/environment /etc/npmrc /opt 2>/dev/null; ls -A /usr/local/etc 2>/dev/null; true", ""},
		{"HostsDirectoriesAreNot", "find /root /srv /mnt /media /var/log -mindepth 1 2>/dev/null; ls -A /home", "atoll"},
		{"NoSysfs", "ls -A /sys 2>/dev/null; true", ""},
		{"ProcIsMasked", "cat /proc/kcore /proc/kallsyms /proc/keys /proc/timer_list /proc/cmdline /proc/diskstats /proc/partitions /proc/sys/kernel/random/boot_id 2>/dev/null | wc -c | tr -d ' '", "0"},
		{"NoSetUID", "awk '$5 == \"/\" || $5 == \"/usr\" {print $6}' /proc/self/mountinfo | grep -vc nosuid; true", "0"},
		{"OldRootIsGone", "grep -c ' - \\(sysfs\\|cgroup\\|cgroup2\\) ' /proc/self/mountinfo; true", "0"},
		{"Groups", "cut -d: -f3 /proc/1/cgroup | sort -u", "/"},
		{"Hostname", "uname -n", "walls"},
		{"NoCore", "ulimit -c", "0"},
		{"Workspace", "pwd; touch x && stat -c %U x", "/workspace\natoll"},
		{"OwnUsers", "grep -c ':/home/' /etc/passwd", "1"},
	} {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: w.text})
		if got := strings.TrimRight(string(exit.Stdout), "\n"); err != nil || got != w.want {
			t.Errorf("%s: %q, %v (%s), want %q", w.law, got, err, exit.Stderr, w.want)
		}
	}
}

func TestIsolationRootless(t *testing.T) {
	if os.Geteuid() != 0 {
		TestIsolation(t)
		return
	}
	rerunUnprivileged(t, "TestIsolationRootless")
}

// TestSandboxesHaveDifferentUsers checks that two sandboxes have different user IDs on the host.
func TestSandboxesHaveDifferentUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		skipUnlessRequired(t, "needs root: sandboxes of others have only their own user")
	}
	d := newDriver(t)
	seen := make(map[string]bool)
	for range 2 {
		sb, err := d.Create(t.Context(), atoll.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Destroy(context.WithoutCancel(t.Context()))
		f := strings.Fields(runShell(t, sb, "cat /proc/self/uid_map"))
		first, err := strconv.Atoi(f[1])
		if err != nil || f[0] != "0" || first < 1<<16 || f[2] != "65536" || seen[f[1]] {
			t.Errorf("map of users: %q, %v", f, err)
		}
		seen[f[1]] = true
	}
}
