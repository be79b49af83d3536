package system

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const xargsUsage = `Usage: xargs [OPTION]... COMMAND [INITIAL-ARGS]...
Run COMMAND with arguments INITIAL-ARGS and more arguments read from input.

  -0, --null                   items are separated by a null, not whitespace
  -a, --arg-file=FILE          read arguments from FILE, not standard input
  -d, --delimiter=CHARACTER    items in input stream are separated by CHARACTER
  -E END                       set logical EOF string
  -I R                         replace R in INITIAL-ARGS with names read from
                                 input, one a line
  -i, --replace[=R]            same as -I R; R is {} if not given
  -L, --max-lines=MAX-LINES    use at most MAX-LINES non-blank input lines per
                                 command line
  -l[MAX-LINES]                similar to -L but defaults to 1
  -n, --max-args=MAX-ARGS      use at most MAX-ARGS arguments per command line
  -o, --open-tty               ignored: there is no terminal
  -P, --max-procs=MAX-PROCS    run at most MAX-PROCS processes at a time
  -p, --interactive            not supported: commands are not interactive
      --process-slot-var=VAR   set environment variable VAR in child processes
  -r, --no-run-if-empty        if there are no arguments, run no COMMAND
  -s, --max-chars=MAX-CHARS    limit length of command line to MAX-CHARS
      --show-limits            show limits on command-line length
  -t, --verbose                print commands before executing them
  -x, --exit                   exit if the size (see -s) is exceeded
      --help                   display this help and exit
`

// xargsLimit is the default of the longest command line.
const xargsLimit = 131072

var xargsOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: '0', Long: "null"},
	{Short: 'a', Long: "arg-file", Arg: option.Required},
	{Short: 'd', Long: "delimiter", Arg: option.Required},
	{Short: 'E', Arg: option.Required},
	{Short: 'e', Long: "eof", Arg: option.Optional},
	{Short: 'I', Arg: option.Required},
	{Short: 'i', Long: "replace", Arg: option.Optional},
	{Short: 'L', Arg: option.Required},
	{Short: 'l', Long: "max-lines", Arg: option.Optional},
	{Short: 'n', Long: "max-args", Arg: option.Required},
	{Short: 'o', Long: "open-tty"},
	{Short: 'P', Long: "max-procs", Arg: option.Required},
	{Short: 'p', Long: "interactive"},
	{Long: "process-slot-var", Arg: option.Required, ID: 'v'},
	{Short: 'r', Long: "no-run-if-empty"},
	{Short: 's', Long: "max-chars", Arg: option.Required},
	{Long: "show-limits", ID: 'S'},
	{Short: 't', Long: "verbose"},
	{Short: 'x', Long: "exit"},
}}

// xargsJob is the state of one run of xargs.
type xargsJob struct {
	p       *kernel.Proc
	command []string
	replace string // empty: append
	eof     string
	delim   int // -1: blanks with quotes
	lines   int
	args    int
	procs   int
	chars   int
	empty   bool // run even without arguments
	verbose bool
	exit    bool
	slotVar string

	in    *bufio.Reader
	line  []string // collected arguments
	size  int      // of them
	fixed int      // of the command
	count int      // collected lines
	ran   bool
	kids  []*kernel.Proc
	slots map[*kernel.Proc]int
	code  int
	stop  bool
}

