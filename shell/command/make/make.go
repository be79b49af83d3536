// Package make is the command make: the makefiles of GNU make, without its archives, its jobs at once and its plugins.
package make

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const usage = `Usage: make [OPTION]... [VARIABLE=VALUE]... [TARGET]...
Remake what is older than what it is made of, as a makefile says.

  -f, --file=FILE          read FILE; default: GNUmakefile, makefile, Makefile
  -C, --directory=DIR      change to DIR first
  -I, --include-dir=DIR    search DIR for included makefiles
  -n, --dry-run            print the recipes without running them
  -s, --silent             don't print recipes; --no-silent
  -B, --always-make        take every target for out of date
  -k, --keep-going         go on with what does not depend on a failure
  -i, --ignore-errors      ignore the errors of recipes
  -q, --question           run nothing; status 1 if a target is out of date
  -t, --touch              touch targets instead of running recipes
  -W, --what-if=FILE       take FILE for new
  -o, --old-file=FILE      take FILE for old and don't remake it
  -e, --environment-overrides   the environment's variables take precedence
  -r, --no-builtin-rules, -R, --no-builtin-variables
  -w, --print-directory, --no-print-directory
      --warn-undefined-variables
      --eval=TEXT          read TEXT as a makefile first
  -j, -l, -O, -m, -S: accepted; one recipe runs at a time

Understood are rules (explicit, pattern, static, suffix, double-colon, grouped,
order-only), all kinds of variables, define, conditionals, include, vpath,
export, target-specific variables, .PHONY, .ONESHELL, .SECONDEXPANSION and the
functions of GNU make 4.3 but guile and load. Archives lib(member) and -p, -d
are not supported: use $(info ...) and -n to see what make does.
`

// Commands returns make.
func Commands() []program.Command {
	return []program.Command{{Name: "make", Aliases: []string{"gmake"}, Short: "remake files by the rules of a makefile", Usage: usage, Run: program.FlushOutput(runMake, 2)}}
}

const (
	noPrintDirectory rune = 256 + iota
	warnUndefined
	evalText
	noSilent
)

var options = option.Parser{Options: []option.Option{
	{Short: 'f', Long: "file", Arg: option.Required},
	{Long: "makefile", Arg: option.Required, ID: 'f'},
	{Short: 'C', Long: "directory", Arg: option.Required},
	{Short: 'I', Long: "include-dir", Arg: option.Required},
	{Short: 'n', Long: "dry-run"},
	{Long: "just-print", ID: 'n'},
	{Long: "recon", ID: 'n'},
	{Short: 's', Long: "silent"},
	{Long: "quiet", ID: 's'},
	{Long: "no-silent", ID: noSilent},
	{Short: 'B', Long: "always-make"},
	{Short: 'k', Long: "keep-going"},
	{Short: 'i', Long: "ignore-errors"},
	{Short: 'q', Long: "question"},
	{Short: 't', Long: "touch"},
	{Short: 'W', Long: "what-if", Arg: option.Required},
	{Long: "new-file", Arg: option.Required, ID: 'W'},
	{Long: "assume-new", Arg: option.Required, ID: 'W'},
	{Short: 'o', Long: "old-file", Arg: option.Required},
	{Long: "assume-old", Arg: option.Required, ID: 'o'},
	{Short: 'e', Long: "environment-overrides"},
	{Short: 'r', Long: "no-builtin-rules"},
	{Short: 'R', Long: "no-builtin-variables"},
	{Short: 'w', Long: "print-directory"},
	{Long: "no-print-directory", ID: noPrintDirectory},
	{Long: "warn-undefined-variables", ID: warnUndefined},
	{Long: "eval", Arg: option.Required, ID: evalText},
	{Short: 'E', Arg: option.Required, ID: evalText},
	{Short: 'j', Long: "jobs", Arg: option.Optional},
	{Short: 'l', Long: "load-average", Arg: option.Optional},
	{Short: 'O', Long: "output-sync", Arg: option.Optional},
	{Short: 'm'},
	{Short: 'b'},
	{Short: 'S', Long: "no-keep-going"},
	{Short: 'v', Long: "version"},
	{Short: 'h', Long: "help"},
	{Short: 'p', Long: "print-data-base"},
	{Short: 'd'},
	{Long: "debug", Arg: option.Optional, ID: 'd'},
	{Long: "trace", ID: 't' + 256},
}}

