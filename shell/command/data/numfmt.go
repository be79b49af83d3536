package data

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
)

const numfmtUsage = `Usage: numfmt [OPTION]... [NUMBER]...
Reformat NUMBER(s), or the numbers from standard input if none are specified.

      --debug            print warnings about invalid input
  -d, --delimiter=X      use X instead of whitespace for field delimiter
      --field=FIELDS     replace the numbers in these input fields (default=1)
      --format=FORMAT    use printf style floating-point FORMAT
      --from=UNIT        auto-scale input numbers to UNITs; default is 'none'
      --from-unit=N      specify the input unit size (instead of the default 1)
      --grouping         use locale-defined grouping of digits
      --header[=N]       print (without converting) the first N header lines
      --invalid=MODE     failure mode for invalid numbers: MODE can be:
                           abort (default), fail, warn, ignore
      --padding=N        pad the output to N characters
      --round=METHOD     use METHOD for rounding when scaling; METHOD can be:
                           up, down, from-zero (default), towards-zero, nearest
      --suffix=SUFFIX    add SUFFIX to output numbers, and accept optional
                           SUFFIX in input numbers
      --to=UNIT          auto-scale output numbers to UNITs
      --to-unit=N        the output unit size (instead of the default 1)
  -z, --zero-terminated  line delimiter is NUL, not newline
      --help             display this help and exit

UNIT options: none, auto (input only), si, iec, iec-i.
`

var numfmtOptions = option.Parser{Options: []option.Option{
	{Long: "debug", ID: 'D'},
	{Short: 'd', Long: "delimiter", Arg: option.Required},
	{Long: "field", Arg: option.Required, ID: 'f'},
	{Long: "format", Arg: option.Required, ID: 'F'},
	{Long: "from", Arg: option.Required, ID: 'r'},
	{Long: "from-unit", Arg: option.Required, ID: 'R'},
	{Long: "grouping", ID: 'g'},
	{Long: "header", Arg: option.Optional, ID: 'h'},
	{Long: "invalid", Arg: option.Required, ID: 'i'},
	{Long: "padding", Arg: option.Required, ID: 'p'},
	{Long: "round", Arg: option.Required, ID: 'o'},
	{Long: "suffix", Arg: option.Required, ID: 's'},
	{Long: "to", Arg: option.Required, ID: 't'},
	{Long: "to-unit", Arg: option.Required, ID: 'T'},
	{Short: 'z', Long: "zero-terminated"},
}}

const (
	scaleNone = iota
	scaleAuto
	scaleSI
	scaleIEC
	scaleIECI
)

var scaleFrom = []option.Choice{{Word: "none", Value: scaleNone}, {Word: "auto", Value: scaleAuto}, {Word: "si", Value: scaleSI}, {Word: "iec", Value: scaleIEC}, {Word: "iec-i", Value: scaleIECI}}

var scaleTo = []option.Choice{{Word: "none", Value: scaleNone}, {Word: "si", Value: scaleSI}, {Word: "iec", Value: scaleIEC}, {Word: "iec-i", Value: scaleIECI}}

const (
	roundFromZero = iota
	roundUp
	roundDown
	roundToZero
	roundNearest
)

var roundings = []option.Choice{{Word: "up", Value: roundUp}, {Word: "down", Value: roundDown}, {Word: "from-zero", Value: roundFromZero}, {Word: "towards-zero", Value: roundToZero}, {Word: "nearest", Value: roundNearest}}

const (
	invalidAbort = iota
	invalidFail
	invalidWarn
	invalidIgnore
)

var invalids = []option.Choice{{Word: "abort", Value: invalidAbort}, {Word: "fail", Value: invalidFail}, {Word: "warn", Value: invalidWarn}, {Word: "ignore", Value: invalidIgnore}}

// numfmtJob is the state of one run of numfmt.
type numfmtJob struct {
	p                *kernel.Proc
	from, to, round  int
	fromUnit, toUnit float64
	invalid          int
	padding          int
	suffix           string
	delim            string
	fields           func(int) bool
	header           int
	end              byte
	format           numFormat
	code             int
}

// numFormat is a parsed --format.
type numFormat struct {
	given         bool
	before, after string
	width, prec   int // -1: not given
	zero, left    bool
	grouping      bool
}

