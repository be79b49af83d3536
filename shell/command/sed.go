package command

import (
	"errors"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

// sedOptions are sed's own; what a script asks for is in sedScript.
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

var sedOptions = parsing{options: []option{
	{short: 'n', long: "quiet"},
	{long: "silent", id: 'n'},
	{short: 'e', long: "expression", arg: required},
	{short: 'f', long: "file", arg: required},
	{short: 'i', long: "in-place", arg: optional},
	{short: 'l', long: "line-length", arg: required},
	{long: "posix", id: sedPosix},
	{short: 'E', long: "regexp-extended"},
	{short: 'r', id: 'E'},
	{short: 's', long: "separate"},
	{short: 'u', long: "unbuffered"},
	{short: 'z', long: "null-data"},
	{long: "zero-terminated", id: 'z'},
	{long: "follow-symlinks", id: sedFollow},
	{long: "sandbox", id: sedSandbox},
	{short: 'b', long: "binary"},
	{long: "version", id: sedVersion},
}}

// Exit statuses of sed.
const (
	sedBadUsage = 1
	sedBadInput = 2
	sedPanic    = 4
)

func sed(p *kernel.Proc) int {
	style := sedStyle{delim: '\n', wrap: 70, bytes: byteLocale(p)}
	opts, operands, ok := sedOptions.parse(p)
	if !ok {
		return sedBadUsage
	}
	parts := &sedParts{p: p}
	for _, o := range opts {
		if o.key == sedVersion {
			_, _ = p.Out().WriteString("sed (GNU sed) 4.9, as atoll understands it\n") // shows at the flush
			return 0
		}
		if code := style.option(p, o, parts); code != 0 {
			return code
		}
	}
	if !parts.given {
		if len(operands) == 0 {
			_, _ = p.Stderr.WriteString(sedUsage) // nobody to tell
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

func (s *sedStyle) option(p *kernel.Proc, o given, parts *sedParts) int {
	switch o.key {
	case 'n':
		s.quiet = true
	case 'e':
		parts.add("", o.value)
	case 'f':
		return parts.file(o.value)
	case 'i':
		s.inPlace, s.separate, s.suffix = true, true, o.value
	case 'l':
		s.wrap, _ = strconv.Atoi(o.value) // what is no number is 0: don't wrap
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

// sedParts are the pieces that a script comes in.
type sedParts struct {
	p     *kernel.Proc
	list  []sedPart
	count int // of -e
	given bool
}

// sedPart is an expression, or a file when it has a name.
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

// file adds a script file.
func (s *sedParts) file(name string) int {
	in, err := open(s.p, name)
	if err != nil {
		s.p.Errorf("couldn't open file %s: %s", name, why(err))
		return sedPanic
	}
	defer closeInput(in)
	b, err := s.p.ReadAll(in)
	if err != nil {
		s.p.Errorf("read error on %s: %s", name, why(err))
		return sedPanic
	}
	s.add(name, strings.TrimSuffix(string(b), "\n"))
	return 0
}

// sedError is what is wrong with a script.
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
