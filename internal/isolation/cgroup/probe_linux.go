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

// nest is the name of the group that is the parent of all groups of atoll.
const nest = "atoll"

// Tree knows where this process can make groups.
type Tree struct {
	unified   string             // directory of version 2 below which groups are made; empty: none
	legacy    map[string]string  // directories of version 1, by controller
	enabled   []string           // version 2 controllers that groups get
	missing   map[Control]string // reasons, by control
	countsCPU bool               // version 2 counts processor time without its controller
	mkdir     func(dir string) error
	canWrite  func(path string) bool
}

func newTree() *Tree {
	return &Tree{
		legacy:   make(map[string]string),
		missing:  make(map[Control]string),
		mkdir:    func(dir string) error { return os.Mkdir(dir, 0o755) },
		canWrite: func(path string) bool { return unix.Access(path, unix.W_OK) == nil },
	}
}

// Missing returns the reasons why controls can't be used, by control.
func (t *Tree) Missing() map[Control]string { return t.missing }

// Has reports whether groups have a control.
func (t *Tree) Has(c Control) bool { _, no := t.missing[c]; return !no }

// Probe finds the places where this process can make groups, and the controls that they have. If
// there are none, Missing has the reasons, and there is no error.
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
	t.probeHierarchies(string(mounts), string(own), os.Geteuid() == 0)
	return t, nil
}

// hierarchy is a mounted cgroup file system.
type hierarchy struct {
	point   string   // mount point
	root    string   // root of the mount within the file system
	options []string // of the superblock, among them the controllers
	v2      bool
}

func parseMounts(mountinfo string) []hierarchy {
	var list []hierarchy
	for s := bufio.NewScanner(strings.NewReader(mountinfo)); s.Scan(); {
		left, right, ok := strings.Cut(s.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 || r[0] != "cgroup" && r[0] != "cgroup2" {
			continue
		}
		list = append(list, hierarchy{unescapeMount(l[4]), unescapeMount(l[3]), strings.Split(r[2], ","), r[0] == "cgroup2"})
	}
	return list
}

// unescapeMount decodes the octal escapes of mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// processDir returns the directory of this process's own group, or the mount point if the group
// lies outside of the mount.
func (h hierarchy) processDir(own map[string]string) string {
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

// parseOwnGroups parses /proc/self/cgroup: it returns the groups of this process by controller; the
// key of version 2 is "".
func parseOwnGroups(own string) map[string]string {
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

func (t *Tree) probeHierarchies(mountinfo, own string, root bool) {
	paths := parseOwnGroups(own)
	why := "no control groups are mounted"
	for _, h := range parseMounts(mountinfo) {
		if h.v2 {
			why = t.probeUnified(h, h.processDir(paths), root)
			continue
		}
		for _, c := range h.options {
			if slices.Contains([]string{"memory", "cpu", "cpuacct", "pids", "freezer"}, c) && t.legacy[c] == "" {
				t.probeLegacy(c, h, h.processDir(paths), root)
			}
		}
	}
	t.countsCPU = t.unified != "" && fileExists(t.unified, "cpu.stat")
	t.fillMissing(why)
}

// probeLegacy selects the directory of a version 1 hierarchy: the mount point for root, otherwise
// the process's own group, if it is writable.
func (t *Tree) probeLegacy(controller string, h hierarchy, own string, root bool) {
	dirs := []string{own}
	if root {
		dirs = []string{h.point, own}
	}
	for _, dir := range dirs {
		if t.canWrite(dir) {
			t.legacy[controller] = dir
			return
		}
	}
	t.missing[controlOf(controller)] = fmt.Sprintf("%s is not writable for this user", own)
}

func controlOf(controller string) Control {
	if controller == "freezer" {
		return Freeze
	}
	return Control(controller)
}

// probeUnified selects the nearest group whose controllers can be delegated, and returns the reason
// why some are missing.
func (t *Tree) probeUnified(h hierarchy, own string, root bool) string {
	why := fmt.Sprintf("%s and the groups above it are not writable for this user: start atoll with `systemd-run --user --scope -p Delegate=yes`", own)
	dirs := []string{}
	for dir := own; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == h.point || dir == "/" {
			break
		}
	}
	if root {
		slices.Reverse(dirs) // the root outlives this process's own group
	}
	for _, dir := range dirs {
		if !t.canDivide(dir) {
			continue
		}
		enabled, reason := divisibleControllers(dir)
		if t.unified == "" || len(enabled) > len(t.enabled) {
			t.unified, t.enabled, why = dir, enabled, reason
		}
		if reason == "" {
			break
		}
	}
	return why
}

// canDivide reports whether groups can be made in a directory, and processes moved into them.
func (t *Tree) canDivide(dir string) bool {
	for _, f := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if !t.canWrite(filepath.Join(dir, f)) {
			return false
		}
	}
	return true
}

// divisibleControllers returns the controllers that groups in a directory can get, and the reason
// why others are missing.
func divisibleControllers(dir string) (enabled []string, why string) {
	there := strings.Fields(read(dir, "cgroup.controllers"))
	already := strings.Fields(read(dir, "cgroup.subtree_control"))
	busy := strings.TrimSpace(read(dir, "cgroup.procs")) != "" && fileExists(dir, "cgroup.type") // the root, which has no type, may have processes
	for _, c := range []string{"memory", "cpu", "pids"} {
		switch {
		case !slices.Contains(there, c):
			why = fmt.Sprintf("controller %s is not enabled in %s", c, dir)
		case busy && !slices.Contains(already, c):
			why = fmt.Sprintf("%s has processes of its own, so its controllers can't be delegated: move them into a group below it", dir)
		default:
			enabled = append(enabled, c)
		}
	}
	return enabled, why
}

// fillMissing records the controls that are missing, with the reason. A controller of version 1
// replaces one that version 2 lacks.
func (t *Tree) fillMissing(why string) {
	for _, c := range Controls() {
		ok := t.unified != ""
		switch c {
		case Memory, CPU, PIDs:
			ok = slices.Contains(t.enabled, string(c)) || t.legacy[string(c)] != ""
		case Freeze:
			ok = ok || t.legacy["freezer"] != ""
		case Kill, Nesting:
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

// read returns the content of a small file; empty on an error.
func read(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return string(b)
}

func fileExists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}
