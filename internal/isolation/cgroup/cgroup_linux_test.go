package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// requireControls returns the groups that this host supports, or skips the test if a control is
// missing.
func requireControls(t *testing.T, controls ...Control) *Tree {
	t.Helper()
	testenv.Real(t, "cgroup")
	tree, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range controls {
		if why, no := tree.Missing()[c]; no {
			testenv.Skip(t, "cgroup", "%s: %s", c, why)
		}
	}
	return tree
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func create(t *testing.T, tree *Tree, l Limits) *Group {
	t.Helper()
	g, err := tree.Create(deadline(t), "test-"+atoll.NewID(), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Remove(context.Background()); err != nil {
			t.Error(err)
		}
		if left := g.existingDirs(); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return g
}

// start starts a shell command in the group, which waits until it was added, and returns the reader
// of its output.
func start(t *testing.T, g *Group, script string) (*exec.Cmd, *output) {
	t.Helper()
	cmd := exec.CommandContext(deadline(t), "sh", "-c", "read x; "+script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(errors.Join(err, cmd.Process.Kill()))
	}
	if _, err := fmt.Fprintln(in); err != nil {
		t.Fatal(err)
	}
	return cmd, &output{bufio.NewReader(out), out.(*os.File)}
}

// output is the read end of a pipe, with a buffer.
type output struct {
	*bufio.Reader
	file *os.File
}

func readLine(t *testing.T, r *output) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

func TestKillEndsWholeTrees(t *testing.T) {
	for name, tree := range trees(t) {
		t.Run(name, func(t *testing.T) {
			g := create(t, tree, Limits{})
			cmd, out := start(t, g, `setsid sh -c 'sleep 1000 & echo ready; exec sleep 1000' & sleep 1000`)
			if got := readLine(t, out); got != "ready" {
				t.Fatal(got)
			}
			if err := g.Kill(deadline(t)); err != nil {
				t.Fatal(err)
			}
			if s := read(g.existingDirs()[0], "cgroup.procs"); s != "" {
				t.Errorf("still there: %q", s)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the command ended well")
			}
			if err := g.Kill(deadline(t)); err != nil {
				t.Error("twice:", err)
			}
		})
	}
}

// trees returns the tree of this host, and the one that it would have without version 2.
func trees(t *testing.T) map[string]*Tree {
	tree := requireControls(t, Freeze)
	m := map[string]*Tree{"all": tree}
	if tree.legacy["freezer"] != "" {
		old := *tree
		old.unified, old.enabled = "", nil
		old.missing = make(map[Control]string)
		old.fillMissing("")
		m["legacy"] = &old
	}
	return m
}

func TestFreezeStopsAndThawGoesOn(t *testing.T) {
	for name, tree := range trees(t) {
		t.Run(name, func(t *testing.T) {
			g := create(t, tree, Limits{})
			cmd, out := start(t, g, `while echo beat; do :; done`)
			readLine(t, out)
			if err := g.Freeze(deadline(t)); err != nil {
				t.Fatal(err)
			}
			if !g.IsFrozen() {
				t.Error("a frozen group does not say so")
			}
			if n := drain(t, out); n > 1<<20 {
				t.Errorf("it wrote %d bytes while frozen", n)
			}
			if err := g.Thaw(); err != nil {
				t.Fatal(err)
			}
			readLine(t, out)
			if g.IsFrozen() {
				t.Error("a thawed group is frozen")
			}
			if err := g.Freeze(deadline(t)); err != nil {
				t.Fatal(err)
			}
			if err := g.Remove(deadline(t)); err != nil { // a frozen group can be removed too
				t.Fatal(err)
			}
			_ = cmd.Wait() // killed
		})
	}
}

// drain reads for a moment, and returns the number of bytes.
func drain(t *testing.T, r *output) int64 {
	t.Helper()
	if err := r.file.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, r)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := r.file.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestMemoryIsLimited(t *testing.T) {
	g := create(t, requireControls(t, Memory), Limits{Memory: 32 << 20})
	result := make(chan error, 1)
	ctx := deadline(t)
	go func() {
		n, err := g.WaitForOOMKill(ctx, 0)
		if err == nil && n < 1 {
			err = fmt.Errorf("reported %d", n)
		}
		result <- err
	}()
	cmd, out := start(t, g, `head -c 8M /dev/zero | tail -c 8M | wc -c; head -c 200M /dev/zero | tail -c 200M | wc -c`)
	if got := readLine(t, out); got != strconv.Itoa(8<<20) {
		t.Errorf("within the limit: %s", got)
	}
	// The kernel chooses the process that it kills: without wc there is no line at all.
	if got, err := out.ReadString('\n'); err == nil && strings.TrimSpace(got) == strconv.Itoa(200<<20) {
		t.Error("200 MB fit into 32 MB")
	}
	_ = cmd.Wait() // it has printed its last line
	if err := <-result; err != nil {
		t.Error(err)
	}
	s, err := g.Stats()
	if err != nil || s.OOMKills < 1 || s.Peak < 8<<20 || s.Peak > 33<<20 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := g.SetLimits(Limits{Memory: 512 << 20}); err != nil { // up
		t.Fatal(err)
	}
	cmd, out = start(t, g, `head -c 100M /dev/zero | tail -c 100M | wc -c`)
	if got := readLine(t, out); got != strconv.Itoa(100<<20) {
		t.Errorf("100 MB in 512 MB: %s", got)
	}
	_ = cmd.Wait()
	if err := g.SetLimits(Limits{Memory: 64 << 20}); err != nil { // and down
		t.Fatal(err)
	}
	if err := g.SetLimits(Limits{}); err != nil {
		t.Fatal(err)
	}
}

func TestPIDsAreLimited(t *testing.T) {
	g := create(t, requireControls(t, PIDs), Limits{PIDs: 10})
	cmd, out := start(t, g, `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 100 >/dev/null 2>&1 & done 2>/dev/null; echo never`)
	if s, err := out.ReadString('\n'); err == nil { // dash ends when it can't fork
		t.Errorf("20 processes in a group of 10: %q", s)
	}
	s, err := g.Stats()
	if err != nil || s.PIDs < 9 || s.PIDs > 10 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := g.Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func TestCPUIsLimited(t *testing.T) {
	g := create(t, requireControls(t, CPU), Limits{CPU: 0.05}) // less than a busy host leaves it
	cmd, out := start(t, g, `i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo done`)
	readLine(t, out)
	_ = cmd.Wait()
	s, err := g.Stats()
	if err != nil || s.CPU <= 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	dir, _ := g.controllerDir("cpu")
	if s.CPU > 50*time.Millisecond && readCount(dir, "cpu.stat", "nr_throttled") == 0 {
		t.Error("it was never held back")
	}
}

// TestOthersNest delegates a group to another user, who starts a process in a group of its own
// there, and can't change the limits.
func TestOthersNest(t *testing.T) {
	tree := requireControls(t, Nesting)
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	g := create(t, tree, Limits{})
	d, err := g.OpenDir(65534)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	script := `mkdir inner && cat inner/cgroup.procs && for f in ` +
		`memory.max memory.low pids.max cpu.max cgroup.max.descendants cgroup.max.depth cgroup.freeze cgroup.kill; do [ -w $f ] && echo open $f; done; ` +
		`n=0; while mkdir inner/$n 2>/dev/null && [ $n -lt 600 ]; do n=$((n+1)); done; [ $n -lt 600 ] && echo bounded; cat /proc/self/cgroup | grep ^0::`
	cmd := exec.CommandContext(deadline(t), "sh", "-c", script)
	cmd.Dir = d.Name()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, UseCgroupFD: true, CgroupFD: int(d.Fd()),
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := string(out); strings.Contains(got, "open") || !strings.Contains(got, "bounded") || !strings.Contains(got, nest+"/"+g.name) {
		t.Error(got)
	}
}

func TestNothingIsLeftOfMany(t *testing.T) {
	tree := requireControls(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				g, err := tree.Create(t.Context(), "test-"+atoll.NewID(), Limits{})
				if err != nil {
					t.Error(err)
					return
				}
				cmd := exec.Command("sleep", "1000")
				if err := errors.Join(cmd.Start(), g.Add(cmd.Process.Pid)); err != nil {
					t.Error(err)
				}
				err = g.Remove(context.Background())
				if w := cmd.Wait(); err != nil || w == nil {
					t.Error(err, w)
				}
				if len(g.existingDirs()) > 0 {
					t.Error("left: ", g.existingDirs())
				}
			}
		})
	}
	wg.Wait()
}

