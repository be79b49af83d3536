package git

import (
	"bufio"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// call is one call of a subcommand.
type call struct {
	autostash  id // of a rebase that has not begun
	squashOnto id // the empty commit on which rebase --root begins
	*repository
	flags  map[string]string    // given options; "" for those without value
	values map[string][]string  // all values of each option
	order  []string             // options as they were given
	args   []string             // operands before --
	paths  []string             // operands after --
	split  bool                 // -- was given
	later  map[string]treeEntry // staged files that a commit of named files leaves out
	picked bool                 // the commit keeps the author of another one
	text   *bufio.Writer        // where the state of the working tree is printed; nil: standard output
	inner  bool                 // the command is part of another one, which starts no editor
	input  *string              // standard input, once it is read for a message
}

func runGit(p *kernel.Proc) int {
	err := runCommand(p, p.Args[1:])
	var f *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		_ = p.Out().Flush() // the next write reports the error
		if f.msg != "" {
			_, _ = fmt.Fprintln(p.Stderr, f.msg) // best effort
		}
		return f.code
	}
	_ = p.Out().Flush()                                              // likewise
	_, _ = fmt.Fprintf(p.Stderr, "fatal: %s\n", program.Reason(err)) // best effort
	return 128
}

// runCommand applies the options before the command, and runs it.
func runCommand(p *kernel.Proc, args []string) error {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, joined := strings.Cut(args[0], "=")
		if !joined && len(args) > 1 {
			value = args[1]
		}
		used := 1
		switch {
		case name == "--version" || name == "-v":
			return runVersion(p)
		case name == "--help" || name == "-h":
			_, _ = p.Out().WriteString(usage) // Flush reports the error
			return nil
		case name == "-C" && len(args) > 1:
			used = 2
			if err := p.Chdir(args[1]); err != nil {
				return newFatal("cannot change to '%s': %s", args[1], program.Reason(err))
			}
		case name == "-c" && len(args) > 1:
			used = 2
			if key := cutBefore(args[1], "="); checkConfigKey(key) != nil {
				return &failure{128, "error: bogus config parameter: " + key + "\nfatal: unable to parse command-line config"}
			}
			exportConfig(p, args[1])
		case (name == "--git-dir" || name == "--work-tree") && (joined || len(args) > 1):
			if !joined {
				used = 2
			}
			setEnv(p, map[string]string{"--git-dir": "GIT_DIR", "--work-tree": "GIT_WORK_TREE"}[name], value)
		case slices.Contains([]string{"--no-pager", "-P", "-p", "--paginate", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects", "--no-advice"}, name):
		case name == "--exec-path":
			_, _ = fmt.Fprintln(p.Out(), "/usr/lib/git-core") // Flush reports the error
			return nil
		default:
			return &failure{129, "unknown option: " + args[0] + "\n`git --help' lists what this git can do"}
		}
		args = args[used:]
	}
	if len(args) == 0 {
		return &failure{1, strings.TrimSuffix(usage, "\n")}
	}
	return runSubcommand(p, args, 0)
}

func runVersion(p *kernel.Proc) error {
	_, _ = fmt.Fprintln(p.Out(), "git version 2.39.5 (atoll)") // Flush reports the error
	return nil
}

// setEnv sets a variable of the process.
func setEnv(p *kernel.Proc, name, value string) {
	p.Env = append(slices.DeleteFunc(slices.Clone(p.Env), func(e string) bool { return strings.HasPrefix(e, name+"=") }), name+"="+value)
}

// runSubcommand runs a command or what an alias stands for.
func runSubcommand(p *kernel.Proc, args []string, depth int) error {
	name := args[0]
	if len(args) > 1 && (args[1] == "--help" || args[1] == "-h" && name != "grep") || name == "help" {
		_, _ = p.Out().WriteString(usage) // Flush reports the error
		return nil
	}
	c := &call{flags: make(map[string]string), values: make(map[string][]string)}
	sub, ok := subcommands()[name]
	if !ok {
		return runAlias(p, args, depth)
	}
	if err := c.parseArguments(name, sub.options, args[1:]); err != nil {
		return err
	}
	if sub.alone != nil {
		conf, err := readConfig(p, "", "")
		if err != nil {
			return err
		}
		c.repository = &repository{p: p, conf: conf}
		return sub.alone(c)
	}
	r, err := openRepository(p)
	if err != nil {
		outside := slices.Contains([]string{"apply", "config", "diff", "var"}, name) || name == "ls-remote" && len(c.args) > 0
		if !outside {
			return err
		}
		r = &repository{p: p}
		r.conf, r.badConfig = readConfig(p, "", "")
		if name == "apply" || name == "diff" { // of files outside a repository
			r.root, _ = p.Resolve(".") // "": the next check reports the error
		}
	}
	if c.repository = r; r.badConfig != nil && !(name == "config" && c.has("-e", "--edit", "-f", "--file")) {
		return r.badConfig
	}
	if sub.work && r.root == "" {
		return newFatal("this operation must be run in a work tree")
	}
	if !slices.Contains(commandsWithHooks, name) {
		return sub.run(c)
	}
	_, old := c.readHead()
	if err := sub.run(c); err != nil {
		return err
	}
	return c.runHooksAfter(name, old)
}

// runAlias runs what alias.NAME of the configuration stands for, or returns the error for an unknown command.
func runAlias(p *kernel.Proc, args []string, depth int) error {
	r, err := openRepository(p)
	if err != nil {
		r = &repository{p: p}
		r.conf, r.badConfig = readConfig(p, "", "")
	}
	if r.badConfig != nil {
		return r.badConfig
	}
	text, ok := r.conf.lookup("alias." + strings.ToLower(args[0]))
	switch {
	case !ok:
		return errUnknownCommand(args[0])
	case strings.HasPrefix(text, "!"):
		c := &call{repository: r}
		return c.runAlias(text[1:], args[1:])
	case depth >= 10:
		return newFatal("alias loop detected: expansion of '%s' does not terminate", args[0])
	}
	words, err := splitAlias(text)
	if err != nil || len(words) == 0 {
		return newFatal("bad alias.%s string: unclosed quote", args[0])
	}
	return runSubcommand(p, append(words, args[1:]...), depth+1)
}

// splitAlias splits an alias at spaces; quotes and backslashes protect them.
func splitAlias(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	open, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, open = c, true
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			word.WriteByte(text[i])
			open = true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if open {
				words = append(words, word.String())
				word.Reset()
			}
			open = false
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if open {
		words = append(words, word.String())
	}
	if quote != 0 {
		return nil, errors.New("unclosed quote")
	}
	return words, nil
}

// parseArguments sorts the arguments of a command into options and operands. Options that end with = have a
// value; those that are listed with and without it have one only if it is joined.
func (c *call) parseArguments(name, options string, args []string) error {
	known := strings.Fields(options)
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if strings.HasPrefix(a, "-") && a != "--" && !slices.Contains(known, "-*") {
			if err := refusal(name, a); err != nil {
				return err
			}
		}
		if a == "--color=never" || a == "--color=auto" {
			continue // nothing is coloured
		}
		long, value, joined := strings.Cut(a, "=")
		if strings.HasPrefix(a, "--") && len(a) > 2 && !slices.Contains(known, long) && !slices.Contains(known, long+"=") {
			long = completeOption(known, long)
			if a = long; joined {
				a += "=" + value
			}
		}
		switch {
		case a == "--":
			c.paths, c.split = args, true
			return nil
		case name == "config" && (len(a) < 2 || a[0] != '-'):
			c.args = append(append(c.args, a), args...) // a value may begin with -
			return nil
		case len(a) < 2 || a[0] != '-' || slices.Contains(known, "-*"):
			c.args = append(c.args, a)
		case joined && value == "" && strings.HasPrefix(a, "--") && slices.Contains(known, a):
			c.setFlag(long, "")
		case slices.Contains(known, a):
			c.setFlag(a, "")
		case slices.Contains(known, a+"=") && len(args) > 0:
			c.setFlag(a, args[0])
			args = args[1:]
		case slices.Contains(known, a+"="):
			return &failure{129, "error: option `" + strings.TrimLeft(a, "-") + "' requires a value"}
		case strings.HasPrefix(a, "--") && joined && slices.Contains(known, long+"="):
			c.setFlag(long, value)
		case a[1] != '-' && slices.Contains(known, a[:2]+"="):
			c.setFlag(a[:2], a[2:])
		case slices.Contains(known, "-n=") && strings.Trim(a[1:], "0123456789") == "":
			c.setFlag("-n", a[1:])
		case a[1] != '-' && len(a) > 2 && slices.Contains(known, a[:2]):
			args = append([]string{a[:2], "-" + a[2:]}, args...)
		default:
			return &failure{129, "error: git " + name + " " + a + " is not supported here; `git --help' lists what this git can do"}
		}
	}
	return nil
}

