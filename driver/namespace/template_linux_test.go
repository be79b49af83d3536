package namespace

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// TestTemplateIsShared checks that sandboxes share one template, that each has names of its own in the
// shared /etc, and that nothing in the shared trees can be changed, also not by the sandbox's root.
func TestTemplateIsShared(t *testing.T) {
	if !isRoot() {
		t.Skip("needs root: without, each sandbox builds its own root")
	}
	d := &Driver{Dir: t.TempDir()}
	defer d.Close()
	for _, name := range []string{"one", "two"} {
		sb, err := d.Create(t.Context(), atoll.Spec{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Destroy(context.WithoutCancel(t.Context()))
		const text = `cat /etc/hostname; grep -c "$(hostname)" /etc/hosts; for f in /etc /dev /usr /etc/passwd /etc/hostname /dev/null/x; do
			touch $f 2>/dev/null && echo "changed $f"; chmod 777 $f 2>/dev/null && echo "changed $f"; done
			rm -f /etc/passwd /dev/null 2>/dev/null && echo removed; mount -o remount,rw /etc 2>/dev/null && echo remounted; umount /usr/local/etc 2>/dev/null && echo unmounted`
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: text, User: "root"})
		if got := string(exit.Stdout); err != nil || got != name+"\n1\n" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if id := d.host.template.id; id != 1 {
		t.Errorf("template %d, want the first for both", id)
	}
}

// TestTemplateFollowsHost checks that a template is built again when the host has changed, and that
// sandboxes with clones of the former one go on.
func TestTemplateFollowsHost(t *testing.T) {
	if !isRoot() {
		t.Skip("needs root: without, each sandbox builds its own root")
	}
	d := &Driver{Dir: t.TempDir()}
	defer d.Close()
	var list []atoll.Sandbox
	for range 2 {
		sb, err := d.Create(t.Context(), atoll.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Destroy(context.WithoutCancel(t.Context()))
		list = append(list, sb)
		d.host.template.view[0].ino++ // as if a directory had been replaced
	}
	if id := d.host.template.id; id != 2 {
		t.Errorf("template %d, want the second", id)
	}
	for _, sb := range list {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "cat /etc/passwd /dev/null"})
		if err != nil || !strings.Contains(string(exit.Stdout), "root:") {
			t.Errorf("%s%s, %v", exit.Stdout, exit.Stderr, err)
		}
	}
}

// TestMountsChanged checks that a mount is noticed once.
func TestMountsChanged(t *testing.T) {
	if !isRoot() {
		t.Skip("needs root: mounts")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with its mount namespace
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	f, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(f)
	one := &template{mounts: f}
	if one.mountsChanged() {
		t.Error("changed without a change")
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if !one.mountsChanged() {
		t.Error("the mount was not noticed")
	}
	if one.mountsChanged() {
		t.Error("the mount was noticed twice")
	}
}
