package shell

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// flow is how control continues after a statement.
type flow uint8

const (
	flowNext     flow = iota // to the next statement
	flowBreak                // out of in.loopLevels loops
	flowContinue             // to the next iteration of the in.loopLevels-th loop
	flowReturn               // out of the function or the sourced file
	flowExit                 // out of the shell process; its status is in.status
	flowSkip                 // only from the DEBUG trap: do not run the command
)

// run is a compiled statement or list. It sets in.status.
type run func(in *interp) flow

// builtin is a command that the shell implements. A builtin that changes the
// control flow (break, return, exit, eval) sets in.flow.
type builtin func(in *interp, args []string) int

// interp is the state of one shell process: of the session, or of a
// subshell. Only the goroutine of its kernel process uses it.
type interp struct {
	variables // var.go
	p         *kernel.Proc
	sh        *Shell // the session; nil in /bin/sh

	opts   optSet   // set -o
	shopts shoptSet // shopt
	funcs  cow[*function]
	alias  cow[string]
	hash   cow[hashed]
	traps  trapTable
	jobs   jobTable

	params        []string        // $1… ; never changed in place
	paramCost     int64           // memory charged for params by set
	name0         string          // $0
	status        int             // $?
	substs        int             // number of command substitutions so far, for the status of `x=$(…)`
	line          int32           // of the running command
	lastBG        int             // $!
	shellPID      int             // $$
	shellPPID     int             // $PPID
	pipestat      []int           // PIPESTATUS of a pipe; nil: it is pipeOne
	pipeOne       int             // PIPESTATUS of a single command
	loopLevels    int             // number of loops that break and continue affect
	loops         int             // number of loops around the command
	callDepth     int             // number of active function calls
	ignoreFailure int             // above 0, a failing command does not trigger set -e
	subshellLevel int             // BASH_SUBSHELL
	flow          flow            // requested by a builtin
	aborting      *abort          // the panic in progress
	frames        []frame         // calls of functions and files, the innermost last
	dirs          []string        // directory stack, without the current directory
	node          syntax.Node     // the running command, for BASH_COMMAND
	command       string          // BASH_COMMAND if node is nil
	last          string          // the last argument of the last command, $_
	hashPath      string          // the PATH that hash was filled with
	disabled      map[string]bool // builtins that enable -n disabled; never changed in place
	limits        map[byte]int64  // set by ulimit; never changed in place
	hist          *history
	interactive   *interactiveState // nil in a shell that is not interactive

	substFDs     []int // descriptors of process substitutions
	inherited    int64 // bytes charged for values that were replaced and that children may have
	scratchBytes int64 // bytes charged until the end of the command

	subshell        bool // a forked process
	fromStdin       bool // reads its commands from standard input
	program         bool // only runs a builtin as a program
	inTrap          bool
	usageError      bool // the builtin was called with wrong arguments
	oneshot         bool // the process ends with its first command
	stage           bool // that command is a stage of a pipe
	preparedTargets []preparedTarget
	beforeReturn    int // $? when return was called
	lastPID         int // of the last child, for messages
	indent          int // nesting of eval and substitutions, for PS4
	specs           cow[*completionSpec]
}

// frame is a call of a function, a sourced file or a script.
type frame struct {
	fn     string // FUNCNAME: a function, "source" or "main"
	source string // BASH_SOURCE: where the function was defined
	line   int32  // BASH_LINENO: where it was called
	args   int    // for BASH_ARGC
}

// function is a defined function.
type function struct {
	name     string
	body     run
	decl     *syntax.FuncDecl
	source   string // BASH_SOURCE while it runs
	line     int32  // where it was defined
	export   bool
	traced   bool // declare -ft
	readonly bool // readonly -f
}

// hashed is a remembered location of a command.
type hashed struct {
	path string
	hits int
}

