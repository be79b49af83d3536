package data

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/jq"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const jqUsage = `Usage:	jq [options] <jq filter> [file...]
	jq [options] --args <jq filter> [strings...]
	jq [options] --jsonargs <jq filter> [JSON_TEXTS...]

jq is a tool for processing JSON inputs, applying the given filter to
its JSON text inputs and producing the filter's results as JSON on
standard output.

Some of the options include:
  -n, --null-input          use ` + "`null`" + ` as the single input value;
  -R, --raw-input           read each line as string instead of JSON;
  -s, --slurp               read all inputs into an array and use it as
                            the single input value;
  -c, --compact-output      compact instead of pretty-printed output;
  -r, --raw-output          output strings without escapes and quotes;
      --raw-output0         implies -r and output NUL after each output;
  -j, --join-output         implies -r and output without newline after
                            each output;
  -a, --ascii-output        output strings by only ASCII characters
                            using escape sequences;
  -S, --sort-keys           sort keys of each object on output;
  -C, --color-output        colorize JSON output;
  -M, --monochrome-output   disable colored output;
      --tab                 use tabs for indentation;
      --indent n            use n spaces for indentation (max 7 spaces);
      --unbuffered          flush output stream after each output;
      --stream              parse the input value in streaming fashion;
      --seq                 parse input/output as application/json-seq;
  -f, --from-file file      load filter from the file;
  -L directory              search modules from the directory;
      --arg name value      set $name to the string value;
      --argjson name value  set $name to the JSON value;
      --slurpfile name file set $name to an array of JSON values read
                            from the file;
      --rawfile name file   set $name to string contents of file;
      --args                consume remaining arguments as positional
                            string values;
      --jsonargs            consume remaining arguments as positional
                            JSON values;
  -e, --exit-status         set exit status code based on the output;
  -V, --version             show the version;
  -h, --help                show the help;
  --                        terminates argument processing;

