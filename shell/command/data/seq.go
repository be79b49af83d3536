package data

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

const seqUsage = `Usage: seq [OPTION]... LAST
  or:  seq [OPTION]... FIRST LAST
  or:  seq [OPTION]... FIRST INCREMENT LAST
Print numbers from FIRST to LAST, in steps of INCREMENT.

  -f, --format=FORMAT      use printf style floating-point FORMAT
  -s, --separator=STRING   use STRING to separate numbers (default: \n)
  -w, --equal-width        equalize width by padding with leading zeroes
      --help               display this help and exit

If FIRST or INCREMENT is omitted, it defaults to 1.  INCREMENT must not be 0.
FORMAT must be suitable for printing one argument of type 'double';
it defaults to %.PRECf if FIRST, INCREMENT, and LAST are all fixed point
decimal numbers with maximum precision PREC, and to %g otherwise.
`

// seqNumber is an operand: its value, its number of decimals (-1 if it is hexadecimal or not
// finite) and its width as written.
type seqNumber struct {
	v     float64
	text  string
	prec  int
	width int
}

// maxSeqDigits is the largest length of a number, and the largest number of its decimals.
const maxSeqDigits = 1 << 16

func parseSeqNumber(s string) (n seqNumber, ok bool) {
	t := strings.TrimLeft(s, " \t\n\v\f\r+")
	v, err := strconv.ParseFloat(normalizeHexFloat(t), 64)
	if t == "" || err != nil && !math.IsInf(v, 0) || strings.ContainsAny(t, "_") || strings.ContainsAny(s, " ") && strings.TrimSpace(s) == "" {
		return n, false
	}
	n = seqNumber{v: v, text: t, width: len(t)}
	mantissa, exp, hasExp := strings.Cut(strings.ToLower(t), "e")
	if strings.ContainsAny(strings.ToLower(t), "xnp") || math.IsInf(v, 0) {
		n.prec = -1
		return n, true
	}
	if dot := strings.IndexByte(mantissa, '.'); dot >= 0 {
		n.prec = len(mantissa) - dot - 1
		if n.prec == 0 { // "1." is printed without its point
			n.width--
		}
		if dot == 0 || dot == 1 && mantissa[0] == '-' {
			n.width++ // ".5" is printed with a zero
		}
	}
	if hasExp {
		e, _ := strconv.Atoi(exp)
		n.prec = min(max(0, n.prec-e), maxSeqDigits)
		n.width = len(strconv.FormatFloat(v, 'f', n.prec, 64))
	}
	return n, true
}

// normalizeHexFloat adds the exponent that Go requires to a hexadecimal number.
func normalizeHexFloat(s string) string {
	if low := strings.ToLower(s); strings.Contains(low, "0x") && !strings.Contains(low, "p") {
		return s + "p0"
	}
	return s
}

var seqOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'f', Long: "format", Arg: option.Required}, {Short: 's', Long: "separator", Arg: option.Required}, {Short: 'w', Long: "equal-width"},
}}

// seqJob is the state of one run of seq.
type seqJob struct {
	first, step, last seqNumber
	format, sep       string
	hasFormat, wide   bool
}

func runSeq(p *kernel.Proc) int {
	job := seqJob{sep: "\n"}
	protectNegativeOperands(p)
	opts, args, ok := seqOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.Key {
		case 'f':
			job.format, job.hasFormat = o.Value, true
		case 's':
			job.sep = o.Value
		case 'w':
			job.wide = true
		}
	}
	if option.ReportMissing(p, args, 1) || option.ReportExtra(p, args, 3) {
		return 1
	}
	if job.hasFormat {
		if msg := checkSeqFormat(job.format); msg != "" {
			p.Errorf("%s", msg)
			return 1
		}
		if job.wide {
			p.Errorf("format string may not be specified when printing equal width strings")
			option.SuggestHelp(p)
			return 1
		}
	}
	if !job.parseOperands(p, args) {
		return 1
	}
	job.print(p)
	return 0
}

// protectNegativeOperands inserts -- before the first negative number in p.Args, so that it is not
// parsed as an option.
func protectNegativeOperands(p *kernel.Proc) {
	for i := 1; i < len(p.Args); i++ {
		a := p.Args[i]
		if len(a) > 1 && a[0] == '-' && (a[1] == '.' || a[1] >= '0' && a[1] <= '9') {
			p.Args = append(append(append([]string(nil), p.Args[:i]...), "--"), p.Args[i:]...)
			return
		}
		if a == "--" || a == "" || a[0] != '-' {
			return
		}
		if a == "-f" || a == "-s" || a == "--format" || a == "--separator" {
			i++
		}
	}
}

