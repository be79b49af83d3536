package system

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const sttyUsage = `Usage: stty [-F DEVICE | --file=DEVICE] [SETTING]...
  or:  stty [-F DEVICE | --file=DEVICE] [-a|--all]
  or:  stty [-F DEVICE | --file=DEVICE] [-g|--save]
Print or change terminal characteristics.

  -a, --all          print all current settings in human-readable form
  -g, --save         print all current settings in a stty-readable form
  -F, --file=DEVICE  open and use the specified DEVICE instead of stdin
      --help         display this help and exit

Settings are flags such as echo, icanon, isig, icrnl, opost, onlcr, ixon,
iutf8, taken back by a - before them; characters such as intr ^C, erase, kill,
werase, eof, susp, start, stop, lnext; rows N, cols N, min N, time N; and the
combinations sane, raw, cooked, cbreak, crt, dec, nl, ek, pass8. 'size' prints
the rows and columns, 'speed' the speed.
`

// sttyFlag is a flag of a terminal's mode.
type sttyFlag struct {
	name string
	bit  uint32
	sane byte // '+' on, '-' off, ' ' unchanged
}

// sttyGroups are the flags in the order of output, one line for each group: control, input, output and
// local flags.
var sttyGroups = [4][]sttyFlag{
	{
		{"parenb", kernel.PARENB, ' '},
		{"parodd", kernel.PARODD, ' '},
		{"cs8", kernel.CS8, ' '},
		{"hupcl", kernel.HUPCL, ' '},
		{"cstopb", kernel.CSTOPB, ' '},
		{"cread", kernel.CREAD, '+'},
		{"clocal", kernel.CLOCAL, ' '},
	},
	{
		{"ignbrk", kernel.IGNBRK, '-'},
		{"brkint", kernel.BRKINT, ' '},
		{"ignpar", kernel.IGNPAR, ' '},
		{"parmrk", kernel.PARMRK, ' '},
		{"inpck", kernel.INPCK, ' '},
		{"istrip", kernel.ISTRIP, ' '},
		{"inlcr", kernel.INLCR, '-'},
		{"igncr", kernel.IGNCR, '-'},
		{"icrnl", kernel.ICRNL, '+'},
		{"ixon", kernel.IXON, ' '},
		{"ixoff", kernel.IXOFF, '-'},
		{"iuclc", kernel.IUCLC, '-'},
		{"ixany", kernel.IXANY, '-'},
		{"imaxbel", kernel.IMAXBEL, ' '},
		{"iutf8", kernel.IUTF8, ' '},
	},
	{
		{"opost", kernel.OPOST, '+'},
		{"olcuc", kernel.OLCUC, '-'},
		{"ocrnl", kernel.OCRNL, '-'},
		{"onlcr", kernel.ONLCR, '+'},
		{"onocr", kernel.ONOCR, '-'},
		{"onlret", kernel.ONLRET, '-'},
		{"tab3", kernel.XTABS, '-'},
	},
	{
		{"isig", kernel.ISIG, '+'},
		{"icanon", kernel.ICANON, '+'},
		{"iexten", kernel.IEXTEN, '+'},
		{"echo", kernel.ECHO, '+'},
		{"echoe", kernel.ECHOE, '+'},
		{"echok", kernel.ECHOK, '+'},
		{"echonl", kernel.ECHONL, '-'},
		{"noflsh", kernel.NOFLSH, '-'},
		{"tostop", kernel.TOSTOP, '-'},
		{"echoctl", kernel.ECHOCTL, '+'},
		{"echoke", kernel.ECHOKE, '+'},
	},
}

// sttyChars are the special characters in the order of output.
var sttyChars = []struct {
	name string
	at   int
}{
	{"intr", kernel.VINTR},
	{"quit", kernel.VQUIT},
	{"erase", kernel.VERASE},
	{"kill", kernel.VKILL},
	{"eof", kernel.VEOF},
	{"eol", kernel.VEOL},
	{"eol2", kernel.VEOL2},
	{"start", kernel.VSTART},
	{"stop", kernel.VSTOP},
	{"susp", kernel.VSUSP},
	{"rprnt", kernel.VREPRINT},
	{"werase", kernel.VWERASE},
	{"lnext", kernel.VLNEXT},
	{"discard", kernel.VDISCARD},
}

// sttyAliases are other names of settings.
var sttyAliases = map[string]string{
	"crterase": "echoe", "crtkill": "echoke", "ctlecho": "echoctl", "tandem": "ixoff", "hup": "hupcl", "tabs": "-tab3", "-tabs": "tab3",
	"lcase": "iuclc", "columns": "cols", "reprint": "rprnt", "oddp": "cs8", "evenp": "cs8",
}

