package shell

import (
	"bufio"
	"sort"
	"strings"
)

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