func runXargs(p *kernel.Proc) int {
	job := &xargsJob{p: p, delim: -1, procs: 1, chars: xargsLimit, empty: true, slots: make(map[*kernel.Proc]int)}
	opts, rest, ok := xargsOptions.Parse(p)
	if !ok {
		return 1
	}
	file := ""
	for _, o := range opts {
		if o.Key == 'a' {
			file = o.Value
			continue
		}
		if !job.applyOption(o) {
			return 1
		}
	}
	job.command = rest
	if len(rest) == 0 {
		job.command = []string{"echo"}
	}
	for _, a := range job.command {
		job.fixed += len(a) + 1
	}
	var src io.Reader = p.Stdin
	if file != "" && file != "-" {
		h, err := p.Open(file)
		if err != nil {
			p.Errorf("Cannot open input file %s: %s", quoting.QuoteWord(file), program.Reason(err))
			return 1
		}
		p.CloseOnExec(h.Fd())
		src = h
	}
	job.in = bufio.NewReaderSize(src, 64<<10)
	if err := job.run(); err != nil {
		p.Errorf("%s", err)
		job.code = 1
	}
	for len(job.kids) > 0 {
		job.waitForOne()
	}
	return job.code
}

// parseNumber parses the value of an option, which must be at least least.
func (job *xargsJob) parseNumber(o option.Setting, least int) (int, bool) {
	n, err := strconv.Atoi(o.Value)
	switch {
	case err != nil:
		job.p.Errorf("invalid number \"%s\" for -%c option", o.Value, o.Key)
	case n < least:
		job.p.Errorf("value %s for -%c option should be >= %d", o.Value, o.Key, least)
	default:
		return n, true
	}
	option.SuggestHelp(job.p)
	return 0, false
}

func (job *xargsJob) applyOption(o option.Setting) bool {
	p := job.p
	ok := true
	switch o.Key {
	case '0':
		job.delim = 0
	case 'd':
		job.delim, ok = job.parseDelimiter(o.Value)
	case 'E', 'e':
		job.eof = o.Value
	case 'I', 'i':
		job.replace = o.Value
		if o.Value == "" {
			job.replace = "{}"
		}
		job.args, job.lines = 0, 0
	case 'L', 'l':
		job.lines = 1
		if o.HasValue {
			job.lines, ok = job.parseNumber(o, 1)
		}
		job.args, job.replace = 0, ""
	case 'n':
		job.args, ok = job.parseNumber(o, 1)
		job.lines = 0
		if ok && job.args == 1 && job.replace != "" { // GNU accepts this
			job.args = 0
		} else {
			job.replace = ""
		}
	case 'P':
		job.procs, ok = job.parseNumber(o, 0)
		if job.procs == 0 {
			job.procs = 64
		}
	case 's':
		job.chars, ok = job.parseNumber(o, 1)
		job.chars = min(job.chars, xargsLimit)
	case 'r':
		job.empty = false
	case 't':
		job.verbose = true
	case 'x':
		job.exit = true
	case 'v':
		job.slotVar = o.Value
	case 'p':
		p.Errorf("there is no terminal to ask on")
		ok = false
	}
	return ok
}

func (job *xargsJob) parseDelimiter(s string) (int, bool) {
	switch {
	case len(s) == 1:
		return int(s[0]), true
	case len(s) == 2 && s[0] == '\\':
		if i := strings.IndexByte(`abfnrtv\0`, s[1]); i >= 0 {
			return int("\a\b\f\n\r\t\v\\\x00"[i]), true
		}
	case len(s) > 2 && s[0] == '\\':
		base, digits := 8, s[1:]
		if s[1] == 'x' {
			base, digits = 16, s[2:]
		}
		if n, err := strconv.ParseUint(digits, base, 8); err == nil {
			return int(n), true
		}
	}
	job.p.Errorf("Invalid input delimiter specification %s: the delimiter must be either a single character or an escape sequence starting with \\.", s)
	return 0, false
}

var errTooLong = errors.New("argument line too long")

var errNoRoom = errors.New("cannot fit single argument within argument list size limit")

// run reads the items and runs the commands.
func (job *xargsJob) run() error {
	if job.fixed > job.chars {
		return errNoRoom
	}
	for !job.stop {
		item, endOfLine, err := job.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if job.eof != "" && item == job.eof && job.delim < 0 {
			break
		}
		if job.replace != "" {
			if err := job.runWithItem(item); err != nil {
				return err
			}
			continue
		}
		if err := job.add(item, endOfLine); err != nil {
			return err
		}
	}
	if job.replace == "" && !job.stop && (len(job.line) > 0 || job.empty && !job.ran) {
		job.flush()
	}
	return nil
}

