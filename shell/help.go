package shell

import (
	"sort"
	"strings"
)

// Builtin describes a builtin of the shell.
type Builtin struct {
	Name    string
	Usage   string
	Summary string
}

// Builtins returns the builtins of the shell, sorted by name.
func Builtins() []Builtin {
	list := make([]Builtin, 0, len(builtinDocs().list))
	for _, d := range builtinDocs().list {
		list = append(list, Builtin{d.name, d.usage, d.summary})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

func bHelp(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "dms")
	if !ok {
		return 2
	}
	if len(rest) == 0 {
		return in.print("help", in.helpOverview())
	}
	b := in.p.Out()
	status := 0
	for _, name := range rest {
		found := false
		for _, d := range Builtins() {
			if d.Name != name && !strings.HasPrefix(d.Name, name) && !in.globMatch(name, d.Name) {
				continue
			}
			if d.Name != name && findDoc(name) != nil {
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

// programHelp returns a line that refers to a program's own help; ok is false
// if there is no such program.
func (in *interp) programHelp(name string) (string, bool) {
	if _, err := in.p.LookIn(in.value("PATH"), name); err != nil {
		return "", false
	}
	return name + ": a program; `" + name + " --help' describes it\n", true
}

// helpOverview lists all builtins, programs and functions.
func (in *interp) helpOverview() string {
	var b strings.Builder
	b.WriteString("GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu), in a virtual sandbox\n")
	b.WriteString("Type `help name' to find out more about the builtin `name', and `name --help' for a program.\n\nShell builtins:\n")
	writeColumns(&b, builtinNames())
	if names := in.programNames(); len(names) > 0 {
		b.WriteString("\nPrograms:\n")
		writeColumns(&b, names)
	}
	if names := in.functionNames(); len(names) > 0 {
		b.WriteString("\nFunctions:\n")
		writeColumns(&b, names)
	}
	return b.String()
}

// writeColumns writes names in columns of equal width.
func writeColumns(b *strings.Builder, names []string) {
	width := 0
	for _, n := range names {
		width = max(width, len(n)+2)
	}
	per := max(1, 76/width)
	rows := (len(names) + per - 1) / per
	for r := 0; r < rows; r++ {
		var line strings.Builder
		for i := r; i < len(names); i += rows {
			line.WriteString(padRight(names[i], width))
		}
		b.WriteString("  " + strings.TrimRight(line.String(), " ") + "\n")
	}
}

// programNames returns the names of the executables in $PATH, sorted.
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

// hasHelp reports whether a builtin supports --help; builtins that print or
// test their arguments don't.
func hasHelp(name string) bool {
	switch name {
	case "echo", "test", "[", "true", "false", ":":
		return false
	}
	return true
}
