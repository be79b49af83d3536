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

// Nothing is lost: not when what works is killed in any instant, not on a full
// disk, not without a wire.

// rounds is how often each command is killed; ATOLL_PROJECT_KILLS=100 is by hand.
func rounds(t *testing.T) int {
	t.Helper()
	return testenv.Rounds(t, 2, 2, "ATOLL_PROJECT_KILLS")
}

// victim is what is killed in the middle of a command.
type victim int

const (
	command victim = iota // atoll; the programs that it has started end by themselves, or go on
	group                 // and those
	server                // the server in the background: the command loses its wire
	guest                 // the first process of the sandbox, and with it all in there
	victims
)

func (v victim) String() string {
	return [...]string{"the command", "the command and its gits", "the server", "the sandbox"}[v]
}

// killed starts a command, and kills somebody after a while. It returns how long
// the command ran, and what it wrote.
func (w *world) killed(v victim, after time.Duration, dir string, args ...string) (time.Duration, string) {
	w.t.Helper()
	out, err := os.Create(w.path("said"))
	w.must(err)
	defer out.Close()
	cmd := exec.Command(w.bin, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.path(dir), w.env, out, out // files: nobody waits for who has them, too
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	w.must(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	pid := map[victim]int{command: cmd.Process.Pid, group: -cmd.Process.Pid}
	select {
	case <-ended:
		return time.Since(began), w.read("said")
	case <-time.After(after):
	}
	switch v {
	case server:
		pid[v] = w.server()
	case guest:
		pid[v] = w.guest(w.server())
	}
	if pid[v] != 0 {
		if err := syscall.Kill(pid[v], syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			w.t.Fatal(err)
		}
	}
	select {
	case <-ended:
	case <-time.After(patience):
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // or it stays after the test
		w.t.Fatalf("%q does not end without %v:\n%s", args, v, w.read("said"))
	}
	w.until("what it has started has ended", func() bool {
		return errors.Is(syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH)
	})
	return time.Since(began), w.read("said")
}

// server is the process of the server in the background; 0: there is none.
func (w *world) server() int {
	var s struct {
		PID int `json:"pid"`
	}
	b, err := os.ReadFile(filepath.Join(w.dir, "h", "server.json"))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return 0
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.PID)); err != nil || exe != w.bin {
		return 0 // of one that was killed
	}
	return s.PID
}

// guest is the first process of a sandbox that a server has, which is its child's
// child; 0: there is none.
func (w *world) guest(server int) int {
	w.t.Helper()
	if server == 0 {
		return 0
	}
	for _, id := range children(server) {
		for _, id := range children(id) {
			if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id)); err == nil && string(args) == "atoll-guest\x00init\x00" {
				return id
			}
		}
	}
	return 0
}

// children are the processes that a process has started, with any of its threads.
func children(pid int) []int {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		panic(err) // the pattern
	}
	var list []int
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // a thread that has ended
		}
		for text := range strings.FieldsSeq(string(b)) {
			if id, err := strconv.Atoi(text); err == nil {
				list = append(list, id)
			}
		}
	}
	return list
}

// awake makes the sandbox of a repository run, as people do. One whose end nobody
// has noticed yet says that it runs.
func (w *world) awake(dir, name string) {
	w.t.Helper()
	args := append([]string{w.bin, "up", "--no-attach", "--name", name}, w.up...)
	w.until("the sandbox runs", func() bool {
		if r := w.try(dir, args...); r.code != 0 && r.code != 3 {
			w.t.Fatalf("up: %d\n%s", r.code, r.stderr)
		}
		return w.try("/", w.bin, "exec", name, "--", "true").code == 0
	})
}

// held prints what a sandbox's repository has, to the byte.
const held = `export LC_ALL=C; git for-each-ref; git symbolic-ref HEAD; git stash list --format=%H; git ls-files --stage
find . -name .git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum`

