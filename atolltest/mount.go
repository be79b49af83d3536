package atolltest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

var mountLaws = []law{
	{"MountIsShared", mountIsShared},
	{"MountSupportsEveryFileCall", mountSupportsEveryFileCall},
	{"MountReadOnly", mountReadOnly},
	{"MountStaysInside", mountStaysInside},
	{"MountRaceStaysInside", mountRaceStaysInside},
	{"MountedSpecialFilesDontBlock", mountedSpecialFilesDontBlock},
	{"MountMissingIsNamed", mountMissingIsNamed},
	{"MountLimitIsQuota", mountLimitIsQuota},
	{"MountOutlivesTheSandbox", mountOutlivesTheSandbox},
}

// mountTarget is the path at which the suite mounts.
const mountTarget = "/share"

// createWithMount creates a sandbox with a host directory at mountTarget.
// change may adjust the mount.
func (e *env) createWithMount(dir string, change func(*atoll.Mount)) atoll.Sandbox {
	e.Helper()
	spec := e.newSpec()
	spec.Mounts = []atoll.Mount{{Source: dir, Target: mountTarget}}
	if change != nil {
		change(&spec.Mounts[0])
	}
	return e.create(spec)
}

// hostDir returns a directory of the host that any user can write, as the
// user inside the sandbox may be another.
func (e *env) hostDir() string {
	e.Helper()
	dir := e.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		e.Fatal(err)
	}
	return dir
}

// writeHostFile writes a file of the host that any user can read and write.
func (e *env) writeHostFile(name, content string) {
	e.Helper()
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		e.Fatal(err)
	}
	if err := os.Chmod(name, 0o666); err != nil {
		e.Fatal(err)
	}
}

func (e *env) readHostFile(name string) string {
	e.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		e.Errorf("on the host: %v", err)
	}
	return string(b)
}

func mountIsShared(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue checks the refusal
	}
	dir := e.hostDir()
	e.writeHostFile(filepath.Join(dir, "host"), "of the host\n")
	a := e.createWithMount(dir, nil)
	b := e.createWithMount(dir, func(m *atoll.Mount) { m.ReadOnly = true })
	wantEqual(e, "a file of the host", e.runShell(a, "cat /share/host"), "of the host\n")
	e.runShell(a, "mkdir /share/d; cd /share/d; echo one > f; echo two >> f; ln -s f l; mv f g; ln -s g f; chmod 640 g")
	wantEqual(e, "on the host", e.readHostFile(filepath.Join(dir, "d", "g")), "one\ntwo\n")
	info, err := os.Lstat(filepath.Join(dir, "d", "g"))
	if err != nil || info.Mode() != 0o640 {
		e.Errorf("on the host: %v, %v", info, err)
	}
	wantEqual(e, "in the other sandbox", e.runShell(b, "cd /share; ls; ls d; cat d/l"), "d\nhost\nf\ng\nl\none\ntwo\n")
	e.writeHostFile(filepath.Join(dir, "later"), "later\n")
	wantEqual(e, "a file that was added later", e.runShell(a, "cat /share/later")+e.runShell(b, "cat /share/later"), "later\nlater\n")
	e.runShell(a, "rm -r /share/d /share/later")
	wantEqual(e, "after a removal", e.runShell(b, "ls /share"), "host\n")
	e.runShell(a, "mkdir -p /tmp/x/y; echo moved > /tmp/x/y/z; mv /tmp/x /share/x; mv /share/host /tmp/host; cat /tmp/host")
	wantEqual(e, "moved in", e.readHostFile(filepath.Join(dir, "x", "y", "z")), "moved\n")
	if _, err := os.Lstat(filepath.Join(dir, "host")); err == nil {
		e.Error("a file that was moved out still exists on the host")
	}
}

func mountSupportsEveryFileCall(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue checks the refusal
	}
	dir := e.hostDir()
	sb := e.createWithMount(dir, nil)
	ctx := e.newContext()
	if err := atoll.WriteFile(ctx, sb, "/share/a/b/f", []byte("content"), 0o640); err != nil {
		e.Fatalf("WriteFile: %v", err)
	}
	wantEqual(e, "on the host", e.readHostFile(filepath.Join(dir, "a", "b", "f")), "content")
	got, err := atoll.ReadFile(ctx, sb, "/share/a/b/f")
	if err != nil || string(got) != "content" {
		e.Errorf("ReadFile: %q, %v", got, err)
	}
	info, err := atoll.Stat(ctx, sb, "/share/a/b/f")
	if err != nil || info.Mode() != 0o640 || info.Size() != 7 {
		e.Errorf("Stat: %v, %v", info, err)
	}
	list, err := atoll.ReadDir(ctx, sb, "/share/a")
	if err != nil || len(list) != 1 || list[0].Name() != "b" || !list[0].IsDir() {
		e.Errorf("ReadDir: %v, %v", list, err)
	}
	if err := sb.Import(ctx, "/share/in", e.packArchive(fileEntry("x/y", "imported"))); err != nil {
		e.Errorf("Import: %v", err)
	}
	wantEqual(e, "imported", e.readHostFile(filepath.Join(dir, "in", "x", "y")), "imported")
	wantEqual(e, "exported", e.exportPath(sb, "/share/in")["in/x/y"].content, "imported")
	wantEqual(e, "exported with the directories above", e.exportPath(sb, mountTarget)["share/a/b/f"].content, "content")
	if err := atoll.Remove(ctx, sb, "/share/a"); err != nil {
		e.Errorf("Remove: %v", err)
	}
	_, err = atoll.Stat(ctx, sb, "/share/a")
	e.wantError(err, atoll.ErrNotFound, "Stat of a removed directory")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		e.Errorf("on the host there are %v, %v", entries, err)
	}
}