// maker is the state of one run of make.
type maker struct {
	p     *kernel.Proc
	name  string // "make", or "make[1]" when a recipe has started it
	level int

	dryRun, silent, always, keepGoing, ignoreErrors, question, touch bool
	envOverrides, noRules, noVariables, printDir, noPrintDir, warn   bool

	files, includeDirs, goals, evals []string
	newFiles, oldFiles               []string
	flags                            string   // letters for MAKEFLAGS
	commandLine                      []string // VARIABLE=VALUE

	vars      map[string]*variable
	scopes    []map[string]*variable
	exports   map[string]bool
	exportAll bool

	targets      map[string]*target
	patterns     []*rule
	patternVars  []targetAssignment
	searchPaths  []searchPath
	defaultGoal  string
	special      map[string]bool
	mentioned    map[string]bool
	intermediate []string
	second       bool // .SECONDEXPANSION
	suffixes     []string
	suffixRules  []*rule // rules that may be suffix rules

	at        place // the line that is read
	reading   []string
	autos     *automatic
	temp      int64 // charged for expansions, until release
	depth     int
	failure   string // the reason to stop; empty: none
	stopped   bool   // a recipe failed, without -k
	status    int
	ran       int // recipes
	evalDepth int
}

// place is a line of a makefile.
type place struct {
	file string
	line int
}

func (a place) String() string {
	if a.file == "" {
		return ""
	}
	return a.file + ":" + strconv.Itoa(a.line)
}

// fail stops make with a message.
func (m *maker) fail(format string, args ...any) {
	if m.failure == "" {
		prefix := m.name
		if m.at.file != "" {
			prefix = m.at.String()
		}
		m.failure = prefix + ": *** " + fmt.Sprintf(format, args...) + ".  Stop.\n"
		m.status = 2
	}
}

func (m *maker) failed() bool { return m.failure != "" || m.stopped }

// warnf prints a message to standard error.
func (m *maker) warnf(format string, args ...any) {
	_ = m.p.Out().Flush()                                              // the next write reports the error
	_, _ = m.p.Stderr.WriteString(fmt.Sprintf(format, args...) + "\n") // best effort
}

func (m *maker) print(text string) { _, _ = m.p.Out().WriteString(text) } // Flush reports the error

// charge charges memory of an expansion, until release.
func (m *maker) charge(n int) {
	m.p.Alloc(int64(n))
	m.temp += int64(n)
}

// release frees the memory of expansions.
func (m *maker) release() {
	m.p.Free(m.temp)
	m.temp = 0
}

func runMake(p *kernel.Proc) int {
	m := &maker{p: p, name: "make", vars: map[string]*variable{}, exports: map[string]bool{}, targets: map[string]*target{}, special: map[string]bool{}, mentioned: map[string]bool{}}
	if n, err := strconv.Atoi(p.Getenv("MAKELEVEL")); err == nil && n > 0 && n < 1000 {
		m.level, m.name = n, "make["+strconv.Itoa(n)+"]"
	}
	if done, code := m.parseArguments(); done {
		return code
	}
	announce := m.printDir && !m.noPrintDir
	if announce {
		m.print(m.name + ": Entering directory '" + p.Dir() + "'\n")
	}
	m.suffixes = strings.Fields(defaultSuffixes)
	m.defineVariables()
	m.readMakefiles()
	if !m.failed() {
		m.buildGoals()
	}
	m.removeIntermediates()
	if m.failure != "" {
		_ = p.Out().Flush()                    // the next write reports the error
		_, _ = p.Stderr.WriteString(m.failure) // best effort
	}
	if announce {
		m.print(m.name + ": Leaving directory '" + p.Dir() + "'\n")
	}
	return m.status
}

// parseArguments parses MAKEFLAGS and the command line. done means that nothing is to be made.
func (m *maker) parseArguments() (done bool, code int) {
	args := m.p.Args
	if flags := m.p.Getenv("MAKEFLAGS"); flags != "" {
		words := strings.Fields(flags)
		if !strings.HasPrefix(words[0], "-") && !strings.Contains(words[0], "=") {
			words[0] = "-" + words[0]
		}
		inherited := []string{args[0]}
		for _, w := range words {
			if w != "--" {
				inherited = append(inherited, unquoteFlag(w))
			}
		}
		m.p.Args = inherited
		if !m.applyArguments(true) {
			return true, 2
		}
		m.p.Args = args
	}
	m.p.Args = joinJobs(args)
	opts, _, ok := options.Parse(m.p)
	if !ok {
		return true, 2
	}
	for _, o := range opts {
		switch o.Key {
		case 'v':
			m.print("GNU Make 4.3 (atoll)\n")
			return true, 0
		case 'h':
			m.print(usage)
			return true, 0
		case 'p', 'd':
			m.p.Errorf("%s is not supported here: use $(info ...) and -n to see what make does", o.Name)
			return true, 2
		}
	}
	if !m.applyArguments(false) {
		return true, 2
	}
	return false, 0
}

