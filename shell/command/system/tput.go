package system

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
)

const (
	clearUsage = `Usage: clear [options]
Clear the screen.

  -T TERM     ignored
  -V          print version
  -x          do not try to clear scrollback
      --help  display this help and exit
`
	resetUsage = `Usage: reset [options] [TERM]
Write what puts a terminal into its first state.

      --help  display this help and exit
`
	tputUsage = `Usage: tput [-T TERM] CAPNAME [PARAMETER]...
Print what a terminal needs to do something, for terminals like xterm.

  -S          read the names from standard input
  -T TERM     ignored
      --help  display this help and exit
`
	ttyUsage = `Usage: tty [OPTION]...
Print the file name of the terminal connected to standard input.

  -s, --silent, --quiet   print nothing, only return an exit status
      --help              display this help and exit
`
)

func runClear(p *kernel.Proc) int {
	opts, _, ok := option.Parser{Options: []option.Option{{Short: 'T', Arg: option.Required}, {Short: 'V'}, {Short: 'x'}}}.Parse(p)
	if !ok {
		return 1
	}
	text := "\x1b[H\x1b[2J\x1b[3J"
	for _, o := range opts {
		if o.Key == 'x' {
			text = "\x1b[H\x1b[2J"
		}
	}
	_, _ = p.Out().WriteString(text) // Flush reports the error
	return 0
}

func runReset(p *kernel.Proc) int {
	_, _ = p.Out().WriteString("\x1bc\x1b[!p\x1b[?3;4l\x1b[4l\x1b>") // Flush reports the error
	return 0
}

// tputText are the capabilities of xterm without parameters.
var tputText = map[string]string{
	"clear": "\x1b[H\x1b[2J\x1b[3J", "sgr0": "\x1b(B\x1b[m", "bold": "\x1b[1m", "dim": "\x1b[2m", "smul": "\x1b[4m", "rmul": "\x1b[24m",
	"rev": "\x1b[7m", "smso": "\x1b[7m", "rmso": "\x1b[27m", "blink": "\x1b[5m", "sitm": "\x1b[3m", "ritm": "\x1b[23m", "civis": "\x1b[?25l",
	"cnorm": "\x1b[?12l\x1b[?25h", "el": "\x1b[K", "el1": "\x1b[1K", "ed": "\x1b[J", "home": "\x1b[H", "sc": "\x1b7", "rc": "\x1b8",
	"smcup": "\x1b[?1049h\x1b[22;0;0t", "rmcup": "\x1b[?1049l\x1b[23;0;0t", "cuu1": "\x1b[A", "cud1": "\n", "bel": "\a", "op": "\x1b[39;49m", "cr": "\r", "invis": "\x1b[8m",
	"reset": "\x1bc\x1b[!p\x1b[?3;4l\x1b[4l\x1b>", "init": "\x1b[!p\x1b[?3;4l\x1b[4l\x1b>",
}

func runTput(p *kernel.Proc) int {
	opts, args, ok := option.Parser{StopAtOperand: true, Options: []option.Option{{Short: 'S'}, {Short: 'T', Arg: option.Required}, {Short: 'V'}, {Short: 'x'}}}.Parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		if o.Key != 'S' {
			continue
		}
		l := stream.NewLineReader(p, p.Stdin, '\n')
		defer l.Close()
		code := 0
		for line := l.Next(); line != nil; line = l.Next() {
			if f := strings.Fields(string(line)); len(f) > 0 {
				code = max(code, tputOne(p, f))
			}
		}
		return code
	}
	if len(args) == 0 {
		_, _ = p.Stderr.WriteString(tputUsage) // best effort
		return 2
	}
	return tputOne(p, args)
}

func tputOne(p *kernel.Proc, args []string) int {
	if text, ok := tputText[args[0]]; ok {
		_, _ = p.Out().WriteString(text) // Flush reports the error
		return 0
	}
	n := make([]int, 2)
	for i := range n {
		if len(args) > i+1 {
			n[i], _ = strconv.Atoi(args[i+1]) // anything but a number counts as 0
		}
	}
	var text string
	switch args[0] {
	case "cols":
		text = strconv.Itoa(terminal.Width(p)) + "\n"
	case "lines":
		text = strconv.Itoa(terminal.Height(p)) + "\n"
	case "colors":
		text = "8\n"
	case "longname":
		text = "atoll terminal"
	case "cup":
		text = "\x1b[" + strconv.Itoa(n[0]+1) + ";" + strconv.Itoa(n[1]+1) + "H"
	case "setaf", "setf":
		text = "\x1b[" + tputColor(3, n[0]) + "m"
	case "setab", "setb":
		text = "\x1b[" + tputColor(4, n[0]) + "m"
	case "cuu", "cud", "cuf", "cub":
		text = "\x1b[" + strconv.Itoa(n[0]) + string("ABCD"[strings.Index("cuucudcufcub", args[0])/3])
	case "hpa":
		text = "\x1b[" + strconv.Itoa(n[0]+1) + "G"
	default:
		p.Errorf("unknown terminfo capability '%s'", args[0])
		return 4
	}
	_, _ = p.Out().WriteString(text)
	return 0
}

// tputColor returns the sequence for a color; base is 3 for the foreground, 4 for the background.
func tputColor(base, n int) string {
	switch {
	case n < 8:
		return strconv.Itoa(base*10 + n)
	case n < 16:
		return strconv.Itoa((base+6)*10 + n - 8)
	}
	return strconv.Itoa(base*10+8) + ";5;" + strconv.Itoa(n)
}

func runTty(p *kernel.Proc) int {
	opts, args, ok := option.Parser{Options: []option.Option{{Short: 's', Long: "silent"}, {Long: "quiet", ID: 's'}}}.Parse(p)
	if !ok || option.ReportExtra(p, args, 0) {
		return 2
	}
	name, code := "not a tty", 1
	if y := p.Stdin.Terminal(); y != nil {
		name, code = y.Name(), 0
	}
	if len(opts) == 0 {
		_, _ = p.Out().WriteString(name + "\n") // Flush reports the error
	}
	return code
}
