package git

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/vfs"
)

// indexUpdate is a call of git update-index: the options so far, which apply to the files that follow them.
type indexUpdate struct {
	*call
	x                                  index
	add, remove, forceRemove, replace  bool
	quiet, infoOnly, verbose, zeroEnds bool
	chmod                              string
	assume, skip                       string // "true" and "false" set the mark; "" leaves it
	stale                              bool   // a file needs an update
}

// updateIndex is git update-index: it changes entries of the index, in the order of the arguments.
func (c *call) updateIndex() error {
	x, err := c.readIndex()
	if err != nil {
		return err
	}
	u := &indexUpdate{call: c, x: x}
	args := append(slices.Clone(c.args), c.paths...)
	options := true
	for len(args) > 0 {
		c.p.Tick(1)
		arg := args[0]
		args = args[1:]
		if options && len(arg) > 1 && arg[0] == '-' {
			if options = arg != "--"; !options {
				continue
			}
			if args, err = u.applyOption(arg, args); err != nil {
				return err
			}
			continue
		}
		if err := u.updateFile(arg); err != nil {
			return err
		}
	}
	if err := c.writeIndex(x); err != nil {
		return err
	}
	if u.stale && !u.quiet {
		return &failure{1, ""}
	}
	return nil
}

// applyOption applies an option, and returns the arguments after it.
func (u *indexUpdate) applyOption(arg string, args []string) ([]string, error) {
	name, value, joined := strings.Cut(arg, "=")
	switch name {
	case "--add":
		u.add = true
	case "--remove":
		u.remove = true
	case "--force-remove":
		u.forceRemove = true
	case "--replace":
		u.replace = true
	case "--info-only":
		u.infoOnly = true
	case "--verbose":
		u.verbose = true
	case "-q", "--quiet":
		u.quiet = true
	case "-z":
		u.zeroEnds = true
	case "--assume-unchanged", "--no-assume-unchanged":
		u.assume = strconv.FormatBool(name == "--assume-unchanged")
	case "--skip-worktree", "--no-skip-worktree":
		u.skip = strconv.FormatBool(name == "--skip-worktree")
	case "--chmod":
		if !joined && len(args) > 0 {
			value, args = args[0], args[1:]
		}
		if value != "+x" && value != "-x" {
			return nil, &failure{129, "error: option 'chmod' expects \"+x\" or \"-x\""}
		}
		u.chmod = value
	case "--cacheinfo":
		if joined {
			args = append([]string{value}, args...)
		}
		return u.addInformation(args)
	case "--index-info":
		return args, u.readInformation()
	case "--stdin":
		return args, u.readNames()
	case "--refresh", "--really-refresh":
		return args, u.refresh()
	case "--ignore-submodules", "--ignore-missing", "--unmerged", "--force-write-index", "--no-split-index", "--no-untracked-cache", "--no-fsmonitor":
	default:
		return nil, &failure{129, "error: git update-index " + arg + " is not supported here; `git --help' lists what this git can do"}
	}
	return args, nil
}

// refresh names the files that differ from the index.
func (u *indexUpdate) refresh() error {
	for _, name := range sortedKeys(u.x) {
		e := u.x[name]
		now, ok, err := u.workState(name, e)
		if err != nil {
			return err
		}
		if ok && now == e.treeEntry {
			continue
		}
		if u.stale = true; !u.quiet {
			_, _ = fmt.Fprintf(u.p.Out(), "%s: needs update\n", name) // Flush reports the error
		}
	}
	return nil
}

