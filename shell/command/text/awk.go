package text

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/awk"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const awkUsage = `Usage: awk [OPTION]... 'PROGRAM' [FILE | VAR=VALUE]...
  or:  awk [OPTION]... -f PROGFILE... [FILE | VAR=VALUE]...
Run a program of the AWK language, as GNU awk understands it.

  -f, --file=PROGFILE          read the program from a file; may be repeated
  -e, --source=TEXT            take TEXT as a piece of the program
  -i, --include=PROGFILE       read functions and rules from a file
  -i inplace                   write the output for each file into it; with
                               -v inplace::suffix=.bak keep a copy
  -F, --field-separator=FS     set the variable FS
  -v, --assign=VAR=VALUE       set a variable before the program begins
  -b, --characters-as-bytes    take every byte as a character
  -S, --sandbox                refuse system(), pipes and redirections
      --version                print the version of the language
      --help                   display this help and exit

The options -c -C -d -D -g -I -L -M -n -N -o -O -p -P -r -s -t of GNU awk are
accepted and ignored.
`

var awkOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'f', Long: "file", Arg: option.Required},
	{Short: 'E', Long: "exec", Arg: option.Required, ID: 'f'},
	{Short: 'e', Long: "source", Arg: option.Required},
	{Short: 'i', Long: "include", Arg: option.Required},
	{Short: 'F', Long: "field-separator", Arg: option.Required},
	{Short: 'v', Long: "assign", Arg: option.Required},
	{Short: 'b', Long: "characters-as-bytes"},
	{Short: 'S', Long: "sandbox"},
	{Short: 'V', Long: "version"},
	{Short: 'h', Long: "help"},
	{Short: 'c', Long: "traditional"},
	{Short: 'd', Long: "dump-variables", Arg: option.Optional},
	{Short: 'D', Long: "debug", Arg: option.Optional},
	{Short: 'g', Long: "gen-pot"},
	{Short: 'I', Long: "trace"},
	{Short: 'L', Long: "lint", Arg: option.Optional},
	{Short: 'M', Long: "bignum"},
	{Short: 'n', Long: "non-decimal-data"},
	{Short: 'N', Long: "use-lc-numeric"},
	{Short: 'o', Long: "pretty-print", Arg: option.Optional},
	{Short: 'O', Long: "optimize"},
	{Short: 'p', Long: "profile", Arg: option.Optional},
	{Short: 'P', Long: "posix"},
	{Short: 'r', Long: "re-interval"},
	{Short: 's', Long: "no-optimize"},
	{Short: 't', Long: "lint-old"},
	{Short: 'C', Long: "copyright"},
}}

// awkJob is the parsed command line of awk.
type awkJob struct {
	srcs    []awk.Source
	vars    []string
	args    []string
	bytes   bool
	sandbox bool
	edit    bool   // -i inplace
	suffix  string // of the copies of edited files
}

func runAwk(p *kernel.Proc) int {
	var job awkJob
	if code, ok := job.read(p); !ok {
		return code
	}
	warn := func(where string, line int, msg string) {
		reportAwkError(p, fmt.Sprintf("%s:%d: %s", where, line, msg))
	}
	prog, err := awk.Parse(job.srcs, p, warn)
	var bad *awk.SyntaxError
	if errors.As(err, &bad) {
		_, _ = p.Stderr.WriteString(bad.Format(p.Name()) + "\n") // best effort
		return bad.Status()
	}
	c := job.newConfig(p)
	if job.edit {
		e := &awkEditor{p: p, suffix: job.suffix}
		defer e.discard()
		c.BeginFile, c.EndFile = e.begin, e.end
	}
	return prog.Run(c)
}

func reportAwkError(p *kernel.Proc, msg string) {
	_, _ = p.Stderr.WriteString(p.Name() + ": " + msg + "\n") // best effort
}

// read parses the options. ok is false when there is no program to run; code is then the exit status.
func (job *awkJob) read(p *kernel.Proc) (code int, ok bool) {
	opts, rest, ok := awkOptions.Parse(p)
	if !ok {
		return 1, false
	}
	library := 0
	for _, o := range opts {
		switch o.Key {
		case 'i':
			if o.Value == "inplace" || o.Value == "inplace.awk" {
				job.edit = true
				continue
			}
			library++
			fallthrough
		case 'f':
			src, err := readAwkSource(p, o.Value)
			if err != nil {
				reportAwkError(p, fmt.Sprintf("fatal: cannot open source file `%s' for reading: %s", o.Value, program.Reason(err)))
				return 2, false
			}
			job.srcs = append(job.srcs, awk.Source{Name: o.Value, Text: src})
		case 'e':
			job.srcs = append(job.srcs, awk.Source{Text: o.Value})
		case 'F':
			job.vars = append(job.vars, "FS="+o.Value)
		case 'v':
			if name, value, _ := strings.Cut(o.Value, "="); name == "inplace::suffix" || name == "INPLACE_SUFFIX" {
				job.suffix = value
				continue
			}
			job.vars = append(job.vars, o.Value)
		case 'b':
			job.bytes = true
		case 'S':
			job.sandbox = true
		case 'h':
			_, _ = p.Out().WriteString(awkUsage) // Flush reports the error
			return 0, false
		case 'V':
			_, _ = p.Out().WriteString("awk of atoll, for the language of GNU Awk 5.2.1\n")
			return 0, false
		}
	}
	if job.edit && job.sandbox {
		reportAwkError(p, "fatal: -i inplace writes files, which --sandbox refuses")
		return 2, false
	}
	if len(job.srcs) == library {
		if len(rest) == 0 {
			_, _ = p.Stderr.WriteString(awkUsage)
			return 1, false
		}
		job.srcs, rest = append(job.srcs, awk.Source{Text: rest[0]}), rest[1:]
	}
	job.args = rest
	return 0, true
}