func runNumfmt(p *kernel.Proc) int {
	job := &numfmtJob{p: p, fromUnit: 1, toUnit: 1, end: '\n', fields: func(n int) bool { return n == 1 }, format: numFormat{width: -1, prec: -1}}
	protectNegativeOperands(p)
	opts, args, ok := numfmtOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !job.applyOption(o) {
			return 1
		}
	}
	if job.format.grouping && job.to != scaleNone {
		p.Errorf("grouping cannot be combined with --to")
		return 1
	}
	if len(args) > 0 {
		for _, a := range args {
			if !job.convertLine(a) {
				return job.code
			}
			_ = p.Out().WriteByte(job.end) // Flush reports the error
		}
		return job.code
	}
	l := stream.NewLineReader(p, p.Stdin, job.end)
	defer l.Close()
	for line := l.Next(); line != nil; line = l.Next() {
		text := string(stream.TrimDelimiter(line, job.end))
		if job.header > 0 {
			job.header--
			_, _ = p.Out().WriteString(text)
		} else if !job.convertLine(text) {
			return job.code
		}
		if len(text) < len(line) {
			_ = p.Out().WriteByte(job.end)
		}
	}
	return job.code
}

func (job *numfmtJob) applyOption(o option.Setting) bool {
	p, ok := job.p, true
	switch o.Key {
	case 'd':
		if len(o.Value) > 1 {
			p.Errorf("the delimiter must be a single character")
			return false
		}
		job.delim = o.Value
	case 'f':
		return job.setFields(o.Value)
	case 'F':
		return job.setFormat(o.Value)
	case 'r':
		job.from, ok = option.Choose(p, "--from", o.Value, scaleFrom)
	case 't':
		job.to, ok = option.Choose(p, "--to", o.Value, scaleTo)
	case 'R', 'T':
		v, fault := parseUnitSize(o.Value)
		if !fault {
			p.Errorf("invalid unit size: %s", quoting.QuoteWord(o.Value))
			return false
		}
		if o.Key == 'R' {
			job.fromUnit = v
		} else {
			job.toUnit = v
		}
	case 'g':
		job.format.grouping = true
	case 'h':
		job.header = 1
		if o.HasValue {
			n, err := strconv.Atoi(o.Value)
			if err != nil || n <= 0 {
				p.Errorf("invalid header value %s", quoting.QuoteWord(o.Value))
				return false
			}
			job.header = n
		}
	case 'i':
		job.invalid, ok = option.Choose(p, "--invalid", o.Value, invalids)
	case 'p':
		n, err := strconv.Atoi(o.Value)
		if err != nil || n == 0 || n > 1<<16 || n < -1<<16 {
			p.Errorf("invalid padding value %s", quoting.QuoteWord(o.Value))
			return false
		}
		job.padding = n
	case 'o':
		job.round, ok = option.Choose(p, "--round", o.Value, roundings)
	case 's':
		job.suffix = o.Value
	case 'z':
		job.end = 0
	}
	return ok
}

// parseUnitSize parses a unit: a number with an optional suffix.
func parseUnitSize(s string) (float64, bool) {
	digits := strings.TrimRight(s, "KMGTPEZYi")
	n, err := strconv.ParseUint(digits, 10, 64)
	tail := s[len(digits):]
	switch {
	case tail != "" && digits == "":
		n = 1
	case err != nil || n == 0:
		return 0, false
	}
	if tail == "" {
		return float64(n), true
	}
	power := strings.IndexByte("KMGTPEZY", tail[0]) + 1
	switch {
	case len(tail) == 1:
		return float64(n) * math.Pow(1000, float64(power)), power > 0
	case tail[1:] == "i":
		return float64(n) * math.Pow(1024, float64(power)), power > 0
	}
	return 0, false
}

// setFields applies --field.
func (job *numfmtJob) setFields(s string) bool {
	type span struct{ lo, hi int }
	var list []span
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		lo, hi, ranged := strings.Cut(part, "-")
		a, b := 1, math.MaxInt
		var err1, err2 error
		if lo != "" {
			a, err1 = strconv.Atoi(lo)
		}
		if hi != "" {
			b, err2 = strconv.Atoi(hi)
		} else if !ranged {
			b = a
		}
		switch {
		case err1 != nil || err2 != nil:
			job.p.Errorf("invalid field value %s", quoting.QuoteWord(part))
			option.SuggestHelp(job.p)
			return false
		case a == 0 || b == 0:
			job.p.Errorf("fields are numbered from 1")
			option.SuggestHelp(job.p)
			return false
		case a > b:
			job.p.Errorf("invalid decreasing range")
			option.SuggestHelp(job.p)
			return false
		}
		list = append(list, span{a, b})
	}
	job.fields = func(n int) bool {
		for _, s := range list {
			if n >= s.lo && n <= s.hi {
				return true
			}
		}
		return false
	}
	return true
}

