package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// These tests check that nothing is lost when processes are killed at any time, on a
// full disk, and when the connection breaks.

// killRounds returns how often each command is killed: $ATOLL_PROJECT_KILLS if it is
// set.
func killRounds(t *testing.T) int {
	t.Helper()
	return testenv.Rounds(t, 2, 2, "ATOLL_PROJECT_KILLS")
}

// killTarget is the process that is killed during a command.
type killTarget int

const (
	command killTarget = iota // atoll; programs that it started continue or exit by themselves
	group                     // atoll and the programs that it started
	server                    // the background server: the command loses its connection
	guest                     // the first process of the sandbox, and so all its processes
	victims
)

func (v killTarget) String() string {
	return [...]string{"the command", "the command and its gits", "the server", "the sandbox"}[v]
}

// runAndKill starts a command and kills a process after a while. It returns how long
// the command ran, and its output.
func (w *fixture) runAndKill(v killTarget, after time.Duration, dir string, args ...string) (time.Duration, string) {
	w.t.Helper()
	out, err := os.Create(w.joinPath("said"))
	w.must(err)
	defer out.Close()
	cmd := exec.Command(w.bin, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.joinPath(dir), w.env, out, out // files: Wait does not wait for children that have them open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	w.must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pid := map[killTarget]int{command: cmd.Process.Pid, group: -cmd.Process.Pid}
	select {
	case <-ended:
		return time.Since(began), w.readFile("said")
	case <-time.After(after):
	}
	switch v {
	case server:
		pid[v] = w.serverPID()
	case guest:
		pid[v] = w.guestPID(w.serverPID())
	}
	if pid[v] != 0 {
		if err := syscall.Kill(pid[v], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			w.t.Fatal(err)
		}
	}
	select {
	case <-ended:
	case <-time.After(commandTimeout):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // so that it does not outlive the test
		w.t.Fatalf("%q does not end without %v:\n%s", args, v, w.readFile("said"))
	}
	w.waitFor("what it has started has ended", func() bool {
		return errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH)
	})
	return time.Since(began), w.readFile("said")
}

// serverPID returns the process ID of the background server, or 0 if there is none.
func (w *fixture) serverPID() int {
	var s struct {
		PID int `json:"pid"`
	}
	b, err := os.ReadFile(filepath.Join(w.dir, "h", "server.json"))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return 0
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.PID)); err != nil || exe != w.bin {
		return 0 // the file is of a server that was killed
	}
	return s.PID
}

// guestPID returns the process ID of the first process of a sandbox, which is a
// grandchild of the server, or 0 if there is none.
func (w *fixture) guestPID(server int) int {
	w.t.Helper()
	if server == 0 {
		return 0
	}
	for _, id := range childPIDs(server) {
		for _, id := range childPIDs(id) {
			if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id)); err == nil && string(args) == "atoll-guest\x00init\x00" {
				return id
			}
		}
	}
	return 0
}

// childPIDs returns the children of all threads of a process.
func childPIDs(pid int) []int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		panic(err) // an invalid pattern
	}
	var list []int
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has exited
		}
		for text := range strings.FieldsSeq(string(b)) {
			if id, err := strconv.Atoi(text); err == nil {
				list = append(list, id)
			}
		}
	}
	return list
}

// ensureRunning runs up until the sandbox of a repository runs. Its status may still be
// running shortly after it was killed.
func (w *fixture) ensureRunning(dir, name string) {
	w.t.Helper()
	args := append([]string{w.bin, "up", "--no-attach", "--name", name}, w.up...)
	w.waitFor("the sandbox runs", func() bool {
		if r := w.runProgram(dir, args...); r.code != 0 && r.code != 3 {
			w.t.Fatalf("up: %d\n%s", r.code, r.stderr)
		}
		return w.runProgram("/", w.bin, "exec", name, "--", "true").code == 0
	})
}

// stateScript prints the complete state of a sandbox's repository.
const stateScript = `export LC_ALL=C; git for-each-ref; git symbolic-ref HEAD; git stash list --format=%H; git ls-files --stage
find . -name .git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum`

