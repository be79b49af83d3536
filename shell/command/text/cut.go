package text

import (
	"bufio"
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const cutUsage = `Usage: cut OPTION... [FILE]...
Print selected parts of lines from each FILE to standard output.

With no FILE, or when FILE is -, read standard input.

  -b, --bytes=LIST        select only these bytes
  -c, --characters=LIST   select only these characters
  -d, --delimiter=DELIM   use DELIM instead of TAB for field delimiter
  -f, --fields=LIST       select only these fields;  also print any line
                            that contains no delimiter character, unless
                            the -s option is specified
  -n                      (ignored)
      --complement        complement the set of selected bytes, characters
                            or fields
  -s, --only-delimited    do not print lines not containing delimiters
      --output-delimiter=STRING  use STRING as the output delimiter
                            the default is to use the input delimiter
  -z, --zero-terminated   line delimiter is NUL, not newline
      --help              display this help and exit

Use one, and only one of -b, -c or -f.  Each LIST is made up of one
range, or many ranges separated by commas.  Each range is one of:

  N     N'th byte, character or field, counted from 1
  N-    from N'th byte, character or field, to end of line
  N-M   from N'th to M'th (included) byte, character or field
  -M    from first to M'th (included) byte, character or field
`

// span is a range of positions, both ends included, counted from 1.
type span struct{ from, to int }

// cutJob is the state of one run of cut.
type cutJob struct {
	p          *kernel.Proc
	out        *bufio.Writer
	spans      []span
	fields     bool
	delim      byte
	only       bool
	complement bool
	glue       string
	hasGlue    bool
	eol        byte
}

var cutOptions = option.Parser{Options: []option.Option{
	{Short: 'b', Long: "bytes", Arg: option.Required},
	{Short: 'c', Long: "characters", Arg: option.Required},
	{Short: 'f', Long: "fields", Arg: option.Required},
	{Short: 'd', Long: "delimiter", Arg: option.Required},
	{Short: 'n'},
	{Short: 's', Long: "only-delimited"},
	{Long: "output-delimiter", Arg: option.Required, ID: 'o'},
	{Long: "complement", ID: 'C'},
	{Short: 'z', Long: "zero-terminated"},
}}

func runCut(p *kernel.Proc) int {
	opts, names, ok := cutOptions.Parse(p)
	if !ok {
		return 1
	}
	j := cutJob{p: p, out: p.Out(), delim: '\t', eol: '\n'}
	if msg := j.applyOptions(opts); msg != "" {
		p.Errorf("%s", msg)
		option.SuggestHelp(p)
		return 1
	}
	code := 0
	for _, name := range stream.OperandsOrStdin(names) {
		if !j.cutFile(name) {
			code = 1
		}
	}
	return code
}

// applyOptions applies the options and returns the message of an error, or "".
func (j *cutJob) applyOptions(opts []option.Setting) string {
	list, hasList, hasDelim := "", false, false
	for _, o := range opts {
		switch o.Key {
		case 'b', 'c', 'f':
			if hasList {
				return "only one list may be specified"
			}
			list, hasList = o.Value, true
			j.fields = o.Key == 'f'
		case 'd':
			if len(o.Value) > 1 {
				return "the delimiter must be a single character"
			}
			hasDelim = true
			j.delim = 0
			if o.Value != "" {
				j.delim = o.Value[0]
			}
		case 's':
			j.only = true
		case 'o':
			j.glue, j.hasGlue = o.Value, true
			if o.Value == "" {
				j.glue = "\x00"
			}
		case 'C':
			j.complement = true
		case 'z':
			j.eol = 0
		}
	}
	switch {
	case !hasList:
		return "you must specify a list of bytes, characters, or fields"
	case !j.fields && hasDelim:
		return "an input delimiter may be specified only when operating on fields"
	case !j.fields && j.only:
		return "suppressing non-delimited lines makes sense\n\tonly when operating on fields"
	}
	if j.fields && !j.hasGlue {
		j.glue = string([]byte{j.delim})
	}
	spans, msg := parseSpans(list, j.fields)
	j.spans = spans
	if j.complement {
		j.spans = complementSpans(spans)
	}
	return msg
}

// parseSpans parses a list of ranges. It returns them in order with overlapping ones merged,
// or the message of an error.
func parseSpans(list string, fields bool) ([]span, string) {
	numbered := "byte/character positions are numbered from 1"
	wrong := "invalid byte or character range"
	if fields {
		numbered, wrong = "fields are numbered from 1", "invalid field range"
	}
	var spans []span
	for part := range strings.SplitSeq(strings.NewReplacer(" ", ",", "\t", ",").Replace(list), ",") {
		if part == "" {
			return nil, numbered
		}
		lo, hi, dashed := strings.Cut(part, "-")
		if strings.Contains(hi, "-") {
			return nil, wrong
		}
		if lo == "" && hi == "" && dashed {
			return nil, "invalid range with no endpoint: -"
		}
		s := span{1, math.MaxInt}
		for i, text := range []string{lo, hi} {
			if text == "" {
				continue
			}
			n, msg := parsePosition(text, fields)
			if msg != "" {
				return nil, msg
			}
			if n == 0 {
				return nil, numbered
			}
			if i == 0 {
				s.from = n
			} else {
				s.to = n
			}
		}
		if !dashed {
			s.to = s.from
		}
		if s.to < s.from {
			return nil, "invalid decreasing range"
		}
		spans = append(spans, s)
	}
	return mergeSpans(spans), ""
}

func parsePosition(text string, fields bool) (int, string) {
	if strings.Trim(text, "0123456789") != "" {
		if fields {
			return 0, "invalid field value " + quoting.QuoteName(strings.TrimLeft(text, "0123456789"))
		}
		return 0, "invalid byte/character position " + quoting.QuoteName(strings.TrimLeft(text, "0123456789"))
	}
	n, err := strconv.Atoi(text)
	if err != nil || n == math.MaxInt {
		noun := "byte/character offset"
		if fields {
			noun = "field number"
		}
		return 0, noun + " " + quoting.QuoteName(text) + " is too large"
	}
	return n, ""
}

// mergeSpans merges overlapping and adjacent spans of a sorted list.
func mergeSpans(spans []span) []span {
	slices.SortStableFunc(spans, func(a, b span) int { return a.from - b.from })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if s.from <= last.to {
			last.to = max(last.to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

// complementSpans returns the positions outside of the spans.
func complementSpans(spans []span) []span {
	var out []span
	next := 1
	for _, s := range spans {
		if s.from > next {
			out = append(out, span{next, s.from - 1})
		}
		if s.to == math.MaxInt {
			return out
		}
		next = s.to + 1
	}
	return append(out, span{next, math.MaxInt})
}

// cutFile cuts the lines of one operand and reports whether it could be read.
func (j *cutJob) cutFile(name string) bool {
	in, err := stream.Open(j.p, name)
	if err != nil {
		j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return false
	}
	defer stream.Close(in)
	l := stream.NewLineReader(j.p, in, j.eol)
	defer l.Close()
	for run := l.NextBlock(); len(run) > 0; run = l.NextBlock() {
		j.p.Tick(len(run) >> 4)
		if j.fields && j.delim != j.eol {
			j.cutFields(run)
		} else if j.fields {
			j.cutLines(l, run)
			break
		} else {
			j.cutBytes(run)
		}
	}
	if err := l.Err(); err != nil {
		j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return false
	}
	return true
}

// cutBytes cuts complete lines by byte positions.
func (j *cutJob) cutBytes(run []byte) {
	for len(run) > 0 {
		line := run
		if i := bytes.IndexByte(run, j.eol); i >= 0 {
			line, run = run[:i], run[i+1:]
		} else {
			run = nil
		}
		glued := false
		for _, s := range j.spans {
			if s.from > len(line) {
				break
			}
			if glued && j.hasGlue {
				_, _ = j.out.WriteString(j.glue) // Flush reports the error, here and below
			}
			_, _ = j.out.Write(line[s.from-1 : min(s.to, len(line))])
			glued = true
		}
		_ = j.out.WriteByte(j.eol)
	}
}

// cutFields cuts complete lines into fields by searching for delimiters.
func (j *cutJob) cutFields(run []byte) {
	single := len(j.spans) == 1 && j.spans[0].to-j.spans[0].from < 8
	for len(run) > 0 {
		line := run
		if i := bytes.IndexByte(run, j.eol); i >= 0 {
			line, run = run[:i], run[i+1:]
		} else {
			run = nil
		}
		if single {
			j.cutOneSpan(line)
		} else {
			j.cutManySpans(line)
		}
	}
}

// cutOneSpan prints the fields of a line when only one range is requested.
func (j *cutJob) cutOneSpan(line []byte) {
	at, s := 0, j.spans[0]
	for n := 1; n < s.from; n++ {
		i := bytes.IndexByte(line[at:], j.delim)
		if i < 0 {
			j.printShortLine(line, n == 1)
			return
		}
		at += i + 1
	}
	for n := s.from; n <= s.to; n++ {
		i := bytes.IndexByte(line[at:], j.delim)
		if i < 0 {
			if n == 1 {
				j.printShortLine(line, true)
				return
			}
			j.printField(line[at:], n > s.from)
			break
		}
		j.printField(line[at:at+i], n > s.from)
		at += i + 1
	}
	_ = j.out.WriteByte(j.eol) // Flush reports the error
}

// printShortLine prints a line that ends before the requested fields.
func (j *cutJob) printShortLine(line []byte, undelimited bool) {
	if undelimited {
		if j.only {
			return
		}
		_, _ = j.out.Write(line) // Flush reports the error, here and below
	}
	_ = j.out.WriteByte(j.eol)
}

func (j *cutJob) printField(f []byte, glued bool) {
	if glued {
		if len(j.glue) == 1 {
			_ = j.out.WriteByte(j.glue[0]) // Flush reports the error, here and below
		} else {
			_, _ = j.out.WriteString(j.glue)
		}
	}
	_, _ = j.out.Write(f)
}

// cutManySpans prints several ranges of fields of a line.
func (j *cutJob) cutManySpans(line []byte) {
	if bytes.IndexByte(line, j.delim) < 0 {
		j.printShortLine(line, true)
		return
	}
	at, next, glued := 0, 0, false
	for n := 1; at <= len(line) && next < len(j.spans); n++ {
		end := bytes.IndexByte(line[at:], j.delim)
		if end < 0 {
			end = len(line) - at
		}
		s := j.spans[next]
		if n >= s.from {
			j.printField(line[at:at+end], glued)
			glued = true
		}
		if n == s.to {
			next++
		}
		at += end + 1
	}
	_ = j.out.WriteByte(j.eol) // Flush reports the error
}

// cutLines treats the lines of the whole input as fields, for a newline as delimiter.
func (j *cutJob) cutLines(l *stream.LineReader, run []byte) {
	n, next, glued := 0, 0, false
	for ; len(run) > 0; run = l.NextBlock() {
		for len(run) > 0 {
			line := run
			if i := bytes.IndexByte(run, j.eol); i >= 0 {
				line, run = run[:i], run[i+1:]
			} else {
				run = nil
			}
			n++
			for next < len(j.spans) && n > j.spans[next].to {
				next++
			}
			if next < len(j.spans) && n >= j.spans[next].from {
				j.printField(line, glued)
				glued = true
			}
		}
	}
	_ = j.out.WriteByte(j.eol) // Flush reports the error
}