// forkSubshell returns the state of a subshell that runs as p. It shares
// everything with its parent until one of them changes it.
func (in *interp) forkSubshell(p *kernel.Proc) *interp {
	c := *in
	c.variables = in.variables.forkStore()
	c.p = p
	c.funcs = in.funcs.fork()
	c.alias = in.alias.fork()
	c.hash = in.hash.fork()
	c.specs = in.specs.fork()
	c.traps = in.traps.forkTraps(in.opts)
	c.jobs = in.jobs.forkJobs()
	c.frames = in.frames[:len(in.frames):len(in.frames)]
	c.dirs = in.dirs[:len(in.dirs):len(in.dirs)]
	c.subshell = true
	c.subshellLevel++
	c.aborting = nil
	c.oneshot, c.stage = false, false
	c.spareFields = nil
	c.substFDs, c.scratchBytes, c.inherited = nil, 0, 0
	c.flow = flowNext
	if c.interactive != nil { // only the shell that has the terminal controls jobs
		c.interactive = nil
		c.opts &^= optMonitor
	}
	return &c
}

// abort is the panic that ends the current command line, or the process.
type abort struct {
	in   *interp
	exit bool
}

// exitOnError ends the shell process because an expansion failed; the error
// message was printed before. It does not return.
func (in *interp) exitOnError(status int) {
	in.status = status
	in.aborting = &abort{in: in, exit: in.interactive == nil}
	panic(in.aborting)
}

// abortLine ends the current command line (one unit that the parser read)
// because an expansion failed; the error message was printed before. It does
// not return.
func (in *interp) abortLine(status int) {
	if in.optOn(optPosix) && in.interactive == nil {
		in.exitOnError(in.unboundStatus())
	}
	in.status = status
	in.aborting = &abort{in: in}
	panic(in.aborting)
}

// mark records the stacks of the shell, to restore them after an abort.
type mark struct {
	frames, loops, quiet, scopes int
	params                       []string
}

func (in *interp) currentMark() mark {
	return mark{frames: len(in.frames), loops: in.loops, quiet: in.ignoreFailure, scopes: in.scopeDepth(), params: in.params}
}

// runAndCatch runs r and converts an abort into its flow.
func (in *interp) runAndCatch(r run) (f flow) {
	m := in.currentMark()
	defer func() {
		if a := in.aborting; a != nil {
			_ = recover() // it is a: while aborting is set there is no other panic
			f = in.endAbort(a, m)
		}
	}()
	return r(in)
}

// endAbort finishes an abort that was caught, and restores the stacks to m.
func (in *interp) endAbort(a *abort, m mark) flow {
	in.aborting = nil
	in.unwindTo(m)
	if a.exit {
		return flowExit
	}
	return flowNext
}

// unwindTo restores the stacks of the shell to m.
func (in *interp) unwindTo(m mark) {
	in.frames = in.frames[:m.frames]
	in.loops, in.ignoreFailure = m.loops, m.quiet
	for in.scopeDepth() > m.scopes {
		in.popScope()
	}
	in.params = m.params
	in.flow = flowNext
}

// cow is a copy-on-write map: fork is O(1), and the first change after it
// copies the map.
type cow[V any] struct {
	m        map[string]V
	shared   bool
	borrowed bool // m belongs to the shell that this one was forked from
}

func (c *cow[V]) get(name string) (V, bool) {
	v, ok := c.m[name]
	return v, ok
}

// ensureOwned makes sure that the map is not shared.
func (c *cow[V]) ensureOwned() {
	if c.m == nil {
		c.m = make(map[string]V)
	} else if c.shared {
		m := make(map[string]V, len(c.m)+1)
		for k, v := range c.m {
			m[k] = v
		}
		c.m = m
	}
	c.shared, c.borrowed = false, false
}

// copySize returns the number of entries that the next change copies.
func (c *cow[V]) copySize() int {
	if !c.shared {
		return 0
	}
	return len(c.m)
}

func (c *cow[V]) set(name string, v V) {
	c.ensureOwned()
	c.m[name] = v
}

func (c *cow[V]) deleteKey(name string) {
	if _, ok := c.m[name]; ok {
		c.ensureOwned()
		delete(c.m, name)
	}
}

// fork returns a second reference; either copies the map before a change.
func (c *cow[V]) fork() cow[V] {
	c.shared = c.m != nil
	child := *c
	child.borrowed = true
	return child
}

// bashCommand returns BASH_COMMAND, the text of the running command.
func (in *interp) bashCommand() string {
	if in.node == nil {
		return in.command
	}
	return syntax.Print(in.node)
}

// pipeStatus returns PIPESTATUS.
func (in *interp) pipeStatus() []int {
	if in.pipestat != nil {
		return in.pipestat
	}
	return []int{in.pipeOne}
}
