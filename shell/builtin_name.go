package shell

import (
	"bufio"
	"sort"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

const keywords = " ! [[ ]] case coproc do done elif else esac fi for function if in select then time until while { } "

func isKeyword(name string) bool {
	return name != "" && !strings.Contains(name, " ") && strings.Contains(keywords, " "+name+" ")
}

// printFunction returns the definition of a function as declare -f prints it.
func printFunction(f *function) string { return syntax.Print(f.decl) }

func (in *interp) functionNames() []string {
	names := make([]string, 0, len(in.funcs.m))
	for n := range in.funcs.m {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// meaning is something that a command name can refer to.
type meaning struct {
	kind string // alias, keyword, function, builtin, file
	text string // the alias's text, the file's path
	hash bool   // the path was remembered
}

// lookupMeanings returns what a name refers to, in order of precedence.
func (in *interp) lookupMeanings(name string, all, noFuncs, std bool) []meaning {
	var list []meaning
	if text, ok := in.alias.get(name); ok && in.shoptOn(shExpandAliases) {
		list = append(list, meaning{kind: "alias", text: text})
	}
	if isKeyword(name) {
		list = append(list, meaning{kind: "keyword"})
	}
	if _, ok := in.funcs.get(name); ok && !noFuncs {
		list = append(list, meaning{kind: "function"})
	}
	if in.findBuiltin(name) != nil {
		list = append(list, meaning{kind: "builtin"})
	}
	if len(list) > 0 && !all {
		return list[:1]
	}
	return append(list, in.filesNamed(name, all, std)...)
}

func (in *interp) filesNamed(name string, all, std bool) []meaning {
	path, _ := in.get("PATH")
	if std {
		path = kernel.DefaultPath
	}
	if h, ok := in.hash.get(name); ok && !all && !std && path == in.hashPath {
		return []meaning{{kind: "file", text: h.path, hash: true}}
	}
	if strings.Contains(name, "/") || !all {
		file, err := in.p.LookIn(path, name)
		if err != nil {
			return nil
		}
		return []meaning{{kind: "file", text: file}}
	}
	var list []meaning
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			dir = "."
		}
		if file, err := in.p.LookIn(path, dir+"/"+name); err == nil {
			list = append(list, meaning{kind: "file", text: file})
		}
	}
	return list
}

func bType(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "afptP")
	if !ok {
		return 2
	}
	status := 0
	b := in.p.Out()
	for _, name := range rest {
		var list []meaning
		if set['P'] {
			list = in.filesNamed(name, set['a'], false)
		} else {
			list = in.lookupMeanings(name, set['a'], set['f'], false)
		}
		if len(list) == 0 {
			status = 1
			if !set['t'] && !set['p'] && !set['P'] {
				in.errorf("type: %s: not found", name)
			}
			continue
		}
		for _, m := range list {
			switch {
			case set['t']:
				b.WriteString(m.kind + "\n")
			case set['p'] || set['P']:
				if m.kind == "file" {
					b.WriteString(m.text + "\n")
				}
			default:
				b.WriteString(in.describeMeaning(name, m))
			}
		}
	}
	return status
}

// describeMeaning returns the sentence that type and command -V print.
func (in *interp) describeMeaning(name string, m meaning) string {
	switch m.kind {
	case "alias":
		return name + " is aliased to `" + m.text + "'\n"
	case "keyword":
		return name + " is a shell keyword\n"
	case "function":
		f, _ := in.funcs.get(name)
		return name + " is a function\n" + printFunction(f) + "\n"
	case "builtin":
		if in.optOn(optPosix) && isSpecial(name) {
			return name + " is a special shell builtin\n"
		}
		return name + " is a shell builtin\n"
	}
	if m.hash {
		return name + " is hashed (" + m.text + ")\n"
	}
	return name + " is " + m.text + "\n"
}

