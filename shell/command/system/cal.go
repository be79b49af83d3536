package system

import (
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const calUsage = `Usage: cal [-13jmsy] [[month] year]
Print a calendar.

  -1          one month (the default)
  -3          the month before, this one and the next
  -A NUMBER   months after
  -B NUMBER   months before
  -j          days of the year
  -m MONTH    that month
  -M, -S      weeks begin on Monday, on Sunday (the default)
  -y          a whole year
  -h          ignored: today is not marked
      --help  display this help and exit
`

// calStyle is how months are printed.
type calStyle struct {
	monday, julian bool
}

var calOptions = option.Parser{Options: []option.Option{
	{Short: '1'},
	{Short: '3'},
	{Short: 'A', Arg: option.Required},
	{Short: 'B', Arg: option.Required},
	{Short: 'j'},
	{Short: 'm', Arg: option.Required},
	{Short: 'M'},
	{Short: 'S'},
	{Short: 'y'},
	{Short: 'h'},
	{Short: 'N'},
	{Short: 'C'},
	{Short: 'b'},
	{Short: 'd', Arg: option.Required},
}}

// calJob is the state of one run of cal.
type calJob struct {
	style         calStyle
	year, month   int
	before, after int
	whole         bool // a year
}

// calFailed is the exit status of cal for dates it can't print.
const calFailed = 64

func runCal(p *kernel.Proc) int {
	opts, args, ok := calOptions.Parse(p)
	if !ok {
		return calFailed
	}
	now := p.Now().In(datetime.LocalZone(p))
	job := calJob{year: now.Year(), month: int(now.Month()), whole: len(args) == 1}
	for _, o := range opts {
		if !job.applyOption(p, o) {
			return calFailed
		}
	}
	if !job.parseOperands(p, args) {
		return calFailed
	}
	if job.whole {
		job.style.printYear(p, job.year)
		return 0
	}
	job.style.printMonths(p, job.year, job.month-job.before, job.before+job.after+1, true)
	return 0
}

func (job *calJob) applyOption(p *kernel.Proc, o option.Setting) bool {
	ok := true
	switch o.Key {
	case '3':
		job.before, job.after = 1, 1
	case 'A':
		job.after, ok = calCount(p, o)
	case 'B':
		job.before, ok = calCount(p, o)
	case 'j':
		job.style.julian = true
	case 'M':
		job.style.monday = true
	case 'S':
		job.style.monday = false
	case 'y':
		job.whole = true
	case 'm':
		job.whole = false
		return job.setMonth(p, o.Value)
	}
	return ok
}

func calCount(p *kernel.Proc, o option.Setting) (int, bool) {
	n, err := strconv.Atoi(o.Value)
	if err != nil || n < 0 || n > 1200 {
		p.Errorf("Argument to -%c must be positive", o.Key)
		return 0, false
	}
	return n, true
}

func (job *calJob) setMonth(p *kernel.Proc, s string) bool {
	m, ok := calMonth(s)
	if !ok {
		p.Errorf("%s is neither a month number (1..12) nor a name", s)
		return false
	}
	job.month = m
	return true
}

func (job *calJob) parseOperands(p *kernel.Proc, args []string) bool {
	switch len(args) {
	case 0:
		return true
	case 2:
		if !job.setMonth(p, args[0]) {
			return false
		}
		args = args[1:]
	case 1:
	default:
		_, _ = p.Stderr.WriteString(calUsage) // best effort
		return false
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > 9999 {
		p.Errorf("year `%s' not in range 1..9999", args[0])
		return false
	}
	job.year = n
	return true
}

func calMonth(s string) (int, bool) {
	if n, err := strconv.Atoi(s); err == nil {
		return n, n >= 1 && n <= 12
	}
	m := datetime.ParseMonth(strings.ToLower(s))
	return m, m > 0
}

func (st calStyle) monthWidth() int {
	if st.julian {
		return 27
	}
	return 20
}

// formatMonth returns the lines of a month: title, days of the week, six weeks.
func (st calStyle) formatMonth(year int, month time.Month, titled bool) []string {
	w := st.monthWidth()
	title := month.String()
	if titled {
		title += " " + strconv.Itoa(year)
	}
	lines := []string{calCenter(title, w)}
	cell := (w + 1) / 7
	names := "Su Mo Tu We Th Fr Sa"
	if st.monday {
		names = "Mo Tu We Th Fr Sa Su"
	}
	if st.julian {
		names = " " + strings.ReplaceAll(names, " ", "  ")
	}
	lines = append(lines, names)
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	col := int(first.Weekday())
	if st.monday {
		col = (col + 6) % 7
	}
	var b strings.Builder
	b.WriteString(strings.Repeat(" ", col*cell))
	for d := 1; d <= datetime.DaysIn(year, int(month)); d++ {
		n := d
		if st.julian {
			n = first.YearDay() + d - 1
		}
		b.WriteString(number.Pad(strconv.Itoa(n), cell-1))
		if col++; col == 7 {
			lines = append(lines, b.String())
			b.Reset()
			col = 0
			continue
		}
		b.WriteByte(' ')
	}
	lines = append(lines, b.String())
	for len(lines) < 8 {
		lines = append(lines, "")
	}
	return lines[:8]
}

func calCenter(s string, w int) string {
	return strings.Repeat(" ", max(0, (w-len(s))/2)) + s
}

// printMonths prints n months, three side by side.
func (st calStyle) printMonths(p *kernel.Proc, year, month, n int, titled bool) {
	out := p.Out()
	for first := true; n > 0; first = false {
		if !first && !titled {
			_ = out.WriteByte('\n') // Flush reports the error
		}
		var row [][]string
		for range min(3, n) {
			t := time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
			row = append(row, st.formatMonth(t.Year(), t.Month(), titled))
			month++
			n--
		}
		for line := range 8 {
			var b strings.Builder
			for _, m := range row {
				b.WriteString(number.Pad(m[line], -st.monthWidth()-2))
			}
			p.Tick(4)
			_, _ = out.WriteString(b.String() + "\n") // Flush reports the error
		}
	}
}

func (st calStyle) printYear(p *kernel.Proc, year int) {
	_, _ = p.Out().WriteString(calCenter(strconv.Itoa(year), 3*st.monthWidth()) + "\n") // Flush reports the error
	st.printMonths(p, year, 1, 12, false)
}