// readAwkSource returns the content of a program file.
func readAwkSource(p *kernel.Proc, name string) (string, error) {
	f, err := stream.Open(p, name)
	if err != nil {
		return "", err
	}
	defer stream.Close(f)
	b, err := p.ReadAll(f)
	return string(b), err
}

func (job *awkJob) newConfig(p *kernel.Proc) *awk.Config {
	c := &awk.Config{
		Name: p.Name(), Args: job.args, Vars: job.vars, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr,
		Environ: p.Env, Bytes: job.bytes || character.LocaleIsBytes(p), Now: p.Now, Zone: datetime.LocalZone(p), PID: p.PID(), PPID: p.PPID(), Budget: p,
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
			reportAwkError(p, "sh: "+program.Reason(err))
			return 127
		}
		st, err := p.Call(s)
		if err != nil {
			return -1
		}
		return awkExitStatus(st)
	}
	c.Command = func(line string, m awk.Mode) (*awk.Stream, error) { return startAwkPipe(p, line, m) }
	return c
}

// openHandle returns h as an interface, or nil and the bare reason of err.
func openHandle(h *kernel.Handle, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, kernel.Reason(err)
	}
	return h, nil
}

func awkExitStatus(st kernel.Status) int {
	if st.Signal != 0 {
		return 256 + int(st.Signal)
	}
	return st.Code
}

// startAwkPipe starts a command with pipes to or from it.
func startAwkPipe(p *kernel.Proc, line string, m awk.Mode) (*awk.Stream, error) {
	s, err := p.Command([]string{"sh", "-c", line})
	if err != nil {
		return nil, kernel.Reason(err)
	}
	out := &awk.Stream{}
	var in, from *kernel.Handle
	var theirs []*kernel.FileDescription
	if m != awk.ReadFrom {
		r, w := p.Pipe()
		s.Stdin, theirs = r, append(theirs, r)
		if in, err = assignDescriptor(p, w); err != nil {
			return nil, err
		}
		out.W, out.CloseWrite = in, in.Close
	}
	if m != awk.WriteTo {
		r, w := p.Pipe()
		s.Stdout, theirs = w, append(theirs, w)
		if from, err = assignDescriptor(p, r); err != nil {
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
			_ = from.Close() // it was opened for reading
		}
		st, err := p.Wait(child, false)
		return awkExitStatus(st), err
	}
	return out, nil
}

// assignDescriptor gives one end of a pipe a descriptor that child processes don't inherit.
func assignDescriptor(p *kernel.Proc, o *kernel.FileDescription) (*kernel.Handle, error) {
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
