package shell

import (
	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// flow says how a statement ended: on to the next, or out of something.
type flow uint8

const (
	flowNext     flow = iota
	flowBreak         // out of in.levels loops
	flowContinue      // to the next turn of the in.levels-th loop
	flowReturn        // out of the function or the sourced file
	flowExit          // out of the shell process; its status is in.status
	flowSkip          // only of the DEBUG trap: the command is not to run
)

// run is a compiled statement or list. It leaves its status in in.status.
type run func(in *interp) flow

// builtin is a command that the shell runs itself. One that changes the flow
// (break, return, exit, eval) leaves it in in.flow.
type builtin func(in *interp, args []string) int

// interp is one shell process: that of the session, or a subshell. It
// belongs to the goroutine of its kernel process.
type interp struct {
	variables // var.go
	p         *kernel.Proc
	sh        *Shell // what the session has in common; nil in /bin/sh

	opts   optSet   // set -o
	shopts shoptSet // shopt
	funcs  cow[*function]
	alias  cow[string]
	hash   cow[hashed]
	traps  trapTable
	jobs   jobTable

	params    []string        // $1… ; never changed in place
	paramCost int64           // what set is charged with for them
	name0     string          // $0
	status    int             // $?
	substs    int             // command substitutions so far, for `x=$(…)`'s status
	line      int32           // of the command that runs
	lastBG    int             // $!
	shellPID  int             // $$
	pipestat  []int           // PIPESTATUS of a pipe; nil: it is pipeOne
	pipeOne   int             // PIPESTATUS of a single command
	levels    int             // how far break and continue go
	loops     int             // loops around the command
	calls     int             // of functions that are under way
	quiet     int             // above 0, a failing command is no reason to exit (set -e)
	level     int             // BASH_SUBSHELL
	flow      flow            // what a builtin asks for
	aborting  *abort          // the panic that is under way
	frames    []frame         // calls of functions and files, the innermost last
	dirs      []string        // directory stack, without the current directory
	node      syntax.Node     // the command that runs, for BASH_COMMAND
	command   string          // BASH_COMMAND where node is nil
	last      string          // the last argument of the last command, $_
	hashPath  string          // the PATH that hash was filled with
	disabled  map[string]bool // builtins that enable -n took away; never changed in place
	limits    map[byte]int64  // set by ulimit; never changed in place
	hist      *history
	person    *person // nil where the shell is not interactive

	substFDs []int // descriptors of process substitutions
	borrowed int64 // bytes charged until the end of the command

	subshell     bool // a forked process
	fromStdin    bool // reads its commands from standard input
	program      bool // only runs a builtin as a program
	inTrap       bool
	misused      bool // the builtin was called with wrong arguments
	oneshot      bool // the process ends with its first command
	stage        bool // that command is a stage of a pipe
	stash        []prepared
	beforeReturn int // $? when return was called
	lastPID      int // of the last child that was called, for messages
	indent       int // how deep eval and substitutions are, for PS4
	comp         cow[compspec]
}

// frame is one call of a function, a sourced file or a script.
type frame struct {
	fn     string // FUNCNAME: a function, "source" or "main"
	source string // BASH_SOURCE: where the function was defined
	line   int32  // BASH_LINENO: where it was called
	args   int    // for BASH_ARGC
}

// function is a defined function.
type function struct {
	name   string
	body   run
	decl   *syntax.FuncDecl
	source string // BASH_SOURCE while it runs
	line   int32  // where it was defined
	export bool
	trace  bool // declare -ft
	frozen bool // readonly -f
}

// hashed is a remembered location of a command.
type hashed struct {
	path string
	hits int
}

// fork makes the state of a subshell that runs as p. It shares everything
// with its parent until one of them changes it.
func (in *interp) fork(p *kernel.Proc) *interp {
	c := *in
	c.variables = in.variables.fork()
	c.p = p
	c.funcs = in.funcs.fork()
	c.alias = in.alias.fork()
	c.hash = in.hash.fork()
	c.traps = in.traps.fork(in.opts)
	c.jobs = in.jobs.fork()
	c.frames = in.frames[:len(in.frames):len(in.frames)]
	c.dirs = in.dirs[:len(in.dirs):len(in.dirs)]
	c.subshell = true
	c.level++
	c.aborting = nil
	c.oneshot, c.stage = false, false
	c.spare = nil
	c.substFDs, c.borrowed = nil, 0
	c.flow = flowNext
	if c.person != nil { // jobs are the business of the shell that has the terminal
		c.person = nil
		c.opts &^= optMonitor
	}
	return &c
}

// abort is the panic that ends the current command line, or the process.
type abort struct {
	in   *interp
	exit bool
}

// fatal ends the shell process because an expansion failed; the message has
// been printed. It does not return.
func (in *interp) fatal(status int) {
	in.status = status
	in.aborting = &abort{in: in, exit: in.person == nil}
	panic(in.aborting)
}

// discard ends the current command line (what one read of the parser gave)
// because an expansion failed; the message has been printed. It does not
// return.
func (in *interp) discard(status int) {
	if in.opt(optPosix) && in.person == nil {
		in.fatal(in.unboundStatus())
	}
	in.status = status
	in.aborting = &abort{in: in}
	panic(in.aborting)
}

// mark is what has to be as it was before an abort.
type mark struct {
	frames, loops, quiet, scopes int
	params                       []string
}

func (in *interp) mark() mark {
	return mark{frames: len(in.frames), loops: in.loops, quiet: in.quiet, scopes: in.scopeDepth(), params: in.params}
}

// catch runs r. An abort that comes out of it is turned into its flow.
func (in *interp) catch(r run) (f flow) {
	m := in.mark()
	defer func() {
		if a := in.aborting; a != nil {
			_ = recover() // it is a; while aborting is set there is no other
			f = in.landed(a, m)
		}
	}()
	return r(in)
}

// landed ends an abort that was caught where m was taken.
func (in *interp) landed(a *abort, m mark) flow {
	in.aborting = nil
	in.rewind(m)
	if a.exit {
		return flowExit
	}
	return flowNext
}

// rewind brings the stacks of the shell back to m.
func (in *interp) rewind(m mark) {
	in.frames = in.frames[:m.frames]
	in.loops, in.quiet = m.loops, m.quiet
	for in.scopeDepth() > m.scopes {
		in.popScope()
	}
	in.params = m.params
	in.flow = flowNext
}

// cow is a map that forks in O(1): it is copied at the first change after.
type cow[V any] struct {
	m      map[string]V
	shared bool
}

func (c *cow[V]) get(name string) (V, bool) {
	v, ok := c.m[name]
	return v, ok
}

func (c *cow[V]) own() {
	if c.m == nil {
		c.m = make(map[string]V)
	} else if c.shared {
		m := make(map[string]V, len(c.m)+1)
		for k, v := range c.m {
			m[k] = v
		}
		c.m = m
	}
	c.shared = false
}

func (c *cow[V]) set(name string, v V) {
	c.own()
	c.m[name] = v
}

func (c *cow[V]) del(name string) {
	if _, ok := c.m[name]; ok {
		c.own()
		delete(c.m, name)
	}
}

// fork returns a copy; both are copied before they are next changed.
func (c *cow[V]) fork() cow[V] {
	c.shared = c.m != nil
	return *c
}

// bashCommand returns the text of the command that runs.
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