// completeOption returns the only known option that begins with a name, or the name.
func completeOption(known []string, name string) string {
	found := ""
	for _, option := range known {
		if option = strings.TrimSuffix(option, "="); strings.HasPrefix(option, name) && option != found {
			if found != "" {
				return name
			}
			found = option
		}
	}
	return orDefault(found, name)
}

// setFlag sets an option; messages of several -m are paragraphs.
func (c *call) setFlag(name, value string) {
	if name == "--message" {
		name = "-m"
	}
	c.order = append(c.order, name)
	c.values[name] = append(c.values[name], value)
	if old, ok := c.flags[name]; ok && name == "-m" {
		value = old + "\n\n" + value
	}
	c.flags[name] = value
}

func cutBefore(s, sep string) string {
	head, _, _ := strings.Cut(s, sep)
	return head
}

// has reports whether one of the options was given.
func (c *call) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { _, ok := c.flags[n]; return ok })
}

// relativePath returns an operand as a path of the repository; "" is its root.
func (c *call) relativePath(name string) (string, error) {
	abs := path.Clean(c.p.Path(name))
	if dir, err := c.p.Resolve(path.Dir(abs)); err == nil && abs != "/" {
		abs = path.Join(dir, path.Base(abs))
	}
	if abs == c.root {
		return "", nil
	}
	rest, ok := strings.CutPrefix(abs, strings.TrimSuffix(c.root, "/")+"/")
	if !ok {
		return "", newFatal("%s: '%s' is outside repository at '%s'", name, name, c.root)
	}
	return rest, nil
}