// sttyJob is the state of one run of stty.
type sttyJob struct {
	p    *kernel.Proc
	y    *kernel.TTY
	mode kernel.Mode
	size atoll.Size
}

func runStty(p *kernel.Proc) int {
	words, opts, file, ok := sttyWords(p)
	if !ok {
		return 1
	}
	h, name := p.Stdin, "'standard input'"
	if file != "" {
		f, err := p.Open(file)
		if err != nil {
			p.Errorf("%s: %s", file, program.Reason(err))
			return 1
		}
		defer f.Close()
		h, name = f, file
	}
	y := h.Terminal()
	if y == nil {
		p.Errorf("%s: Inappropriate ioctl for device", name)
		return 1
	}
	mode, size := y.Mode(), y.Size()
	j := &sttyJob{p: p, y: y, mode: mode, size: size}
	switch {
	case len(opts) > 0 && len(words) > 0:
		p.Errorf("when specifying an output style, modes may not be set")
		return 1
	case opts == "ag" || opts == "ga":
		p.Errorf("the options for verbose and stty-readable output styles are\nmutually exclusive")
		return 1
	case strings.Contains(opts, "a"):
		j.printAll()
		return 0
	case strings.Contains(opts, "g"):
		j.printSaved()
		return 0
	case len(words) == 0:
		j.printChanged()
		return 0
	}
	if !j.applySettings(words) {
		return 1
	}
	// What was only printed may have changed meanwhile.
	if j.mode != mode {
		y.SetMode(j.mode)
	}
	if j.size != size {
		y.SetSize(j.size)
	}
	return 0
}

// sttyWords separates the options from the settings, which may begin with a - too.
func sttyWords(p *kernel.Proc) (words []string, opts, file string, ok bool) {
	args := p.Args[1:]
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--help":
			_, _ = p.Out().WriteString(sttyUsage) // Flush reports the error
			return nil, "", "", false
		case a == "-a" || a == "--all":
			opts += "a"
		case a == "-g" || a == "--save":
			opts += "g"
		case a == "-F" || a == "--file":
			if i++; i == len(args) {
				p.Errorf("option requires an argument -- 'F'")
				option.SuggestHelp(p)
				return nil, "", "", false
			}
			file = args[i]
		case strings.HasPrefix(a, "--file="):
			file = strings.TrimPrefix(a, "--file=")
		case strings.HasPrefix(a, "-F"):
			file = a[2:]
		default:
			words = append(words, a)
		}
	}
	return words, opts, file, true
}

// flagGroup returns the word of the mode for a group of flags.
func (j *sttyJob) flagGroup(i int) *uint32 {
	return [4]*uint32{&j.mode.Control, &j.mode.In, &j.mode.Out, &j.mode.Local}[i]
}

// applySettings applies each setting in turn.
func (j *sttyJob) applySettings(words []string) bool {
	for i := 0; i < len(words); i++ {
		w := words[i]
		if a, ok := sttyAliases[w]; ok {
			w = a
		}
		if j.applyFlag(w) || j.applyCombination(w) {
			continue
		}
		switch {
		case w == "size":
			_, _ = fmt.Fprintf(j.p.Out(), "%d %d\n", j.size.Rows, j.size.Cols) // Flush reports the error
			continue
		case w == "speed":
			_, _ = j.p.Out().WriteString("38400\n") // likewise
			continue
		case strings.Contains(w, ":") && j.restoreSaved(w):
			continue
		}
		used, ok := j.applyValue(w, words[i+1:])
		if !ok {
			return false
		}
		i += used
	}
	return true
}

// applyFlag sets or clears a flag. It returns false if w is not a flag.
func (j *sttyJob) applyFlag(w string) bool {
	name, off := strings.CutPrefix(w, "-")
	for i, g := range sttyGroups {
		for _, f := range g {
			if f.name != name {
				continue
			}
			if *j.flagGroup(i) &^= f.bit; !off {
				*j.flagGroup(i) |= f.bit
			}
			return true
		}
	}
	return false
}

