package command

import (
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var dateOptions = parsing{options: []option{
	{short: 'd', long: "date", arg: required},
	{short: 'f', long: "file", arg: required},
	{short: 'I', long: "iso-8601", arg: optional},
	{short: 'R', long: "rfc-email"},
	{long: "rfc-822", id: 'R'},
	{long: "rfc-2822", id: 'R'},
	{long: "rfc-3339", arg: required, id: '3'},
	{short: 'r', long: "reference", arg: required},
	{short: 's', long: "set", arg: required},
	{short: 'u', long: "utc"},
	{long: "universal", id: 'u'},
	{long: "uct", id: 'u'},
	{long: "debug", id: 'D'},
	{long: "resolution", id: 'p'},
}}

const rfcEmail = "%a, %d %b %Y %H:%M:%S %z"

var isoFormats = []choice{{"hours", 0}, {"minutes", 1}, {"date", 2}, {"seconds", 3}, {"ns", 4}}

var isoText = []string{"%Y-%m-%dT%H%:z", "%Y-%m-%dT%H:%M%:z", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%:z", "%Y-%m-%dT%H:%M:%S,%N%:z"}

var rfcFormats = []choice{{"date", 0}, {"seconds", 1}, {"ns", 2}}

var rfcText = []string{"%Y-%m-%d", "%Y-%m-%d %H:%M:%S%:z", "%Y-%m-%d %H:%M:%S.%N%:z"}

// dateJob is what date is asked for.
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

func date(p *kernel.Proc) int {
	opts, args, ok := dateOptions.parse(p)
	if !ok {
		return 1
	}
	job := dateJob{zone: zoneOf(p)}
	for _, o := range opts {
		if !job.option(p, o) {
			return 1
		}
	}
	if job.sources > 1 {
		p.Errorf("the options to specify dates for printing are mutually exclusive")
		tryHelp(p)
		return 1
	}
	if len(args) > 0 && !job.operands(p, args) {
		return 1
	}
	if job.setting {
		if _, ok := parseDate(job.set, p.Now(), job.zone); !ok {
			p.Errorf("invalid date %s", cite(job.set))
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

func (job *dateJob) option(p *kernel.Proc, o given) bool {
	ok := true
	kind := 2
	switch o.key {
	case 'd':
		job.text, job.hasText = o.value, true
		job.sources = job.sources | 1
	case 'f':
		job.file = o.value
		job.sources++
	case 'r':
		job.ref = o.value
		job.sources++
	case 's':
		job.set, job.setting = o.value, true
	case 'u':
		job.zone = time.UTC
	case 'I':
		if o.has {
			kind, ok = choose(p, "--iso-8601", o.value, isoFormats)
		}
		return ok && job.setFormat(p, isoText[kind])
	case 'R':
		return job.setFormat(p, rfcEmail)
	case '3':
		kind, ok = choose(p, "--rfc-3339", o.value, rfcFormats)
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

func (job *dateJob) operands(p *kernel.Proc, args []string) bool {
	if extra(p, args, 1) {
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
		p.Errorf("the argument %s lacks a leading '+';\nwhen using an option to specify date(s), any non-option\nargument must be a format string beginning with '+'", cite(args[0]))
		tryHelp(p)
		return false
	}
	if len(args[0]) >= 8 && strings.Trim(args[0], "0123456789.") == "" {
		p.Errorf("cannot set date: Operation not permitted")
		return false
	}
	p.Errorf("invalid date %s", cite(args[0]))
	return false
}

func (job *dateJob) run(p *kernel.Proc) int {
	switch {
	case job.file != "":
		return job.lines(p)
	case job.ref != "":
		info, err := p.Stat(job.ref)
		if err != nil {
			p.Errorf("%s: %s", quotef(job.ref), why(err))
			return 1
		}
		job.show(p, info.ModTime())
		return 0
	case job.hasText:
		t, ok := parseDate(job.text, p.Now(), job.zone)
		if !ok {
			p.Errorf("invalid date %s", cite(job.text))
			return 1
		}
		job.show(p, t)
		return 0
	}
	job.show(p, p.Now())
	return 0
}

// lines shows the date of every line of a file.
func (job *dateJob) lines(p *kernel.Proc) int {
	in, err := open(p, job.file)
	if err != nil {
		p.Errorf("%s: %s", quotef(job.file), why(err))
		return 1
	}
	defer closeInput(in)
	l := newLines(p, in, '\n')
	defer l.close()
	code := 0
	for line := l.next(); line != nil; line = l.next() {
		text := string(trimDelim(line, '\n'))
		t, ok := parseDate(text, p.Now(), job.zone)
		if !ok {
			p.Errorf("invalid date %s", cite(text))
			code = 1
			continue
		}
		job.show(p, t)
	}
	return code
}

func (job *dateJob) show(p *kernel.Proc, t time.Time) {
	_, _ = p.Out().WriteString(formatDate(p, t.In(job.zone), job.format) + "\n") // shows at the flush
}
