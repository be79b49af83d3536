package command

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const (
	nohupUsage = `Usage: nohup COMMAND [ARG]...
  or:  nohup OPTION
Run COMMAND, ignoring hangup signals.

      --help     display this help and exit
`
	niceUsage = `Usage: nice [OPTION] [COMMAND [ARG]...]
Run COMMAND with an adjusted niceness. With no COMMAND, print the current
niceness. All processes of a sandbox have the same.

  -n, --adjustment=N   add integer N to the niceness (default 10)
      --help           display this help and exit
`
	setsidUsage = `Usage: setsid [OPTION] COMMAND [ARG]...
Run COMMAND in a new process group.

  -c, --ctty     ignored: there is no terminal
  -f, --fork     run beside the caller
  -w, --wait     wait for COMMAND and return its status
      --help     display this help and exit
`
	stdbufUsage = `Usage: stdbuf OPTION... COMMAND
Run COMMAND. The buffering asked for is what commands of a sandbox do anyway.

  -i, --input=MODE   adjust standard input stream buffering
  -o, --output=MODE  adjust standard output stream buffering
  -e, --error=MODE   adjust standard error stream buffering
      --help         display this help and exit
`
	timeUsage = `Usage: time [OPTION]... COMMAND [ARG]...
Run COMMAND and report how long it took on standard error.

  -f, --format=FORMAT  use FORMAT: %e seconds, %E [h:]mm:ss, %U %S %P %M %C %x
  -o, --output=FILE    write the report to FILE
  -a, --append         append to FILE
  -p, --portability    report as POSIX asks for
  -q, --quiet          say nothing of a status that is not 0
      --help           display this help and exit
`
)

func nohup(p *kernel.Proc) int {
	_, args, ok := parsing{ordered: true}.parse(p)
	if !ok || missing(p, args, 1) {
		return 125
	}
	s, err := p.Command(args)
	if err != nil {
		return failedToRun(p, args[0], err)
	}
	p.SetSignal(kernel.SIGHUP, kernel.Ignore)
	return p.Exec(s)
}

func nice(p *kernel.Proc) int {
	opts, args, ok := parsing{ordered: true, digits: true, options: []option{{short: 'n', long: "adjustment", arg: required}}}.parse(p)
	if !ok {
		return 125
	}
	for _, o := range opts {
		if _, err := strconv.Atoi(o.value); err != nil {
			p.Errorf("invalid adjustment %s", cite(o.value))
			return 125
		}
	}
	switch {
	case len(args) > 0:
		return become(p, args)
	case len(opts) > 0:
		p.Errorf("a command must be given with an adjustment")
		tryHelp(p)
		return 125
	}
	_, _ = p.Out().WriteString("0\n") // shows at the flush
	return 0
}

func setsid(p *kernel.Proc) int {
	opts, args, ok := parsing{ordered: true, options: []option{{short: 'c', long: "ctty"}, {short: 'f', long: "fork"}, {short: 'w', long: "wait"}}}.parse(p)
	if !ok {
		return 1
	}
	if len(args) == 0 {
		p.Errorf("no command specified")
		tryHelp(p)
		return 1
	}
	for _, o := range opts {
		if o.key != 'f' {
			continue
		}
		s, err := p.Command(args)
		if err == nil {
			s.Group = -1
			_, err = p.Spawn(s)
		}
		if err != nil {
			return cannotRun(p, args[0], err)
		}
		return 0
	}
	s, err := p.Command(args)
	if err != nil {
		p.Errorf("failed to execute %s: %s", args[0], why(err))
		return runStatus(err)
	}
	p.SetGroup(0)
	return p.Exec(s)
}

