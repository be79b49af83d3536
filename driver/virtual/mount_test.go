package virtual_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/vfs"
)

func needMounts(t *testing.T) {
	t.Helper()
	if !vfs.HostMounts() {
		skipLacking(t, "needs a host whose directories can be mounted")
	}
}

// skipLacking skips a test of mounts and watches that lacks something; it fails if ATOLL_MUST has mounts.
func skipLacking(t *testing.T, format string, args ...any) {
	t.Helper()
	testenv.Skip(t, "mounts", format, args...)
}

// newMountedSandbox creates a sandbox with a directory of the host.
func newMountedSandbox(t *testing.T, d *virtual.Driver, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	sb, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return sb
}

// mountSpecOf is a directory of the host that a spec mounts at compatDir.
func mountSpecOf(dir string) atoll.Spec {
	return atoll.Spec{Dir: compatDir, Mounts: []atoll.Mount{{Source: dir, Target: compatDir}}}
}

// runMounted is runVirtual in a directory of the host.
func runMounted(t *testing.T, script string) scriptOutcome {
	ctx, cancel := context.WithTimeout(context.Background(), 2*compatTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(t.TempDir(), "m")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return scriptOutcome{stderr: err.Error(), code: -1}
	}
	spec := mountSpecOf(dir)
	spec.Env = append([]string{"HOME=" + compatDir}, compatEnv...)
	sb, err := virtual.New().Create(ctx, spec)
	if err != nil {
		return scriptOutcome{stderr: err.Error(), code: -1}
	}
	defer sb.Destroy(ctx)
	exit, err := sb.Exec(ctx, atoll.Cmd{Args: []string{"bash", "-c", script}, Timeout: compatTimeout})
	o := scriptOutcome{stdout: string(exit.Stdout), stderr: string(exit.Stderr), code: exit.Code}
	if err != nil {
		o.code = -1
		o.stderr += err.Error()
	}
	o.files = readDir(dir, func(s string) string { return s })
	return o
}

// mountDiffers are the scripts that create what a mount refuses: pipes, other owners, set-uid and set-gid bits.
var mountDiffers = regexp.MustCompile(`mkfifo|mknod|chown|chgrp|chmod [2-7][0-7]{3}|[ug]\+s`)

// TestCompatOnAMount runs each script of the bash table in a directory of the host: the result must be the same as
// in the sandbox's own files, and as in bash.
func TestCompatOnAMount(t *testing.T) {
	needMounts(t)
	cases := compatCases(t)
	known := compatKnown(t)
	want := compatWants(t, cases, false)
	indexes := make([]int, len(cases))
	for i := range indexes {
		indexes[i] = i
	}
	indexes = testenv.Sample(t, indexes, testenv.Rounds(t, len(cases), 500, ""), "ATOLL_BOMBS") // the logic tier runs all
	runForEach(len(indexes), func(n int) {
		i := indexes[n]
		c := cases[i]
		if _, listed := known[c.name]; listed || mountDiffers.MatchString(c.script) {
			return
		}
		if os.Getuid() != 0 && strings.Contains(c.script, "--reference=f d") {
			return // only root passes the directory that it takes its own right from
		}
		if diff := want[i].diff(runMounted(t, c.script)); diff != "" {
			t.Errorf("%s differs on a mount:\n%s%s", c.name, indent(c.script), diff)
		}
	})
}

