package vfs

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-sandbox/atoll/internal/testing/rapidtest"
)

// TestMountBehavesAsHost makes the same calls here, with a directory of
// the host mounted, and on the host, with a bind mount in the same place.
// Links lead across the boundary in both directions, and every error and both
// trees must be equal all the time.
func TestMountBehavesAsHost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a directory in the root of a thread")
	}
	dir, bound, mounted := t.TempDir(), t.TempDir(), t.TempDir()
	must(t, os.Mkdir(dir+"/c", 0o755))
	h, err := OpenHost(mounted)
	must(t, err)
	defer h.Close()
	t.Run("chroot", func(t *testing.T) {
		runtime.LockOSThread() // and never unlocked: the thread ends with the test
		if err := syscall.Unshare(syscall.CLONE_FS | syscall.CLONE_NEWNS); err != nil {
			t.Skipf("needs CAP_SYS_ADMIN: unshare: %v", err)
		}
		must(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		must(t, syscall.Mount(bound, dir+"/c", "", syscall.MS_BIND, ""))
		must(t, syscall.Chroot(dir))
		syscall.Umask(0)
		rapidtest.Check(t, func(t *rapid.T) {
			emptyMount(t)
			must(t, h.rootDir().Chmod(".", 0o755))
			names, top, err := h.list(".")
			must(t, err)
			for _, name := range names {
				must(t, top.RemoveAll(name))
			}
			must(t, top.Close())
			w := &worlds{f: New(Options{}), mounted: true}
			must(t, w.f.Mount(Mount{Target: "/c", Host: h}))
			defer func() {
				for _, tw := range w.open {
					tw.h.Close()
					tw.v.Close()
				}
			}()
			t.Repeat(map[string]func(*rapid.T){
				"names": w.changeNames, "names2": w.changeNames, "names3": w.changeNames,
				"open": w.openFile, "file": w.useFile, "file2": w.useFile, "file3": w.useFile,
				"": w.checkQuickly,
			})
			w.compare(t)
		})
	})
}

func emptyMount(t *rapid.T) {
	for _, dir := range []string{"/", "/c/"} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if dir+e.Name() != "/c" {
				must(t, os.RemoveAll(dir+e.Name()))
			}
		}
		must(t, os.Chmod(dir, 0o755))
	}
}

// TestMountOpensNoSpecialFile plants pipes and sockets that have no peer:
// no call waits for them, and only their names can be changed.
func TestMountOpensNoSpecialFile(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	must(t, syscall.Mkfifo(dir+"/pipe", 0o666))
	l, err := net.Listen("unix", dir+"/socket")
	must(t, err)
	defer l.Close()
	must(t, f.Symlink("pipe", "/m/link"))
	for _, p := range []string{"/m/pipe", "/m/socket", "/m/link"} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_CREATE} {
			_, err := f.OpenFile(p, flag, 0o644)
			wantReason(t, "OpenFile "+p, err, EACCES)
		}
		_, err := f.ReadFile(p)
		wantReason(t, "ReadFile "+p, err, EACCES)
		wantReason(t, "WriteFile "+p, f.WriteFile(p, nil, 0o644), EACCES)
		wantReason(t, "Truncate "+p, f.Truncate(p, 0), EACCES)
		wantReason(t, "Chmod "+p, f.Chmod(p, 0o777), EPERM)
	}
	must(t, f.ExportTar("/m", io.Discard))
	must(t, f.Rename("/m/pipe", "/m/moved"))
	must(t, f.Unlink("/m/moved"))
	must(t, f.Unlink("/m/socket"))
}

// TestMountPipeRace swaps a directory and a file for a pipe as fast as it
// can: no call through the path blocks.
func TestMountPipeRace(t *testing.T) {
	f, dir := newMounted(t, Mount{})
	must(t, os.Mkdir(dir+"/x", 0o755))
	must(t, os.WriteFile(dir+"/file", nil, 0o644))
	must(t, syscall.Mkfifo(dir+"/pipe", 0o666))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{"x", "file"} {
				_ = os.Rename(dir+"/"+name, dir+"/away")
				_ = os.Rename(dir+"/pipe", dir+"/"+name)
				_ = os.Rename(dir+"/"+name, dir+"/pipe")
				_ = os.Rename(dir+"/away", dir+"/"+name)
			}
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			_, _ = f.ReadDir("/m/x")
			_, _ = f.Stat("/m/x/y")
			_ = f.WriteFile("/m/x/y", nil, 0o644)
			_, _ = f.ReadFile("/m/file")
			_ = f.Truncate("/m/file", 1)
			_ = f.ExportTar("/m", io.Discard)
		}
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Error("something waits for a pipe")
	}
	close(stop)
	wg.Wait()
}
