package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/awk"
	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const awkUsage = `Usage: awk [OPTION]... 'PROGRAM' [FILE | VAR=VALUE]...
  or:  awk [OPTION]... -f PROGFILE... [FILE | VAR=VALUE]...
Run a program of the AWK language, as GNU awk understands it.

  -f, --file=PROGFILE          read the program from a file; may be repeated
  -e, --source=TEXT            take TEXT as a piece of the program
  -F, --field-separator=FS     set the variable FS
  -v, --assign=VAR=VALUE       set a variable before the program begins
  -b, --characters-as-bytes    take every byte as a character
  -S, --sandbox                refuse system(), pipes and redirections
      --version                say which language this is
      --help                   display this help and exit

The options -c -C -d -D -g -I -L -M -n -N -o -O -p -P -r -s -t of GNU awk are
accepted and ignored.
`

var awkOptions = parsing{ordered: true, options: []option{
	{short: 'f', long: "file", arg: required},
	{short: 'E', long: "exec", arg: required, id: 'f'},
	{short: 'e', long: "source", arg: required},
	{short: 'F', long: "field-separator", arg: required},
	{short: 'v', long: "assign", arg: required},
	{short: 'b', long: "characters-as-bytes"},
	{short: 'S', long: "sandbox"},
	{short: 'V', long: "version"},
	{short: 'h', long: "help"},
	{short: 'c', long: "traditional"},
	{short: 'd', long: "dump-variables", arg: optional},
	{short: 'D', long: "debug", arg: optional},
	{short: 'g', long: "gen-pot"},
	{short: 'I', long: "trace"},
	{short: 'L', long: "lint", arg: optional},
	{short: 'M', long: "bignum"},
	{short: 'n', long: "non-decimal-data"},
	{short: 'N', long: "use-lc-numeric"},
	{short: 'o', long: "pretty-print", arg: optional},
	{short: 'O', long: "optimize"},
	{short: 'p', long: "profile", arg: optional},
	{short: 'P', long: "posix"},
	{short: 'r', long: "re-interval"},
	{short: 's', long: "no-optimize"},
	{short: 't', long: "lint-old"},
	{short: 'C', long: "copyright"},
}}

// awkJob is what the command line asks for.
type awkJob struct {
	srcs    []awk.Source
	vars    []string
	args    []string
	bytes   bool
	sandbox bool
}

func runAwk(p *kernel.Proc) int {
	var job awkJob
	if code, ok := job.read(p); !ok {
		return code
	}
	warn := func(where string, line int, msg string) {
		awkSays(p, fmt.Sprintf("%s:%d: %s", where, line, msg))
	}
	prog, err := awk.Parse(job.srcs, p, warn)
	var bad *awk.SyntaxError
	if errors.As(err, &bad) {
		_, _ = p.Stderr.WriteString(bad.Format(p.Name()) + "\n") // nobody to tell
		return bad.Status()
	}
	return prog.Run(job.config(p))
}

func awkSays(p *kernel.Proc, msg string) {
	_, _ = p.Stderr.WriteString(p.Name() + ": " + msg + "\n") // nobody to tell
}

// read takes the options. When there is nothing to run ok is false.
func (job *awkJob) read(p *kernel.Proc) (code int, ok bool) {
	opts, rest, ok := awkOptions.parse(p)
	if !ok {
		return 1, false
	}
	for _, o := range opts {
		switch o.key {
		case 'f':
			src, err := awkSource(p, o.value)
			if err != nil {
				awkSays(p, fmt.Sprintf("fatal: cannot open source file `%s' for reading: %s", o.value, why(err)))
				return 2, false
			}
			job.srcs = append(job.srcs, awk.Source{Name: o.value, Text: src})
		case 'e':
			job.srcs = append(job.srcs, awk.Source{Text: o.value})
		case 'F':
			job.vars = append(job.vars, "FS="+o.value)
		case 'v':
			job.vars = append(job.vars, o.value)
		case 'b':
			job.bytes = true
		case 'S':
			job.sandbox = true
		case 'h':
			_, _ = p.Out().WriteString(awkUsage) // shows at the flush
			return 0, false
		case 'V':
			_, _ = p.Out().WriteString("awk of atoll, for the language of GNU Awk 5.2.1\n")
			return 0, false
		}
	}
	if len(job.srcs) == 0 {
		if len(rest) == 0 {
			_, _ = p.Stderr.WriteString(awkUsage)
			return 1, false
		}
		job.srcs, rest = []awk.Source{{Text: rest[0]}}, rest[1:]
	}
	job.args = rest
	return 0, true
}

