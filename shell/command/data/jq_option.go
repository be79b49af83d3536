package data

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/jq"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// jqLong maps the long options without arguments to short ones; those without a short one have an
// internal letter.
var jqLong = map[string]rune{
	"null-input": 'n', "raw-input": 'R', "slurp": 's', "compact-output": 'c', "raw-output": 'r', "join-output": 'j',
	"ascii-output": 'a', "sort-keys": 'S', "color-output": 'C', "monochrome-output": 'M', "from-file": 'f',
	"exit-status": 'e', "help": 'h', "version": 'V', "raw-output0": '0', "tab": 'T', "unbuffered": 'U',
	"stream": 'W', "seq": 'Q', "build-configuration": 'B', "stream-errors": 'W',
}

// parseArguments parses the command line. done reports that an option has been answered and nothing
// runs.
func (j *jqJob) parseArguments(args []string) (done bool, err error) {
	positional, plain := 0, false // 's' or 'j' after --args, --jsonargs
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		j.p.Tick(1)
		switch {
		case plain || a == "-" || a == "" || a[0] != '-':
			err = j.addOperand(a, positional)
		case a == "--":
			plain = true
		case a == "--args":
			positional = 's'
		case a == "--jsonargs":
			positional = 'j'
		case strings.HasPrefix(a, "--"):
			args, done, err = j.parseLong(a[2:], args)
		default:
			args, done, err = j.parseShort(a[1:], args)
		}
		if done || err != nil {
			return done, err
		}
	}
	if !j.hasProgram {
		j.program = "."
	}
	return false, nil
}

// addOperand handles an operand: the program, a file or a positional argument.
func (j *jqJob) addOperand(a string, positional int) error {
	switch {
	case !j.hasProgram:
		j.program, j.hasProgram = a, true
	case positional == 's':
		j.positional = append(j.positional, a)
	case positional == 'j':
		v, err := jq.DecodeText(a, j.p)
		if err != nil {
			return &jqRefusal{msg: "Invalid JSON text passed to --jsonargs"}
		}
		j.positional = append(j.positional, v)
	default:
		j.files = append(j.files, a)
	}
	return nil
}

func (j *jqJob) parseShort(letters string, args []string) ([]string, bool, error) {
	for i, c := range letters {
		if c == 'L' {
			dir := letters[i+1:]
			if dir == "" {
				if len(args) == 0 {
					return nil, false, &jqRefusal{"-L takes a parameter: (e.g. -L /search/path or -L/search/path)", true}
				}
				dir, args = args[0], args[1:]
			}
			j.dirs = append(j.dirs, dir)
			return args, false, nil
		}
		if !strings.ContainsRune("nRscrjaSCMfehV", c) {
			return nil, false, &jqRefusal{msg: "Unknown option -" + letters}
		}
		if j.set(c) {
			return nil, true, nil
		}
	}
	return args, false, nil
}

func (j *jqJob) parseLong(name string, args []string) ([]string, bool, error) {
	switch name {
	case "arg", "argjson", "slurpfile", "rawfile":
		if len(args) < 2 {
			what := map[string]string{"arg": "value", "argjson": "text", "slurpfile": "filename", "rawfile": "filename"}[name]
			return nil, false, &jqRefusal{msg: fmt.Sprintf("--%s takes two parameters (e.g. --%s varname %s)", name, name, what)}
		}
		return args[2:], false, j.defineVariable(name, args[0], args[1])
	case "indent":
		if len(args) < 1 {
			return nil, false, &jqRefusal{msg: "--indent takes one parameter"}
		}
		n, err := strconv.Atoi(args[0])
		if err != nil || n < -1 || n > 7 {
			return nil, false, &jqRefusal{msg: "--indent takes a number between -1 and 7"}
		}
		j.format.Indent = strings.Repeat(" ", max(n, 0))
		return args[1:], false, nil
	case "library-path":
		return j.parseShort("L", args)
	}
	c, ok := jqLong[name]
	if !ok {
		return nil, false, &jqRefusal{msg: "Unknown option --" + name}
	}
	return args, j.set(c), nil
}

// set applies an option without argument. It reports whether the option ends the command.
func (j *jqJob) set(c rune) bool {
	switch c {
	case 'n':
		j.null = true
	case 'R':
		j.rawIn = true
	case 's':
		j.slurp = true
	case 'f':
		j.fromFile = true
	case 'c':
		j.format.Indent = ""
	case 'r':
		j.raw = true
	case 'j':
		j.raw, j.join = true, true
	case '0':
		j.raw, j.nul = true, true
	case 'a':
		j.format.ASCII = true
	case 'S':
		j.format.SortKey = true
	case 'C':
		j.format.Color = parseColors(j.p.Getenv("JQ_COLORS"))
	case 'M':
		j.format.Color = nil
	case 'e':
		j.exit = true
	case 'T':
		j.format.Indent = "\t"
	case 'U':
		j.unbuffered = true
	case 'W':
		j.stream = true
	case 'Q':
		j.seq = true
	default:
		return j.printInformation(c)
	}
	return false
}

// printInformation prints the help or the version.
func (j *jqJob) printInformation(c rune) bool {
	text := jqUsage
	switch c {
	case 'V':
		text = "jq-1.7.1\n"
	case 'B':
		text = "atoll\n"
	}
	_, _ = j.p.Out().WriteString(text) // Flush reports the error
	return true
}

// parseColors returns the default colors, overridden by those in JQ_COLORS.
func parseColors(list string) *jq.Colors {
	c := &jq.Colors{Null: "1;30", False: "0;39", True: "0;39", Number: "0;39", String: "0;32", Array: "1;39", Object: "1;39", Key: "34;1"}
	if list == "" || strings.Trim(list, "0123456789;:") != "" {
		return c
	}
	fields := []*string{&c.Null, &c.False, &c.True, &c.Number, &c.String, &c.Array, &c.Object, &c.Key}
	for i, color := range strings.Split(list, ":") {
		if i < len(fields) {
			*fields[i] = color
		}
	}
	return c
}

// defineVariable sets a named argument; the first definition of a name counts.
func (j *jqJob) defineVariable(option, name, value string) error {
	var v jq.Value = value
	var err error
	switch option {
	case "argjson":
		if v, err = jq.DecodeText(value, j.p); err != nil {
			return &jqRefusal{msg: "Invalid JSON text passed to --argjson"}
		}
	case "slurpfile", "rawfile":
		if v, err = j.load(option, value); err != nil {
			return &jqRefusal{fmt.Sprintf("Bad JSON in --%s %s %s: %v", option, name, value, err), true}
		}
	}
	if _, ok := j.named.Get(name); !ok {
		j.named.Set(name, v)
	}
	return nil
}

// load returns the content of a file for --slurpfile and --rawfile.
func (j *jqJob) load(option, name string) (jq.Value, error) {
	h, err := j.p.Open(name)
	if err != nil {
		return nil, fmt.Errorf("Could not open %s: %s", name, program.Reason(err)) //nolint:staticcheck // jq's words
	}
	defer func() { _ = h.Close() }() // it was opened for reading
	if option == "rawfile" {
		b, err := j.p.ReadAll(h)
		return strings.ToValidUTF8(string(b), "\uFFFD"), err
	}
	d := jq.NewDecoder(h, j.p)
	a := jq.NewArray()
	for {
		v, err := d.Decode()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, err
		}
		j.p.Alloc(32)
		a.Items = append(a.Items, v)
	}
}