// describeAll implements command -v and -V.
func (in *interp) describeAll(names []string, verbose, std bool) int {
	status := 1
	b := in.p.Out()
	for _, name := range names {
		list := in.lookupMeanings(name, false, false, std)
		if len(list) == 0 {
			if verbose {
				in.errorf("command: %s: not found", name)
			}
			continue
		}
		status = 0
		m := list[0]
		switch {
		case verbose:
			b.WriteString(in.describeMeaning(name, m))
		case m.kind == "alias":
			b.WriteString("alias " + name + "=")
			writeSingle(b, m.text)
			b.WriteString("\n")
		case m.kind == "file":
			file := m.text
			if strings.Contains(name, "/") {
				file = name
			}
			b.WriteString(file + "\n")
		default:
			b.WriteString(name + "\n")
		}
	}
	return status
}

func bAlias(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "p")
	if !ok {
		return 2
	}
	b := in.p.Out()
	line := func(name, text string) {
		if !in.optOn(optPosix) || set['p'] {
			b.WriteString("alias ")
		}
		b.WriteString(name + "=")
		writeSingle(b, text)
		b.WriteString("\n")
	}
	if len(rest) == 0 || set['p'] {
		names := make([]string, 0, len(in.alias.m))
		for n := range in.alias.m {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			line(n, in.alias.m[n])
		}
	}
	status := 0
	for _, a := range rest {
		name, text, assign := strings.Cut(a, "=")
		switch {
		case assign && name != "":
			if strings.ContainsAny(name, "/$`&|;()<> \t\n\"'\\") {
				in.errorf("alias: `%s': invalid alias name", name)
				status = 1
				continue
			}
			in.setAlias(name, text)
		default:
			text, found := in.alias.get(a)
			if !found {
				in.errorf("alias: %s: not found", a)
				status = 1
				continue
			}
			line(a, text)
		}
	}
	return status
}

func bUnalias(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "a")
	if !ok {
		return 2
	}
	if set['a'] {
		for n := range in.alias.m {
			in.dropAlias(n)
		}
		return 0
	}
	if len(rest) == 0 {
		return in.reportUsage("unalias", "")
	}
	status := 0
	for _, n := range rest {
		if _, found := in.alias.get(n); !found {
			in.errorf("unalias: %s: not found", n)
			status = 1
			continue
		}
		in.dropAlias(n)
	}
	return status
}

func bHash(in *interp, args []string) int {
	if !in.optOn(optHashall) {
		in.errorf("hash: hashing disabled")
		return 1
	}
	path := ""
	if len(args) > 3 && args[1] == "-p" {
		path = args[2]
		args = append([]string{"hash"}, args[3:]...)
	}
	set, rest, ok := in.parseFlags(args, "lrdt")
	if !ok {
		return 2
	}
	if set['r'] {
		in.hash = cow[hashed]{}
	}
	if len(rest) == 0 {
		if set['r'] {
			return 0
		}
		return in.print("hash", in.hashText(set['l']))
	}
	status := 0
	b := in.p.Out()
	for _, n := range rest {
		var ok bool
		switch {
		case path != "":
			ok = in.hashAs(n, path)
		case set['d'] || set['t']:
			ok = in.showOrForgetHash(b, n, set, len(rest) > 1)
		default:
			ok = in.rehashName(n)
		}
		if !ok {
			status = 1
		}
	}
	return status
}

// hashAs sets the remembered path of a name.
func (in *interp) hashAs(name, path string) bool {
	if in.isDir(path) {
		in.errorf("hash: %s: Is a directory", path)
		return false
	}
	in.hashPath = in.value("PATH")
	in.rememberPath(name, hashed{path, 0})
	return true
}

// showOrForgetHash forgets a name (-d) or prints its path (-t).
func (in *interp) showOrForgetHash(b *bufio.Writer, name string, set map[byte]bool, many bool) bool {
	h, known := in.hash.get(name)
	switch {
	case !known:
		in.errorf("hash: %s: not found", name)
		return false
	case set['d']:
		in.hash.deleteKey(name)
	case set['l']:
		b.WriteString("builtin hash -p " + h.path + " " + name + "\n")
	case many:
		b.WriteString(name + "\t" + h.path + "\n")
	default:
		b.WriteString(h.path + "\n")
	}
	return true
}

// rehashName looks a name up again.
func (in *interp) rehashName(name string) bool {
	if in.findBuiltin(name) != nil || in.funcs.m[name] != nil || strings.Contains(name, "/") {
		return true
	}
	in.hash.deleteKey(name)
	if _, err := in.findProgram(name); err != nil {
		in.errorf("hash: %s: not found", name)
		return false
	}
	h, _ := in.hash.get(name)
	in.hash.set(name, hashed{h.path, 0})
	return true
}

