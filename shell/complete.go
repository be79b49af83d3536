package shell

import (
	"context"
	"path"
	"sort"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// completionSpec is a completion specification, as set by complete.
type completionSpec struct {
	actions  []string
	options  []string
	wordlist string
	function string
	command  string
	glob     string
	filter   string
	prefix   string
	suffix   string
	words    bool // -W was given
}

// actionOf returns the action of an option letter of complete and compgen; ""
// for other letters.
func actionOf(letter byte) string {
	switch letter {
	case 'a':
		return "alias"
	case 'b':
		return "builtin"
	case 'c':
		return "command"
	case 'd':
		return "directory"
	case 'e':
		return "export"
	case 'f':
		return "file"
	case 'g':
		return "group"
	case 'j':
		return "job"
	case 'k':
		return "keyword"
	case 's':
		return "service"
	case 'u':
		return "user"
	case 'v':
		return "variable"
	}
	return ""
}

// parseCompOptions parses the options of compgen and complete. print and
// remove are set for -p and -r of complete.
func (in *interp) parseCompOptions(args []string) (c completionSpec, print, remove bool, rest []string, ok bool) {
	i := 1
	for ; i < len(args) && len(args[i]) > 1 && args[i][0] == '-'; i++ {
		if args[i] == "--" {
			i++
			break
		}
		for j := 1; j < len(args[i]); j++ {
			letter := args[i][j]
			if a := actionOf(letter); a != "" {
				c.actions = append(c.actions, a)
				continue
			}
			switch letter {
			case 'p':
				print = true
				continue
			case 'r':
				remove = true
				continue
			case 'D', 'E', 'I':
				continue
			}
			if strings.IndexByte("oAGWFCXPS", letter) < 0 {
				in.errorf("%s: -%c: invalid option", args[0], letter)
				in.reportUsage(args[0], "")
				return c, false, false, nil, false
			}
			value := args[i][j+1:]
			if value == "" {
				if i++; i >= len(args) {
					in.errorf("%s: -%c: option requires an argument", args[0], letter)
					in.reportUsage(args[0], "")
					return c, false, false, nil, false
				}
				value = args[i]
			}
			c.set(letter, value)
			break
		}
	}
	return c, print, remove, args[min(i, len(args)):], true
}

func (c *completionSpec) set(letter byte, value string) {
	switch letter {
	case 'o':
		c.options = append(c.options, value)
	case 'A':
		c.actions = append(c.actions, value)
	case 'G':
		c.glob = value
	case 'W':
		c.wordlist, c.words = value, true
	case 'F':
		c.function = value
	case 'C':
		c.command = value
	case 'X':
		c.filter = value
	case 'P':
		c.prefix = value
	case 'S':
		c.suffix = value
	}
}

func bCompgen(in *interp, args []string) int {
	c, _, _, rest, ok := in.parseCompOptions(args)
	if !ok {
		return 2
	}
	word := ""
	if len(rest) > 0 {
		word = rest[0]
	}
	list := in.generateCandidates(&c, word)
	if len(list) == 0 {
		if c.isEmpty() {
			return 0
		}
		return 1
	}
	in.chargeScratch(2 * (countBytes(list) + len(list)))
	return in.print("compgen", strings.Join(list, "\n")+"\n")
}

// countBytes returns the number of bytes in the words of a list.
func countBytes(list []string) int {
	n := 0
	for _, s := range list {
		n += len(s)
	}
	return n
}

// isEmpty reports whether a specification generates nothing.
func (c *completionSpec) isEmpty() bool {
	return len(c.actions)+len(c.options) == 0 && !c.words && c.function+c.command+c.glob == ""
}

// generateCandidates returns the candidates of a specification for a word.
func (in *interp) generateCandidates(c *completionSpec, word string) []string {
	var list []string
	for _, a := range c.actions {
		list = append(list, in.actionCandidates(a, word)...)
	}
	if c.glob != "" {
		list = append(list, in.globNames(c.glob)...)
	}
	if c.words {
		text := in.expandText(c.wordlist)
		in.chargeScratch(32 * (len(text)/2 + 1)) // at most a word for every two bytes, in two lists
		for _, w := range strings.Fields(text) {
			if strings.HasPrefix(w, word) {
				list = append(list, w)
			}
		}
	}
	if c.function != "" {
		list = append(list, in.callCompFunction(c.function, word)...)
	}
	if c.filter != "" {
		list = in.filterCandidates(list, c.filter, word)
	}
	if c.prefix == "" && c.suffix == "" {
		return list
	}
	in.chargeScratch(countBytes(list) + len(list)*(len(c.prefix)+len(c.suffix)))
	for i := range list {
		in.p.Tick(1 + (len(c.prefix)+len(c.suffix))>>6)
		list[i] = c.prefix + list[i] + c.suffix
	}
	return list
}

func (in *interp) filterCandidates(list []string, filter, word string) []string {
	filter = strings.ReplaceAll(filter, "&", word)
	negate := strings.HasPrefix(filter, "!")
	filter = strings.TrimPrefix(filter, "!")
	var out []string
	for _, s := range list {
		if in.globMatch(filter, s) == negate {
			out = append(out, s)
		}
	}
	return out
}

// callCompFunction calls a completion function and returns COMPREPLY.
func (in *interp) callCompFunction(name, word string) []string {
	fn, ok := in.funcs.get(name)
	if !ok {
		in.errorf("compgen: warning: -F option may not work as you expect")
		return nil
	}
	in.unsetVar("COMPREPLY")
	if f := in.callFunction(fn, []string{name, "compgen", word, ""}); f != flowNext {
		in.flow = f
	}
	return in.arrayValues("COMPREPLY")
}

// actionCandidates returns the names of a kind that begin with word.
func (in *interp) actionCandidates(kind, word string) []string {
	var all []string
	switch kind {
	case "alias":
		for n := range in.alias.m {
			all = append(all, n)
		}
	case "builtin", "enabled", "disabled", "helptopic":
		for _, n := range builtinNames() {
			if kind == "builtin" || kind == "helptopic" || in.disabled[n] == (kind == "disabled") {
				all = append(all, n)
			}
		}
	case "command":
		return in.commandNames(word)
	case "directory", "file":
		return in.fileNames(word, kind == "directory")
	case "export":
		all = in.variableNames(true)
	case "variable":
		all = in.variableNames(false)
	case "arrayvar":
		all = in.arrayNames()
	case "function":
		all = in.functionNames()
	case "keyword":
		all = strings.Fields(keywords)
	case "job", "running":
		for _, j := range in.jobs.list {
			text, _, _ := strings.Cut(in.jobText(j), " ")
			all = append(all, text)
		}
	case "setopt":
		all = strings.Fields(optNames)
	case "shopt":
		all = strings.Fields(shoptNames)
	case "signal":
		for n := 0; n < kernel.NumSignals; n++ {
			all = append(all, trapName(kernel.Signal(n)))
		}
	case "user", "group":
		all = in.accountNames("/etc/" + map[string]string{"user": "passwd", "group": "group"}[kind])
	}
	sort.Strings(all)
	return withPrefix(all, word)
}

func withPrefix(all []string, word string) []string {
	var list []string
	for _, s := range all {
		if strings.HasPrefix(s, word) {
			list = append(list, s)
		}
	}
	return list
}

func (in *interp) accountNames(file string) []string {
	b, err := in.p.ReadFile(file)
	if err != nil {
		return nil
	}
	defer in.p.Free(int64(cap(b)))
	var list []string
	for _, line := range strings.Split(string(b), "\n") {
		if name, _, ok := strings.Cut(line, ":"); ok {
			list = append(list, name)
		}
	}
	return list
}

// commandNames returns the names of all commands that begin with word.
func (in *interp) commandNames(word string) []string {
	if strings.Contains(word, "/") {
		return in.fileNames(word, false)
	}
	seen := make(map[string]bool)
	for n := range in.alias.m {
		seen[n] = true
	}
	for n := range in.funcs.m {
		seen[n] = true
	}
	for _, list := range [][]string{strings.Fields(keywords), builtinNames(), in.programNames()} {
		for _, n := range list {
			seen[n] = true
		}
	}
	var list []string
	for n := range seen {
		if strings.HasPrefix(n, word) {
			list = append(list, n)
		}
	}
	sort.Strings(list)
	return list
}

// fileNames returns the files whose path begins with word.
func (in *interp) fileNames(word string, dirsOnly bool) []string {
	dir, base := path.Split(word)
	from := dir
	if from == "" {
		from = "."
	}
	if home, ok := strings.CutPrefix(from, "~/"); ok {
		from = in.value("HOME") + "/" + home
	}
	entries, err := in.p.ReadDir(from)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, base) || base == "" && strings.HasPrefix(name, ".") {
			continue
		}
		if dirsOnly && !in.isDir(from+"/"+name) {
			continue
		}
		list = append(list, dir+name)
	}
	return list
}