func mountReadOnly(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue checks the refusal
	}
	dir := e.hostDir()
	e.writeHostFile(filepath.Join(dir, "f"), "kept")
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o777); err != nil {
		e.Fatal(err)
	}
	sb := e.createWithMount(dir, func(m *atoll.Mount) { m.ReadOnly = true })
	for _, text := range []string{
		"echo x > /share/new", "echo x > /share/f", "echo x >> /share/f", "rm -f /share/f", "mv /share/f /share/g", "mv /share/f /tmp/g",
		"ln /share/f /share/g", "ln -s f /share/g", "mkdir /share/n", "rmdir /share/d", "chmod 600 /share/f", "touch -t 200001010000 /share/f",
		"cp /share/f /share/g", ": > /share/f", "mv /share/d /share/e",
	} {
		if exit := e.exec(sb, atoll.Cmd{Shell: text}); exit.Code == 0 {
			e.Errorf("%s: succeeded in a read-only mount", text)
		}
	}
	ctx := e.newContext()
	for what, err := range map[string]error{
		"WriteFile": atoll.WriteFile(ctx, sb, "/share/f", []byte("x"), 0o644), "Mkdir": atoll.Mkdir(ctx, sb, "/share/n", 0o755),
		"Remove": atoll.Remove(ctx, sb, "/share/f"), "Import": sb.Import(ctx, mountTarget, e.packArchive(fileEntry("f", "evil"))),
	} {
		if err == nil {
			e.Errorf("%s succeeded in a read-only mount", what)
		}
	}
	wantEqual(e, "the file", e.readHostFile(filepath.Join(dir, "f")), "kept")
	info, err := os.Stat(filepath.Join(dir, "f"))
	if err != nil || info.Mode().Perm() != 0o666 || info.ModTime().Year() == 2000 {
		e.Errorf("the file is now %v, %v", info, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		e.Errorf("on the host there are %v, %v", entries, err)
	}
	wantEqual(e, "reading", e.runShell(sb, "cat /share/f; ls /share"), "keptd\nf\n")
}

// plantCanary creates a file called canary, and one called marker beside it,
// in another directory of the host. check verifies that the directory is
// unchanged.
func (e *env) plantCanary() (file string, check func()) {
	e.Helper()
	outside := e.hostDir()
	file = filepath.Join(outside, "canary")
	e.writeHostFile(file, "secret-of-the-host")
	e.writeHostFile(filepath.Join(outside, "marker"), "")
	return file, func() {
		e.Helper()
		wantEqual(e, "the canary", e.readHostFile(file), "secret-of-the-host")
		info, err := os.Stat(file)
		if err != nil || info.Mode() != 0o666 {
			e.Errorf("the canary is now %v, %v", info, err)
		}
		entries, err := os.ReadDir(outside)
		if err != nil || len(entries) != 2 {
			e.Errorf("outside there are %v, %v", entries, err)
		}
	}
}

// plantLinks creates links in dir that lead out of it to a file of the host,
// and returns the names that lead to the file and to its directory.
func (e *env) plantLinks(dir, target string) (files, dirs []string) {
	e.Helper()
	up, err := filepath.Rel(dir, filepath.Dir(target))
	if err != nil {
		e.Fatal(err)
	}
	base := filepath.Base(target)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		e.Fatal(err)
	}
	for _, l := range [][2]string{
		{"abs", target},
		{"rel", filepath.Join(up, base)},
		{"sub/rel", filepath.Join("..", up, base)},
		{"chain", "absdir/" + base},
		{"proc", "/proc/self/root" + target},
		{"absdir", filepath.Dir(target)},
		{"reldir", up},
		{"procdir", "/proc/self/root" + filepath.Dir(target)},
	} {
		if err := os.Symlink(l[1], filepath.Join(dir, l[0])); err != nil {
			e.Fatal(err)
		}
		if strings.HasSuffix(l[0], "dir") {
			dirs = append(dirs, mountTarget+"/"+l[0])
			files = append(files, mountTarget+"/"+l[0]+"/"+base)
		} else {
			files = append(files, mountTarget+"/"+l[0])
		}
	}
	return append(files, mountTarget+"/"+up+"/"+base), append(dirs, mountTarget+"/"+up)
}

