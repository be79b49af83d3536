package vminit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/internal/vm/virtiofs"
)

// Users of the host in these tests: the owner of the shared directory, and one that owns nothing.
const (
	owner  = 4321
	nobody = 54321
)

// TestShares gives a VM two directories of the host, one of them read-only, and tries as root
// inside to reach other files.
func TestShares(t *testing.T) {
	f := bootFiles(t) // skips the test where VMs can't run
	if os.Geteuid() != 0 {
		testenv.Skip(t, "qemu", "owners can only be kept apart as root")
	}
	for proto, find := range map[string]func() (string, error){"virtiofs": virtiofs.FindVirtiofsd, "9p": virtiofs.Find9PHelper} {
		t.Run(proto, func(t *testing.T) {
			program, err := find()
			if err != nil {
				testenv.Skip(t, "qemu", "%v", err)
			}
			if !f.Has(proto) {
				t.Skipf(`the kernel has no %s (eval "$(scripts/machine 9p)")`, proto)
			}
			shares(t, proto, program)
		})
	}
}

func shares(t *testing.T, proto, program string) {
	top := t.TempDir()
	secret := filepath.Join(top, "secret")
	open, shut := filepath.Join(top, "open"), filepath.Join(top, "shut")
	err := errors.Join(os.WriteFile(secret, []byte("of the host"), 0o644), os.Mkdir(open, 0o700), os.Mkdir(shut, 0o755), os.Chown(open, owner, owner),
		os.WriteFile(filepath.Join(open, "seen"), []byte("by the guest"), 0o600), os.Chown(filepath.Join(open, "seen"), owner, owner),
		os.WriteFile(filepath.Join(open, "others"), []byte("another's"), 0o600), os.Chown(filepath.Join(open, "others"), 777, 777),
		os.WriteFile(filepath.Join(shut, "seen"), []byte("only read"), 0o644),
		os.Symlink(secret, filepath.Join(open, "absolute")), os.Symlink("../secret", filepath.Join(open, "relative")), os.Symlink("/proc/1/root/"+secret, filepath.Join(open, "magic")))
	if err != nil {
		t.Fatal(err)
	}
	s := basicVM(t)
	var pids []int
	s.args = []string{"-M", "memory-backend=m", "-object", "memory-backend-memfd,id=m,size=256M,share=on"}
	for i, dir := range []string{open, shut} {
		conn, err := virtiofs.Serve(t.Context(), virtiofs.Share{
			Helper: filepath.Join(os.Getenv("ATOLL_HELPERS"), "atoll-guest"), Program: program, Dir: dir, ReadOnly: i == 1, User: 1000, Nobody: nobody,
			JoinCgroup: func(pid int) error { pids = append(pids, pid); return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		tag := []string{"open", "shut"}[i]
		s.conns = append(s.conns, conn)
		fd := string(rune('3' + i))
		if proto == "9p" {
			s.args = append(s.args, "-fsdev", "proxy,id="+tag+",sock_fd="+fd, "-device", "virtio-9p-device,fsdev="+tag+",mount_tag="+tag)
		} else {
			s.args = append(s.args, "-chardev", "socket,id="+tag+",fd="+fd, "-device", "vhost-user-fs-device,chardev="+tag+",tag="+tag+",queue-size=1024")
		}
		s.setup.Shares = append(s.setup.Shares, Share{Tag: tag, Path: "/mnt/" + tag, Proto: proto, ReadOnly: i == 1})
	}
	v := startVM(t, s)
	for _, conn := range s.conns {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c := v.client(t)
	for _, law := range []struct{ name, user, script, want string }{
		{"Read", "", "cat /mnt/open/seen /mnt/shut/seen", "by the guestonly read"},
		{"Write", "", "echo made > /mnt/open/made && mkdir /mnt/open/d && mv /mnt/open/made /mnt/open/d/ && stat -c %u:%g /mnt/open/d/made", "1000:1000"},
		{"ReadOnly", "", "(echo x > /mnt/shut/x || rm /mnt/shut/seen || chmod 777 /mnt/shut) 2>/dev/null || echo no", "no"},
		{"ReadOnlyForRoot", "root", "(mount -o remount,rw /mnt/shut && echo x > /mnt/shut/x) 2>/dev/null; (echo y > /mnt/shut/y) 2>/dev/null; ls /mnt/shut", "seen"},
		{"LinksLeadNowhere", "root", "for l in absolute relative magic; do cat /mnt/open/$l 2>/dev/null && echo $l; done; true", ""},
		{"OwnLinks", "root", "ln -s ../../../../../../../.." + secret + " /mnt/open/mine && cat /mnt/open/mine 2>/dev/null; cat /mnt/open/../../" + secret + " 2>/dev/null; ls /mnt/open/.. | grep -c secret; true", "0"},
		{"WriteThroughLinks", "root", "echo broken > /mnt/open/absolute; echo broken > /mnt/open/relative; true", "/bin/sh: can't create /mnt/open/absolute: nonexistent directory"},
		{"OthersFiles", "root", "cat /mnt/open/others 2>/dev/null || chown 1000 /mnt/open/others 2>/dev/null || echo none", "none"},
		{"NoDevices", "root", "mknod /mnt/open/null c 1 3 2>/dev/null || echo none", "none"},
		{"RootIsNobody", "root", "cp /bin/busybox /mnt/open/sh && chmod 755 /mnt/open/sh && stat -c %u /mnt/open/sh", "0"},
		{"NoSetUserID", "root", "for m in 4755 2755 6755; do chmod $m /mnt/open/sh 2>/dev/null; stat -c %a /mnt/open/sh; done | sort -u", "755"},
		{"NoStrangers", "root", "touch /mnt/open/s && chown 5 /mnt/open/s 2>/dev/null || echo none; rm -f /mnt/open/s", "none"},
	} {
		t.Run(law.name, func(t *testing.T) {
			if got := runShell(t, c, law.user, law.script); got != law.want {
				t.Errorf("%s: %q, not %q", law.script, got, law.want)
			}
		})
	}
	hostLaws(t, open, shut, secret)
	_ = v.mux.Close() // the VM ends, and then the server
	<-v.ended
	for _, pid := range pids {
		testenv.WaitFor(t, fmt.Sprintf("the server %d exits after its VM", pid), func() bool { return unix.Kill(pid, 0) != nil })
	}
}

// hostLaws checks the files that a VM has left on the host.
func hostLaws(t *testing.T, open, shut, secret string) {
	t.Helper()
	for path, uid := range map[string]uint32{filepath.Join(open, "d/made"): owner, filepath.Join(open, "sh"): nobody, filepath.Join(open, "others"): 777} {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Uid != uid || st.Gid != uid {
			t.Errorf("%s belongs to %d:%d, not %d: %v", path, st.Uid, st.Gid, uid, err)
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "of the host" {
		t.Errorf("a file of the host: %q, %v", b, err)
	}
	list, err := os.ReadDir(shut)
	if err != nil || len(list) != 1 {
		t.Errorf("a directory that can only be read has %v, %v", list, err)
	}
}

func TestSharesOfNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "qemu", "virtiofs needs root")
	}
	program, err := virtiofs.FindVirtiofsd()
	if err != nil {
		testenv.Skip(t, "qemu", "%v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/nowhere": "no such file", file: "not a directory"} {
		if _, err := virtiofs.Serve(t.Context(), virtiofs.Share{Helper: os.Args[0], Program: program, Dir: path, User: 1000, Nobody: nobody}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, bad := range []virtiofs.Share{
		{Helper: "/nowhere", Program: program}, {Helper: os.Args[0], Program: "/bin/true"}, {Helper: os.Args[0], Program: "/nowhere"},
	} {
		bad.Dir, bad.User, bad.Nobody = filepath.Dir(file), 1000, nobody
		if conn, err := virtiofs.Serve(t.Context(), bad); err == nil {
			t.Errorf("%+v: it serves", bad)
			_ = conn.Close()
		}
	}
}