// setFormat applies --format.
func (job *numfmtJob) setFormat(s string) bool {
	p, f := job.p, &job.format
	fail := func(msg string) bool {
		p.Errorf("format %s %s", quoting.QuoteName(s), msg)
		return false
	}
	*f = numFormat{given: true, width: -1, prec: -1, grouping: f.grouping}
	i := 0
	var before strings.Builder
	for ; i < len(s) && s[i] != '%' || strings.HasPrefix(s[i:], "%%"); i++ {
		if s[i] == '%' {
			i++
		}
		before.WriteByte(s[i])
	}
	if i == len(s) {
		return fail("has no % directive")
	}
	f.before = before.String()
	for i++; i < len(s) && strings.IndexByte("' 0-", s[i]) >= 0; i++ {
		switch s[i] {
		case '\'':
			f.grouping = true
		case '0':
			f.zero = true
		case '-':
			f.left = true
		}
	}
	start := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i > start {
		f.width, _ = strconv.Atoi(s[start:i])
		f.width = min(f.width, 1<<16)
	}
	if i < len(s) && s[i] == '.' {
		start = i + 1
		for i++; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		}
		f.prec, _ = strconv.Atoi(s[start:i])
		f.prec = min(f.prec, 1<<10)
	}
	switch {
	case i == len(s):
		return fail("ends in %")
	case s[i] != 'f':
		p.Errorf("invalid format %s, directive must be %%[0]['][-][N][.][N]f", quoting.QuoteName(s))
		return false
	}
	rest := s[i+1:]
	if strings.Contains(strings.ReplaceAll(rest, "%%", ""), "%") {
		return fail("has too many % directives")
	}
	f.after = rest
	return true
}

// convertLine converts the fields of a line. It returns false if the program must stop.
func (job *numfmtJob) convertLine(s string) bool {
	out := job.p.Out()
	job.p.Tick(1 + len(s)/16)
	if job.delim != "" {
		for n, f := range strings.Split(s, job.delim) {
			if n > 0 {
				_, _ = out.WriteString(job.delim) // Flush reports the error
			}
			if !job.writeField(f, "", job.fields(n+1), 0) {
				return false
			}
		}
		return true
	}
	for n := 1; s != "" || n == 1; n++ {
		rest := strings.TrimLeft(s, " \t")
		blanks := s[:len(s)-len(rest)]
		end := strings.IndexAny(rest, " \t")
		if end < 0 {
			end = len(rest)
		}
		if n > 1 && blanks != "" {
			_ = out.WriteByte(blanks[0])
			blanks = blanks[1:]
		}
		width := 0 // converted numbers keep their column
		if n > 1 || blanks != "" {
			width = len(blanks) + end
		}
		if !job.writeField(rest[:end], blanks, job.fields(n), width) {
			return false
		}
		s = rest[end:]
	}
	return true
}

// writeField prints one field, converted if convert is set.
func (job *numfmtJob) writeField(text, blanks string, convert bool, place int) bool {
	out := job.p.Out()
	if !convert {
		_, _ = out.WriteString(blanks + text) // Flush reports the error
		return true
	}
	defer quoting.ChargeMessage(job.p, text)()
	result, msg := job.convertNumber(text)
	if msg != "" {
		if job.invalid != invalidIgnore {
			job.p.Errorf("%s", msg)
		}
		if job.invalid == invalidAbort {
			job.code = 2
			return false
		}
		if job.invalid == invalidFail {
			job.code = 2
		}
		_, _ = out.WriteString(blanks + text)
		return true
	}
	width := job.padding
	if job.format.width > 0 {
		width = 0
	} else if width == 0 {
		width = place
	}
	_, _ = out.WriteString(number.Pad(result, width))
	return true
}

// convertNumber converts a number; msg is the message of an error.
func (job *numfmtJob) convertNumber(text string) (result, msg string) {
	num := strings.TrimSuffix(text, job.suffix)
	v, prec, msg := job.read(num, text)
	if msg != "" {
		return "", msg
	}
	v = v * job.fromUnit / job.toUnit
	f := job.format
	if f.prec >= 0 {
		prec = f.prec
	}
	var body string
	switch {
	case job.to != scaleNone:
		body = job.formatScaled(v)
	case math.Abs(v) > 1e18 && prec == 0 && math.Abs(v) >= 1e19:
		return "", "value too large to be printed: '" + strconv.FormatFloat(v, 'g', 6, 64) + "' (consider using --to)"
	default:
		body = strconv.FormatFloat(roundTo(v, prec, job.round), 'f', prec, 64)
	}
	if f.zero { // the unit is not counted
		digits := strings.TrimRight(body, "KMGTPEZYi")
		body = padZeros(digits, f.width) + body[len(digits):]
	}
	body += job.suffix
	if pad := f.width - len(body); pad > 0 && !f.zero {
		if f.left {
			body += strings.Repeat(" ", pad)
		} else {
			body = strings.Repeat(" ", pad) + body
		}
	}
	return f.before + body + f.after, ""
}