func bComplete(in *interp, args []string) int {
	c, print, remove, names, ok := in.parseCompOptions(args)
	switch {
	case !ok:
		return 2
	case remove && len(names) == 0:
		for n := range in.specs.m {
			in.dropSpec(n)
		}
		return 0
	case remove:
		for _, n := range names {
			in.dropSpec(n)
		}
		return 0
	case print || len(args) == 1:
		return in.printSpecs(names)
	}
	for _, n := range names {
		in.setSpec(n, &c)
	}
	return 0
}

func (in *interp) printSpecs(names []string) int {
	status := 0
	if len(names) == 0 {
		for n := range in.specs.m {
			names = append(names, n)
		}
		sort.Strings(names)
	}
	b := in.p.Out()
	for _, n := range names {
		c, ok := in.specs.get(n)
		if !ok {
			in.errorf("complete: %s: no completion specification", n)
			status = 1
			continue
		}
		b.WriteString("complete " + c.String() + n + "\n")
	}
	return status
}

// String returns the options of complete that define the specification.
func (c *completionSpec) String() string {
	var b strings.Builder
	for _, o := range c.options {
		b.WriteString("-o " + o + " ")
	}
	for _, a := range c.actions {
		letter := ""
		for l := byte('a'); l <= 'v'; l++ {
			if actionOf(l) == a {
				letter = string(l)
			}
		}
		if letter != "" {
			b.WriteString("-" + letter + " ")
		} else {
			b.WriteString("-A " + a + " ")
		}
	}
	for _, x := range []struct{ opt, value string }{
		{"-G", c.glob}, {"-W", c.wordlist}, {"-P", c.prefix}, {"-S", c.suffix}, {"-X", c.filter}, {"-C", c.command},
	} {
		if x.value != "" {
			b.WriteString(x.opt + " ")
			writeSingle(&b, x.value)
			b.WriteString(" ")
		}
	}
	if c.function != "" {
		b.WriteString("-F " + c.function + " ")
	}
	return b.String()
}