func mountStaysInside(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue checks the refusal
	}
	dir := e.hostDir()
	target, check := e.plantCanary()
	sb := e.createWithMount(dir, nil)
	files, dirs := e.plantLinks(dir, target)
	ctx := e.newContext()
	quiet := func(err error) { _ = err } // refused or kept inside: both are correct
	for _, name := range files {
		text := `cat "$1"; head -c 100 "$1"; grep -r secret "$1"; cp "$1" /tmp/c; cat /tmp/c; tar cf - -h "$1"; od -c "$1"; ln "$1" /share/hard; cat /share/hard
echo evil > "$1"; echo evil >> "$1"; chmod 777 "$1"; touch "$1"; truncate -s 1 "$1"; mv /tmp/c "$1"; rm -f "$1"/x`
		exit := e.exec(sb, atoll.Cmd{Args: []string{"sh", "-c", text, "sh", name}})
		if bytes.Contains(exit.Stdout, []byte("secret-of")) {
			e.Errorf("a command reads %s: %q", name, exit.Stdout)
		}
		b, _ := atoll.ReadFile(ctx, sb, name) // only the content counts
		if bytes.Contains(b, []byte("secret-of")) {
			e.Errorf("ReadFile reads %s", name)
		}
		quiet(atoll.WriteFile(ctx, sb, name+"/x", []byte("evil"), 0o644))
		check()
	}
	for _, name := range dirs {
		exit := e.exec(sb, atoll.Cmd{Args: []string{"sh", "-c", `ls -la "$1/"; find -L "$1"; cd "$1" && ls; echo evil > "$1/new"; mkdir "$1/newdir"; rm -rf "$1/"*`, "sh", name}})
		if bytes.Contains(exit.Stdout, []byte("marker")) {
			e.Errorf("a command lists %s: %q", name, exit.Stdout)
		}
		list, _ := atoll.ReadDir(ctx, sb, name) // only the content counts
		for _, info := range list {
			if info.Name() == "marker" {
				e.Errorf("ReadDir lists %s", name)
			}
		}
		quiet(sb.Import(ctx, name, e.packArchive(fileEntry("canary", "evil"), fileEntry("more", "evil"))))
		quiet(atoll.WriteFile(ctx, sb, name+"/more", []byte("evil"), 0o644))
		quiet(atoll.Mkdir(ctx, sb, name+"/more", 0o777))
		quiet(atoll.Remove(ctx, sb, name+"/canary"))
		check()
	}
	for _, name := range append(append(files, dirs...), mountTarget) {
		rc, err := sb.Export(ctx, name)
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(rc) // the content before an error counts
		_ = rc.Close()
		if bytes.Contains(b, []byte("secret-of")) {
			e.Errorf("Export of %s gives the canary", name)
		}
	}
	quiet(sb.Import(ctx, mountTarget, e.packArchive(
		entry{Header: tar.Header{Name: "planted", Typeflag: tar.TypeSymlink, Linkname: filepath.Dir(target)}}, fileEntry("planted/canary", "evil"))))
	quiet(atoll.Remove(ctx, sb, mountTarget+"/absdir"))
	check()
}

func mountRaceStaysInside(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue checks the refusal
	}
	dir := e.hostDir()
	target, check := e.plantCanary()
	outside := filepath.Dir(target)
	sb := e.createWithMount(dir, nil)
	e.runShell(sb, "mkdir /share/d; echo inside > /share/d/canary; mkdir /tmp/d")
	if err := os.Symlink(outside, filepath.Join(dir, "l")); err != nil {
		e.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		move := func(from, to string) { _ = os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)) } // either may be missing
		for {
			select {
			case <-stop:
				return
			default:
			}
			move("d", "away")
			move("l", "d")
			move("d", "l")
			move("away", "d")
		}
	})
	const most = 4 * time.Second // of each part: enough for all rounds, unless the processor is emulated
	exit, err := sb.Exec(e.newContext(), atoll.Cmd{Timeout: most, Shell: `i=0; while [ $i -lt 200 ]; do i=$((i+1))
cat /share/d/canary; echo x > /share/d/n$i; mkdir /share/d/m$i; chmod 600 /share/d/canary; rm -rf /share/d/m$i; done 2>/dev/null; true`})
	if err != nil && !errors.Is(err, atoll.ErrTimeout) {
		e.Error(err)
	}
	if bytes.Contains(exit.Stdout, []byte("secret-of")) {
		e.Error("a command has read the canary")
	}
	rounds, cancel := context.WithTimeout(e.newContext(), most)
	defer cancel()
	for n := 0; n < 100 && rounds.Err() == nil; n++ {
		b, _ := atoll.ReadFile(e.newContext(), sb, "/share/d/canary") // only the content counts
		if bytes.Contains(b, []byte("secret-of")) {
			e.Error("ReadFile has read the canary")
		}
		_ = atoll.WriteFile(e.newContext(), sb, "/share/d/new", []byte("evil"), 0o644) // refused or inside: both are right
		_ = sb.Import(e.newContext(), "/share/d", e.packArchive(fileEntry("canary", "evil"), fileEntry("new", "evil")))
	}
	close(stop)
	wg.Wait()
	check()
}