// applyCombination applies a setting that stands for several. It returns false if w is no such setting.
func (j *sttyJob) applyCombination(w string) bool {
	sane := kernel.SaneMode()
	switch w {
	case "sane":
		for i, g := range sttyGroups {
			for _, f := range g {
				if *j.flagGroup(i) |= f.bit; f.sane == '-' {
					*j.flagGroup(i) &^= f.bit
				} else if f.sane == ' ' {
					*j.flagGroup(i) = *j.flagGroup(i)&^f.bit | *(&sttyJob{mode: sane}).flagGroup(i)&f.bit
				}
			}
		}
		j.mode.Chars = sane.Chars
	case "raw", "-cooked":
		j.mode = j.mode.Raw()
	case "cooked", "-raw":
		j.mode.In |= kernel.BRKINT | kernel.IGNPAR | kernel.ISTRIP&j.mode.In | kernel.ICRNL | kernel.IXON
		j.mode.Out |= kernel.OPOST | kernel.ONLCR
		j.mode.Local |= kernel.ISIG | kernel.ICANON
		j.mode.Local |= kernel.IEXTEN
		if j.mode.Chars[kernel.VEOF] == 1 || j.mode.Chars[kernel.VEOF] == 0 {
			j.mode.Chars[kernel.VEOF] = sane.Chars[kernel.VEOF]
		}
	case "cbreak":
		j.mode.Local &^= kernel.ICANON
	case "-cbreak":
		j.mode.Local |= kernel.ICANON
	case "nl":
		j.mode.In &^= kernel.ICRNL
		j.mode.Out &^= kernel.ONLCR
	case "-nl":
		j.mode.In = j.mode.In&^(kernel.INLCR|kernel.IGNCR) | kernel.ICRNL
		j.mode.Out = j.mode.Out&^(kernel.OCRNL|kernel.ONLRET) | kernel.ONLCR
	case "ek":
		j.mode.Chars[kernel.VERASE], j.mode.Chars[kernel.VKILL] = sane.Chars[kernel.VERASE], sane.Chars[kernel.VKILL]
	case "crt":
		j.mode.Local |= kernel.ECHOE | kernel.ECHOCTL | kernel.ECHOKE
	case "dec":
		j.mode.Local |= kernel.ECHOE | kernel.ECHOCTL | kernel.ECHOKE
		j.mode.In &^= kernel.IXANY
		j.mode.Chars[kernel.VINTR], j.mode.Chars[kernel.VERASE], j.mode.Chars[kernel.VKILL] = 3, 127, 21
	case "pass8", "-litout", "litout":
		j.mode.In &^= kernel.ISTRIP
	default:
		return false
	}
	return true
}

// applyValue applies a setting with a value. It returns how many words the value used.
func (j *sttyJob) applyValue(w string, rest []string) (int, bool) {
	at := -1
	for _, c := range sttyChars {
		if c.name == w {
			at = c.at
		}
	}
	known := at >= 0 || w == "rows" || w == "cols" || w == "min" || w == "time" || w == "line" || w == "ispeed" || w == "ospeed"
	switch {
	case !known && w != "" && strings.Trim(w, "0123456789") == "":
		return 0, true // a speed
	case !known:
		j.p.Errorf("invalid argument %s", quoting.QuoteWord(w))
		option.SuggestHelp(j.p)
		return 0, false
	case len(rest) == 0:
		j.p.Errorf("missing argument to %s", quoting.QuoteWord(w))
		option.SuggestHelp(j.p)
		return 0, false
	}
	v := rest[0]
	if at >= 0 {
		c, ok := sttyChar(v)
		if !ok {
			j.p.Errorf("invalid integer argument: %s", quoting.QuoteWord(v))
			option.SuggestHelp(j.p)
			return 0, false
		}
		j.mode.Chars[at] = c
		return 1, true
	}
	n, err := strconv.ParseUint(v, 0, 16)
	if err != nil || (w == "min" || w == "time") && n > 255 {
		j.p.Errorf("invalid integer argument: %s", quoting.QuoteWord(v))
		option.SuggestHelp(j.p)
		return 0, false
	}
	switch w {
	case "rows":
		j.size.Rows = uint16(n)
	case "cols":
		j.size.Cols = uint16(n)
	case "min":
		j.mode.Chars[kernel.VMIN] = byte(n)
	case "time":
		j.mode.Chars[kernel.VTIME] = byte(n)
	}
	return 1, true
}

// sttyChar parses a character: itself, ^X, a number, or undef.
func sttyChar(v string) (byte, bool) {
	switch {
	case v == "undef" || v == "^-" || v == "":
		return 0, true
	case len(v) == 1:
		return v[0], true
	case v == "^?":
		return 127, true
	case len(v) == 2 && v[0] == '^':
		return v[1] & 0x1f, true
	}
	n, err := strconv.ParseUint(v, 0, 8)
	return byte(n), err == nil
}