func stdbuf(p *kernel.Proc) int {
	opts, args, ok := parsing{ordered: true, options: []option{
		{short: 'i', long: "input", arg: required}, {short: 'o', long: "output", arg: required}, {short: 'e', long: "error", arg: required},
	}}.parse(p)
	if !ok {
		return 125
	}
	for _, o := range opts {
		if _, fault := parseSize(o.value, "EGkKMPTYZ0"); o.value != "L" && fault != sizeFine {
			p.Errorf("invalid mode %s", cite(o.value))
			return 125
		}
		if o.key == 'i' && o.value == "L" {
			p.Errorf("line buffering stdin is meaningless")
			tryHelp(p)
			return 125
		}
	}
	if missing(p, args, 1) {
		return 125
	}
	if len(opts) == 0 {
		p.Errorf("you must specify a buffering mode option")
		tryHelp(p)
		return 125
	}
	s, err := p.Command(args)
	if err != nil {
		return failedToRun(p, args[0], err)
	}
	return p.Exec(s)
}

var timeOptions = parsing{ordered: true, options: []option{
	{short: 'f', long: "format", arg: required},
	{short: 'o', long: "output", arg: required},
	{short: 'a', long: "append"},
	{short: 'p', long: "portability"},
	{short: 'q', long: "quiet"},
	{short: 'v', long: "verbose"},
}}

func timeCommand(p *kernel.Proc) int {
	opts, args, ok := timeOptions.parse(p)
	if !ok {
		return 125
	}
	format := "%Uuser %Ssystem %Eelapsed %PCPU (0avgtext+0avgdata %Mmaxresident)k\n0inputs+0outputs (0major+0minor)pagefaults 0swaps"
	file, flag := "", os.O_WRONLY|os.O_CREATE|os.O_TRUNC
	quiet := false
	for _, o := range opts {
		switch o.key {
		case 'f':
			format = o.value
		case 'p':
			format = "real %e\nuser %U\nsys %S"
		case 'o':
			file = o.value
		case 'a':
			flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		case 'q':
			quiet = true
		}
	}
	if missing(p, args, 1) {
		return 125
	}
	var to io.Writer = p.Stderr
	if file != "" {
		h, err := p.OpenFile(file, flag, 0o666)
		if err != nil {
			p.Errorf("%s: %s", file, why(err))
			return 125
		}
		p.CloseOnExec(h.Fd())
		to = h
	}
	s, err := p.Command(args)
	if err != nil {
		p.Errorf("cannot run %s: %s", args[0], why(err))
		return 127
	}
	start := time.Now()
	st, err := p.Call(s)
	if err != nil {
		return cannotRun(p, args[0], err)
	}
	took := time.Since(start)
	report := ""
	if st.Code != 0 && !quiet {
		report = fmt.Sprintf("Command exited with non-zero status %d\n", st.Code)
		if st.Signal != 0 {
			report = fmt.Sprintf("Command terminated by signal %d\n", int(st.Signal))
		}
	}
	_, _ = io.WriteString(to, report+timeReport(format, took, st, args)+"\n") // nobody to tell
	return st.Code
}

// timeReport fills in a format of time.
func timeReport(format string, took time.Duration, st kernel.Status, args []string) string {
	var b strings.Builder
	sec := took.Seconds()
	for i := 0; i < len(format); i++ {
		c := format[i]
		if i+1 == len(format) || c != '%' && c != '\\' {
			b.WriteByte(c)
			continue
		}
		i++
		if c == '\\' {
			b.WriteString(strings.NewReplacer("n", "\n", "t", "\t", `\`, `\`).Replace(format[i : i+1]))
			continue
		}
		switch format[i] {
		case 'e':
			fmt.Fprintf(&b, "%.2f", sec)
		case 'E':
			fmt.Fprintf(&b, "%d:%05.2f", int(sec)/60, sec-float64(int(sec)/60*60))
		case 'U':
			fmt.Fprintf(&b, "%.2f", sec)
		case 'S':
			b.WriteString("0.00")
		case 'P':
			b.WriteString("100%")
		case 'C':
			b.WriteString(strings.Join(args, " "))
		case 'x':
			b.WriteString(strconv.Itoa(st.Code))
		case '%':
			b.WriteByte('%')
		default:
			b.WriteByte('0')
		}
	}
	return b.String()
}