func awkSource(p *kernel.Proc, name string) (string, error) {
	f, err := open(p, name)
	if err != nil {
		return "", err
	}
	defer closeInput(f)
	b, err := p.ReadAll(f)
	return string(b), err
}

func (job *awkJob) config(p *kernel.Proc) *awk.Config {
	c := &awk.Config{
		Name: p.Name(), Args: job.args, Vars: job.vars, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr,
		Environ: p.Env, Bytes: job.bytes || byteLocale(p), Now: p.Now, Zone: zoneOf(p), PID: p.PID(), PPID: p.PPID(), Budget: p,
		OpenRead: func(path string) (io.ReadCloser, error) { return openHandle(p.Open(path)) },
		IsDir:    func(path string) bool { info, err := p.Stat(path); return err == nil && info.IsDir() },
	}
	if job.sandbox {
		return c
	}
	c.OpenWrite = func(path string, add bool) (io.WriteCloser, error) {
		flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if add {
			flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		h, err := p.OpenFile(path, flag, 0o666)
		if err != nil {
			return nil, kernel.Reason(err)
		}
		p.CloseOnExec(h.Fd())
		return h, nil
	}
	c.System = func(line string) int {
		s, err := p.Command([]string{"sh", "-c", line})
		if err != nil {
			awkSays(p, "sh: "+why(err))
			return 127
		}
		st, err := p.Call(s)
		if err != nil {
			return -1
		}
		return awkStatus(st)
	}
	c.Command = func(line string, m awk.Mode) (*awk.Stream, error) { return awkPipe(p, line, m) }
	return c
}

// openHandle gives an error of the kernel the reason alone, and keeps a nil
// handle out of an interface.
func openHandle(h *kernel.Handle, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, kernel.Reason(err)
	}
	return h, nil
}

func awkStatus(st kernel.Status) int {
	if st.Signal != 0 {
		return 256 + int(st.Signal)
	}
	return st.Code
}

// awkPipe starts a command with pipes to and from it.
func awkPipe(p *kernel.Proc, line string, m awk.Mode) (*awk.Stream, error) {
	s, err := p.Command([]string{"sh", "-c", line})
	if err != nil {
		return nil, kernel.Reason(err)
	}
	out := &awk.Stream{}
	var in, from *kernel.Handle
	var theirs []*kernel.Open
	if m != awk.ReadFrom {
		r, w := p.Pipe()
		s.Stdin, theirs = r, append(theirs, r)
		if in, err = adopt(p, w); err != nil {
			return nil, err
		}
		out.W, out.CloseWrite = in, in.Close
	}
	if m != awk.WriteTo {
		r, w := p.Pipe()
		s.Stdout, theirs = w, append(theirs, w)
		if from, err = adopt(p, r); err != nil {
			return nil, err
		}
		out.R = from
	}
	child, err := p.Spawn(s)
	for _, o := range theirs {
		o.Release()
	}
	if err != nil {
		return nil, err
	}
	out.Close = func() (int, error) {
		if in != nil {
			_ = in.Close() // twice after close(cmd, "to")
		}
		if from != nil {
			_ = from.Close() // it was only read
		}
		st, err := p.Wait(child, false)
		return awkStatus(st), err
	}
	return out, nil
}

// adopt gives an end of a pipe a descriptor that children don't inherit.
func adopt(p *kernel.Proc, o *kernel.Open) (*kernel.Handle, error) {
	n, err := p.FreeFD(3)
	if err == nil {
		err = p.SetFD(n, o)
	}
	if err != nil {
		o.Release()
		return nil, err
	}
	p.CloseOnExec(n)
	return p.Handle(n), nil
}

// byteLocale reports whether the locale's characters are bytes.
func byteLocale(p *kernel.Proc) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := p.Getenv(name); v != "" {
			return v == "C" || v == "POSIX" || strings.EqualFold(v, "C.ASCII")
		}
	}
	return false
}