// add adds an item to the command line. If that became too long, it runs the command first.
func (job *xargsJob) add(item string, endOfLine bool) error {
	cost := len(item) + 1
	if job.fixed+cost > job.chars {
		if len(job.line) > 0 {
			job.flush()
		}
		return errTooLong
	}
	if job.fixed+job.size+cost > job.chars {
		if job.exit {
			return errTooLong
		}
		job.flush()
		if job.stop {
			return nil
		}
	}
	job.p.Alloc(int64(len(item)) + 16)
	job.line = append(job.line, item)
	job.size += cost
	if endOfLine {
		job.count++
	}
	if job.args > 0 && len(job.line) >= job.args || job.lines > 0 && job.count >= job.lines {
		job.flush()
	}
	return nil
}

// flush runs the command with the collected items.
func (job *xargsJob) flush() {
	args := append(append([]string(nil), job.command...), job.line...)
	job.p.Free(int64(job.size) + 15*int64(len(job.line)))
	job.line, job.size, job.count = job.line[:0], 0, 0
	job.start(args)
}

// runWithItem runs the command with an item in place of the replacement string.
func (job *xargsJob) runWithItem(item string) error {
	args := make([]string, len(job.command))
	total := 0
	for i, a := range job.command {
		args[i] = a
		size := len(a)
		if i > 0 {
			size += strings.Count(a, job.replace) * (len(item) - len(job.replace))
		}
		if total += size + 1; total > job.chars {
			return errTooLong
		}
		if i > 0 {
			args[i] = strings.ReplaceAll(a, job.replace, item)
		}
	}
	job.start(args)
	return nil
}

func (job *xargsJob) start(args []string) {
	p := job.p
	job.ran = true
	for len(job.kids) >= job.procs {
		job.waitForOne()
	}
	if job.stop {
		return
	}
	if job.verbose {
		list := make([]string, len(args))
		for i, a := range args {
			list[i] = quoting.ShellEscape.Quote(a, "")
		}
		_, _ = p.Stderr.WriteString(strings.Join(list, " ") + "\n") // best effort
	}
	s, err := p.Command(args)
	if err != nil {
		p.Errorf("%s: %s", args[0], program.Reason(err))
		job.code, job.stop = 126, true
		var ce *kernel.CommandError
		if errors.As(err, &ce) {
			job.code = ce.Code
		}
		return
	}
	null, err := p.OpenAt("/dev/null", 0, 0)
	if err == nil {
		s.Stdin = null
		defer null.Release()
	}
	slot := job.freeSlot()
	if job.slotVar != "" {
		s.Env = setVar(append([]string(nil), p.Env...), job.slotVar+"="+strconv.Itoa(slot))
	}
	if job.procs == 1 {
		st, err := p.Call(s)
		if err != nil {
			p.Errorf("fork: %s", program.Reason(err))
			job.code, job.stop = 1, true
			return
		}
		job.recordStatus(args[0], st)
		return
	}
	c, err := p.Spawn(s)
	if err != nil {
		p.Errorf("fork: %s", program.Reason(err))
		job.code, job.stop = 1, true
		return
	}
	job.kids = append(job.kids, c)
	job.slots[c] = slot
}

// freeSlot returns the lowest slot number that no running command has.
func (job *xargsJob) freeSlot() int {
	used := map[int]bool{}
	for _, c := range job.kids {
		used[job.slots[c]] = true
	}
	n := 0
	for used[n] {
		n++
	}
	return n
}

// waitForOne waits for one of the running commands.
func (job *xargsJob) waitForOne() {
	c, err := job.p.WaitAny(job.kids, false)
	if err != nil {
		job.kids = nil
		return
	}
	for i, k := range job.kids {
		if k == c {
			job.kids = append(job.kids[:i], job.kids[i+1:]...)
			break
		}
	}
	delete(job.slots, c)
	job.recordStatus(job.command[0], c.Result())
}

