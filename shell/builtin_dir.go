package shell

import (
	"errors"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

func bPwd(in *interp, args []string) int {
	physical := in.optOn(optPhysical)
	set, _, ok := in.parseFlags(args, "LP")
	if !ok {
		return 2
	}
	if len(set) > 0 {
		physical = set['P']
		if set['P'] && set['L'] {
			physical = strings.LastIndexByte(strings.Join(args, ""), 'P') > strings.LastIndexByte(strings.Join(args, ""), 'L')
		}
	}
	dir := in.workingDir()
	if physical {
		real, err := in.p.Resolve(".")
		if err != nil {
			in.errorf("pwd: error retrieving current directory: %v", kernel.Reason(err))
			return 1
		}
		dir = real
	}
	return in.print("pwd", dir+"\n")
}

// workingDir returns the working directory by the path that led to it, which
// may contain symbolic links.
func (in *interp) workingDir() string { return in.p.Dir() }

func bCd(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "LPe@")
	if !ok {
		return 2
	}
	if len(rest) > 1 {
		in.errorf("cd: too many arguments")
		return 1
	}
	physical := in.optOn(optPhysical)
	if set['P'] != set['L'] {
		physical = set['P']
	}
	dir, show := "", false
	switch {
	case len(rest) == 0:
		home, found := in.get("HOME")
		if !found {
			in.errorf("cd: HOME not set")
			return 1
		}
		if dir = home; dir == "" {
			return 0
		}
	case rest[0] == "-":
		old, found := in.get("OLDPWD")
		if !found {
			in.errorf("cd: OLDPWD not set")
			return 1
		}
		dir, show = old, true
	default:
		dir = rest[0]
	}
	if found, byPath := in.cdPath(dir); byPath {
		dir, show = found, true
	}
	if err := in.changeDir(dir, physical); err != nil {
		if in.shoptOn(shCdableVars) {
			if v, isVar := in.get(dir); isVar && in.changeDir(v, physical) == nil {
				return in.print("cd", in.p.Dir()+"\n")
			}
		}
		in.errorf("cd: %s: %v", dir, kernel.Reason(err))
		return 1
	}
	if show {
		return in.print("cd", in.p.Dir()+"\n")
	}
	return 0
}

// cdPath looks for a directory in those of CDPATH. byPath is set when it was
// found there and not in the working directory.
func (in *interp) cdPath(dir string) (found string, byPath bool) {
	list, set := in.get("CDPATH")
	if !set || list == "" || dir == "" || dir[0] == '/' || dir == "." || dir == ".." ||
		strings.HasPrefix(dir, "./") || strings.HasPrefix(dir, "../") {
		return dir, false
	}
	for _, base := range strings.Split(list, ":") {
		full := path.Join(base, dir)
		if base == "" {
			full = dir
		}
		if in.isDir(full) {
			return full, base != "" && base != "."
		}
	}
	return dir, false
}

// changeDir changes the working directory, PWD and OLDPWD. Unless physical is
// set, ".." removes the last name of the path.
func (in *interp) changeDir(dir string, physical bool) error {
	old := in.p.Dir()
	var target string
	if physical {
		real, err := in.p.Resolve(dir)
		if err != nil {
			return err
		}
		target = real
	} else if err := in.checkWalkable(dir); err != nil {
		return err
	} else {
		target = path.Clean(in.p.Path(dir))
	}
	if err := in.p.Chdir(target); err != nil {
		return err
	}
	in.set("OLDPWD", old)
	in.exportName("OLDPWD")
	in.set("PWD", in.p.Dir())
	in.exportName("PWD")
	return nil
}

// checkWalkable returns an error unless each path before a ".." is a directory.
func (in *interp) checkWalkable(dir string) error {
	if !strings.Contains(dir, "..") {
		return nil
	}
	parts := strings.Split(dir, "/")
	for i, part := range parts {
		if part != ".." || i == 0 {
			continue
		}
		before := strings.Join(parts[:i], "/")
		if before == "" {
			continue
		}
		info, err := in.p.Stat(path.Clean(in.p.Path(before)))
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return vfs.ENOTDIR
		}
	}
	return nil
}

// dirStack returns the directory stack with the working directory first.
func (in *interp) dirStack() []string { return append([]string{in.p.Dir()}, in.dirs...) }

var errStack = errors.New("directory stack")

// stackIndex parses +N or -N.
func stackIndex(arg string, size int) (int, bool) {
	n, ok := parseNumber(arg[1:])
	if !ok || arg[1:] == "" || arg[1] == '+' || arg[1] == '-' {
		return 0, false
	}
	if arg[0] == '-' {
		n = size - 1 - n
	}
	return n, true
}

