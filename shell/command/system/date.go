package system

import (
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const dateUsage = `Usage: date [OPTION]... [+FORMAT]
Display date and time in the given FORMAT.

  -d, --date=STRING          display time described by STRING, not 'now'
  -f, --file=DATEFILE        like --date; once for each line of DATEFILE
  -I[FMT], --iso-8601[=FMT]  output date/time in ISO 8601 format.
                               FMT='date' for date only (the default),
                               'hours', 'minutes', 'seconds', or 'ns'
  -R, --rfc-email            output date and time in RFC 5322 format
      --rfc-3339=FMT         output date/time in RFC 3339 format.
                               FMT='date', 'seconds', or 'ns'
  -r, --reference=FILE       display the last modification time of FILE
  -s, --set=STRING           refused: a sandbox can't set the clock
  -u, --utc, --universal     print Coordinated Universal Time (UTC)
      --debug                ignored
      --help                 display this help and exit

FORMAT controls the output:
  %a %A weekday   %b %B month    %c date and time  %C century    %d day
  %D %m/%d/%y     %e day         %F %Y-%m-%d       %g %G ISO year %H %I hour
  %j day of year  %k %l hour     %m month          %M minute     %N nanoseconds
  %p %P AM or PM  %q quarter     %r %R %T time     %s seconds since the epoch
  %S second       %u %w weekday  %U %V %W week     %x date       %X time
  %y %Y year      %z %:z offset  %Z zone           %n %t %% newline, tab, %
By default, numeric fields are padded with zeroes. Flags after '%':
  - (hyphen) do not pad  _ pad with spaces  0 pad with zeros
  ^ use upper case       # use opposite case
`

var dateOptions = option.Parser{Options: []option.Option{
	{Short: 'd', Long: "date", Arg: option.Required},
	{Short: 'f', Long: "file", Arg: option.Required},
	{Short: 'I', Long: "iso-8601", Arg: option.Optional},
	{Short: 'R', Long: "rfc-email"},
	{Long: "rfc-822", ID: 'R'},
	{Long: "rfc-2822", ID: 'R'},
	{Long: "rfc-3339", Arg: option.Required, ID: '3'},
	{Short: 'r', Long: "reference", Arg: option.Required},
	{Short: 's', Long: "set", Arg: option.Required},
	{Short: 'u', Long: "utc"},
	{Long: "universal", ID: 'u'},
	{Long: "uct", ID: 'u'},
	{Long: "debug", ID: 'D'},
	{Long: "resolution", ID: 'p'},
}}

const rfcEmail = "%a, %d %b %Y %H:%M:%S %z"

var isoFormats = []option.Choice{{Word: "hours", Value: 0}, {Word: "minutes", Value: 1}, {Word: "date", Value: 2}, {Word: "seconds", Value: 3}, {Word: "ns", Value: 4}}

var isoText = []string{"%Y-%m-%dT%H%:z", "%Y-%m-%dT%H:%M%:z", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%:z", "%Y-%m-%dT%H:%M:%S,%N%:z"}

var rfcFormats = []option.Choice{{Word: "date", Value: 0}, {Word: "seconds", Value: 1}, {Word: "ns", Value: 2}}

var rfcText = []string{"%Y-%m-%d", "%Y-%m-%d %H:%M:%S%:z", "%Y-%m-%d %H:%M:%S.%N%:z"}

// dateJob is the state of one run of date.
type dateJob struct {
	format    string
	hasFormat bool
	zone      *time.Location
	sources   int
	text      string
	hasText   bool
	file      string
	ref       string
	set       string
	setting   bool
}

func runDate(p *kernel.Proc) int {
	opts, args, ok := dateOptions.Parse(p)
	if !ok {
		return 1
	}
	job := dateJob{zone: datetime.LocalZone(p)}
	for _, o := range opts {
		if !job.applyOption(p, o) {
			return 1
		}
	}
	if job.sources > 1 {
		p.Errorf("the options to specify dates for printing are mutually exclusive")
		option.SuggestHelp(p)
		return 1
	}
	if len(args) > 0 && !job.parseOperands(p, args) {
		return 1
	}
	if job.setting {
		if _, ok := datetime.Parse(job.set, p.Now(), job.zone); !ok {
			p.Errorf("invalid date %s", quoting.QuoteWord(job.set))
			return 1
		}
		p.Errorf("cannot set date: Operation not permitted")
		return 1
	}
	if !job.hasFormat {
		job.format = "%a %b %e %H:%M:%S %Z %Y"
	}
	return job.run(p)
}

func (job *dateJob) applyOption(p *kernel.Proc, o option.Setting) bool {
	ok := true
	kind := 2
	switch o.Key {
	case 'd':
		job.text, job.hasText = o.Value, true
		job.sources = job.sources | 1
	case 'f':
		job.file = o.Value
		job.sources++
	case 'r':
		job.ref = o.Value
		job.sources++
	case 's':
		job.set, job.setting = o.Value, true
	case 'u':
		job.zone = time.UTC
	case 'I':
		if o.HasValue {
			kind, ok = option.Choose(p, "--iso-8601", o.Value, isoFormats)
		}
		return ok && job.setFormat(p, isoText[kind])
	case 'R':
		return job.setFormat(p, rfcEmail)
	case '3':
		kind, ok = option.Choose(p, "--rfc-3339", o.Value, rfcFormats)
		return ok && job.setFormat(p, rfcText[kind])
	case 'p':
		return job.setFormat(p, "0.000000001")
	}
	return ok
}

func (job *dateJob) setFormat(p *kernel.Proc, f string) bool {
	if job.hasFormat {
		p.Errorf("multiple output formats specified")
		return false
	}
	job.format, job.hasFormat = f, true
	return true
}

func (job *dateJob) parseOperands(p *kernel.Proc, args []string) bool {
	if option.ReportExtra(p, args, 1) {
		return false
	}
	f, ok := strings.CutPrefix(args[0], "+")
	switch {
	case ok && job.hasFormat:
		p.Errorf("multiple output formats specified")
		return false
	case ok:
		job.format, job.hasFormat = f, true
		return true
	case job.sources > 0 || job.setting:
		p.Errorf("the argument %s lacks a leading '+';\nwhen using an option to specify date(s), any non-option\nargument must be a format string beginning with '+'", quoting.QuoteWord(args[0]))
		option.SuggestHelp(p)
		return false
	}
	if len(args[0]) >= 8 && strings.Trim(args[0], "0123456789.") == "" {
		p.Errorf("cannot set date: Operation not permitted")
		return false
	}
	p.Errorf("invalid date %s", quoting.QuoteWord(args[0]))
	return false
}

func (job *dateJob) run(p *kernel.Proc) int {
	switch {
	case job.file != "":
		return job.printLines(p)
	case job.ref != "":
		info, err := p.Stat(job.ref)
		if err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(job.ref), program.Reason(err))
			return 1
		}
		job.printDate(p, info.ModTime())
		return 0
	case job.hasText:
		t, ok := datetime.Parse(job.text, p.Now(), job.zone)
		if !ok {
			p.Errorf("invalid date %s", quoting.QuoteWord(job.text))
			return 1
		}
		job.printDate(p, t)
		return 0
	}
	job.printDate(p, p.Now())
	return 0
}

// printLines prints the date in every line of a file and returns the exit status.
func (job *dateJob) printLines(p *kernel.Proc) int {
	in, err := stream.Open(p, job.file)
	if err != nil {
		p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(job.file), program.Reason(err))
		return 1
	}
	defer stream.Close(in)
	l := stream.NewLineReader(p, in, '\n')
	defer l.Close()
	code := 0
	for line := l.Next(); line != nil; line = l.Next() {
		text := string(stream.TrimDelimiter(line, '\n'))
		t, ok := datetime.Parse(text, p.Now(), job.zone)
		if !ok {
			p.Errorf("invalid date %s", quoting.QuoteWord(text))
			code = 1
			continue
		}
		job.printDate(p, t)
	}
	return code
}

func (job *dateJob) printDate(p *kernel.Proc, t time.Time) {
	_, _ = p.Out().WriteString(datetime.Format(p, t.In(job.zone), job.format)) // Flush reports the error, here and below
	_ = p.Out().WriteByte('\n')
}