// makeWork creates work of all kinds in a sandbox. It returns the objects that must be
// on the host after the sandbox is removed: commits of branches and stashes, and the
// trees of uncommitted work.
func (w *fixture) makeWork(name string, n int) []string {
	w.t.Helper()
	return strings.Fields(w.runInSandbox(name, "/workspace", fmt.Sprintf(`n=%d
		test -d /workspace/.worktrees/side || git worktree add -q -b side .worktrees/side
		echo parked $n >parked.txt; git stash push -q -u -- parked.txt
		for i in 1 2 3 4 5 6 7 8; do echo $n >made$i.txt; done; git add made*.txt; git commit -qm "work $n" -- made*.txt
		echo staged $n >staged.txt; git add staged.txt; echo more >>staged.txt; echo loose $n >loose.txt
		cd .worktrees/side; echo side $n >side.txt; git add side.txt; git commit -qm "side $n"; echo half $n >half.txt
		for dir in /workspace /workspace/.worktrees/side; do
			cd $dir; git rev-parse HEAD; cp "$(git rev-parse --git-path index)" /tmp/index
			GIT_INDEX_FILE=/tmp/index git add -A; GIT_INDEX_FILE=/tmp/index git write-tree
		done
		git rev-parse stash@{0}`, n)))
}

// checkObjectsOnHost checks that a ref of the host's repository reaches each of the
// objects.
func (w *fixture) checkObjectsOnHost(what, dir string, objects []string) {
	w.t.Helper()
	all := strings.Fields(w.runGit(dir, "for-each-ref", "--format=%(objectname) %(tree)"))
	var reached []string
	for _, o := range objects {
		if slices.Contains(all, o) {
			continue
		}
		if reached == nil {
			reached = strings.Fields(w.runGit(dir, "log", "--all", "--format=%H %T"))
		}
		if !slices.Contains(reached, o) {
			w.t.Errorf("%s: %s is not on the host:\n%s", what, o, w.runGit(dir, "for-each-ref"))
		}
	}
	if r := w.runProgram(dir, "git", "fsck", "--strict", "--no-dangling", "--no-progress"); r.code != 0 {
		w.t.Errorf("%s: fsck: %s%s", what, r.stdout, r.stderr)
	}
}

// killTest runs all commands on a project and kills each at random times.
type killTest struct {
	*fixture
	random    *rand.Rand
	durations map[string]time.Duration // of commands that were not killed
}

// killCommand runs a command and kills it, or another process, at a random time.
func (f *killTest) killCommand(v killTarget, args ...string) string {
	f.t.Helper()
	after := time.Duration(f.random.Int64N(int64(f.durations[args[0]])))
	ran, said := f.runAndKill(v, after, "r", args...)
	f.t.Logf("%s, %v killed after %v, ended after %v: %s", args[0], v, after, ran, said)
	return fmt.Sprintf("%s, %v killed after %v", args[0], v, after)
}

// TestKillCommandsAndServer kills atoll, its git processes, its server and the sandbox
// at random times during up, sync, down and rm. The next command must succeed, and no
// commit and no byte of either side may be lost.
func TestKillCommandsAndServer(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := &killTest{newNamespaceFixture(t), rand.New(rand.NewPCG(seed, 1)), map[string]time.Duration{}}
	f.createRepository("r")
	f.makeUncommittedWork("r")
	for n := -1; n < killRounds(t) && !t.Failed(); n++ {
		f.runRound(n)
	}
}

