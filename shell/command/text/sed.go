package text

import (
	"errors"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const sedUsage = `Usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...

  -n, --quiet, --silent
                 suppress automatic printing of pattern space
  -e script, --expression=script
                 add the script to the commands to be executed
  -f script-file, --file=script-file
                 add the contents of script-file to the commands to be executed
  --follow-symlinks
                 follow symlinks when processing in place
  -i[SUFFIX], --in-place[=SUFFIX]
                 edit files in place (makes backup if SUFFIX supplied)
  -l N, --line-length=N
                 specify the desired line-wrap length for the 'l' command
  --posix
                 disable all GNU extensions.
  -E, -r, --regexp-extended
                 use extended regular expressions in the script
                 (for portability use POSIX -E).
  -s, --separate
                 consider files as separate rather than as a single,
                 continuous long stream.
      --sandbox
                 operate in sandbox mode (disable e/r/w commands).
  -u, --unbuffered
                 load minimal amounts of data from the input files and flush
                 the output buffers more often
  -z, --null-data
                 separate lines by NUL characters
      --help     display this help and exit
      --version  output version information and exit

If no -e, --expression, -f, or --file option is given, then the first
non-option argument is taken as the sed script to interpret.  All
remaining arguments are names of input files; if no input files are
specified, then the standard input is read.
`

// sedStyle is how sed runs: its command-line options. The script is a sedScript.
type sedStyle struct {
	quiet    bool
	ere      bool
	inPlace  bool
	suffix   string
	separate bool
	follow   bool // edit what a link leads to
	sandbox  bool
	posix    bool
	delim    byte
	wrap     int // the length of lines that l prints
	flush    bool
	bytes    bool // a byte is a character
}

const (
	sedPosix rune = 256 + iota
	sedFollow
	sedSandbox
	sedVersion
)

var sedOptions = option.Parser{Options: []option.Option{
	{Short: 'n', Long: "quiet"},
	{Long: "silent", ID: 'n'},
	{Short: 'e', Long: "expression", Arg: option.Required},
	{Short: 'f', Long: "file", Arg: option.Required},
	{Short: 'i', Long: "in-place", Arg: option.Optional},
	{Short: 'l', Long: "line-length", Arg: option.Required},
	{Long: "posix", ID: sedPosix},
	{Short: 'E', Long: "regexp-extended"},
	{Short: 'r', ID: 'E'},
	{Short: 's', Long: "separate"},
	{Short: 'u', Long: "unbuffered"},
	{Short: 'z', Long: "null-data"},
	{Long: "zero-terminated", ID: 'z'},
	{Long: "follow-symlinks", ID: sedFollow},
	{Long: "sandbox", ID: sedSandbox},
	{Short: 'b', Long: "binary"},
	{Long: "version", ID: sedVersion},
}}

// Exit statuses of sed.
const (
	sedBadUsage = 1
	sedBadInput = 2
	sedPanic    = 4
)

func runSed(p *kernel.Proc) int {
	style := sedStyle{delim: '\n', wrap: 70, bytes: character.LocaleIsBytes(p)}
	opts, operands, ok := sedOptions.Parse(p)
	if !ok {
		return sedBadUsage
	}
	parts := &sedParts{p: p}
	for _, o := range opts {
		if o.Key == sedVersion {
			_, _ = p.Out().WriteString("sed (GNU sed) 4.9, as atoll understands it\n") // Flush reports the error
			return 0
		}
		if code := style.applyOption(p, o, parts); code != 0 {
			return code
		}
	}
	if !parts.given {
		if len(operands) == 0 {
			_, _ = p.Stderr.WriteString(sedUsage) // best effort
			return sedBadUsage
		}
		parts.add("", operands[0])
		operands = operands[1:]
	}
	script, err := parseSed(parts, style)
	if err != nil {
		p.Errorf("%s", err)
		var fault *sedError
		if errors.As(err, &fault) && fault.where == "" {
			return sedPanic // found after the script was read
		}
		return sedBadUsage
	}
	r := &sedRun{p: p, sedStyle: style, script: script, out: &sedOutput{w: p.Out(), delim: style.delim}}
	r.quiet = r.quiet || script.quiet
	return r.run(operands)
}

func (s *sedStyle) applyOption(p *kernel.Proc, o option.Setting, parts *sedParts) int {
	switch o.Key {
	case 'n':
		s.quiet = true
	case 'e':
		parts.add("", o.Value)
	case 'f':
		return parts.addFile(o.Value)
	case 'i':
		s.inPlace, s.separate, s.suffix = true, true, o.Value
	case 'l':
		s.wrap, _ = strconv.Atoi(o.Value) // no number counts as 0: don't wrap
	case sedPosix:
		s.posix = true
	case 'E':
		s.ere = true
	case 's':
		s.separate = true
	case 'u':
		s.flush = true
	case 'z':
		s.delim = 0
	case sedFollow:
		s.follow = true
	case sedSandbox:
		s.sandbox = true
	}
	return 0
}

// sedParts are the parts of a script: the arguments of -e and -f in order.
type sedParts struct {
	p     *kernel.Proc
	list  []sedPart
	count int // of -e
	given bool
}

// sedPart is the text of an expression, or of a file if it has a name.
type sedPart struct {
	name string
	nth  int
	text string
}

func (s *sedParts) add(name, text string) {
	s.given = true
	if name == "" {
		s.count++
	}
	s.list = append(s.list, sedPart{name, s.count, text})
}

// addFile adds a script file. It returns an exit status, 0 if the file was read.
func (s *sedParts) addFile(name string) int {
	in, err := stream.Open(s.p, name)
	if err != nil {
		s.p.Errorf("couldn't open file %s: %s", name, program.Reason(err))
		return sedPanic
	}
	defer stream.Close(in)
	b, err := s.p.ReadAll(in)
	if err != nil {
		s.p.Errorf("read error on %s: %s", name, program.Reason(err))
		return sedPanic
	}
	s.add(name, strings.TrimSuffix(string(b), "\n"))
	return 0
}

// sedError is an error in a script.
type sedError struct {
	where string // "-e expression #1, char 3", or empty
	msg   string
}

func (e *sedError) Error() string {
	if e.where == "" {
		return e.msg
	}
	return e.where + ": " + e.msg
}
