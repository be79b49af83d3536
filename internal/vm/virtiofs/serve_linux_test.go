package virtiofs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/helpertest"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "helpers", helpertest.Main)) }

// TestCompromisedServerMakesNoSpecialFiles lets a server of a share try to make files in it that
// would have rights on the host.
func TestCompromisedServerMakesNoSpecialFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "helpers", "needs root")
	}
	guest, err := helper.Finder{}.Find("atoll-guest")
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 1_700_000_124
	dir := t.TempDir()
	programs, err := os.MkdirTemp("/var/tmp", "atoll-share-") // the share replaces /tmp
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(programs)
	program := filepath.Join(programs, "virtfs-proxy-helper")
	const text = `#!/bin/sh
cd /tmp
touch plain && chmod 755 plain || exit
cp plain setuid; chmod 4755 setuid
cp plain setgid; chmod g+s setgid
mkdir dir; chmod 2777 dir
mknod whiteout c 0 0
mkfifo done
echo x >done
`
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(programs, 0o755), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	l, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	watch := os.NewFile(uintptr(l), "inotify")
	defer watch.Close()
	if _, err := unix.InotifyAddWatch(l, dir, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	conn, err := Serve(context.Background(), Share{Helper: guest, Program: program, Dir: dir, User: 1000, Nobody: nobody})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	done := filepath.Join(dir, "done")
	for _, err := os.Lstat(done); err != nil; _, err = os.Lstat(done) {
		if _, err := watch.Read(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.ReadFile(done); err != nil { // the program has ended
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 5 {
		t.Fatalf("the program has made %v, %v", entries, err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeDevice) != 0 {
			t.Errorf("%s is %v", e.Name(), info.Mode())
		}
	}
}
