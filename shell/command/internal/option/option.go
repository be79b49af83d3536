// Package option parses command-line options as GNU getopt_long does and reports
// usage errors in the words of the GNU tools.
package option

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

// Argument is whether an option takes an argument.
type Argument int

const (
	NoArgument Argument = iota
	Required            // -n 5, -n5, --lines=5, --lines 5
	Optional            // -i.bak, --color=auto; never the next word
)

// Option is an option of a command. It has a short name, a long name or both.
type Option struct {
	Short rune
	Long  string
	Arg   Argument
	ID    rune // Key of its settings; 0: Short
}

func (o Option) resultKey() rune {
	if o.ID != 0 {
		return o.ID
	}
	return o.Short
}

// Setting is an option on the command line.
type Setting struct {
	Key      rune
	Value    string
	HasValue bool   // whether a value was given
	Name     string // as written: "-n", "--lines"
}

// Parser parses the options of a command.
type Parser struct {
	Options       []Option
	StopAtOperand bool // options end at the first operand, as with POSIXLY_CORRECT
	AllowDigits   bool // -5 and -05 are given as option '#', as head and tail read them
}

// Parse parses p.Args[1:] like GNU getopt_long: options and operands may be mixed, short options may
// be bundled, and long ones abbreviated as long as they are unambiguous. For a wrong option it reports
// an error in the words of GNU and returns false.
func (s Parser) Parse(p *kernel.Proc) (opts []Setting, operands []string, ok bool) {
	args := p.Args[1:]
	for len(args) > 0 {
		p.Tick(1)
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
			return opts, append(operands, args...), true
		case strings.HasPrefix(a, "--"):
			g, used, err := s.ParseLong(a, args)
			if err != "" {
				return nil, nil, s.reportError(p, err)
			}
			opts, args = append(opts, g), args[used:]
		case len(a) > 1 && a[0] == '-':
			list, used, err := s.ParseShort(a, args)
			if err != "" {
				return nil, nil, s.reportError(p, err)
			}
			p.Alloc(2 * settingSize * int64(len(list))) // the slice may grow to twice the size that it needs
			opts, args = append(opts, list...), args[used:]
		case s.StopAtOperand:
			return opts, append(append(operands, a), args...), true
		default:
			operands = append(operands, a)
		}
	}
	return opts, operands, true
}

func (s Parser) reportError(p *kernel.Proc, msg string) bool {
	p.Errorf("%s", msg)
	SuggestHelp(p)
	return false
}

// SuggestHelp prints the hint to try --help after a usage error.
func SuggestHelp(p *kernel.Proc) {
	_, _ = fmt.Fprintf(p.Stderr, "Try '%s --help' for more information.\n", p.Name()) // best effort
}

// ParseLong parses the long option a; rest are the arguments after it. It returns how many of those it
// used, and the message of an error.
func (s Parser) ParseLong(a string, rest []string) (g Setting, used int, msg string) {
	name, value, has := strings.Cut(a[2:], "=")
	if name == "" {
		return g, 0, fmt.Sprintf("unrecognized option '%s'", a)
	}
	var hits []Option
	for _, o := range s.Options {
		if o.Long == name {
			hits = []Option{o}
			break
		}
		if o.Long != "" && strings.HasPrefix(o.Long, name) {
			hits = append(hits, o)
		}
	}
	switch {
	case len(hits) == 0:
		return g, 0, fmt.Sprintf("unrecognized option '%s'", a)
	case len(hits) > 1 && !sameKey(hits):
		msg := fmt.Sprintf("option '%s' is ambiguous; possibilities:", a)
		for _, o := range hits {
			msg += " '--" + o.Long + "'"
		}
		return g, 0, msg
	}
	o := hits[0]
	g = Setting{Key: o.resultKey(), Value: value, HasValue: has, Name: "--" + o.Long}
	switch {
	case o.Arg == NoArgument && has:
		return g, 0, fmt.Sprintf("option '--%s' doesn't allow an argument", o.Long)
	case o.Arg == Required && !has:
		if len(rest) == 0 {
			return g, 0, fmt.Sprintf("option '--%s' requires an argument", o.Long)
		}
		g.Value, g.HasValue, used = rest[0], true, 1
	}
	return g, used, ""
}

func sameKey(list []Option) bool {
	for _, o := range list {
		if o.resultKey() != list[0].resultKey() {
			return false
		}
	}
	return true
}

// MaxBundle is the largest number of short options in one argument.
const MaxBundle = 4096

// settingSize is the size of a Setting in memory, in bytes.
const settingSize = 64

// ParseShort parses the bundle of short options a; rest are the arguments after it. It returns how many
// of those it used, and the message of an error.
func (s Parser) ParseShort(a string, rest []string) (list []Setting, used int, msg string) {
	if s.AllowDigits && len(a) > 1 && a[1] >= '0' && a[1] <= '9' {
		if _, err := strconv.ParseUint(a[1:], 10, 64); err == nil {
			return []Setting{{Key: '#', Value: a[1:], HasValue: true, Name: a}}, 0, ""
		}
	}
	bundle := a[1:]
	for i := range len(bundle) {
		if i == MaxBundle {
			return nil, 0, "too many options in one argument"
		}
		c := rune(bundle[i])
		o, found := s.FindShort(c)
		if !found {
			return nil, 0, fmt.Sprintf("invalid option -- '%s'", bundle[i:i+1])
		}
		g := Setting{Key: o.resultKey(), Name: "-" + string(c)}
		if o.Arg == NoArgument {
			list = append(list, g)
			continue
		}
		switch tail := bundle[i+1:]; {
		case tail != "":
			g.Value, g.HasValue = tail, true
		case o.Arg == Required && len(rest) == 0:
			return nil, 0, fmt.Sprintf("option requires an argument -- '%c'", c)
		case o.Arg == Required:
			g.Value, g.HasValue, used = rest[0], true, 1
		}
		return append(list, g), used, ""
	}
	return list, used, ""
}

// FindShort returns the option with the short name c.
func (s Parser) FindShort(c rune) (Option, bool) {
	for _, o := range s.Options {
		if o.Short == c && c != 0 {
			return o, true
		}
	}
	return Option{}, false
}

// ReportMissing prints an error and returns true if there are fewer than want operands.
func ReportMissing(p *kernel.Proc, operands []string, want int) bool {
	switch {
	case len(operands) >= want:
		return false
	case len(operands) == 0:
		p.Errorf("missing operand")
	default:
		p.Errorf("missing operand after %s", quoting.QuoteWord(operands[len(operands)-1]))
	}
	SuggestHelp(p)
	return true
}

// ReportExtra prints an error and returns true if there are more than most operands.
func ReportExtra(p *kernel.Proc, operands []string, most int) bool {
	if len(operands) <= most {
		return false
	}
	p.Errorf("extra operand %s", quoting.QuoteWord(operands[most]))
	SuggestHelp(p)
	return true
}

// NoOptions parses the command line of a command without options.
var NoOptions = Parser{}