func (job *seqJob) parseOperands(p *kernel.Proc, args []string) bool {
	list := []*seqNumber{&job.last}
	switch len(args) {
	case 2:
		list = []*seqNumber{&job.first, &job.last}
	case 3:
		list = []*seqNumber{&job.first, &job.step, &job.last}
	}
	one := seqNumber{v: 1, text: "1", width: 1}
	job.first, job.step = one, one
	for i, s := range args {
		if len(s) > maxSeqDigits {
			p.Errorf("a number of %d digits is too long", len(s))
			return false
		}
		n, ok := parseSeqNumber(s)
		switch {
		case !ok:
			p.Errorf("invalid floating point argument: %s", quoting.QuoteWord(s))
		case math.IsNaN(n.v):
			p.Errorf("invalid 'not-a-number' argument: %s", quoting.QuoteWord(s))
			ok = false
		}
		if !ok {
			option.SuggestHelp(p)
			return false
		}
		*list[i] = n
	}
	if job.step.v == 0 {
		p.Errorf("invalid Zero increment value: %s", quoting.QuoteWord(args[1]))
		option.SuggestHelp(p)
		return false
	}
	return true
}

// print prints the sequence.
func (job *seqJob) print(p *kernel.Proc) {
	if job.isWhole() {
		job.printWhole(p)
		return
	}
	prec := max(job.first.prec, job.step.prec)
	fixed := job.first.prec >= 0 && job.step.prec >= 0 && job.last.prec >= 0
	format := func(v float64) string { return strings.Replace(formatCFloat(v, 'g', 6), "+Inf", "inf", 1) }
	if fixed || job.first.prec >= 0 && job.step.prec >= 0 && math.IsInf(job.last.v, 0) {
		width := 0
		if job.wide && fixed {
			width = job.commonWidth(prec)
		}
		format = func(v float64) string { return padZeros(strconv.FormatFloat(v, 'f', prec, 64), width) }
	}
	if job.hasFormat {
		format = func(v float64) string { return formatSeq(job.format, v) }
	}
	job.printFloats(p, format, prec, fixed)
}

// commonWidth returns the width to which -w pads numbers with prec decimals.
func (job *seqJob) commonWidth(prec int) int {
	w := func(n seqNumber) int {
		switch {
		case n.prec == 0 && prec > 0:
			return n.width + 1 + prec
		case n.prec < prec:
			return n.width + prec - n.prec
		}
		return n.width
	}
	last := job.last
	lw := last.width
	switch {
	case last.prec > 0 && prec == 0:
		lw -= last.prec + 1
	case last.prec > prec:
		lw -= last.prec - prec
	default:
		lw = w(last)
	}
	return max(w(job.first), lw)
}

// padZeros pads a number with zeros after its sign.
func padZeros(s string, width int) string {
	n := width - len(s)
	if n <= 0 {
		return s
	}
	if strings.HasPrefix(s, "-") {
		return "-" + strings.Repeat("0", n) + s[1:]
	}
	return strings.Repeat("0", n) + s
}

// formatCFloat formats like %e, %f and %g of printf.
func formatCFloat(v float64, verb byte, prec int) string {
	return strconv.FormatFloat(v, verb, prec, 64)
}

// printFloats prints the range. The last number is included if it is within the range as printed,
// after rounding.
func (job *seqJob) printFloats(p *kernel.Proc, format func(float64) string, prec int, fixed bool) {
	out := p.Out()
	step, last := job.step.v, job.last.v
	past := func(v float64) bool { return step > 0 && v > last || step < 0 && v < last }
	shown := ""
	for i := 0.0; ; i++ {
		v := job.first.v + i*step
		over := past(v)
		text := format(v)
		if over {
			if !fixed || i == 0 {
				break
			}
			r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', prec, 64), 64)
			if err != nil || past(r) || text == shown {
				break
			}
		}
		if i > 0 {
			_, _ = out.WriteString(job.sep) // Flush reports the error
		}
		_, _ = out.WriteString(text)
		shown = text
		p.Tick(1)
		if over {
			break
		}
	}
	if shown != "" {
		_ = out.WriteByte('\n')
	}
}

// isWhole reports whether all numbers are integers and no format is set.
func (job *seqJob) isWhole() bool {
	if job.hasFormat {
		return false
	}
	for _, n := range []seqNumber{job.first, job.step} {
		if n.prec != 0 || strings.ContainsAny(n.text, ".eE") {
			return false
		}
	}
	return !math.IsNaN(job.last.v) && (math.IsInf(job.last.v, 0) || job.last.prec == 0 && !strings.ContainsAny(job.last.text, ".eE"))
}