// recordStatus records the exit status of a command.
func (job *xargsJob) recordStatus(name string, st kernel.Status) {
	switch {
	case st.Signal != 0:
		job.p.Errorf("%s: terminated by signal %d", name, int(st.Signal))
		job.code, job.stop = 125, true
	case st.Code == 255:
		job.p.Errorf("%s: exited with status 255; aborting", name)
		job.code, job.stop = 124, true
	case st.Code != 0 && job.code == 0:
		job.code = 123
	}
}

// next reads an item; endOfLine reports whether it was the last of its line.
func (job *xargsJob) next() (item string, endOfLine bool, err error) {
	job.p.Tick(1)
	switch {
	case job.delim >= 0:
		item, err = job.readTo(byte(job.delim))
		return item, true, err
	case job.replace != "":
		return job.wholeLine()
	}
	return job.readWord()
}

// readTo reads up to a delimiter, which the last item may lack.
func (job *xargsJob) readTo(delim byte) (string, error) {
	var b []byte
	for {
		part, err := job.in.ReadSlice(delim)
		b = append(b, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(b) > xargsLimit {
				return "", errTooLong
			}
			continue
		case errors.Is(err, io.EOF) && len(b) == 0:
			return "", io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return "", err
		}
		return string(stream.TrimDelimiter(b, delim)), nil
	}
}

// wholeLine reads a line for -I: without leading blanks, but with quotes.
func (job *xargsJob) wholeLine() (string, bool, error) {
	for {
		line, ok, err := job.readUnquoted(func(c byte) bool { return c == '\n' })
		if err != nil || ok {
			return strings.TrimLeft(line, " \t"), true, err
		}
	}
}

// readWord reads a word with quotes and reports whether it ends its line. A line that ends with a blank
// continues on the next.
func (job *xargsJob) readWord() (string, bool, error) {
	for {
		w, ok, err := job.readUnquoted(func(c byte) bool { return c == '\n' || c == ' ' || c == '\t' })
		if err != nil {
			return "", false, err
		}
		if ok {
			return w, job.atLineEnd(), nil
		}
	}
}

// atLineEnd reports whether a newline ended the word just read.
func (job *xargsJob) atLineEnd() bool {
	_ = job.in.UnreadByte() // fails at the end of the input
	c, err := job.in.ReadByte()
	return err != nil || c == '\n'
}

// readUnquoted reads up to the end of an item and removes quotes; ok is false for an empty item without
// quotes.
func (job *xargsJob) readUnquoted(ends func(byte) bool) (s string, ok bool, err error) {
	var b []byte
	quote := byte(0)
	for {
		c, err := job.in.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && quote != 0:
			return "", false, job.unmatchedQuote(quote)
		case errors.Is(err, io.EOF) && len(b) == 0 && !ok:
			return "", false, io.EOF
		case errors.Is(err, io.EOF):
			return string(b), true, nil
		case err != nil:
			return "", false, err
		case quote != 0 && c == '\n':
			return "", false, job.unmatchedQuote(quote)
		case c == quote && quote != 0:
			quote = 0
		case quote != 0:
			b = append(b, c)
		case ends(c):
			return string(b), ok || len(b) > 0, nil
		case c == '\'' || c == '"':
			quote, ok = c, true
		case c == '\\':
			if c, err = job.in.ReadByte(); err == nil {
				b = append(b, c)
			}
		default:
			b = append(b, c)
		}
		if len(b) > xargsLimit {
			return "", false, errTooLong
		}
	}
}

func (job *xargsJob) unmatchedQuote(quote byte) error {
	kind := "double"
	if quote == '\'' {
		kind = "single"
	}
	return fmt.Errorf("unmatched %s quote; by default quotes are special to xargs unless you use the -0 option", kind)
}