// updateFile brings the entry of a file up to date, or changes its marks.
func (u *indexUpdate) updateFile(operand string) error {
	name, err := u.relativePath(operand)
	if err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return &failure{128, fmt.Sprintf("error: %s: %s\nfatal: Unable to process path %s", name, fmt.Sprintf(format, args...), name)}
	}
	if !isSafePath(name) {
		_, _ = fmt.Fprintf(u.p.Stderr, "Ignoring path %s\n", operand) // best effort
		return nil
	}
	e, known := u.x[name]
	if u.assume != "" || u.skip != "" {
		if !known {
			return newFatal("Unable to mark file %s", name)
		}
		e.assumed = u.assume == "true" || u.assume == "" && e.assumed
		e.skipped = u.skip == "true" || u.skip == "" && e.skipped
		u.x[name] = e
		return nil
	}
	if u.forceRemove {
		u.drop(name)
		return nil
	}
	now, ok, err := u.workEntry(name)
	_, conflicting := u.conflicts[name]
	switch {
	case err != nil:
		return err
	case !ok && !u.remove:
		info, err := u.p.Lstat(u.root + "/" + name)
		if err == nil && info.IsDir() {
			return fail("is a directory - add files inside instead")
		}
		return fail("does not exist and --remove not passed")
	case !ok:
		u.drop(name)
		return nil
	case !known && !conflicting && !u.add:
		return fail("cannot add to the index - missing --add option?")
	}
	if !known || now != e.treeEntry {
		if err := u.clearPath(name); err != nil {
			return err
		}
		put := func() error { return u.addFile(u.x, name) }
		if u.infoOnly || now.mode == modeRepo {
			put = func() error { return u.putIndex(u.x, name, now) }
		}
		if err := put(); err != nil {
			return err
		}
	}
	u.report("add '%s'", name)
	return u.changeMode(name)
}

// changeMode makes a file of the index executable or not, if --chmod was given.
func (u *indexUpdate) changeMode(name string) error {
	if u.chmod == "" {
		return nil
	}
	e, ok := u.x[name]
	if !ok || e.mode&0o170000 != 0o100000 {
		return newFatal("git update-index: cannot chmod %s '%s'", u.chmod, name)
	}
	e.mode = map[string]uint32{"+x": 0o100755, "-x": 0o100644}[u.chmod]
	u.x[name] = e
	u.report("chmod %s '%s'", u.chmod, name)
	return nil
}

// report prints what was done to a file, if that is wanted.
func (u *indexUpdate) report(format string, args ...any) {
	if u.verbose {
		_, _ = fmt.Fprintf(u.p.Out(), format+"\n", args...) // Flush reports the error
	}
}

// drop removes a file from the index.
func (u *indexUpdate) drop(name string) {
	delete(u.x, name)
	delete(u.conflicts, name)
	u.report("remove '%s'", name)
}

// clearPath removes the files of the index that a new file would be below or above. It is an error if they may not be replaced.
func (u *indexUpdate) clearPath(name string) error {
	if _, ok := u.x[name]; ok {
		return nil
	}
	var blocking []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := u.x[dir]; ok {
			blocking = append(blocking, dir)
		}
	}
	u.p.Tick(1 + len(u.x)/8)
	for other := range u.x {
		if strings.HasPrefix(other, name+"/") {
			blocking = append(blocking, other)
		}
	}
	if len(blocking) > 0 && !u.replace {
		return &failure{128, "error: '" + name + "' appears as both a file and as a directory\nerror: " + name + ": cannot add to the index - missing --add option?\nfatal: Unable to process path " + name}
	}
	for _, other := range blocking {
		delete(u.x, other)
	}
	return nil
}

// isSafePath reports whether a path may be that of a file of the index.
func isSafePath(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if !isSafeName(part) {
			return false
		}
	}
	return true
}

// addInformation adds the entry that --cacheinfo gives, as MODE,OBJECT,PATH or as three arguments, and returns the arguments after it.
func (u *indexUpdate) addInformation(args []string) ([]string, error) {
	var fields []string
	switch {
	case len(args) > 0 && strings.Count(args[0], ",") >= 2:
		fields, args = strings.SplitN(args[0], ",", 3), args[1:]
	case len(args) >= 3:
		fields, args = args[:3], args[3:]
	default:
		return nil, &failure{129, "error: option 'cacheinfo' expects <mode>,<sha1>,<path>"}
	}
	mode, err := strconv.ParseUint(fields[0], 8, 32)
	if i := id(fields[1]); err != nil || !i.isValid() {
		return nil, &failure{129, "error: option 'cacheinfo' expects <mode>,<sha1>,<path>"}
	}
	_, known := u.x[fields[2]]
	if !known && !u.add || !u.putInformation(uint32(mode), id(fields[1]), 0, fields[2]) {
		return nil, newFatal("git update-index: --cacheinfo cannot add %s", fields[2])
	}
	return args, nil
}