// printWhole prints a range of integers of any size.
func (job *seqJob) printWhole(p *kernel.Proc) {
	width := 0
	if job.wide && !math.IsInf(job.last.v, 0) {
		width = max(len(job.first.text), len(job.last.text))
	}
	first, ok1 := new(big.Int).SetString(job.first.text, 10)
	step, ok2 := new(big.Int).SetString(job.step.text, 10)
	last, ok3 := new(big.Int).SetString(job.last.text, 10)
	if math.IsInf(job.last.v, 0) {
		last, ok3 = new(big.Int).Lsh(big.NewInt(int64(math.Copysign(1, job.last.v))), 4096), true
	}
	if !ok1 || !ok2 || !ok3 {
		return
	}
	if fits := func(n *big.Int) bool { return n.BitLen() < 62 }; fits(first) && fits(step) && fits(last) {
		job.printInts(p, first.Int64(), step.Int64(), last.Int64(), width)
		return
	}
	out := p.Out()
	for i, n := 0, first; n.Cmp(last)*step.Sign() <= 0; i++ {
		if i > 0 {
			_, _ = out.WriteString(job.sep) // Flush reports the error
		}
		_, _ = out.WriteString(padZeros(n.String(), width))
		n.Add(n, step)
		p.Tick(4)
		if n.Cmp(last)*step.Sign() > 0 {
			_ = out.WriteByte('\n')
		}
	}
}

func (job *seqJob) printInts(p *kernel.Proc, n, step, last int64, width int) {
	out := p.Out()
	any := false
	for ; step > 0 && n <= last || step < 0 && n >= last; n += step {
		if any {
			_, _ = out.WriteString(job.sep) // Flush reports the error
		}
		any = true
		if width == 0 {
			_, _ = out.Write(strconv.AppendInt(out.AvailableBuffer(), n, 10))
		} else {
			_, _ = out.WriteString(padZeros(strconv.FormatInt(n, 10), width))
		}
		p.Tick(1)
	}
	if any {
		_ = out.WriteByte('\n')
	}
}

// checkSeqFormat returns the message of an error in a format, or "".
func checkSeqFormat(f string) string {
	count := 0
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			continue
		}
		if i+1 < len(f) && f[i+1] == '%' {
			i++
			continue
		}
		count++
		j := i + 1
		j += len(f[j:]) - len(strings.TrimLeft(f[j:], "-+#0 '"))
		j += len(f[j:]) - len(strings.TrimLeft(f[j:], "0123456789"))
		if j < len(f) && f[j] == '.' {
			j++
			j += len(f[j:]) - len(strings.TrimLeft(f[j:], "0123456789"))
		}
		if j < len(f) && f[j] == 'L' {
			j++
		}
		switch {
		case count > 1:
			return "format " + quoting.QuoteWord(f) + " has too many % directives"
		case j >= len(f):
			return "format " + quoting.QuoteWord(f) + " ends in %"
		case !strings.ContainsRune("efgaEFGA", rune(f[j])):
			return "format " + quoting.QuoteWord(f) + " has unknown %" + f[j:j+1] + " directive"
		}
		i = j
	}
	if count == 0 {
		return "format " + quoting.QuoteWord(f) + " has no % directive"
	}
	return ""
}

// formatSeq applies a checked format to v.
func formatSeq(f string, v float64) string {
	var b strings.Builder
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			b.WriteByte(f[i])
			continue
		}
		if f[i+1] == '%' {
			b.WriteByte('%')
			i++
			continue
		}
		end := i + 1 + strings.IndexAny(f[i+1:], "efgaEFGA")
		b.WriteString(formatPrintf(strings.Replace(f[i+1:end], "L", "", 1), f[end], v))
		i = end
	}
	return b.String()
}

// formatPrintf formats v with the flags, width and precision of spec.
func formatPrintf(spec string, verb byte, v float64) string {
	rest := strings.TrimLeft(spec, "-+#0 '")
	flags := spec[:len(spec)-len(rest)]
	ws, ps, hasPrec := strings.Cut(rest, ".")
	width, _ := strconv.Atoi(ws) // no digits count as 0
	prec := 6
	if hasPrec {
		prec, _ = strconv.Atoi(ps)
	}
	width, prec = min(width, 4096), min(prec, 4096)
	neg := math.Signbit(v)
	body := strconv.FormatFloat(math.Abs(v), verb|0x20, prec, 64)
	switch verb | 0x20 {
	case 'g':
		body = strconv.FormatFloat(math.Abs(v), 'g', max(prec, 1), 64)
	case 'a':
		if !hasPrec {
			prec = -1
		}
		body = strconv.FormatFloat(math.Abs(v), 'x', prec, 64)
	}
	if math.IsInf(v, 0) {
		body = "inf"
	}
	if verb < 'a' {
		body = strings.ToUpper(body)
	}
	sign := ""
	switch {
	case neg:
		sign = "-"
	case strings.Contains(flags, "+"):
		sign = "+"
	case strings.Contains(flags, " "):
		sign = " "
	}
	pad := max(0, width-len(sign)-len(body))
	switch {
	case strings.Contains(flags, "-"):
		return sign + body + strings.Repeat(" ", pad)
	case strings.Contains(flags, "0"):
		return sign + strings.Repeat("0", pad) + body
	}
	return strings.Repeat(" ", pad) + sign + body
}