func TestNames(t *testing.T) {
	tree := requireControls(t)
	for _, name := range []string{"", ".", "..", "../x", "a/b", "a\nb", ".hidden"} {
		if _, err := tree.Create(t.Context(), name, Limits{}); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := tree.Open(name); !errors.Is(err, atoll.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if len(tree.baseDirs()) == 0 {
		t.Skip("no groups can be made here: ", tree.Missing())
	}
	g := create(t, tree, Limits{})
	if _, err := tree.Create(t.Context(), g.name, Limits{}); !errors.Is(err, atoll.ErrExists) {
		t.Errorf("the same name: %v", err)
	}
	if names, err := tree.Names(); err != nil || !slices.Contains(names, g.name) {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := tree.Open(g.name); err != nil {
		t.Error(err)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Remove(t.Context()); err != nil {
		t.Error("twice: ", err)
	}
	if _, err := tree.Open(g.name); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("one that is gone: %v", err)
	}
	if _, err := g.Stats(); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("stats of one that is gone: %v", err)
	}
	if err := g.Add(os.Getpid()); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("into one that is gone: %v", err)
	}
}

func TestLimitsThatCantBeHeldAreRefused(t *testing.T) {
	tree := newTree()
	tree.probeHierarchies("", "", true)
	for _, c := range Controls() {
		if tree.Has(c) || tree.Missing()[c] == "" {
			t.Errorf("%s without any hierarchy", c)
		}
	}
	if _, err := tree.Create(t.Context(), "x", Limits{Memory: 1 << 20}); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("memory: %v", err)
	}
	if g, err := tree.Create(t.Context(), "x", Limits{}); err != nil {
		t.Errorf("no limits: %v", err)
	} else if err := g.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// fake is a hierarchy of version 2 made of plain files.
type fake struct {
	t   *testing.T
	dir string
}

func (f fake) put(dir, name, value string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, dir, name), []byte(value), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// group makes a directory with a group's files.
func (f fake) group(dir, controllers, enabled, procs string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Join(f.dir, dir), 0o755); err != nil {
		f.t.Fatal(err)
	}
	f.put(dir, "cgroup.controllers", controllers)
	f.put(dir, "cgroup.subtree_control", enabled)
	f.put(dir, "cgroup.procs", procs)
	if dir != "" {
		f.put(dir, "cgroup.type", "domain")
	}
	for _, name := range []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max", "cgroup.freeze", "cgroup.max.depth", "cgroup.max.descendants"} {
		f.put(dir, name, "max")
	}
}