// putInformation puts an entry into the index, at a stage of a conflict unless that is 0, and reports whether it may be there.
func (u *indexUpdate) putInformation(mode uint32, i id, stage int, name string) bool {
	switch {
	case mode&0o170000 == 0o100000:
		mode = 0o100644 | mode&0o100>>6*0o111
	case mode != modeLink && mode != modeRepo:
		return false
	}
	if !isSafePath(name) {
		return false
	}
	u.p.Alloc(int64(len(name)) + 250)
	if stage > 0 {
		delete(u.x, name)
		sides := u.conflicts[name]
		sides[stage-1] = treeEntry{mode, i}
		u.conflicts[name] = sides
		return true
	}
	if u.clearPath(name) != nil {
		return false
	}
	delete(u.conflicts, name)
	u.x[name] = indexEntry{treeEntry: treeEntry{mode, i}}
	u.report("add '%s'", name)
	return true
}

// readInformation reads entries from standard input, in the formats of ls-files -s, ls-tree and MODE OBJECT.
func (u *indexUpdate) readInformation() error {
	u.replace = true
	return u.eachLine(func(line string) error {
		bad := newFatal("malformed index info %s", line)
		head, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) < 2 || len(fields) > 3 {
			return bad
		}
		stage, object := 0, fields[1]
		if len(fields) == 3 {
			if n, err := strconv.Atoi(fields[2]); err == nil && n >= 0 && n <= 3 && len(fields[2]) == 1 {
				stage = n
			} else {
				object = fields[2]
			}
		}
		if strings.HasPrefix(name, `"`) && !u.zeroEnds {
			if text, err := strconv.Unquote(name); err == nil {
				name = text
			}
		}
		mode, err := strconv.ParseUint(fields[0], 8, 32)
		if i := id(object); err != nil || !i.isValid() {
			return bad
		}
		if mode == 0 {
			u.drop(name)
		} else if !u.putInformation(uint32(mode), id(object), stage, name) {
			return newFatal("git update-index: unable to update %s", name)
		}
		return nil
	})
}

// readNames updates the files that standard input names.
func (u *indexUpdate) readNames() error {
	return u.eachLine(u.updateFile)
}

// eachLine calls a function for each line of standard input.
func (u *indexUpdate) eachLine(visit func(line string) error) error {
	b, err := u.p.ReadAll(u.p.Stdin)
	if err != nil {
		return err
	}
	defer u.p.Free(int64(cap(b)))
	end := "\n"
	if u.zeroEnds {
		end = "\x00"
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), end), end) {
		u.p.Tick(1)
		if line == "" {
			continue
		}
		if err := visit(line); err != nil {
			return err
		}
	}
	return nil
}

// workState is workEntry for a file of the index: one that is marked as unchanged or as absent is what the index has.
func (r *repository) workState(name string, e indexEntry) (treeEntry, bool, error) {
	if e.assumed || e.skipped {
		return e.treeEntry, true, nil
	}
	return r.workEntry(name)
}

// dropReplaced removes files from the index that cannot be beside others: a file in whose place there is a directory, or
// files of a directory in whose place there is a file.
func (r *repository) dropReplaced(x index) error {
	for _, name := range sortedKeys(x) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			r.p.Tick(1)
			if _, ok := x[dir]; !ok {
				continue
			}
			info, err := r.p.Lstat(r.root + "/" + dir)
			switch {
			case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, vfs.ENOTDIR):
				return err
			case err == nil && !info.IsDir():
				delete(x, name)
			default:
				delete(x, dir)
			}
		}
	}
	return nil
}