// printSaved prints the mode in the format that restoreSaved parses.
func (j *sttyJob) printSaved() {
	m := &j.mode
	b := fmt.Appendf(nil, "%x:%x:%x:%x", m.In, m.Out, m.Control, m.Local)
	for i := range 32 {
		c := byte(0)
		if i < len(m.Chars) {
			c = m.Chars[i]
		}
		b = fmt.Appendf(b, ":%x", c)
	}
	_, _ = j.p.Out().Write(append(b, '\n')) // Flush reports the error
}

// restoreSaved applies a mode that printSaved printed. It returns false if w is not one.
func (j *sttyJob) restoreSaved(w string) bool {
	f := strings.Split(w, ":")
	if len(f) != 36 {
		return false
	}
	var n [36]uint32
	for i := range f {
		v, err := strconv.ParseUint(f[i], 16, 32)
		if err != nil || i >= 4 && v > 255 {
			return false
		}
		n[i] = uint32(v)
	}
	j.mode.In, j.mode.Out, j.mode.Control, j.mode.Local = n[0], n[1], n[2], n[3]
	for i := range j.mode.Chars {
		j.mode.Chars[i] = byte(n[4+i])
	}
	return true
}

// charText returns a character as stty prints it.
func charText(c byte) string {
	switch {
	case c == 0:
		return "<undef>"
	case c == 127:
		return "^?"
	case c < 32:
		return "^" + string(rune(c+'@'))
	case c >= 128:
		return "M-" + charText(c-128)
	}
	return string(rune(c))
}

// sttyPrinter wraps lines at the width of the terminal.
type sttyPrinter struct {
	b     strings.Builder
	width int
	at    int
}

func (o *sttyPrinter) printWord(w string) {
	if o.at > 0 && o.at+1+len(w) > o.width {
		o.endLine()
	} else if o.at > 0 {
		o.b.WriteByte(' ')
		o.at++
	}
	o.b.WriteString(w)
	o.at += len(w)
}

func (o *sttyPrinter) endLine() {
	if o.at > 0 {
		o.b.WriteByte('\n')
	}
	o.at = 0
}

func (j *sttyJob) printAll() {
	o := &sttyPrinter{width: terminal.Width(j.p)}
	o.printWord("speed 38400 baud;")
	o.printWord(fmt.Sprintf("rows %d;", j.size.Rows))
	o.printWord(fmt.Sprintf("columns %d;", j.size.Cols))
	o.printWord("line = 0;")
	o.endLine()
	for _, c := range sttyChars {
		o.printWord(c.name + " = " + charText(j.mode.Chars[c.at]) + ";")
	}
	o.printWord(fmt.Sprintf("min = %d;", j.mode.Chars[kernel.VMIN]))
	o.printWord(fmt.Sprintf("time = %d;", j.mode.Chars[kernel.VTIME]))
	o.endLine()
	for i, g := range sttyGroups {
		for _, f := range g {
			j.printFlag(o, i, f)
		}
		o.endLine()
	}
	_, _ = j.p.Out().WriteString(o.b.String()) // Flush reports the error
}

func (j *sttyJob) printFlag(o *sttyPrinter, i int, f sttyFlag) {
	name := f.name
	if *j.flagGroup(i)&f.bit != f.bit {
		name = "-" + name
	}
	o.printWord(name)
}

// printChanged prints the settings that differ from sane.
func (j *sttyJob) printChanged() {
	sane := sttyJob{mode: kernel.SaneMode()}
	o := &sttyPrinter{width: terminal.Width(j.p)}
	o.printWord("speed 38400 baud;")
	o.printWord("line = 0;")
	o.endLine()
	for _, c := range sttyChars {
		if v := j.mode.Chars[c.at]; v != sane.mode.Chars[c.at] {
			o.printWord(c.name + " = " + charText(v) + ";")
		}
	}
	if j.mode.Local&kernel.ICANON == 0 {
		o.printWord(fmt.Sprintf("min = %d;", j.mode.Chars[kernel.VMIN]))
		o.printWord(fmt.Sprintf("time = %d;", j.mode.Chars[kernel.VTIME]))
	}
	o.endLine()
	for i, g := range sttyGroups {
		for _, f := range g {
			if (*j.flagGroup(i)^*sane.flagGroup(i))&f.bit != 0 {
				j.printFlag(o, i, f)
			}
		}
		o.endLine()
	}
	_, _ = j.p.Out().WriteString(o.b.String()) // Flush reports the error
}