func mountMissingIsNamed(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue checks the refusal
	}
	missing := filepath.Join(e.hostDir(), "missing")
	spec := e.newSpec()
	spec.Mounts = []atoll.Mount{{Source: missing, Target: mountTarget}}
	sb, err := e.driver.Create(e.newContext(), spec)
	if err == nil {
		_ = sb.Destroy(e.newContext()) // the failure is reported below
	}
	e.wantError(err, atoll.ErrNotFound, "Create with a source that is not there")
	if text := fmt.Sprint(err); !strings.Contains(text, missing) {
		e.Errorf("the error %q does not name %q", err, missing)
	}
	plain := filepath.Join(e.hostDir(), "file")
	e.writeHostFile(plain, "")
	spec.Mounts[0].Source = plain
	sb, err = e.driver.Create(e.newContext(), spec)
	if err == nil {
		_ = sb.Destroy(e.newContext()) // the failure is reported below
		e.Error("Create with a file as a source succeeded")
	}
}

// mountLimitIsQuota checks the limit of a mount, if the driver supports it.
func mountLimitIsQuota(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue checks the refusal
	}
	dir := e.hostDir()
	spec := e.newSpec()
	spec.Mounts = []atoll.Mount{{Source: dir, Target: mountTarget, Limit: 1 << 20}}
	if e.lacks {
		e.mustRefuse(spec, "a limit of a mount")
		return
	}
	sb := e.create(spec)
	e.runShell(sb, "head -c 900000 /dev/zero > /share/a")
	if exit := e.exec(sb, atoll.Cmd{Shell: "head -c 900000 /dev/zero > /share/b"}); exit.Code == 0 {
		e.Error("a command has passed the limit")
	}
	e.wantError(atoll.WriteFile(e.newContext(), sb, "/share/c", make([]byte, 900_000), 0o644), atoll.ErrQuota, "WriteFile past the limit")
	e.runShell(sb, "rm -f /share/*; head -c 900000 /dev/zero > /share/d")
}

func mountOutlivesTheSandbox(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue checks the refusal
	}
	dir := e.hostDir()
	sb := e.createWithMount(dir, nil)
	e.runShell(sb, "echo kept > /share/f")
	if e.features.Snapshot {
		if _, err := atoll.Snapshot(e.newContext(), sb, "point"); err != nil {
			e.Fatalf("Snapshot: %v", err)
		}
		e.runShell(sb, "echo newer > /share/f")
		if err := atoll.Restore(e.newContext(), sb, "point"); err != nil {
			e.Fatalf("Restore: %v", err)
		}
		wantEqual(e, "after Restore", e.runShell(sb, "cat /share/f"), "newer\n")
	}
	if e.features.Fork {
		other := e.newSpec()
		other.Mounts = []atoll.Mount{{Source: e.hostDir(), Target: mountTarget}}
		fork, err := atoll.Fork(e.newContext(), sb, "", other)
		if err == nil {
			_ = fork.Destroy(e.newContext()) // the failure is reported below
		}
		e.wantError(err, atoll.ErrInvalid, "Fork with another mount")
		if fork, err = atoll.Fork(e.newContext(), sb, "", e.newSpec()); err != nil {
			e.Fatalf("Fork: %v", err)
		}
		e.runShell(fork, "echo of-the-fork > /share/f")
		if err := fork.Destroy(e.newContext()); err != nil {
			e.Errorf("Destroy of the fork: %v", err)
		}
		wantEqual(e, "after the fork", e.runShell(sb, "cat /share/f"), "of-the-fork\n")
	}
	before := e.readHostFile(filepath.Join(dir, "f"))
	if err := sb.Destroy(e.newContext()); err != nil {
		e.Fatalf("Destroy: %v", err)
	}
	wantEqual(e, "after Destroy", e.readHostFile(filepath.Join(dir, "f")), before)
	info, err := os.Stat(dir)
	if err != nil || info.Mode() != fs.ModeDir|0o777 {
		e.Errorf("the directory is now %v, %v", info, err)
	}
}