// work leaves work of all kinds in a sandbox. It returns the objects that must be
// somewhere on the host when the sandbox is gone: commits of branches and stashes,
// and the trees of what is not committed.
func (w *world) work(name string, n int) []string {
	w.t.Helper()
	return strings.Fields(w.inside(name, "/workspace", fmt.Sprintf(`n=%d
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

// atHome holds the host to objects: each is reached by a ref.
func (w *world) atHome(what, dir string, objects []string) {
	w.t.Helper()
	all := strings.Fields(w.git(dir, "for-each-ref", "--format=%(objectname) %(tree)"))
	var reached []string
	for _, o := range objects {
		if slices.Contains(all, o) {
			continue
		}
		if reached == nil {
			reached = strings.Fields(w.git(dir, "log", "--all", "--format=%H %T"))
		}
		if !slices.Contains(reached, o) {
			w.t.Errorf("%s: %s is not at home:\n%s", what, o, w.git(dir, "for-each-ref"))
		}
	}
	if r := w.try(dir, "git", "fsck", "--strict", "--no-dangling", "--no-progress"); r.code != 0 {
		w.t.Errorf("%s: fsck: %s%s", what, r.stdout, r.stderr)
	}
}

// fates is a project on its way through all commands, each of which is killed at
// random instants.
type fates struct {
	*world
	random *rand.Rand
	whole  map[string]time.Duration // how long a command takes that nobody kills
}

// kill kills a command, or the server, at an instant.
func (f *fates) kill(v victim, args ...string) string {
	f.t.Helper()
	after := time.Duration(f.random.Int64N(int64(f.whole[args[0]])))
	ran, said := f.killed(v, after, "r", args...)
	f.t.Logf("%s, %v killed after %v, ended after %v: %s", args[0], v, after, ran, said)
	return fmt.Sprintf("%s, %v killed after %v", args[0], v, after)
}

// TestKilled kills atoll, its gits and its server at random instants of up, sync,
// down and rm. The next command goes on, and no commit and no byte of either side
// is lost.
func TestKilled(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := &fates{onNamespaces(t), rand.New(rand.NewPCG(seed, 1)), map[string]time.Duration{}}
	f.repo("r")
	f.dirty("r")
	for n := -1; n < rounds(t) && !t.Failed(); n++ {
		f.round(n)
	}
}

func (f *fates) round(n int) {
	up := append([]string{"up", "--no-attach", "--name", "r"}, f.up...)
	v := func(k int) victim { return victim((n + k + int(victims)) % int(victims)) }
	run := func(k int, args ...string) string {
		if n >= 0 {
			return f.kill(v(k), args...)
		}
		d, said := f.killed(command, time.Hour, "r", args...) // this one is measured
		f.whole[args[0]] = d
		return args[0] + " that nobody kills: " + said
	}
	host := f.state("r")
	what := run(0, up...)
	f.unchanged(what, "r", host)
	f.awake("r", "r")
	f.unchanged("up after "+what, "r", host)
	f.carried("r", "r")

	objects := f.work("r", n)
	inside := f.inside("r", "/workspace", held)
	mine := f.mine()
	what = run(1, "sync")
	f.again(v(1), what)
	same(f.t, "inside after "+what, f.inside("r", "/workspace", held), inside)
	same(f.t, "the host's own work after "+what, f.mine(), mine)
	same(f.t, "main after "+what, f.git("r", "rev-parse", "main"), objects[0])
	f.atHome("sync after "+what, "r", objects[:4]) // not the stash

	objects = append(objects, f.work("r", n+1000)...)
	inside = f.inside("r", "/workspace", held)
	what = run(2, "down")
	f.awake("r", "r")
	same(f.t, "inside after "+what, f.inside("r", "/workspace", held), inside)
	if r := f.next(v(2), what, "down"); r.code != 0 {
		f.t.Fatalf("down after %s: %d %s", what, r.code, r.stderr)
	}
	f.atHome("down after "+what, "r", objects)

	f.awake("r", "r")
	objects = append(objects, f.work("r", n+2000)...)
	what = run(3, "rm", "r")
	if r := f.next(v(3), what, "rm", "--force", "r"); r.code != 0 {
		f.t.Fatalf("rm after %s: %d %s", what, r.code, r.stderr)
	}
	f.atHome("rm after "+what, "r", objects)
	same(f.t, "sandboxes after "+what, f.atoll(0, "/", "ls", "--json").stdout, "[]")
}

// next runs a command after something was killed. If that was what its sandbox
// runs on, it may say that it does not run, and then it is started.
func (f *fates) next(v victim, what string, args ...string) ran {
	f.t.Helper()
	for {
		r := f.try("r", append([]string{f.bin}, args...)...)
		if r.code != 125 || v == command || v == group {
			return r
		}
		f.t.Logf("%s after %s: %s", args[0], what, r.stderr)
		f.awake("r", "r")
	}
}

// again syncs after a sync that was killed.
func (f *fates) again(v victim, what string) {
	f.t.Helper()
	r := f.next(v, what, "sync")
	if r.code == 3 { // half of a file is there that git was writing, and it says so
		f.t.Logf("sync after %s: %s", what, r.stderr)
		f.must(exec.Command("sh", "-c", `cd "$0" && rm -f made*.txt && git ls-files -z "made*" | xargs -0r git checkout -q HEAD --`, f.path("r")).Run())
		r = f.try("r", f.bin, "sync")
	}
	if r.code != 0 {
		f.t.Fatalf("sync after %s: %d\n%s%s", what, r.code, r.stdout, r.stderr)
	}
}

// mine is the uncommitted work of the host.
func (f *fates) mine() string {
	f.t.Helper()
	return f.git("r", "diff", "--", ":!made*") + f.git("r", "diff", "--cached", "--", ":!made*") + f.git("r", "stash", "list", "--format=%H") + f.read("r/untracked/deep.txt") + f.read("r/.env")
}

// small mounts a file system with little room, which only this test's own process
// and its children see. It reports false in the process that has started that one.
func small(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "a small file system needs root to be mounted")
	}
	if os.Getenv("ATOLL_PROJECT_ALONE") == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "ATOLL_PROJECT_ALONE="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // which makes all mounts private
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(string(out), "--- PASS") {
		t.Skipf("%s", out)
	}
	return false
}

// mount puts a file system of a few bytes at a directory of the world.
func (w *world) mount(dir string, size int) {
	w.t.Helper()
	w.must(os.MkdirAll(w.path(dir), 0o700))
	w.must(syscall.Mount("tmpfs", w.path(dir), "tmpfs", 0, fmt.Sprintf("size=%d", size)))
	w.t.Cleanup(func() {
		w.endServer() // whose file may be there
		_ = syscall.Unmount(w.path(dir), syscall.MNT_DETACH)
	})
}

// fill leaves so many bytes on the file system of a file, which it makes.
func (w *world) fill(file string, left int64) {
	w.t.Helper()
	var fs syscall.Statfs_t
	w.must(syscall.Statfs(filepath.Dir(w.path(file)), &fs))
	err := os.WriteFile(w.path(file), make([]byte, max(0, int64(fs.Bavail)*fs.Bsize-left)), 0o600)
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // others write there, too: it is full
		w.t.Fatal(err)
	}
}

// TestRepositoryOnAFullDisk leaves less and less room for what comes home: none,
// enough for the objects but not for the files. The error says why, nothing of
// either side is lost, and with room it comes.
func TestRepositoryOnAFullDisk(t *testing.T) {
	if !small(t) {
		return
	}
	w := onNamespaces(t)
	w.mount("disk", 16<<20)
	w.repo("disk/r")
	w.write("disk/r/big", strings.Repeat("old\n", 1<<18))
	w.commit("disk/r", "big")
	w.write("disk/r/b.txt", "mine, and not committed\n")
	w.write("disk/r/untracked", "mine, and of nobody else\n")
	w.start("disk/r", "r")
	w.inside("r", "/workspace", "git checkout -q b.txt; head -c 3000000 /dev/urandom >big; for i in 1 2 3 4 5; do head -c 200000 /dev/urandom >new$i; done; git add big new?; git commit -qm big; echo dirty >>a.txt; rm untracked")
	inside := w.inside("r", "/workspace", held)
	before := w.state("disk/r")
	for _, left := range []int64{0, 1 << 20, 5 << 20} {
		w.fill("disk/fill", left)
		w.full(fmt.Sprint("a sync with bytes left: ", left), w.atoll(3, "disk/r", "sync"))
		if left == 0 {
			w.full("rm without room", w.atoll(3, "disk/r", "rm", "r"))
		}
		w.must(os.Remove(w.path("disk/fill")))
		w.unchanged(fmt.Sprint("a sync with bytes left: ", left), "disk/r", before)
		same(t, "inside", w.inside("r", "/workspace", held), inside)
	}
	w.atoll(0, "disk/r", "sync")
	same(t, "what came with room", w.git("disk/r", "hash-object", "big", "new1", "new5"), w.inside("r", "/workspace", "git hash-object big new1 new5"))
	same(t, "what is the host's own", w.read("disk/r/b.txt")+w.read("disk/r/untracked"), "mine, and not committed\nmine, and of nobody else\n")
	w.atoll(0, "disk/r", "rm", "r")
	same(t, "what was not committed", w.git("disk/r", "show", "refs/sandbox/r/wip/main:a.txt"), w.read("disk/r/a.txt")+"dirty")
}

// full holds a refusal to its reason.
func (w *world) full(what string, r ran) {
	w.t.Helper()
	if !strings.Contains(r.stderr, "no room on the host") && !strings.Contains(r.stderr, "no space left") && !strings.Contains(r.stderr, "No space left") {
		w.t.Errorf("%s does not say why: %s", what, r.stderr)
	}
}

// TestHomeOnAFullDisk has no room for what atoll itself writes, nor has the
// sandbox, whose files are there.
func TestHomeOnAFullDisk(t *testing.T) {
	if !small(t) {
		return
	}
	w := onNamespaces(t)
	w.endServer()
	w.mount("h", 32<<20)
	w.repo("r")
	w.dirty("r")
	w.start("r", "r")
	objects := w.work("r", 1)
	inside := w.inside("r", "/workspace", held)
	before := w.state("r")
	for range 2 { // with a server that runs, and one that can't begin
		w.fill("h/fill", 0)
		for _, args := range [][]string{{"sync"}, {"rm", "r"}} {
			w.full(args[0]+" without room", w.atoll(125, "r", args...))
		}
		w.must(os.Remove(w.path("h/fill")))
		w.unchanged("a sync without room", "r", before)
		w.awake("r", "r")
		same(t, "inside", w.inside("r", "/workspace", held), inside)
		w.endServer()
	}
	w.atoll(0, "r", "sync")
	w.atoll(0, "r", "rm", "r")
	w.atHome("with room", "r", objects)
}

// TestServersPolicy has a server end a project's sandbox, since nobody uses it:
// its work is at home before.
func TestServersPolicy(t *testing.T) {
	w := onNamespaces(t)
	w.repo("r")
	w.write("r/.atoll.yaml", "prepare: ['echo made >made.txt; git add made.txt; git commit -qm made; echo loose >loose.txt; git rev-parse HEAD >/tmp/made; cat /tmp/made']\n")
	w.commit("r", "with a file for atoll")
	before := w.state("r")
	w.env = append(w.env, "ATOLL_DEFAULTS_LIFECYCLE_POLICY=session", "ATOLL_DEFAULTS_LIFECYCLE_IDLE=1s") // it can't end while 'up' is at work in it
	w.start("r", "r")
	w.endServer()
	w.repo("other")
	w.start("other", "other") // by a new server, which looks at once what is due
	w.until("the server has ended it", func() bool {
		return w.try("/", w.bin, "inspect", "r").code != 0
	})
	w.unchanged("the end of a sandbox", "r", before)
	rescued := w.git("r", "for-each-ref", "--format=%(refname)", "refs/sandbox/r/rescue/")
	var made, loose string
	for ref := range strings.FieldsSeq(rescued) {
		switch {
		case strings.HasSuffix(ref, "/wip/main"):
			loose = w.git("r", "show", ref+":loose.txt")
		case strings.HasSuffix(ref, "/main"):
			made = w.git("r", "show", ref+":made.txt")
		}
	}
	same(t, "what was saved", made+" "+loose, "made loose")
}