func bCompopt(in *interp, args []string) int {
	names, status := 0, 0
	for i := 1; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-o" || a == "+o":
			i++
			continue
		case a == "--" || a == "-D" || a == "-E" || a == "-I":
			continue
		case len(a) > 1 && a[0] == '-':
			in.errorf("compopt: %s: invalid option", a[:2])
			return in.reportUsage("compopt", "")
		}
		names++
		if _, ok := in.specs.get(args[i]); !ok {
			in.errorf("compopt: %s: no completion specification", args[i])
			status = 1
		}
	}
	if names == 0 {
		in.errorf("compopt: not currently executing completion function")
		return 1
	}
	return status
}

// Incomplete reports whether a command needs more lines: an open quote, a
// construct without its end, a here-document without its delimiter, or a
// backslash at the end of the line.
func (s *Shell) Incomplete(command string) bool {
	s.mu.Lock()
	extglob := s.in.shoptOn(shExtglob)
	s.mu.Unlock()
	return needsMoreInput(command, syntax.Options{ExtGlob: func() bool { return extglob }})
}

// needsMoreInput is Incomplete for a text that is parsed with options o.
func needsMoreInput(command string, o syntax.Options) bool {
	f, err := syntax.Parse(command, o)
	if err != nil {
		return isIncomplete(err)
	}
	if strings.HasSuffix(strings.TrimSuffix(command, "\n"), "\\") && !strings.HasSuffix(command, "\n\n") {
		return oddBackslashes(strings.TrimSuffix(command, "\n"))
	}
	open := false
	for _, st := range f.Stmts {
		syntax.Walk(st, func(n syntax.Node) bool {
			if d, ok := n.(*syntax.Heredoc); ok && d.EOF {
				open = true
			}
			return !open
		})
	}
	return open
}

func oddBackslashes(s string) bool {
	return (len(s)-len(strings.TrimRight(s, "\\")))%2 == 1
}

// Complete returns candidates for the word that ends at byte pos of line:
// commands at the position of a command, variables after a dollar sign, files
// elsewhere. The candidates replace line[start:pos].
func (s *Shell) Complete(ctx context.Context, line string, pos int) (start int, list []string) {
	pos = min(max(pos, 0), len(line))
	start = strings.LastIndexAny(line[:pos], " \t\n;|&()<>\"'=`") + 1
	word := line[start:pos]
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	_, err := s.kernel.Run(ctx, kernel.Run{
		Args: []string{s.in.name0}, Dir: s.dir, Umask: s.mask,
		Main: func(p *kernel.Proc) int {
			in := s.in.forkSubshell(p)
			defer in.variables.releaseStore()
			found = in.completeWord(line[:start], word)
			return 0
		},
	})
	if err != nil {
		return start, nil
	}
	return start, found
}

func (in *interp) completeWord(before, word string) []string {
	if name, ok := strings.CutPrefix(word, "${"); ok {
		return wrapNames("${", withPrefix(in.variableNames(false), name), "}")
	}
	if name, ok := strings.CutPrefix(word, "$"); ok {
		return wrapNames("$", withPrefix(in.variableNames(false), name), "")
	}
	head := strings.TrimRight(before, " \t")
	if head == "" || strings.ContainsAny(head[len(head)-1:], ";|&(\n`") || endsInKeyword(head) {
		return in.markDirectories(in.commandNames(word))
	}
	first, _, _ := strings.Cut(strings.TrimLeft(before, " \t"), " ")
	if c, ok := in.specs.get(first); ok && c.function == "" {
		return in.generateCandidates(c, word)
	}
	return in.markDirectories(in.fileNames(word, first == "cd" || first == "rmdir"))
}

// markDirectories appends a slash to directories.
func (in *interp) markDirectories(list []string) []string {
	for i, s := range list {
		if strings.Contains(s, "/") || in.isDir(s) {
			if in.isDir(s) {
				list[i] = s + "/"
			}
		}
	}
	return list
}

func endsInKeyword(head string) bool {
	last := head[strings.LastIndexAny(head, " \t\n;")+1:]
	switch last {
	case "then", "do", "else", "elif", "if", "while", "until", "!", "{", "time":
		return true
	}
	return false
}

func wrapNames(before string, names []string, after string) []string {
	for i := range names {
		names[i] = before + names[i] + after
	}
	return names
}
