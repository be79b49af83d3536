package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// argument says whether an option takes one.
type argument int

const (
	none     argument = iota
	required          // -n 5, -n5, --lines=5, --lines 5
	optional          // -i.bak, --color=auto; never the next word
)

// option is one that a command knows. Either name may be missing.
type option struct {
	short rune
	long  string
	arg   argument
	id    rune // what it is called in the result; 0: short
}

func (o option) key() rune {
	if o.id != 0 {
		return o.id
	}
	return o.short
}

// given is an option as it was given.
type given struct {
	key   rune
	value string
	has   bool   // a value was given
	name  string // as it was written: "-n", "--lines"
}

// parsing says how a command reads its options.
type parsing struct {
	options []option
	ordered bool // options end at the first operand, as with POSIXLY_CORRECT
	digits  bool // -5 and -05 are given as option '#', as head and tail read them
}

// parse reads p.Args[1:] as GNU getopt_long does: options and operands may be
// mixed, short ones may be bundled, long ones shortened as long as they stay
// clear. When it fails it has said so, in GNU's words, and ok is false.
func (s parsing) parse(p *kernel.Proc) (opts []given, operands []string, ok bool) {
	args := p.Args[1:]
	for len(args) > 0 {
		p.Tick(1)
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			return opts, append(operands, args...), true
		case strings.HasPrefix(a, "--"):
			g, used, err := s.longOption(a, args)
			if err != "" {
				return nil, nil, s.refuse(p, err)
			}
			opts, args = append(opts, g), args[used:]
		case len(a) > 1 && a[0] == '-':
			list, used, err := s.shortOptions(a, args)
			if err != "" {
				return nil, nil, s.refuse(p, err)
			}
			opts, args = append(opts, list...), args[used:]
		case s.ordered:
			return opts, append(append(operands, a), args...), true
		default:
			operands = append(operands, a)
		}
	}
	return opts, operands, true
}

func (s parsing) refuse(p *kernel.Proc, msg string) bool {
	p.Errorf("%s", msg)
	tryHelp(p)
	return false
}

// tryHelp writes GNU's hint after a usage error.
func tryHelp(p *kernel.Proc) {
	_, _ = fmt.Fprintf(p.Stderr, "Try '%s --help' for more information.\n", p.Name()) // nobody to tell
}

func (s parsing) longOption(a string, rest []string) (g given, used int, msg string) {
	name, value, has := strings.Cut(a[2:], "=")
	if name == "" {
		return g, 0, fmt.Sprintf("unrecognized option '%s'", a)
	}
	var hits []option
	for _, o := range s.options {
		if o.long == name {
			hits = []option{o}
			break
		}
		if o.long != "" && strings.HasPrefix(o.long, name) {
			hits = append(hits, o)
		}
	}
	switch {
	case len(hits) == 0:
		return g, 0, fmt.Sprintf("unrecognized option '%s'", a)
	case len(hits) > 1 && !sameKey(hits):
		msg := fmt.Sprintf("option '%s' is ambiguous; possibilities:", a)
		for _, o := range hits {
			msg += " '--" + o.long + "'"
		}
		return g, 0, msg
	}
	o := hits[0]
	g = given{key: o.key(), value: value, has: has, name: "--" + o.long}
	switch {
	case o.arg == none && has:
		return g, 0, fmt.Sprintf("option '--%s' doesn't allow an argument", o.long)
	case o.arg == required && !has:
		if len(rest) == 0 {
			return g, 0, fmt.Sprintf("option '--%s' requires an argument", o.long)
		}
		g.value, g.has, used = rest[0], true, 1
	}
	return g, used, ""
}

func sameKey(list []option) bool {
	for _, o := range list {
		if o.key() != list[0].key() {
			return false
		}
	}
	return true
}

func (s parsing) shortOptions(a string, rest []string) (list []given, used int, msg string) {
	if s.digits && len(a) > 1 && a[1] >= '0' && a[1] <= '9' {
		if _, err := strconv.ParseUint(a[1:], 10, 64); err == nil {
			return []given{{key: '#', value: a[1:], has: true, name: a}}, 0, ""
		}
	}
	bundle := a[1:]
	for i := range len(bundle) {
		c := rune(bundle[i])
		o, found := s.short(c)
		if !found {
			return nil, 0, fmt.Sprintf("invalid option -- '%s'", bundle[i:i+1])
		}
		g := given{key: o.key(), name: "-" + string(c)}
		if o.arg == none {
			list = append(list, g)
			continue
		}
		switch tail := bundle[i+1:]; {
		case tail != "":
			g.value, g.has = tail, true
		case o.arg == required && len(rest) == 0:
			return nil, 0, fmt.Sprintf("option requires an argument -- '%c'", c)
		case o.arg == required:
			g.value, g.has, used = rest[0], true, 1
		}
		return append(list, g), used, ""
	}
	return list, used, ""
}

func (s parsing) short(c rune) (option, bool) {
	for _, o := range s.options {
		if o.short == c && c != 0 {
			return o, true
		}
	}
	return option{}, false
}

// why returns the reason of an error as GNU's tools print it.
func why(err error) string { return kernel.Reason(err).Error() }

// open opens an operand for reading, where "-" is standard input. The
// caller closes it.
func open(p *kernel.Proc, name string) (*kernel.Handle, error) {
	if name == "-" {
		return p.Stdin, nil
	}
	h, err := p.Open(name)
	if err != nil {
		return nil, err
	}
	if h.Mode().IsDir() {
		_ = h.Close() // it was only opened to be looked at
		return nil, vfs.EISDIR
	}
	return h, nil
}

// flushed wraps a program so that what it printed is written before it ends;
// when that fails it says so and the status is failure.
func flushed(run kernel.Program, failure int) kernel.Program {
	return func(p *kernel.Proc) int {
		code := run(p)
		if err := p.Out().Flush(); err != nil {
			p.Errorf("write error: %s", why(err))
			return failure
		}
		return code
	}
}

// versioned lets commands answer --version: they are not GNU's, but as it.
func versioned(list []Command, suite string) []Command {
	for i, c := range list {
		run := c.Run
		list[i].Run = func(p *kernel.Proc) int {
			switch {
			case len(p.Args) == 2 && p.Args[1] == "--version":
				_, _ = p.Out().WriteString(p.Name() + " (atoll; as " + suite + "\n") // shows at the flush
			case asksForHelp(p.Args[1:]):
				_, _ = p.Out().WriteString(c.help()) // likewise
			default:
				return run(p)
			}
			return 0
		}
	}
	return list
}

// asksForHelp reports whether --help is among the options.
func asksForHelp(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "--help" {
			return true
		}
	}
	return false
}

// missing reports operands that were not given, as GNU words it.
func missing(p *kernel.Proc, operands []string, want int) bool {
	switch {
	case len(operands) >= want:
		return false
	case len(operands) == 0:
		p.Errorf("missing operand")
	default:
		p.Errorf("missing operand after %s", cite(operands[len(operands)-1]))
	}
	tryHelp(p)
	return true
}

// extra reports an operand too many.
func extra(p *kernel.Proc, operands []string, most int) bool {
	if len(operands) <= most {
		return false
	}
	p.Errorf("extra operand %s", cite(operands[most]))
	tryHelp(p)
	return true
}