func (f *killTest) runRound(n int) {
	up := append([]string{"up", "--no-attach", "--name", "r"}, f.up...)
	v := func(k int) killTarget { return killTarget((n + k + int(victims)) % int(victims)) }
	run := func(k int, args ...string) string {
		if n >= 0 {
			return f.killCommand(v(k), args...)
		}
		d, said := f.runAndKill(command, time.Hour, "r", args...) // not killed: measures the duration
		f.durations[args[0]] = d
		return args[0] + " that nobody kills: " + said
	}
	host := f.repositoryState("r")
	what := run(0, up...)
	f.checkUnchanged(what, "r", host)
	f.ensureRunning("r", "r")
	f.checkUnchanged("up after "+what, "r", host)
	f.checkImported("r", "r")

	objects := f.makeWork("r", n)
	inside := f.runInSandbox("r", "/workspace", stateScript)
	mine := f.hostChanges()
	what = run(1, "sync")
	f.syncAgain(v(1), what)
	checkEqual(f.t, "inside after "+what, f.runInSandbox("r", "/workspace", stateScript), inside)
	checkEqual(f.t, "the host's own work after "+what, f.hostChanges(), mine)
	checkEqual(f.t, "main after "+what, f.runGit("r", "rev-parse", "main"), objects[0])
	f.checkObjectsOnHost("sync after "+what, "r", objects[:4]) // without the stash

	objects = append(objects, f.makeWork("r", n+1000)...)
	inside = f.runInSandbox("r", "/workspace", stateScript)
	what = run(2, "down")
	f.ensureRunning("r", "r")
	checkEqual(f.t, "inside after "+what, f.runInSandbox("r", "/workspace", stateScript), inside)
	if r := f.runNext(v(2), what, "down"); r.code != 0 {
		f.t.Fatalf("down after %s: %d %s", what, r.code, r.stderr)
	}
	f.checkObjectsOnHost("down after "+what, "r", objects)

	f.ensureRunning("r", "r")
	objects = append(objects, f.makeWork("r", n+2000)...)
	what = run(3, "rm", "r")
	if r := f.runNext(v(3), what, "rm", "--force", "r"); r.code != 0 {
		f.t.Fatalf("rm after %s: %d %s", what, r.code, r.stderr)
	}
	f.checkObjectsOnHost("rm after "+what, "r", objects)
	checkEqual(f.t, "sandboxes after "+what, f.runAtoll(0, "/", "ls", "--json").stdout, "[]")
}

// runNext runs a command after a process was killed. If that ended the sandbox, the
// command may fail because it does not run; then runNext starts the sandbox and tries
// again.
func (f *killTest) runNext(v killTarget, what string, args ...string) result {
	f.t.Helper()
	for {
		r := f.runProgram("r", append([]string{f.bin}, args...)...)
		if r.code != 125 || v == command || v == group {
			return r
		}
		f.t.Logf("%s after %s: %s", args[0], what, r.stderr)
		f.ensureRunning("r", "r")
	}
}

// syncAgain runs sync after a sync that was killed.
func (f *killTest) syncAgain(v killTarget, what string) {
	f.t.Helper()
	r := f.runNext(v, what, "sync")
	if r.code == 3 { // git was writing a file, which is incomplete; sync reports it
		f.t.Logf("sync after %s: %s", what, r.stderr)
		f.must(exec.Command("sh", "-c", `cd "$0" && rm -f made*.txt && git ls-files -z "made*" | xargs -0r git checkout -q HEAD --`, f.joinPath("r")).Run())
		r = f.runProgram("r", f.bin, "sync")
	}
	if r.code != 0 {
		f.t.Fatalf("sync after %s: %d\n%s%s", what, r.code, r.stdout, r.stderr)
	}
}

// hostChanges returns the uncommitted work on the host.
func (f *killTest) hostChanges() string {
	f.t.Helper()
	return f.runGit("r", "diff", "--", ":!made*") + f.runGit("r", "diff", "--cached", "--", ":!made*") + f.runGit("r", "stash", "list", "--format=%H") + f.readFile("r/untracked/deep.txt") + f.readFile("r/.env")
}

// enterMountNamespace runs the test again in a new mount namespace, so that it can
// mount small file systems. It returns true in that process, and false in the one that
// started it.
func enterMountNamespace(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "a small file system needs root to be mounted")
	}
	if os.Getenv("ATOLL_PROJECT_ALONE") == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "ATOLL_PROJECT_ALONE="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // it also makes all mounts private
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS") {
		t.Skipf("%s", out)
	}
	return false
}

// mountSmallDisk mounts a file system of size bytes on a directory of the fixture.
func (w *fixture) mountSmallDisk(dir string, size int) {
	w.t.Helper()
	w.must(os.MkdirAll(w.joinPath(dir), 0o700))
	w.must(syscall.Mount("tmpfs", w.joinPath(dir), "tmpfs", 0, fmt.Sprintf("size=%d", size)))
	w.t.Cleanup(func() {
		w.stopServer() // it may have a file there open
		_ = syscall.Unmount(w.joinPath(dir), syscall.MNT_DETACH)
	})
}