func (f fake) probe(own string, root bool) *Tree {
	mounts := fmt.Sprintf("24 1 0:22 / / rw - ext4 /dev/root rw\n35 24 0:30 / %s rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", f.dir)
	tree := newTree()
	if !root {
		tree.canWrite = func(path string) bool { return strings.Contains(path, "user@") }
	}
	tree.probeHierarchies(mounts, "0::"+own+"\n", root)
	tree.mkdir = func(dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		rel, err := filepath.Rel(f.dir, dir)
		f.group(rel, "cpu memory pids", "", "")
		return err
	}
	return tree
}

func (f fake) want(dir, name, value string) {
	f.t.Helper()
	if got := strings.TrimSpace(read(filepath.Join(f.dir, dir), name)); got != value {
		f.t.Errorf("%s/%s is %q, want %q", dir, name, got, value)
	}
}

func TestUnifiedRoot(t *testing.T) {
	f := fake{t, t.TempDir()}
	f.group("", "cpuset cpu io memory hugetlb pids", "memory pids", "1\n2\n")
	f.group("system.slice", "memory pids", "memory pids", "")
	f.group("system.slice/ssh.service", "memory pids", "", "77\n")
	tree := f.probe("/system.slice/ssh.service", true)
	if len(tree.Missing()) > 0 || tree.unified != f.dir {
		t.Fatalf("%+v", tree)
	}
	if _, err := tree.Create(t.Context(), "a", Limits{Memory: 1 << 30, CPU: 1.5, PIDs: 100}); err != nil {
		t.Fatal(err)
	}
	f.want("", "cgroup.subtree_control", "+cpu") // the one that was missing
	f.want("atoll/a", "memory.max", "1073741824")
	f.want("atoll/a", "memory.swap.max", "0")
	f.want("atoll/a", "cpu.max", "150000 100000")
	f.want("atoll/a", "pids.max", "100")
	g, err := tree.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(g.SetLimits(Limits{CPU: 0.0001}), g.Add(4711)); err != nil {
		t.Fatal(err)
	}
	f.want("atoll/a", "memory.max", "max")
	f.want("atoll/a", "cpu.max", "1000 100000")
	f.want("atoll/a", "pids.max", "max")
	f.want("atoll/a", "cgroup.procs", "4711")
	f.put("atoll/a", "memory.current", "5000\n")
	f.put("atoll/a", "memory.stat", "anon 1\ninactive_file 2000\n")
	f.put("atoll/a", "memory.events", "low 0\noom 4\noom_kill 3\n")
	f.put("atoll/a", "memory.peak", "9000\n")
	f.put("atoll/a", "cpu.stat", "usage_usec 1500\nuser_usec 1\n")
	f.put("atoll/a", "pids.current", "7\n")
	if s, err := g.Stats(); err != nil || s != (Stats{Memory: 3000, Peak: 9000, CPU: 1500 * time.Microsecond, PIDs: 7, OOMKills: 3}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestUnifiedOfUsers(t *testing.T) {
	const (
		slice = "user.slice/user-1000.slice/user@1000.service/app.slice"
		scope = slice + "/run-1.scope"
	)
	f := fake{t, t.TempDir()}
	f.group("", "cpu memory pids", "cpu memory pids", "1\n")
	f.group(slice, "memory pids", "memory pids", "")
	f.group(scope, "memory pids", "", "500\n")
	tree := f.probe("/"+scope, false)
	if tree.unified != filepath.Join(f.dir, slice) {
		t.Errorf("groups are made in %s", tree.unified)
	}
	if tree.Has(CPU) || !tree.Has(Memory) || !tree.Has(PIDs) || !tree.Has(Kill) || !strings.Contains(tree.Missing()[CPU], "controller cpu is not enabled in") {
		t.Errorf("%v", tree.Missing())
	}
	if _, err := tree.Create(t.Context(), "a", Limits{CPU: 1}); !errors.Is(err, atoll.ErrUnsupported) {
		t.Errorf("a limit that is not delegated: %v", err)
	}
}

func TestUnifiedInContainer(t *testing.T) {
	f := fake{t, t.TempDir()}
	f.group("", "cpu memory pids", "", "1\n20\n")
	f.put("", "cgroup.type", "domain") // the root in a container has a type
	tree := f.probe("/", true)
	if tree.Has(Memory) || !strings.Contains(tree.Missing()[Memory], "has processes of its own") {
		t.Errorf("%v", tree.Missing())
	}
	if !tree.Has(Nesting) || !tree.Has(Freeze) {
		t.Errorf("what needs no controllers: %v", tree.Missing())
	}
}

func TestPlaces(t *testing.T) {
	own := parseOwnGroups("4:memory:/docker/x\n3:cpu,cpuacct:/a\n0::/u/v\n")
	for _, c := range []struct {
		h    hierarchy
		want string
	}{
		{hierarchy{"/c/memory", "/", []string{"memory"}, false}, "/c/memory/docker/x"},
		{hierarchy{"/c/memory", "/docker/x", []string{"memory"}, false}, "/c/memory"},
		{hierarchy{"/c/memory", "/elsewhere", []string{"memory"}, false}, "/c/memory"},
		{hierarchy{"/c/cpu", "/", []string{"rw", "cpuacct", "cpu"}, false}, "/c/cpu/a"},
		{hierarchy{"/c", "/", nil, true}, "/c/u/v"},
		{hierarchy{"/c", "/..", nil, true}, "/c"},
	} {
		if got := c.h.processDir(own); got != c.want {
			t.Errorf("%+v: %s, want %s", c.h, got, c.want)
		}
	}
}