func bDirs(in *interp, args []string) int {
	clear, lines, numbered, long := false, false, false, false
	pick := -1
	for _, a := range args[1:] {
		switch {
		case a == "--":
		case len(a) > 1 && (a[0] == '+' || a[0] == '-') && a[1] >= '0' && a[1] <= '9':
			n, ok := stackIndex(a, len(in.dirs)+1)
			if !ok || n < 0 || n > len(in.dirs) {
				in.errorf("dirs: %s: %v index out of range", strings.TrimLeft(a, "+-"), errStack)
				return 1
			}
			pick = n
		case len(a) > 1 && a[0] == '-':
			for _, c := range a[1:] {
				switch c {
				case 'c':
					clear = true
				case 'l':
					long = true
				case 'p':
					lines = true
				case 'v':
					lines, numbered = true, true
				default:
					in.errorf("dirs: %s: invalid number", a)
					return in.reportUsage("dirs", "")
				}
			}
		default:
			in.errorf("dirs: %s: invalid option", a)
			return in.reportUsage("dirs", "")
		}
	}
	if clear {
		in.dirs = nil
		return 0
	}
	return in.print("dirs", in.stackText(pick, lines, numbered, long))
}

func (in *interp) stackText(pick int, lines, numbered, long bool) string {
	home, _ := in.get("HOME")
	var b strings.Builder
	for i, d := range in.dirStack() {
		if pick >= 0 && i != pick {
			continue
		}
		if !long && home != "" && home != "/" && (d == home || strings.HasPrefix(d, home+"/")) {
			d = "~" + d[len(home):]
		}
		switch {
		case numbered:
			b.WriteString(padLeft(itoa(i), 2) + "  " + d + "\n")
		case lines:
			b.WriteString(d + "\n")
		default:
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(d)
		}
	}
	if !lines {
		b.WriteByte('\n')
	}
	return b.String()
}

// maxDirs limits the directory stack.
const maxDirs = 10000

func bPushd(in *interp, args []string) int {
	args, quiet := stackArgs(args)
	if len(in.dirs) >= maxDirs {
		in.errorf("pushd: %v: more than %d entries", errStack, maxDirs)
		return 1
	}
	if len(args) > 2 {
		in.errorf("pushd: too many arguments")
		return 1
	}
	all := in.dirStack()
	if len(args) == 1 {
		if len(all) < 2 {
			in.errorf("pushd: no other directory")
			return 1
		}
		return in.setDirStack("pushd", append([]string{all[1], all[0]}, all[2:]...), quiet)
	}
	a := args[1]
	if len(a) > 1 && (a[0] == '+' || a[0] == '-') {
		n, ok := stackIndex(a, len(all))
		if !ok {
			in.errorf("pushd: %s: invalid number", a)
			return in.reportUsage("pushd", "")
		}
		if n < 0 || n >= len(all) {
			if len(all) == 1 {
				in.errorf("pushd: %v empty", errStack)
			} else {
				in.errorf("pushd: %s: %v index out of range", a, errStack)
			}
			return 1
		}
		return in.setDirStack("pushd", append(append([]string(nil), all[n:]...), all[:n]...), quiet)
	}
	if quiet {
		in.dirs = append([]string{a}, in.dirs...)
		return in.print("pushd", in.stackText(-1, false, false, false))
	}
	if a == "-" {
		old, ok := in.get("OLDPWD")
		if !ok {
			in.errorf("pushd: OLDPWD not set")
			return 1
		}
		a = old
	}
	if err := in.changeDir(a, in.optOn(optPhysical)); err != nil {
		in.errorf("pushd: %s: %v", a, kernel.Reason(err))
		return 1
	}
	in.dirs = append([]string{all[0]}, in.dirs...)
	return in.print("pushd", in.stackText(-1, false, false, false))
}

func stackArgs(args []string) (rest []string, quiet bool) {
	rest = args[:1:1]
	for i, a := range args[1:] {
		if a == "-n" {
			quiet = true
			continue
		}
		if a == "--" {
			return append(rest, args[i+2:]...), quiet
		}
		rest = append(rest, a)
	}
	return rest, quiet
}

// setDirStack sets the directory stack and changes to its top.
func (in *interp) setDirStack(name string, all []string, quiet bool) int {
	if !quiet {
		if err := in.changeDir(all[0], in.optOn(optPhysical)); err != nil {
			in.errorf("%s: %s: %v", name, all[0], kernel.Reason(err))
			return 1
		}
	}
	in.dirs = append([]string(nil), all[1:]...)
	return in.print(name, in.stackText(-1, false, false, false))
}

func bPopd(in *interp, args []string) int {
	args, quiet := stackArgs(args)
	all := in.dirStack()
	n := 0
	if len(args) > 1 {
		a := args[1]
		i, ok := 0, false
		if len(a) > 1 && (a[0] == '+' || a[0] == '-') {
			i, ok = stackIndex(a, len(all))
		}
		switch {
		case !ok && a == "":
			in.errorf("popd: %v empty", errStack)
			return 1
		case !ok && a[0] == '-':
			in.errorf("popd: %s: invalid number", a)
			return in.reportUsage("popd", "")
		case !ok:
			in.errorf("popd: %s: invalid argument", a)
			return in.reportUsage("popd", "")
		}
		if len(all) > 1 && (i < 0 || i >= len(all)) {
			in.errorf("popd: %s: %v index out of range", a, errStack)
			return 1
		}
		n = i
	}
	if len(all) < 2 {
		in.errorf("popd: %v empty", errStack)
		return 1
	}
	if n == 0 && quiet {
		n = 1
	}
	rest := append(append([]string(nil), all[:n]...), all[n+1:]...)
	return in.setDirStack("popd", rest, quiet || n > 0)
}
