package git

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const usage = `Usage: git [-C DIRECTORY] [-c NAME=VALUE] COMMAND [ARG]...
A part of git: repositories of loose objects, which other gits can read.

  init [-b BRANCH] [DIRECTORY]       create a repository
  add [-A] [-u] [PATH]...            add contents of files to the index
  rm [--cached] [-r] [-f] PATH...    remove files from the working tree and the index
  mv FROM TO                         rename a file
  status [-s] [--porcelain]          show changes of the working tree and the index
  diff [--cached] [--stat] [--name-only] [--name-status] [REVISION [REVISION]] [-- PATH...]
  commit [-a] [-m MESSAGE] [-q] [--amend] [--allow-empty]
  log [-n NUM] [--oneline] [--format=FORMAT] [REVISION] and show [--stat] [REVISION]
  branch [-a] [-d NAME] [--show-current] [NAME [REVISION]]
  switch [-c] BRANCH, checkout [-b] BRANCH, checkout -- PATH...
  restore [--staged] PATH...         restore files
  reset [--soft|--mixed|--hard] [REVISION]
  merge BRANCH                       only fast-forward
  tag [-d] [NAME [REVISION]]
  rev-parse, ls-files, cat-file, config

Other commands, packs, remotes and merges of diverged branches are not supported.
`

// Commands returns git.
func Commands() []program.Command {
	return []program.Command{{Name: "git", Short: "track versions of files", Usage: usage, Run: program.FlushOutput(runGit, 1)}}
}

// call is one call of a subcommand.
type call struct {
	*repository
	flags map[string]string // given options; "" for those without value
	args  []string          // operands before --
	paths []string          // operands after --
	split bool              // -- was given
}

// subcommand is a command of git: its options, "=" after those with a value, and its function.
type subcommand struct {
	options string
	run     func(c *call) error
}

// subcommands returns the commands of git.
func subcommands() map[string]subcommand {
	return map[string]subcommand{
		"add":       {"-A --all -u --update -f --force -v --verbose -N", (*call).addPaths},
		"rm":        {"--cached -r -f --force -q --quiet", (*call).removeFiles},
		"mv":        {"-f -k -v", (*call).renameFile},
		"status":    {"-s --short --porcelain -b --branch --porcelain=v1 -uno -uall --long", (*call).printStatus},
		"diff":      {"--cached --staged --stat --name-only --name-status --quiet --exit-code --no-color -p -u --patch --color=never --no-ext-diff", (*call).printDiff},
		"commit":    {"-a --all -m= --message= -q --quiet --amend --no-edit --allow-empty -F= --file= --author= --date= -n --no-verify --no-gpg-sign --allow-empty-message", (*call).createCommit},
		"log":       {"-n= --max-count= --oneline --format= --pretty= --stat --name-only --name-status -p --patch --no-color --graph --all --no-decorate --decorate --reverse --no-merges", (*call).printLog},
		"show":      {"--stat --name-only --name-status --format= --pretty= --oneline -s --no-patch --no-color", (*call).showRevision},
		"branch":    {"-a --all -d -D --delete -l --list --show-current -m -M -f --force -q -v", (*call).manageBranches},
		"switch":    {"-c= --create= -C= -q --quiet --detach -d", (*call).switchBranch},
		"checkout":  {"-b= -B= -q --quiet --detach -f", (*call).checkOutOperands},
		"restore":   {"--staged -S --worktree -W --source= -s= -q", (*call).restoreOperands},
		"reset":     {"--soft --mixed --hard -q --quiet", (*call).resetHead},
		"merge":     {"--ff-only --ff -m= -q --quiet --no-edit", (*call).mergeBranch},
		"tag":       {"-d --delete -l --list -f --force", (*call).manageTags},
		"rev-parse": {"--show-toplevel --git-dir --abbrev-ref --short --verify -q --is-inside-work-tree --absolute-git-dir --show-prefix", (*call).printRevisions},
		"ls-files":  {"-s --stage -c --cached -o --others --exclude-standard -m --modified", (*call).listFiles},
		"cat-file":  {"-p -t -s -e", (*call).printObject},
		"config":    {"--global --local --get --list -l --unset --add", (*call).manageConfig},
	}
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
	extra := make(map[string]string)
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "--version" || args[0] == "-v":
			_, _ = fmt.Fprintln(p.Out(), "git version 2.39.5 (atoll)") // Flush reports the error
			return nil
		case args[0] == "-C" && len(args) > 1:
			if err := p.Chdir(args[1]); err != nil {
				return newFatal("cannot change to '%s': %s", args[1], program.Reason(err))
			}
			args = args[2:]
		case args[0] == "-c" && len(args) > 1:
			name, value, _ := strings.Cut(args[1], "=")
			extra[strings.ToLower(name)] = value
			args = args[2:]
		case args[0] == "--no-pager" || args[0] == "-P":
			args = args[1:]
		default:
			return &failure{129, "unknown option: " + args[0] + "\n`git --help' lists what this git can do"}
		}
	}
	if len(args) == 0 {
		return &failure{1, strings.TrimSuffix(usage, "\n")}
	}
	if args[0] == "init" {
		return initRepository(p, args[1:], extra)
	}
	sub, ok := subcommands()[args[0]]
	if !ok {
		return &failure{1, "git: '" + args[0] + "' is not supported in a virtual sandbox; `git --help' lists what this git can do"}
	}
	c := &call{flags: make(map[string]string)}
	if err := c.parseArguments(args[0], sub.options, args[1:]); err != nil {
		return err
	}
	r, err := openRepository(p)
	if err != nil {
		if _, global := c.flags["--global"]; args[0] != "config" || !global {
			return err
		}
		r = &repository{p: p, conf: readConfig(p, p.Getenv("HOME")+"/.gitconfig")}
	}
	for name, value := range extra {
		r.conf[name] = value
	}
	c.repository = r
	return sub.run(c)
}