// relativePaths converts operands to paths of the repository.
func (c *call) relativePaths(args []string) ([]string, error) {
	list := make([]string, 0, len(args))
	for _, a := range args {
		exclude := ""
		for _, magic := range []string{":!", ":^", ":(exclude)"} {
			if rest, ok := strings.CutPrefix(a, magic); ok {
				exclude, a = ":!", rest
			}
		}
		if rest, ok := strings.CutPrefix(a, ":/"); ok {
			a = path.Join(c.root, rest)
		}
		if rest, ok := strings.CutPrefix(a, ":(top)"); ok {
			a = path.Join(c.root, rest)
		}
		name, err := c.relativePath(a)
		if err != nil {
			return nil, err
		}
		list = append(list, exclude+name)
	}
	return list, nil
}

// buildIdentity returns the name, address and time of an author or committer.
func (r *repository) buildIdentity(kind string) (string, error) {
	lower := strings.ToLower(kind)
	name := orDefault(r.p.Getenv("GIT_"+kind+"_NAME"), orDefault(r.conf.get(lower+".name"), r.conf.get("user.name")))
	mail := orDefault(r.p.Getenv("GIT_"+kind+"_EMAIL"), orDefault(r.conf.get(lower+".email"), orDefault(r.conf.get("user.email"), r.p.Getenv("EMAIL"))))
	if name == "" || mail == "" {
		return "", &failure{128, strings.ToUpper(kind[:1]) + lower[1:] + " identity unknown\n\n*** Please tell me who you are.\n\nRun\n\n  git config --global user.email \"you@example.com\"\n  git config --global user.name \"Your Name\"\n\nto set your account's default identity.\nOmit --global to set the identity only in this repository.\n\nfatal: empty ident name (for <" + mail + ">) not allowed"}
	}
	clean := func(s string) string {
		return strings.Trim(strings.NewReplacer("<", "", ">", "", "\n", "").Replace(s), " .,:;\"'\\")
	}
	at := r.p.Now().In(datetime.LocalZone(r.p))
	if date := r.p.Getenv("GIT_" + kind + "_DATE"); date != "" {
		var ok bool
		if at, ok = r.parseDate(date); !ok {
			return "", newFatal("invalid date format: %s", date)
		}
	}
	return formatIdentity(clean(name), clean(mail), at), nil
}

func formatMode(mode uint32) string { return strconv.FormatUint(uint64(mode), 8) }