// fillDisk creates a file that leaves only some bytes free on its file system.
func (w *fixture) fillDisk(file string, left int64) {
	w.t.Helper()
	var fs syscall.Statfs_t
	w.must(syscall.Statfs(filepath.Dir(w.joinPath(file)), &fs))
	err := os.WriteFile(w.joinPath(file), make([]byte, max(0, int64(fs.Bavail)*fs.Bsize-left)), 0o600)
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // other processes also write there
		w.t.Fatal(err)
	}
}

// TestRepositoryOnFullDisk syncs to a disk with too little space: none, or enough for
// the objects but not for the files. The error must give the reason, nothing of either
// side may be lost, and sync must succeed when there is space.
func TestRepositoryOnFullDisk(t *testing.T) {
	if !enterMountNamespace(t) {
		return
	}
	w := newNamespaceFixture(t)
	w.mountSmallDisk("disk", 16<<20)
	w.createRepository("disk/r")
	w.writeFile("disk/r/big", strings.Repeat("old\n", 1<<18))
	w.commitAll("disk/r", "big")
	w.writeFile("disk/r/b.txt", "mine, and not committed\n")
	w.writeFile("disk/r/untracked", "mine, and of nobody else\n")
	w.upSandbox("disk/r", "r")
	w.runInSandbox("r", "/workspace", "git checkout -q b.txt; head -c 3000000 /dev/urandom >big; for i in 1 2 3 4 5; do head -c 200000 /dev/urandom >new$i; done; git add big new?; git commit -qm big; echo dirty >>a.txt; rm untracked")
	inside := w.runInSandbox("r", "/workspace", stateScript)
	before := w.repositoryState("disk/r")
	for _, left := range []int64{0, 1 << 20, 5 << 20} {
		w.fillDisk("disk/fill", left)
		w.checkDiskFullError(fmt.Sprint("a sync with bytes left: ", left), w.runAtoll(3, "disk/r", "sync"))
		if left == 0 {
			w.checkDiskFullError("rm without free space", w.runAtoll(3, "disk/r", "rm", "r"))
		}
		w.must(os.Remove(w.joinPath("disk/fill")))
		w.checkUnchanged(fmt.Sprint("a sync with bytes left: ", left), "disk/r", before)
		checkEqual(t, "inside", w.runInSandbox("r", "/workspace", stateScript), inside)
	}
	w.runAtoll(0, "disk/r", "sync")
	checkEqual(t, "what came with room", w.runGit("disk/r", "hash-object", "big", "new1", "new5"), w.runInSandbox("r", "/workspace", "git hash-object big new1 new5"))
	checkEqual(t, "what is the host's own", w.readFile("disk/r/b.txt")+w.readFile("disk/r/untracked"), "mine, and not committed\nmine, and of nobody else\n")
	w.runAtoll(0, "disk/r", "rm", "r")
	checkEqual(t, "what was not committed", w.runGit("disk/r", "show", "refs/sandbox/r/wip/main:a.txt"), w.readFile("disk/r/a.txt")+"dirty")
}

// TestAttributesFillNoDisk: a sandbox whose .gitattributes make files many times larger than they are stored does not fill the host's
// disk, neither by a sync nor in a mirror.
func TestAttributesFillNoDisk(t *testing.T) {
	if !enterMountNamespace(t) {
		return
	}
	w := newNamespaceFixture(t)
	w.mountSmallDisk("disk", 16<<20)
	w.createRepository("disk/r")
	w.upSandbox("disk/r", "r")
	w.runInSandbox("r", "/workspace", `mkdir sub; yes '$Id$' | head -c 400000 >sub/a.id; git add .; git commit -qm file; echo '*.id ident working-tree-encoding=UTF-32' >sub/.gitattributes; git add sub/.gitattributes; git commit -qm grow; rm sub/a.id; git checkout -q -- sub/a.id`)
	before := w.repositoryState("disk/r")
	for code, args := range map[int][]string{3: {"sync"}, 125: {"sync", "--to", w.joinPath("disk/shown")}} {
		r := w.runAtoll(code, "disk/r", args...)
		if w.checkDiskFullError(strings.Join(args, " "), r); !strings.Contains(r.stderr, "working-tree-encoding") {
			t.Errorf("%q does not name the attributes: %s", args, r.stderr)
		}
		w.checkUnchanged(strings.Join(args, " "), "disk/r", before)
		if _, err := os.Lstat(w.joinPath("disk/shown")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q left a mirror: %v", args, err)
		}
	}
	w.runInSandbox("r", "/workspace", `git show HEAD:sub/a.id | head -c 2000 >b.txt; git rm -qr sub; git add b.txt; git commit -qm small`)
	w.runAtoll(0, "disk/r", "sync")
	checkEqual(t, "a file without attributes", w.readFile("disk/r/b.txt"), strings.Repeat("$Id$\n", 400))
}

