package virtual

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
	"github.com/atoll-sandbox/atoll/shell/command"
	"github.com/atoll-sandbox/atoll/vfs"
)

// image is the initial state of every sandbox of a driver: the programs, and a tree with a file for
// each of them. It is made once and shared.
type image struct {
	base     *vfs.Snapshot
	programs map[string]kernel.Program
}

// homeDir is the home directory of root, the only user of the sandbox.
const homeDir = "/root"

// imageTime is the modification time of the image's files.
var imageTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// defaultEnv is the environment that every command starts with.
var defaultEnv = []string{
	"HOME=" + homeDir, "PATH=/usr/local/bin:/usr/bin:/bin", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8", "TERM=dumb",
}

// plainImage returns the image of a driver without extensions.
var plainImage = sync.OnceValues(func() (*image, error) { return newImage(nil, nil) })

// newImage builds the image with a driver's own commands, and its extensions in /usr/local/bin.
func newImage(extensions []shell.Extension, commands []command.Command) (*image, error) {
	im := &image{programs: command.Programs(append(command.All(), commands...))}
	for name, run := range command.Programs(command.Network()) {
		im.programs[name] = run
	}
	for name, run := range shell.Programs() {
		im.programs[name] = run
	}
	f := vfs.New(vfs.Options{Now: func() time.Time { return imageTime }})
	if err := makeSkeleton(f); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(im.programs)) { // in order: inode numbers are the same in every process
		if name == "curl" || name == "wget" {
			continue // only where there is a network
		}
		if err := f.WriteFile("/usr/bin/"+name, kernel.StubFile(name), 0o755); err != nil {
			return nil, err
		}
	}
	for _, x := range extensions {
		run := shell.Program(x)
		for _, name := range append([]string{x.Name()}, x.Aliases()...) {
			if name == "" || strings.ContainsAny(name, "/\x00\n ") {
				return nil, fmt.Errorf("extension %q: %q can't be the name of a command", x.Name(), name)
			}
			im.programs[name] = run
			if err := f.WriteFile("/usr/local/bin/"+name, kernel.StubFile(name), 0o755); err != nil {
				return nil, err
			}
		}
	}
	im.base = f.Snapshot()
	return im, nil
}

// makeSkeleton creates the directories, devices and files of /etc.
func makeSkeleton(f *vfs.FS) error {
	for _, dir := range []string{"/dev", "/dev/pts", "/etc", "/home", "/mnt", "/opt", "/proc", "/root", "/sys", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/lib", "/usr/share", "/var/log", "/var/tmp", "/run", "/srv"} {
		if err := f.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"bin", "sbin", "lib"} { // as everywhere today
		if err := f.Symlink("usr/"+name, "/"+name); err != nil {
			return err
		}
	}
	if err := f.Mkdir("/tmp", 0o777|fs.ModeSticky); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		rdev uint32
	}{
		{"null", kernel.DevNull},
		{"zero", kernel.DevZero},
		{"full", kernel.DevFull},
		{"random", kernel.DevRandom},
		{"urandom", kernel.DevURandom},
		{"tty", kernel.DevTTY},
	} {
		if err := f.Mknod("/dev/"+d.name, fs.ModeDevice|fs.ModeCharDevice|0o666, d.rdev); err != nil {
			return err
		}
	}
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		if err := f.Symlink(fmt.Sprintf("/proc/self/fd/%d", i), "/dev/"+name); err != nil {
			return err
		}
	}
	if err := f.Symlink("/proc/self/fd", "/dev/fd"); err != nil {
		return err
	}
	for _, c := range [][2]string{
		{"passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
		{"group", "root:x:0:\nnogroup:x:65534:\n"},
		{"hostname", "atoll\n"},
		{"hosts", "127.0.0.1\tlocalhost\n"},
		{"os-release", "NAME=\"atoll\"\nID=atoll\nPRETTY_NAME=\"atoll virtual sandbox\"\n"},
		{"shells", "/bin/sh\n/bin/bash\n"},
	} {
		if err := f.WriteFile("/etc/"+c[0], []byte(c[1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}
