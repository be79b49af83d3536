package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/atoll-sandbox/atoll"
)

// nest is the group that holds all of atoll's.
const nest = "atoll"

// Tree is where this process can make groups.
type Tree struct {
	unified string             // directory of version 2 beneath which groups are made; empty: none
	legacy  map[string]string  // of version 1, by the name of its controller
	enabled []string           // controllers of version 2 that groups get
	missing map[Control]string // why not
	counts  bool               // version 2 counts processor time without its controller
	mkdir   func(dir string) error
	may     func(path string) bool // write
}

func newTree() *Tree {
	return &Tree{
		legacy:  make(map[string]string),
		missing: make(map[Control]string),
		mkdir:   func(dir string) error { return os.Mkdir(dir, 0o755) },
		may:     func(path string) bool { return unix.Access(path, unix.W_OK) == nil },
	}
}

// Missing returns why controls can't be used, by control.
func (t *Tree) Missing() map[Control]string { return t.missing }

// Has reports whether groups have a control.
func (t *Tree) Has(c Control) bool { _, no := t.missing[c]; return !no }

// Probe finds out where this process can make groups, and which controls they
// have. That there is none is not an error: Missing says why.
func Probe() (*Tree, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: control groups: %w", atoll.ErrUnavailable, err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("%w: control groups: %w", atoll.ErrUnavailable, err)
	}
	t := newTree()
	t.probe(string(mounts), string(own), os.Geteuid() == 0)
	return t, nil
}

// hierarchy is a mounted one.
type hierarchy struct {
	point   string   // where it is mounted
	root    string   // what of it
	options []string // of the super block: controllers
	v2      bool
}

func hierarchies(mountinfo string) []hierarchy {
	var list []hierarchy
	for s := bufio.NewScanner(strings.NewReader(mountinfo)); s.Scan(); {
		left, right, ok := strings.Cut(s.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 || r[0] != "cgroup" && r[0] != "cgroup2" {
			continue
		}
		list = append(list, hierarchy{unescape(l[4]), unescape(l[3]), strings.Split(r[2], ","), r[0] == "cgroup2"})
	}
	return list
}

// unescape undoes what the kernel does to spaces in names.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// place returns the directory of this process's own group; the root of what is
// mounted where it lies outside of that.
func (h hierarchy) place(own map[string]string) string {
	path := own[""]
	if !h.v2 {
		for _, o := range h.options {
			if p, ok := own[o]; ok {
				path = p
			}
		}
	}
	rel, err := filepath.Rel(h.root, path)
	if err != nil || strings.Contains(h.root, "..") || rel == ".." || strings.HasPrefix(rel, "../") {
		return h.point
	}
	return filepath.Join(h.point, rel)
}

// groups returns the paths of this process's groups by controller; version 2's
// is "".
func groups(own string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			m[c] = f[2]
		}
	}
	return m
}

func (t *Tree) probe(mountinfo, own string, root bool) {
	paths := groups(own)
	why := "no control groups are mounted"
	for _, h := range hierarchies(mountinfo) {
		if h.v2 {
			why = t.probeUnified(h, h.place(paths), root)
			continue
		}
		for _, c := range h.options {
			if slices.Contains([]string{"memory", "cpu", "cpuacct", "pids", "freezer"}, c) && t.legacy[c] == "" {
				t.probeLegacy(c, h, h.place(paths), root)
			}
		}
	}
	t.counts = t.unified != "" && exists(t.unified, "cpu.stat")
	t.sum(why)
}

// probeLegacy takes a hierarchy of version 1: its root for root, else the own
// group, if something can be made there.
func (t *Tree) probeLegacy(controller string, h hierarchy, own string, root bool) {
	dirs := []string{own}
	if root {
		dirs = []string{h.point, own}
	}
	for _, dir := range dirs {
		if t.may(dir) {
			t.legacy[controller] = dir
			return
		}
	}
	t.missing[control(controller)] = fmt.Sprintf("%s is not writable for this user", own)
}

func control(controller string) Control {
	if controller == "freezer" {
		return Freeze
	}
	return Control(controller)
}

// probeUnified looks for the nearest group that can be divided, and returns why
// it has not what it lacks.
func (t *Tree) probeUnified(h hierarchy, own string, root bool) string {
	why := fmt.Sprintf("%s and what is above it are not writable for this user: `systemd-run --user --scope -p Delegate=yes` starts atoll where it can", own)
	dirs := []string{}
	for dir := own; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == h.point || dir == "/" {
			break
		}
	}
	if root {
		slices.Reverse(dirs) // the root lasts when this process's group goes
	}
	for _, dir := range dirs {
		if !t.writable(dir) {
			continue
		}
		enabled, reason := divisible(dir)
		if t.unified == "" || len(enabled) > len(t.enabled) {
			t.unified, t.enabled, why = dir, enabled, reason
		}
		if reason == "" {
			break
		}
	}
	return why
}

// writable reports whether groups can be made in a directory and processes
// moved below it.
func (t *Tree) writable(dir string) bool {
	for _, f := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if !t.may(filepath.Join(dir, f)) {
			return false
		}
	}
	return true
}

// divisible returns the controllers that groups in a directory can get, and
// why others can't be.
func divisible(dir string) (enabled []string, why string) {
	there := strings.Fields(read(dir, "cgroup.controllers"))
	already := strings.Fields(read(dir, "cgroup.subtree_control"))
	busy := strings.TrimSpace(read(dir, "cgroup.procs")) != "" && exists(dir, "cgroup.type") // the root may be busy: it has no type
	for _, c := range []string{"memory", "cpu", "pids"} {
		switch {
		case !slices.Contains(there, c):
			why = fmt.Sprintf("%s is not given to %s", c, dir)
		case busy && !slices.Contains(already, c):
			why = fmt.Sprintf("processes stand in %s, so it can't be divided: move them into a group of their own", dir)
		default:
			enabled = append(enabled, c)
		}
	}
	return enabled, why
}

// sum fills in what is missing. Version 1 has a controller that version 2 has
// not.
func (t *Tree) sum(why string) {
	for _, c := range Controls() {
		ok := t.unified != ""
		switch c {
		case Memory, CPU, PIDs:
			ok = slices.Contains(t.enabled, string(c)) || t.legacy[string(c)] != ""
		case Freeze:
			ok = ok || t.legacy["freezer"] != ""
		case Kill, Nest:
		}
		switch {
		case ok:
			delete(t.missing, c)
		case t.missing[c] == "":
			if why == "" {
				why = "version 2 of control groups is not mounted"
			}
			t.missing[c] = why
		}
	}
}

// read returns a small file, or nothing.
func read(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}