// checkDiskFullError checks that a command failed because the disk is full.
func (w *fixture) checkDiskFullError(what string, r result) {
	w.t.Helper()
	if !strings.Contains(r.stderr, "no space on the host") && !strings.Contains(r.stderr, "no space left") && !strings.Contains(r.stderr, "No space left") {
		w.t.Errorf("%s does not print the reason: %s", what, r.stderr)
	}
}

// TestStateDirOnFullDisk leaves no space for atoll's own files and for the sandbox,
// whose files are on the same disk.
func TestStateDirOnFullDisk(t *testing.T) {
	if !enterMountNamespace(t) {
		return
	}
	w := newNamespaceFixture(t)
	w.stopServer()
	w.mountSmallDisk("h", 32<<20)
	w.createRepository("r")
	w.makeUncommittedWork("r")
	w.upSandbox("r", "r")
	objects := w.makeWork("r", 1)
	inside := w.runInSandbox("r", "/workspace", stateScript)
	before := w.repositoryState("r")
	for range 2 { // with a running server, and with one that has to start, which the reserve makes possible
		w.fillDisk("h/fill", 0)
		w.checkDiskFullError("sync without space", w.runAtoll(125, "r", "sync"))
		w.checkDiskFullError("rm without space", w.runAtoll(3, "r", "rm", "r"))
		w.must(os.Remove(w.joinPath("h/fill")))
		w.checkUnchanged("a sync without room", "r", before)
		w.ensureRunning("r", "r")
		checkEqual(t, "inside", w.runInSandbox("r", "/workspace", stateScript), inside)
		w.stopServer()
	}
	w.runAtoll(0, "r", "sync")
	w.runAtoll(0, "r", "rm", "r")
	w.checkObjectsOnHost("with room", "r", objects)
}

// TestIdlePolicySyncsFirst checks that a server that ends an idle sandbox of a project
// syncs its work first.
func TestIdlePolicySyncsFirst(t *testing.T) {
	w := newNamespaceFixture(t)
	w.createRepository("r")
	w.writeFile("r/.atoll.yaml", "prepare: ['echo made >made.txt; git add made.txt; git commit -qm made; echo loose >loose.txt; git rev-parse HEAD >/tmp/made; cat /tmp/made']\n")
	w.commitAll("r", "with a file for atoll")
	before := w.repositoryState("r")
	w.env = append(w.env, "ATOLL_DEFAULTS_LIFECYCLE_POLICY=session", "ATOLL_DEFAULTS_LIFECYCLE_IDLE=1s") // the sandbox does not end while 'up' uses it
	w.upSandbox("r", "r")
	w.stopServer()
	w.createRepository("other")
	w.upSandbox("other", "other") // starts a new server, which checks deadlines at once
	w.waitFor("the server has ended it", func() bool {
		return w.runProgram("/", w.bin, "inspect", "r").code != 0
	})
	w.checkUnchanged("the end of a sandbox", "r", before)
	rescued := w.runGit("r", "for-each-ref", "--format=%(refname)", "refs/sandbox/r/rescue/")
	var made, loose string
	for ref := range strings.FieldsSeq(rescued) {
		switch {
		case strings.HasSuffix(ref, "/wip/main"):
			loose = w.runGit("r", "show", ref+":loose.txt")
		case strings.HasSuffix(ref, "/main"):
			made = w.runGit("r", "show", ref+":made.txt")
		}
	}
	checkEqual(t, "what was saved", made+" "+loose, "made loose")
}