// TestMountAgreesWithBash runs scripts that cross the boundary of a mount, here
// and with real bash between two file systems of the host.
func TestMountAgreesWithBash(t *testing.T) {
	testenv.Real(t, "bash")
	needMounts(t)
	if !hasOracle() {
		testenv.Skip(t, "bash", "needs bash 5.2 and the GNU tools")
	}
	other, err := os.MkdirTemp("/dev/shm", "atoll")
	if err != nil {
		skipLacking(t, "needs a second file system at /dev/shm: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(other) })
	for name, script := range map[string]string{
		"cp -a in":           `mkdir -p $A/d/e; echo 1 > $A/d/f; ln -s f $A/d/l; ln $A/d/f $A/d/h; chmod 640 $A/d/f; cp -a $A/d $B/; cd $B/d; ls -l | tail -n +2 | cut -c1-10,12; cat l; test f -ef h && echo same`,
		"cp -a out":          `mkdir -p $B/d/e; echo 1 > $B/d/f; ln -s ../d/f $B/d/l; chmod 750 $B/d/e; touch -d 2001-02-03 $B/d/f; cp -a $B/d $A/; cd $A/d; ls -l --time-style=+%F | tail -n +2 | awk '{print $1, $2, $6, $7, $8, $9}'; cat l`,
		"mv in":              `mkdir -p $A/d; echo 1 > $A/d/f; ln -s f $A/d/l; mv -v $A/d $B/ | sort; ls $A $B/d`,
		"mv out":             `echo 1 > $B/f; chmod 600 $B/f; mv $B/f $A/g; ls -l $A | tail -n +2 | cut -c1-10; ls $B; cat $A/g`,
		"mv over":            `echo 1 > $A/f; echo 2 > $B/f; mv $A/f $B/f; cat $B/f; ls $A`,
		"mv over a dir":      `mkdir -p $A/d $B/d/e; echo 1 > $A/d/f; mv -T $A/d $B/d 2>&1; ls $A $B/d`,
		"mv over empty dir":  `mkdir -p $A/d $B/d; echo 1 > $A/d/f; mv -T $A/d $B/d; echo $?; ls $A $B/d`,
		"mv hard links":      `echo 1 > $A/f; ln $A/f $A/g; mv $A/f $A/g $B/; test $B/f -ef $B/g && echo same; ls $A $B`,
		"mv missing":         `mv $A/x $B/y 2>&1`,
		"ln across":          `echo 1 > $A/f; ln $A/f $B/f 2>&1; ln -s $A/f $B/s; cat $B/s`,
		"link out and back":  `mkdir $B/d; echo 1 > $B/d/f; ln -s $B $A/in; ln -s $A $B/out; cat $B/out/in/d/f; cd $B/out/in/d; pwd -P; cd -P ..; ls`,
		"dot-dot of a link":  `mkdir -p $A/x/y $B/z; ln -s $A/x/y $B/l; echo 1 > $A/x/f; cat $B/l/../f; cd $B/l; cat ../f 2>/dev/null; echo $?; cd -P $B/l; cat ../f`,
		"rm -r":              `mkdir -p $B/d/e; echo 1 > $B/d/f; ln -s $A $B/d/l; echo kept > $A/kept; rm -r $B/d; ls $A $B`,
		"rm through a link":  `mkdir -p $B/d; ln -s d $B/l; touch $B/d/f; rm -r $B/l; ls $B $B/d; rm -r $B/d/; ls $B`,
		"find":               `mkdir -p $B/a/b; touch $B/a/b/c; ln -s $A $B/a/l; touch $A/seen; find $B | sort; find -L $B -type f | sort; find $B -type l -delete; find $B -name b -prune -o -print | sort`,
		"tar":                `mkdir -p $B/t/d; echo 1 > $B/t/d/f; ln -s d/f $B/t/l; ln $B/t/d/f $B/t/h; tar cf $A/t.tar -C $B t; tar tf $A/t.tar | sort; mkdir $B/x; tar xf $A/t.tar -C $B/x; cat $B/x/t/l; test $B/x/t/h -ef $B/x/t/d/f && echo same`,
		"sed -i":             `printf 'a\nb\n' > $B/f; chmod 640 $B/f; ln -s f $B/l; sed -i s/a/x/ $B/f; cat $B/f; stat -c %a $B/f; sed -i --follow-symlinks s/b/y/ $B/l; cat $B/f; test -L $B/l && echo link; ls $B`,
		"append":             `for i in 1 2 3; do echo $i >> $B/f; done; cat $B/f; exec 3>>$B/f; echo 4 >&3; echo 5 >> $B/f; echo 6 >&3; cat $B/f`,
		"open and removed":   `echo 1 > $B/f; exec 3<$B/f 4>$B/g; rm $B/f $B/g; cat <&3; echo x >&4; ls $B`,
		"mktemp":             `f=$(mktemp -p $B x.XXXX); test -f $f && stat -c %a $f; d=$(mktemp -d -p $B); stat -c %a $d; ls $B | wc -l`,
		"truncate and dd":    `truncate -s 5 $B/f; echo abc | dd of=$B/f bs=1 seek=1 conv=notrunc status=none; od -c $B/f; truncate -s 2 $B/f; od -c $B/f; dd if=/dev/zero of=$B/z bs=1000 count=3 seek=2 status=none; stat -c %s $B/z`,
		"noclobber":          `set -C; echo 1 > $B/f; echo 2 > $B/f; echo $?; echo 3 >| $B/f; cat $B/f`,
		"run a script":       `printf '#!/bin/sh\necho ran $0\n' > $B/s; $B/s 2>/dev/null; echo $?; chmod +x $B/s; $B/s; cd $B; ./s; PATH=$B:$PATH; s`,
		"umask":              `umask 027; echo 1 > $B/f; mkdir $B/d; stat -c %a $B/f $B/d; umask 0; echo 1 > $B/g; mkdir $B/e; stat -c %a $B/g $B/e`,
		"globs":              `mkdir -p $B/a/b; touch $B/a/1 $B/a/b/2 $B/.h; cd $B; echo *; echo */*; shopt -s globstar dotglob; echo **`,
		"times":              `touch -d '2001-02-03 04:05:06' $B/f; stat -c %y $B/f; touch -r $B/f $B/g; stat -c %Y $B/g; test $B/f -nt $B/g; echo $?; ln -s f $B/l; touch -h -d 2002-01-01 $B/l; stat -c %y $B/l | cut -c1-10; stat -c %y $B/f | cut -c1-10`,
		"rename a directory": `mkdir -p $B/a/b; touch $B/a/b/c; mv $B/a $B/x; find $B | sort; mv $B/x $B/x/y 2>&1; mkdir $B/e; mv -T $B/x $B/e; find $B | sort`,
		"du and wc":          `head -c 5000 /dev/zero > $B/f; wc -c < $B/f; du -b $B/f | cut -f1; cp $B/f $B/g; cmp $B/f $B/g && echo equal; sort $B/f | wc -c`,
		"xargs and sort -o":  `printf 'c\na\nb\n' > $B/f; sort -o $B/f $B/f; cat $B/f; ls $B/* | xargs -n1 basename; split -l 1 $B/f $B/s.; ls $B; tee $B/t1 $B/t2 < $B/f > /dev/null; cat $B/t1 $B/t2`,
		"the same file":      `echo 1 > $B/f; cp $B/f $B/./f 2>&1; ln $B/f $B/g; mv $B/f $B/g 2>&1; cat $B/f $B/g > $B/f 2>/dev/null; ls $B`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(other, "b")
			if err != nil {
				t.Fatal(err)
			}
			c := exec.CommandContext(t.Context(), "bash", "-c", script)
			first := t.TempDir()
			c.Env = append([]string{"A=" + first, "B=" + dir, "PATH=" + os.Getenv("PATH"), "HOME=/"}, compatEnv...)
			c.Dir = "/"
			host, err := c.Output()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			sb := newMountedSandbox(t, virtual.New(), atoll.Spec{Mounts: []atoll.Mount{{Source: t.TempDir(), Target: "/share"}}})
			own, err := sb.Exec(t.Context(), atoll.Cmd{
				Args: []string{"bash", "-c", "mkdir $A; chmod 755 $B; " + script}, Env: append([]string{"A=/tmp/a", "B=/share", "HOME=/"}, compatEnv...),
			})
			if err != nil {
				t.Fatal(err)
			}
			want := strings.NewReplacer(first, "/tmp/a", dir, "/share").Replace(string(host))
			if d := cmp.Diff(want, string(own.Stdout)); d != "" {
				t.Errorf("%s\n(-bash +atoll):\n%s%s", script, d, own.Stderr)
			}
		})
	}
}

