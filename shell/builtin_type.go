package shell

import (
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