Named arguments are also available as $ARGS.named[], while
positional arguments are available as $ARGS.positional[].
`

// jqJob is the state of one run of jq.
type jqJob struct {
	p          *kernel.Proc
	program    string
	hasProgram bool // program is set
	fromFile   bool // program names a file
	files      []string
	dirs       []string
	named      *jq.Object
	positional []jq.Value // positional arguments
	format     jq.Format

	null, slurp, rawIn, raw, nul, join, seq, stream, unbuffered, exit bool

	in     jqInput
	code   *jq.Code
	errors int // number of unreadable files
}

// jqRefusal is an error in the arguments.
type jqRefusal struct {
	msg    string
	noHint bool // print no hint
}

func (e *jqRefusal) Error() string { return e.msg }

const (
	jqBadUsage   = 2
	jqNotProgram = 3
	jqNoOutput   = 4
	jqFailed     = 5
)

func runJq(p *kernel.Proc) int {
	j := &jqJob{p: p, named: jq.NewObject(), format: jq.Format{Indent: "  "}}
	done, err := j.parseArguments(p.Args[1:])
	if err != nil {
		return j.reportRefusal(err)
	}
	if done {
		return 0
	}
	if err := j.compileProgram(); err != nil {
		return j.reportRefusal(err)
	}
	return j.run()
}

// reportRefusal reports an error that keeps the program from running, and returns the exit status.
func (j *jqJob) reportRefusal(err error) int {
	var bad *jqRefusal
	var compile *jq.CompileError
	switch {
	case errors.As(err, &compile):
		j.p.Errorf("error: %v\n%s\njq: 1 compile error", err, j.program)
		return jqNotProgram
	case errors.As(err, &bad) && !bad.noHint:
		j.p.Errorf("%s", bad.msg)
		_, _ = io.WriteString(j.p.Stderr, "Use jq --help for help with command-line options,\nor see the jq manpage, or online docs  at https://jqlang.github.io/jq\n") // best effort
	default:
		j.p.Errorf("%v", err)
	}
	return jqBadUsage
}

// compileProgram compiles the program, whose variables are the named arguments.
func (j *jqJob) compileProgram() error {
	if j.fromFile {
		text, err := j.p.ReadFile(j.program)
		if err != nil {
			return &jqRefusal{fmt.Sprintf("error: Could not open %s: %s", j.program, program.Reason(err)), true}
		}
		j.program = string(text)
	}
	vars := map[string]jq.Value{"ARGS": j.argsObject()}
	for _, e := range j.named.Entries() {
		vars[e.Key] = e.Value
	}
	if j.dirs == nil {
		j.dirs = []string{".", j.p.Getenv("HOME") + "/.jq", "/usr/lib/jq"}
	}
	cfg := &jq.Config{Vars: vars, Budget: j.p, Paths: j.dirs, Modules: j.readModule, Host: j.newHost()}
	code, err := jq.Compile(j.program, cfg)
	j.code = code
	return err
}

func (j *jqJob) argsObject() jq.Value {
	o := jq.NewObject()
	o.Set("positional", jq.NewArray(j.positional...))
	o.Set("named", j.named)
	return o
}

func (j *jqJob) readModule(name string) (string, bool) {
	text, err := j.p.ReadFile(name)
	return string(text), err == nil
}

func (j *jqJob) newHost() jq.Host {
	return jq.Host{
		Environ:  j.p.Env,
		Zone:     datetime.LocalZone(j.p),
		Input:    j.nextInput,
		Filename: func() jq.Value { return j.in.currentName() },
		Line:     func() int { return j.in.lineNumber() },
		Debug:    func(v jq.Value) { j.printToStderr(v, "\n") },
		Stderr:   func(v jq.Value) { j.printToStderr(v, "") },
		Now: func() (int64, int) {
			t := j.p.Now()
			return t.Unix(), t.Nanosecond()
		},
	}
}

// printToStderr prints a value to standard error.
func (j *jqJob) printToStderr(v jq.Value, end string) {
	_ = j.p.Out().Flush() // the next write reports the error
	if s, ok := v.(string); ok && end == "" {
		_, _ = io.WriteString(j.p.Stderr, s)
		return
	}
	enc := j.code.Encoder(j.p.Stderr, jq.Format{SortKey: j.format.SortKey})
	_ = enc.Encode(v) // best effort
	_, _ = io.WriteString(j.p.Stderr, end)
}

// run applies the program to each input and returns the exit status.
func (j *jqJob) run() int {
	j.in = jqInput{j: j, files: j.files}
	if len(j.files) == 0 {
		j.in.files = []string{"-"}
	}
	status := 0
	switch {
	case j.null:
		status = j.applyToInput(nil)
	case j.exit:
		status = j.applyToInputs(jqNoOutput)
	default:
		status = j.applyToInputs(0)
	}
	switch {
	case status >= jqHalted:
		return status - jqHalted
	case j.errors > 0:
		return jqBadUsage
	}
	return status
}

// applyToInputs applies the program to all inputs until one can't be read, and returns the exit status.
func (j *jqJob) applyToInputs(status int) int {
	for j.errors == 0 {
		v, ok, err := j.nextInput()
		if err != nil {
			return j.parseError(err)
		}
		if !ok {
			return status
		}
		status = j.applyToInput(v)
		if status >= jqHalted {
			return status
		}
	}
	return status
}

// jqHalted is added to the exit status of a program that called halt.
const jqHalted = 1 << 16

func (j *jqJob) parseError(err error) int {
	var syntax *jq.SyntaxError
	if errors.As(err, &syntax) {
		j.p.Errorf("parse error: %v", err)
		return jqFailed
	}
	j.p.Errorf("error: %s", program.Reason(err))
	return jqBadUsage
}

// applyToInput applies the program to one input and returns the exit status.
func (j *jqJob) applyToInput(v jq.Value) int {
	status := 0
	if j.exit {
		status = jqNoOutput
	}
	run := j.code.Run(v)
	for {
		v, ok, err := run.Next()
		if err != nil {
			return j.reportError(err)
		}
		if !ok {
			return status
		}
		if err := j.print(v); err != nil {
			return j.reportError(err)
		}
		if j.exit {
			status = 0
			if v == nil || v == false {
				status = 1
			}
		}
	}
}

// reportError reports the error that ended a program, and returns the exit status.
func (j *jqJob) reportError(err error) int {
	var halt *jq.HaltError
	var raised *jq.Error
	var syntax *jq.SyntaxError
	switch {
	case errors.As(err, &halt):
		return j.reportHalt(halt)
	case errors.As(err, &raised):
		if s, ok := raised.Value.(string); ok {
			j.p.Errorf("error (at %s): %s", j.in.position(), s)
			break
		}
		_ = j.p.Out().Flush() // the next write reports the error
		_, _ = fmt.Fprintf(j.p.Stderr, "jq: error (at %s) (not a string): ", j.in.position())
		j.printToStderr(raised.Value, "\n")
	case errors.As(err, &syntax):
		j.p.Errorf("error (at %s): %v", j.in.position(), err)
	default:
		j.p.Errorf("error: %s", program.Reason(err))
		return jqBadUsage
	}
	return jqFailed
}

// reportHalt prints the value of halt_error and returns the exit status.
func (j *jqJob) reportHalt(h *jq.HaltError) int {
	_, text := h.Value.(string)
	switch {
	case h.Quiet || h.Value == nil:
	case text:
		j.printToStderr(h.Value, "")
	default:
		j.printToStderr(h.Value, "\n")
	}
	return jqHalted + h.Status
}

// print writes one output.
func (j *jqJob) print(v jq.Value) error {
	out := j.p.Out()
	if j.seq {
		_ = out.WriteByte(0x1e) // Flush reports the error
	}
	s, text := v.(string)
	switch {
	case text && j.raw && j.nul && strings.IndexByte(s, 0) >= 0:
		return &jq.Error{Value: "Cannot dump a string containing NUL with --raw-output0 option"}
	case text && j.raw && !j.format.ASCII:
		_, _ = out.WriteString(s)
	default:
		if err := j.code.Encoder(out, j.format).Encode(v); err != nil {
			return err
		}
	}
	switch {
	case j.nul:
		_ = out.WriteByte(0)
	case !j.join:
		_ = out.WriteByte('\n')
	}
	if j.unbuffered {
		return out.Flush()
	}
	return nil
}