// TestKeptSandboxMountsAgain opens a stored sandbox through another driver: its session is still in the mount.
func TestKeptSandboxMountsAgain(t *testing.T) {
	needMounts(t)
	kept, dir := t.TempDir(), t.TempDir()
	sb, err := (&virtual.Driver{Dir: kept}).Create(t.Context(), mountSpecOf(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atoll.Execute(t.Context(), sb, "mkdir -p /work/d; cd /work/d; echo 1 > f; V=kept"); err != nil {
		t.Fatal(err)
	}
	again, err := (&virtual.Driver{Dir: kept}).Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	r, err := atoll.Execute(t.Context(), again, "pwd; cat f; echo $V; echo 2 > g")
	if err != nil || r.Stdout != "/work/d\n1\nkept\n" {
		t.Errorf("%q, %q, %v", r.Stdout, r.Stderr, err)
	}
	if b, err := atoll.ReadFile(t.Context(), sb, "/work/d/g"); err != nil || string(b) != "2\n" {
		t.Errorf("through the first: %q, %v", b, err)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"Execute": second(atoll.Execute(t.Context(), again, "true")), "ReadFile": second(atoll.ReadFile(t.Context(), again, "/work/d/f")),
		"Exec of the first": second(sb.Exec(t.Context(), atoll.Cmd{Args: []string{"true"}})),
	} {
		if !errors.Is(err, atoll.ErrNotFound) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s without the directory: %v", what, err)
		}
	}
	if _, err := again.Status(t.Context()); err != nil {
		t.Errorf("Status without the directory: %v", err)
	}
	fresh := &virtual.Driver{Dir: kept}
	other, err := fresh.Open(t.Context(), sb.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atoll.Execute(t.Context(), other, "true"); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("Execute in a sandbox that was opened without the directory: %v", err)
	}
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if r, err := atoll.Execute(t.Context(), other, "pwd; cat g"); err != nil || r.Stdout != "/work/d\n2\n" {
		t.Errorf("once it is back: %q, %q, %v", r.Stdout, r.Stderr, err)
	}
	if err := errors.Join(other.Destroy(t.Context()), again.Destroy(t.Context()), sb.Destroy(t.Context())); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "d", "g")); err != nil || string(b) != "2\n" {
		t.Errorf("after Destroy: %q, %v", b, err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestMountsLeaveNothingOpen counts the files that this process has open.
func TestMountsLeaveNothingOpen(t *testing.T) {
	needMounts(t)
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			skipLacking(t, "needs /proc: %v", err)
		}
		return len(list)
	}
	dir := t.TempDir()
	d := virtual.New()
	before := count()
	for range 20 {
		sb, err := d.Create(t.Context(), mountSpecOf(dir))
		if err != nil {
			t.Fatal(err)
		}
		_, err = atoll.Execute(t.Context(), sb, "mkdir -p a/b; echo 1 > a/b/c; exec 5<a/b/c 6>>a/b/d; find . > /dev/null; ln -sf a/b l; cat l/c; tar cf - . | tar tf -; rm -r a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err = atoll.Watch(ctx, sb, "/", func(atoll.FileEvent) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) && !errors.Is(err, atoll.ErrUnsupported) {
			t.Error(err)
		}
		cancel()
		if err := sb.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := count(); after > before+2 {
		t.Errorf("%d files were open, now %d", before, after)
	}
}

// TestMountsAreShown checks that df and /proc/mounts show mounts without their place on the host.
func TestMountsAreShown(t *testing.T) {
	needMounts(t)
	dir := t.TempDir()
	spec := mountSpecOf(dir)
	spec.Mounts[0].Limit = 10 << 20
	spec.Mounts = append(spec.Mounts, atoll.Mount{Source: t.TempDir(), Target: "/mnt/a b", ReadOnly: true})
	sb := newMountedSandbox(t, virtual.New(), spec)
	exit, err := sb.Exec(t.Context(), atoll.Cmd{Shell: `head -c 3000000 /dev/zero > f; df -k --output=target,size,used,avail . | tail -1 | tr -s " "
cd /; df --output=target; df --output=target /tmp '/mnt/a b' | tail -2; cat /proc/mounts; df -k --total --output=source,used / /work | tail -1 | wc -w`})
	if err != nil {
		t.Fatal(err)
	}
	want := `/work 10240 2930 7311
Mounted on
/
/work
/mnt/a b
/
/mnt/a b
atoll / vfs rw 0 0
host /work host rw,nosuid,nodev 0 0
host /mnt/a\040b host ro,nosuid,nodev 0 0
2
`
	if d := cmp.Diff(want, string(exit.Stdout)); d != "" {
		t.Errorf("(-want +got):\n%s%s", d, exit.Stderr)
	}
	exit, err = sb.Exec(t.Context(), atoll.Cmd{Shell: `cd '/mnt/a b'; test -w . || echo no; test -r . && echo yes; find . -writable; test -w /work/f && echo yes; [[ -w /work ]] && echo yes`})
	if err != nil || string(exit.Stdout) != "no\nyes\nyes\nyes\n" {
		t.Errorf("what may be written: %q, %v", exit.Stdout, err)
	}
	if strings.Contains(string(exit.Stdout), dir) {
		t.Error("the sandbox sees where the mount is on the host")
	}
}