// joinJobs joins -j and -l with a number that follows them.
func joinJobs(args []string) []string {
	var out []string
	for i, a := range args {
		if _, err := strconv.ParseFloat(a, 64); i > 0 && err == nil && (args[i-1] == "-j" || args[i-1] == "-l") {
			out[len(out)-1] += a
			continue
		}
		out = append(out, a)
	}
	return out
}

func unquoteFlag(w string) string {
	return strings.NewReplacer(`\ `, " ", `\\`, `\`, "$$", "$").Replace(w)
}

func (m *maker) applyArguments(inherited bool) bool {
	opts, operands, ok := options.Parse(m.p)
	if !ok {
		return false
	}
	for _, o := range opts {
		if !m.applyOption(o) {
			return false
		}
	}
	for _, a := range operands {
		if name, _, ok := strings.Cut(a, "="); ok && name != "" {
			m.commandLine = append(m.commandLine, a)
		} else if !inherited {
			m.goals = append(m.goals, a)
		}
	}
	return true
}

func (m *maker) applyOption(o option.Setting) bool {
	on := map[rune]*bool{'n': &m.dryRun, 's': &m.silent, 'B': &m.always, 'k': &m.keepGoing, 'i': &m.ignoreErrors, 'q': &m.question, 't': &m.touch, 'e': &m.envOverrides, 'r': &m.noRules, 'R': &m.noVariables, 'w': &m.printDir, noPrintDirectory: &m.noPrintDir, warnUndefined: &m.warn}
	if at := on[o.Key]; at != nil {
		*at = true
		if o.Key < 128 && !strings.ContainsRune(m.flags, o.Key) && o.Key != 'w' {
			m.flags += string(o.Key)
		}
		return true
	}
	switch o.Key {
	case 'f':
		m.files = append(m.files, o.Value)
	case 'I':
		m.includeDirs = append(m.includeDirs, o.Value)
	case 'W':
		m.newFiles = append(m.newFiles, o.Value)
	case 'o':
		m.oldFiles = append(m.oldFiles, o.Value)
	case evalText:
		m.evals = append(m.evals, o.Value)
	case 'S':
		m.keepGoing = false
	case noSilent:
		m.silent = false
	case 'C':
		if err := m.p.Chdir(o.Value); err != nil {
			m.warnf("%s: *** %s: %s.  Stop.", m.name, o.Value, program.Reason(err))
			return false
		}
		m.printDir = !m.silent
	}
	return true
}

// defineVariables defines the variables of the environment, the command line and make itself.
func (m *maker) defineVariables() {
	if m.level > 0 && !m.silent {
		m.printDir = true
	}
	if !m.noVariables {
		for _, line := range strings.Split(builtinVariables, "\n") {
			name, value, _ := strings.Cut(line, "=")
			m.set(name, &variable{value: value, origin: "default", recursive: true})
		}
	}
	for _, e := range m.p.Env {
		name, value, _ := strings.Cut(e, "=")
		if name != "SHELL" && name != "MAKEFLAGS" && name != "MFLAGS" && name != "MAKELEVEL" && name != "MAKEFILES" {
			origin := "environment"
			if m.envOverrides {
				origin = "environment override"
			}
			m.set(name, &variable{value: value, origin: origin, recursive: true, fromEnv: true})
		}
	}
	for _, a := range m.commandLine {
		m.assign(a, "command line")
	}
	letters := []byte(m.flags)
	slices.Sort(letters)
	flags := string(letters)
	if m.noPrintDir {
		flags += " --no-print-directory"
	}
	if len(m.commandLine) > 0 {
		flags += " --"
		for _, a := range m.commandLine {
			flags += " " + strings.NewReplacer(`\`, `\\`, " ", `\ `, "$", "$$").Replace(a)
		}
	}
	for name, value := range map[string]string{"MAKE": "make", "MAKE_COMMAND": "make", "MAKEFLAGS": flags, "MFLAGS": when(m.flags != "", "-"+flags), "MAKELEVEL": strconv.Itoa(m.level), "MAKE_VERSION": "4.3", "CURDIR": m.p.Dir(), "SHELL": "/bin/sh", ".SHELLFLAGS": "-c", "MAKEFILE_LIST": "", "MAKECMDGOALS": strings.Join(m.goals, " "), ".RECIPEPREFIX": "", ".FEATURES": "target-specific order-only second-expansion else-if shortest-stem undefine oneshell", "MAKE_HOST": "x86_64-pc-linux-gnu"} {
		if v := m.vars[name]; v == nil || v.origin != "command line" {
			m.set(name, &variable{value: value, origin: "file"})
		}
	}
}

// builtinVariables are the default variables that makefiles use.
const builtinVariables = `CC=cc
CXX=g++
CPP=$(CC) -E
AR=ar
ARFLAGS=rv
AS=as
LD=ld
RM=rm -f
LEX=lex
YACC=yacc
OUTPUT_OPTION=-o $@
COMPILE.c=$(CC) $(CFLAGS) $(CPPFLAGS) $(TARGET_ARCH) -c
COMPILE.cc=$(CXX) $(CXXFLAGS) $(CPPFLAGS) $(TARGET_ARCH) -c
COMPILE.cpp=$(COMPILE.cc)
LINK.c=$(CC) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS) $(TARGET_ARCH)
LINK.cc=$(CXX) $(CXXFLAGS) $(CPPFLAGS) $(LDFLAGS) $(TARGET_ARCH)
LINK.o=$(CC) $(LDFLAGS) $(TARGET_ARCH)`

// builtinRules are the default rules for which a sandbox may have a use.
const builtinRules = `%.o: %.c
	$(COMPILE.c) $(OUTPUT_OPTION) $<
%.o: %.cc
	$(COMPILE.cc) $(OUTPUT_OPTION) $<
%.o: %.cpp
	$(COMPILE.cpp) $(OUTPUT_OPTION) $<
%: %.o
	$(LINK.o) $^ $(LOADLIBES) $(LDLIBS) -o $@
%: %.c
	$(LINK.c) $^ $(LOADLIBES) $(LDLIBS) -o $@
%: %.cc
	$(LINK.cc) $^ $(LOADLIBES) $(LDLIBS) -o $@
%: %.sh
	cat $< >$@ 
	chmod a+x $@
`

// readMakefiles reads the texts of --eval, and the makefiles.
func (m *maker) readMakefiles() {
	for _, text := range m.evals {
		m.evalText(text)
	}
	files := m.files
	if len(files) == 0 {
		for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
			if _, err := m.p.Stat(name); err == nil {
				files = []string{name}
				break
			}
		}
	}
	for _, name := range files {
		if m.failed() {
			return
		}
		if name == "-" {
			text, err := m.p.ReadAll(m.p.Stdin)
			if err != nil {
				m.fail("standard input: %s", program.Reason(err))
				return
			}
			m.readText("-", string(text))
			continue
		}
		if !m.readFile(name) && !m.failed() {
			m.at = place{}
			m.warnf("%s: %s: No such file or directory", m.name, name)
			m.fail("No rule to make target '%s'", name)
		}
	}
	m.at = place{}
	m.addSuffixRules()
	if !m.noRules && !m.failed() {
		m.readText("", builtinRules)
	}
	m.second = m.second || m.special[".SECONDEXPANSION"]
}

// buildGoals makes the goals, or the default one.
func (m *maker) buildGoals() {
	if v := m.lookup(".DEFAULT_GOAL"); v != nil && v.origin == "file" && v.value != "" {
		m.defaultGoal = strings.TrimSpace(m.expand(v.value))
	}
	goals := m.goals
	if len(goals) == 0 {
		switch {
		case m.defaultGoal != "":
			goals = []string{m.defaultGoal}
		case len(m.files) == 0 && m.vars["MAKEFILE_LIST"].value == "":
			m.fail("No targets specified and no makefile found")
			return
		default:
			m.fail("No targets")
			return
		}
	}
	for _, name := range goals {
		name = strings.TrimPrefix(name, "./")
		before := m.ran
		t := m.update(name, nil)
		switch {
		case m.failed():
			return
		case t.failed:
			if m.question {
				continue
			}
			if m.keepGoing {
				m.warnf("%s: Target '%s' not remade because of errors.", m.name, name)
				continue
			}
			return
		case m.ran == before && !m.silent && !m.question && !m.touch:
			if t.phony || !t.hasRecipe() {
				m.print(m.name + ": Nothing to be done for '" + name + "'.\n")
			} else {
				m.print(m.name + ": '" + name + "' is up to date.\n")
			}
		}
	}
}

// removeIntermediates removes files that only other files needed.
func (m *maker) removeIntermediates() {
	var names []string
	for _, name := range m.intermediate {
		m.p.Tick(1 + len(names)>>3)
		if _, err := m.p.Stat(name); err == nil && !m.dryRun && !slices.Contains(names, name) && m.p.Unlink(name) == nil {
			names = append(names, name)
		}
	}
	if len(names) > 0 && !m.silent {
		m.print("rm " + strings.Join(names, " ") + "\n")
	}
}