// read parses a number with its unit. It returns the value and the number of decimals.
func (job *numfmtJob) read(num, text string) (v float64, prec int, msg string) {
	t := strings.TrimLeft(num, " \t")
	i := 0
	if strings.HasPrefix(t, "-") {
		i = 1
	}
	start := i
	for i < len(t) && t[i] >= '0' && t[i] <= '9' {
		i++
	}
	digits := i - start
	if i < len(t) && t[i] == '.' {
		dot := i
		for i++; i < len(t) && t[i] >= '0' && t[i] <= '9'; i++ {
		}
		prec = i - dot - 1
		digits += prec
		if prec == 0 {
			return 0, 0, "invalid number: " + quoting.QuoteWord(text)
		}
	}
	if digits == 0 {
		return 0, 0, "invalid number: " + quoting.QuoteWord(text)
	}
	if i-start > 33 {
		return 0, 0, "value too large to be converted: " + quoting.QuoteWord(text)
	}
	big, _, err := big.ParseFloat(t[:i], 10, 64, big.ToNearestEven)
	if err != nil {
		return 0, 0, "invalid number: " + quoting.QuoteWord(text)
	}
	v, _ = big.Float64()
	tail := t[i:]
	if tail == "" {
		return v, prec, ""
	}
	return job.readUnit(v, tail, num, text)
}

// readUnit parses the unit in tail, the text after the number v. It returns v times the unit, its
// number of decimals and the message of an error.
func (job *numfmtJob) readUnit(v float64, tail, num, text string) (float64, int, string) {
	power := strings.IndexByte("KMGTPEZY", tail[0]) + 1
	rest := tail[1:]
	base := 1000.0
	switch {
	case power == 0:
		return 0, 0, "invalid suffix in input: " + quoting.QuoteWord(text)
	case job.from == scaleNone:
		return 0, 0, "rejecting suffix in input: " + quoting.QuoteWord(text) + " (consider using --from)"
	case job.from == scaleAuto && strings.HasPrefix(rest, "i"):
		base, rest = 1024, rest[1:]
	case job.from == scaleIEC:
		base = 1024
	case job.from == scaleIECI:
		base = 1024
		if !strings.HasPrefix(rest, "i") {
			return 0, 0, "missing 'i' suffix in input: " + quoting.QuoteWord(text) + " (e.g Ki/Mi/Gi)"
		}
		rest = rest[1:]
	}
	if rest != "" {
		return 0, 0, "invalid suffix in input " + quoting.QuoteWord(text) + ": " + quoting.QuoteWord(rest)
	}
	return v * math.Pow(base, float64(power)), 0, ""
}

// roundTo rounds v to a number of decimals by a method.
func roundTo(v float64, prec, how int) float64 {
	scale := math.Pow(10, float64(prec))
	return roundBy(v*scale, how) / scale
}

// roundBy rounds v to an integer by a method.
func roundBy(v float64, how int) float64 {
	if r := math.Round(v); math.Abs(v-r) < math.Abs(v)*1e-15 {
		return r
	}
	switch how {
	case roundUp:
		return math.Ceil(v)
	case roundDown:
		return math.Floor(v)
	case roundToZero:
		return math.Trunc(v)
	case roundNearest:
		return math.Round(v)
	}
	if v < 0 {
		return math.Floor(v)
	}
	return math.Ceil(v)
}

// formatScaled returns v with a unit and, below ten, one decimal.
func (job *numfmtJob) formatScaled(v float64) string {
	base, tail := 1000.0, ""
	if job.to != scaleSI {
		base = 1024
	}
	if job.to == scaleIECI {
		tail = "i"
	}
	power := 0
	for math.Abs(v) >= base && power < 8 {
		v /= base
		power++
	}
	prec := job.format.prec
	switch {
	case prec >= 0: // GNU rounds to the precision of the unit, then prints more digits
		v = roundTo(v, min(prec, 3*power), job.round)
	case math.Abs(v) < 10:
		v = roundBy(v*10, job.round) / 10
	default:
		v = roundBy(v, job.round)
	}
	if math.Abs(v) >= base && power < 8 {
		v /= base
		power++
	}
	if prec < 0 {
		prec = 0
		if power > 0 && v != 0 && math.Abs(v) < 10 {
			prec = 1
		}
	}
	if power == 0 {
		return fmt.Sprintf("%.*f", prec, v)
	}
	unit := "KMGTPEZY"[power-1 : power]
	return fmt.Sprintf("%.*f%s%s", prec, v, unit, tail)
}
