package system

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const timeUsage = `Usage: time [OPTION]... COMMAND [ARG]...
Run COMMAND and report how long it took on standard error.

  -f, --format=FORMAT  use FORMAT: %e seconds, %E [h:]mm:ss, %U %S %P %M %C %x
  -o, --output=FILE    write the report to FILE
  -a, --append         append to FILE
  -p, --portability    report as POSIX asks for
  -q, --quiet          do not report a nonzero status
      --help           display this help and exit
`

var timeOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'f', Long: "format", Arg: option.Required},
	{Short: 'o', Long: "output", Arg: option.Required},
	{Short: 'a', Long: "append"},
	{Short: 'p', Long: "portability"},
	{Short: 'q', Long: "quiet"},
	{Short: 'v', Long: "verbose"},
}}

func runTime(p *kernel.Proc) int {
	opts, args, ok := timeOptions.Parse(p)
	if !ok {
		return 125
	}
	format := "%Uuser %Ssystem %Eelapsed %PCPU (0avgtext+0avgdata %Mmaxresident)k\n0inputs+0outputs (0major+0minor)pagefaults 0swaps"
	file, flag := "", os.O_WRONLY|os.O_CREATE|os.O_TRUNC
	quiet := false
	for _, o := range opts {
		switch o.Key {
		case 'f':
			format = o.Value
		case 'p':
			format = "real %e\nuser %U\nsys %S"
		case 'o':
			file = o.Value
		case 'a':
			flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		case 'q':
			quiet = true
		}
	}
	if option.ReportMissing(p, args, 1) {
		return 125
	}
	var to io.Writer = p.Stderr
	if file != "" {
		h, err := p.OpenFile(file, flag, 0o666)
		if err != nil {
			p.Errorf("%s: %s", file, program.Reason(err))
			return 125
		}
		p.CloseOnExec(h.Fd())
		to = h
	}
	s, err := p.Command(args)
	if err != nil {
		p.Errorf("cannot run %s: %s", args[0], program.Reason(err))
		return 127
	}
	start := time.Now()
	_, before := p.RunTime()
	st, err := p.Call(s)
	if err != nil {
		return reportExecError(p, args[0], err)
	}
	took := time.Since(start)
	_, used := p.RunTime()
	report := ""
	if st.Code != 0 && !quiet {
		report = fmt.Sprintf("Command exited with non-zero status %d\n", st.Code)
		if st.Signal != 0 {
			report = fmt.Sprintf("Command terminated by signal %d\n", int(st.Signal))
		}
	}
	_, _ = io.WriteString(to, report+timeReport(format, took, used-before, st, args)+"\n") // best effort
	return st.Code
}

// timeReport expands a format of time.
func timeReport(format string, took, user time.Duration, st kernel.Status, args []string) string {
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
			fmt.Fprintf(&b, "%.2f", user.Seconds())
		case 'S':
			b.WriteString("0.00")
		case 'P':
			fmt.Fprintf(&b, "%d%%", int(100*user.Seconds()/max(sec, 1e-6)))
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
