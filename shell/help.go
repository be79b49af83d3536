package shell

import (
	"sort"
	"strings"
)

// Builtin is a builtin as help describes it.
type Builtin struct {
	Name    string
	Usage   string
	Summary string
}

// Builtins returns the builtins of the shell, sorted by name.
func Builtins() []Builtin {
	list := make([]Builtin, 0, len(docs().list))
	for _, d := range docs().list {
		list = append(list, Builtin{d.name, d.usage, d.summary})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

func bHelp(in *interp, args []string) int {
	set, rest, ok := in.flags(args, "dms")
	if !ok {
		return 2
	}
	if len(rest) == 0 {
		return in.print("help", in.overview())
	}
	b := in.p.Out()
	status := 0
	for _, name := range rest {
		found := false
		for _, d := range Builtins() {
			if d.Name != name && !strings.HasPrefix(d.Name, name) && !in.globMatch(name, d.Name) {
				continue
			}
			if d.Name != name && describe(name) != nil {
				continue
			}
			found = true
			switch {
			case set['d']:
				b.WriteString(d.Name + " - " + d.Summary + "\n")
			case set['s']:
				b.WriteString(d.Name + ": " + d.Usage + "\n")
			default:
				b.WriteString(d.Name + ": " + d.Usage + "\n    " + d.Summary + "\n")
			}
		}
		if !found {
			if text, isCmd := in.programHelp(name); isCmd {
				b.WriteString(text)
				continue
			}
			in.errorf("help: no help topics match `%s'.  Try `help help' or `man -k %s' or `info %s'.", name, name, name)
			status = 1
		}
	}
	return status
}

// programHelp points at a program's own help.
func (in *interp) programHelp(name string) (string, bool) {
	if _, err := in.p.LookIn(in.value("PATH"), name); err != nil {
		return "", false
	}
	return name + ": a program; `" + name + " --help' describes it\n", true
}

// overview lists everything that can be called.
func (in *interp) overview() string {
	var b strings.Builder
	b.WriteString("GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu), in a virtual sandbox\n")
	b.WriteString("Type `help name' to find out more about the builtin `name', and `name --help' for a program.\n\nShell builtins:\n")
	columns(&b, builtinNames())
	if names := in.programNames(); len(names) > 0 {
		b.WriteString("\nPrograms:\n")
		columns(&b, names)
	}
	if names := in.functionNames(); len(names) > 0 {
		b.WriteString("\nFunctions:\n")
		columns(&b, names)
	}
	return b.String()
}

// columns writes names below each other in columns of equal width.
func columns(b *strings.Builder, names []string) {
	width := 0
	for _, n := range names {
		width = max(width, len(n)+2)
	}
	per := max(1, 76/width)
	rows := (len(names) + per - 1) / per
	for r := 0; r < rows; r++ {
		var line strings.Builder
		for i := r; i < len(names); i += rows {
			line.WriteString(pright(names[i], width))
		}
		b.WriteString("  " + strings.TrimRight(line.String(), " ") + "\n")
	}
}

// programNames returns the executables of $PATH, sorted.
func (in *interp) programNames() []string {
	seen := make(map[string]bool)
	for _, dir := range strings.Split(in.value("PATH"), ":") {
		list, err := in.p.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range list {
			if !e.IsDir() && !seen[e.Name()] {
				if _, err := in.p.LookIn("", dir+"/"+e.Name()); err == nil {
					seen[e.Name()] = true
				}
			}
		}
	}
	names := make([]string, 0, len(seen))
	for n := range seen {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// hasHelp reports whether a builtin answers --help; those that print or test
// their arguments don't.
func hasHelp(name string) bool {
	switch name {
	case "echo", "test", "[", "true", "false", ":":
		return false
	}
	return true
}