func (in *interp) hashText(reusable bool) string {
	if len(in.hash.m) == 0 {
		if reusable {
			return ""
		}
		return "hash: hash table empty\n"
	}
	names := make([]string, 0, len(in.hash.m))
	for n := range in.hash.m {
		names = append(names, n)
	}
	sort.Strings(names)
	var b strings.Builder
	if !reusable {
		b.WriteString("hits\tcommand\n")
	}
	for _, n := range names {
		h := in.hash.m[n]
		if reusable {
			b.WriteString("builtin hash -p " + h.path + " " + n + "\n")
		} else {
			b.WriteString(padLeft(itoa(h.hits), 4) + "\t" + h.path + "\n")
		}
	}
	return b.String()
}

// limit is a resource limit of ulimit.
type limit struct {
	letter byte
	text   string
	unit   string
	scale  int64
}

func limitTable() []limit {
	return []limit{
		{'R', "real-time non-blocking time", "microseconds, -R", 1},
		{'c', "core file size", "blocks, -c", 512},
		{'d', "data seg size", "kbytes, -d", 1024},
		{'e', "scheduling priority", "-e", 1},
		{'f', "file size", "blocks, -f", 1024},
		{'i', "pending signals", "-i", 1},
		{'l', "max locked memory", "kbytes, -l", 1024},
		{'m', "max memory size", "kbytes, -m", 1024},
		{'n', "open files", "-n", 1},
		{'p', "pipe size", "512 bytes, -p", 512},
		{'q', "POSIX message queues", "bytes, -q", 1},
		{'r', "real-time priority", "-r", 1},
		{'s', "stack size", "kbytes, -s", 1024},
		{'t', "cpu time", "seconds, -t", 1},
		{'u', "max user processes", "-u", 1},
		{'v', "virtual memory", "kbytes, -v", 1024},
		{'x', "file locks", "-x", 1},
	}
}

// limitValue returns the current limit in its unit; -1 means none.
func (in *interp) limitValue(l limit) int64 {
	if v, ok := in.limits[l.letter]; ok {
		return v
	}
	k := in.p.Kernel().Limits()
	switch l.letter {
	case 'n':
		return int64(k.Files)
	case 'u':
		return int64(k.Procs)
	case 'v', 'm':
		return k.Memory / l.scale
	case 'c', 'e', 'r':
		return 0
	case 'p':
		return 8
	case 's':
		return 8192
	}
	return -1
}

func limitText(v int64) string {
	if v < 0 {
		return "unlimited"
	}
	return itoa(int(v))
}

func bUlimit(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "SHabcdefiklmnpqrstuvxPRT")
	if !ok {
		return 2
	}
	if set['a'] {
		var b strings.Builder
		for _, l := range limitTable() {
			b.WriteString(padRight(l.text, 27) + padLeft("("+l.unit+")", 20) + " " + limitText(in.limitValue(l)) + "\n")
		}
		return in.print("ulimit", b.String())
	}
	which := limitTable()[4]
	for _, l := range limitTable() {
		if set[l.letter] {
			which = l
		}
	}
	if len(rest) == 0 {
		return in.print("ulimit", limitText(in.limitValue(which))+"\n")
	}
	v := int64(-1)
	if rest[0] != "unlimited" && rest[0] != "hard" && rest[0] != "soft" {
		n, valid := parseNumber(rest[0])
		if !valid || n < 0 {
			in.errorf("ulimit: %s: invalid number", rest[0])
			return 1
		}
		v = int64(n)
	}
	old := in.limitValue(which)
	if old >= 0 && (v < 0 || v > old) {
		in.errorf("ulimit: %s: cannot modify limit: Operation not permitted", which.text)
		return 1
	}
	in.setLimit(which.letter, v)
	return 0
}

func (in *interp) setLimit(letter byte, v int64) {
	m := make(map[byte]int64, len(in.limits)+1)
	for k, x := range in.limits {
		m[k] = x
	}
	m[letter] = v
	in.limits = m
}
