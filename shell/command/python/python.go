// Package python is the command python3. The interpreter, CPython for WebAssembly, is a process of its own (cmd/atoll-python)
// without any rights: every file that it opens, every byte that it reads or writes and its memory are calls to this
// package, which makes them as a process of the sandbox.
package python

import (
	"errors"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// version is the version of the interpreter.
const version = "3.12.0"

const usage = `Usage: python3 [OPTION]... [-c CODE | -m MODULE | FILE | -] [ARG]...
Run Python (CPython 3.12 with its standard library) on the files of the sandbox.

  -c CODE         run CODE
  -m MODULE       run a module of the library, such as json.tool
  -               run standard input
  -b -B -E -I -O -OO -P -q -s -S -u -v -W ARG -X OPT   as python3 has them
  -V, --version

It needs 'atoll setup python' on the host. Not supported: processes, threads,
sockets and servers, ssl, ctypes, multiprocessing, pip (unzip a wheel of plain
Python, and name its directory in PYTHONPATH) and changes of permissions.
Memory is that of the sandbox, 256 MiB at most. Times are UTC.
`

// Commands returns python3.
func Commands() []program.Command {
	return []program.Command{{Name: "python3", Aliases: []string{"python", "python3.12"}, Short: "run Python", Usage: usage, Run: runPython}}
}

// options are the arguments of one call.
type options struct {
	flags []string // of the interpreter
	mode  string   // see wasi.Job
	code  string
	args  []string // those of the script
}

func runPython(p *kernel.Proc) int {
	o, done, code := parseOptions(p)
	if done {
		return code
	}
	if text := refusal(o); text != "" {
		return fail(p, text, 1)
	}
	p.SetSignal(kernel.SIGPIPE, kernel.Ignore) // a closed pipe is an exception of the script
	s := &session{p: p, options: o}
	code, err := s.run()
	switch {
	case errors.Is(err, atoll.ErrUnavailable), errors.Is(err, atoll.ErrUnsupported), errors.Is(err, atoll.ErrQuota):
		return fail(p, reason(err), 127)
	case err != nil:
		return fail(p, reason(err), 134)
	}
	return code
}

// reason returns the text of an error without the name of its class.
func reason(err error) string {
	text := err.Error()
	for _, class := range []error{atoll.ErrUnavailable, atoll.ErrUnsupported, atoll.ErrQuota} {
		text = strings.TrimPrefix(text, class.Error()+": ")
	}
	return text
}

func fail(p *kernel.Proc, text string, code int) int {
	_, _ = p.Stderr.WriteString(p.Name() + ": " + text + "\n") // best effort
	return code
}

// refusal returns why a module can't run here, in words that help more than its exception would; or "".
func refusal(o options) string {
	if o.mode != "m" {
		return ""
	}
	switch module, _, _ := strings.Cut(o.code, "."); module {
	case "pip", "ensurepip", "venv", "virtualenv":
		return "-m " + o.code + ": packages can't be installed in a virtual sandbox: unzip a wheel of plain Python, and name its directory in PYTHONPATH"
	case "http", "socketserver", "xmlrpc", "wsgiref", "pydoc", "idlelib":
		if o.code == "pydoc" && !slices.ContainsFunc(o.args[1:], func(a string) bool { return a == "-p" || a == "-b" || a == "-n" }) {
			return ""
		}
		return "-m " + o.code + ": a virtual sandbox has no sockets, so nothing can listen in it: use a driver with real processes (namespace, docker, kubernetes, microvm)"
	}
	return ""
}

// plainFlags are the options without an argument that the interpreter itself gets.
const plainFlags = "bBdEIOPqsSuvx"

func parseOptions(p *kernel.Proc) (o options, done bool, code int) {
	bad := func(text string) (options, bool, int) {
		return o, true, fail(p, text+"\nusage: python3 [option] ... [-c cmd | -m mod | file | -] [arg] ...\nTry `python3 --help' for more information.", 2)
	}
	args := p.Args[1:]
	for len(args) > 0 {
		p.Tick(1)
		a := args[0]
		if a == "-" || !strings.HasPrefix(a, "-") {
			break
		}
		args = args[1:]
		switch a {
		case "--":
			return finishOptions(o, args), false, 0
		case "--version":
			a = "-V"
		case "--help", "-h", "-?":
			_, _ = p.Stdout.WriteString(usage) // its error has no other place
			return o, true, 0
		}
		if strings.HasPrefix(a, "--") {
			return bad("unknown option " + a)
		}
		for i := 1; i < len(a); i++ {
			switch f := a[i]; {
			case f == 'V':
				_, _ = p.Stdout.WriteString("Python " + version + "\n") // likewise
				return o, true, 0
			case f == 'c' || f == 'm' || f == 'W' || f == 'X':
				value := a[i+1:]
				if value == "" {
					if len(args) == 0 {
						return bad("Argument expected for the -" + string(f) + " option")
					}
					value, args = args[0], args[1:]
				}
				if f == 'c' || f == 'm' {
					o.mode, o.code, o.args = string(f), value, append([]string{"-" + string(f)}, args...)
					return o, false, 0
				}
				o.flags = append(o.flags, "-"+string(f), value)
				i = len(a)
			case f == 'i':
				return o, true, fail(p, "-i: a prompt after a script is not supported", 2)
			case strings.IndexByte(plainFlags, f) >= 0:
				o.flags = append(o.flags, "-"+string(f))
			default:
				return bad("unknown option -" + string(f))
			}
		}
	}
	return finishOptions(o, args), false, 0
}

// finishOptions reads what follows the options: a file and its arguments.
func finishOptions(o options, args []string) options {
	switch {
	case len(args) == 0:
		o.mode, o.args = "stdin", []string{""}
	case args[0] == "-":
		o.mode, o.args = "stdin", args
	default:
		o.mode, o.code, o.args = "file", args[0], args
	}
	return o
}

// start returns what an interpreter gets that is started for this call; nil if one that was started before will do.
func (s *session) start() *wasi.Start {
	cold := len(s.flags) > 0
	for _, v := range s.p.Env {
		cold = cold || strings.HasPrefix(v, "PYTHON")
	}
	tty := s.p.Stdin.IsTerminal() || s.p.Stdout.IsTerminal()
	if !cold && !tty {
		return nil
	}
	return &wasi.Start{Flags: s.flags, Env: s.p.Env, TTY: tty}
}

// job returns what the interpreter is to do.
func (s *session) job() wasi.Job {
	j := wasi.Job{Mode: s.mode, Code: s.code, Args: s.args, Orig: s.p.Args, Dir: s.p.Dir(), Env: s.p.Env}
	if s.mode == "stdin" && s.p.Stdin.IsTerminal() && s.code == "" {
		j.Mode = "prompt"
	}
	return j
}