// parseArguments sorts the arguments of a command into options and operands.
func (c *call) parseArguments(name, options string, args []string) error {
	known := strings.Fields(options)
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			c.paths, c.split = args, true
			return nil
		case len(a) < 2 || a[0] != '-':
			c.args = append(c.args, a)
		case slices.Contains(known, a):
			c.flags[a] = ""
		case slices.Contains(known, a+"=") && len(args) > 0:
			c.setFlag(a, args[0])
			args = args[1:]
		case strings.HasPrefix(a, "--") && slices.Contains(known, cutBefore(a, "=")+"="):
			c.setFlag(cutBefore(a, "="), a[len(cutBefore(a, "="))+1:])
		case a[1] != '-' && slices.Contains(known, a[:2]+"="):
			c.setFlag(a[:2], a[2:])
		case name == "log" && strings.Trim(a[1:], "0123456789") == "":
			c.flags["-n"] = a[1:]
		case a[1] != '-' && len(a) > 2 && (slices.Contains(known, a[:2]) || slices.Contains(known, a[:2]+"=")):
			args = append([]string{a[:2], "-" + a[2:]}, args...)
		default:
			return &failure{129, "error: git " + name + " " + a + " is not supported here; `git --help' lists what this git can do"}
		}
	}
	return nil
}

// setFlag sets an option; messages of several -m are paragraphs.
func (c *call) setFlag(name, value string) {
	if name == "--message" {
		name = "-m"
	}
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

// initRepository creates a repository.
func initRepository(p *kernel.Proc, args []string, extra map[string]string) error {
	c := &call{flags: make(map[string]string)}
	if err := c.parseArguments("init", "-b= --initial-branch= -q --quiet", args); err != nil {
		return err
	}
	dir := "."
	if len(c.args) > 0 {
		dir = c.args[0]
	}
	if err := p.MkdirAll(dir, 0o777); err != nil {
		return newFatal("cannot mkdir %s: %s", dir, program.Reason(err))
	}
	root, err := p.Resolve(dir)
	if err != nil {
		return err
	}
	branch := c.flags["-b"] + c.flags["--initial-branch"]
	if branch == "" {
		if branch = extra["init.defaultbranch"]; branch == "" {
			branch = readConfig(p, p.Getenv("HOME")+"/.gitconfig")["init.defaultbranch"]
		}
		if branch == "" {
			branch = "master"
		}
	}
	verb := "Initialized empty"
	git := path.Join(root, ".git")
	if _, err := p.Stat(git + "/HEAD"); err == nil {
		verb = "Reinitialized existing"
	} else {
		for _, d := range []string{"/objects/info", "/objects/pack", "/refs/heads", "/refs/tags", "/info"} {
			if err := p.MkdirAll(git+d, 0o777); err != nil {
				return err
			}
		}
		err = errors.Join(p.WriteFile(git+"/HEAD", []byte("ref: refs/heads/"+branch+"\n"), 0o644),
			p.WriteFile(git+"/config", []byte("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n"), 0o644))
		if err != nil {
			return err
		}
	}
	if !c.has("-q", "--quiet") {
		_, _ = fmt.Fprintf(p.Out(), "%s Git repository in %s/\n", verb, git) // Flush reports the error
	}
	return nil
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

// isBelow reports whether a file is a path or below it.
func isBelow(name, dir string) bool {
	return dir == "" || name == dir || strings.HasPrefix(name, dir+"/")
}

// selects reports whether one of the paths has the file; no paths have all.
func selects(paths []string, name string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(dir string) bool { return isBelow(name, dir) })
}

// relativePaths converts operands to paths of the repository.
func (c *call) relativePaths(args []string) ([]string, error) {
	list := make([]string, 0, len(args))
	for _, a := range args {
		name, err := c.relativePath(a)
		if err != nil {
			return nil, err
		}
		list = append(list, name)
	}
	return list, nil
}

// buildIdentity returns the name, address and time of an author or committer.
func (c *call) buildIdentity(kind string) (string, error) {
	name, mail := c.p.Getenv("GIT_"+kind+"_NAME"), c.p.Getenv("GIT_"+kind+"_EMAIL")
	if name == "" {
		name = c.conf["user.name"]
	}
	if mail == "" {
		mail = c.conf["user.email"]
	}
	if name == "" || mail == "" {
		return "", &failure{128, strings.ToUpper(kind[:1]) + strings.ToLower(kind[1:]) + " identity unknown\n\n*** Please tell me who you are.\n\nRun\n\n  git config --global user.email \"you@example.com\"\n  git config --global user.name \"Your Name\"\n\nto set your account's default identity.\nOmit --global to set the identity only in this repository.\n\nfatal: empty ident name (for <" + mail + ">) not allowed"}
	}
	when := strconv.FormatInt(c.p.Now().Unix(), 10) + " +0000"
	if date := c.p.Getenv("GIT_" + kind + "_DATE"); date != "" {
		at, zone, _ := strings.Cut(strings.TrimPrefix(date, "@"), " ")
		if _, err := strconv.ParseInt(at, 10, 64); err != nil {
			return "", newFatal("invalid date format: %s (this git reads SECONDS ZONE)", date)
		}
		if zone == "" {
			zone = "+0000"
		}
		when = at + " " + zone
	}
	return name + " <" + mail + "> " + when, nil
}

func formatMode(mode uint32) string { return strconv.FormatUint(uint64(mode), 8) }
