package command

import (
	"bufio"
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var cutOptions = parsing{options: []option{
	{short: 'b', long: "bytes", arg: required},
	{short: 'c', long: "characters", arg: required},
	{short: 'f', long: "fields", arg: required},
	{short: 'd', long: "delimiter", arg: required},
	{short: 'n'},
	{short: 's', long: "only-delimited"},
	{long: "output-delimiter", arg: required, id: 'o'},
	{long: "complement", id: 'C'},
	{short: 'z', long: "zero-terminated"},
}}

func cut(p *kernel.Proc) int {
	opts, names, ok := cutOptions.parse(p)
	if !ok {
		return 1
	}
	j := cutJob{p: p, out: p.Out(), delim: '\t', eol: '\n'}
	if msg := j.configure(opts); msg != "" {
		p.Errorf("%s", msg)
		tryHelp(p)
		return 1
	}
	code := 0
	for _, name := range operandsOr(names) {
		if !j.file(name) {
			code = 1
		}
	}
	return code
}

// configure applies the options, and returns what is wrong with them.
func (j *cutJob) configure(opts []given) string {
	list, hasList, hasDelim := "", false, false
	for _, o := range opts {
		switch o.key {
		case 'b', 'c', 'f':
			if hasList {
				return "only one list may be specified"
			}
			list, hasList = o.value, true
			j.fields = o.key == 'f'
		case 'd':
			if len(o.value) > 1 {
				return "the delimiter must be a single character"
			}
			hasDelim = true
			j.delim = 0
			if o.value != "" {
				j.delim = o.value[0]
			}
		case 's':
			j.only = true
		case 'o':
			j.glue, j.hasGlue = o.value, true
			if o.value == "" {
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

// parseSpans reads a list of ranges; they come back in order, those that
// overlap made one.
func parseSpans(list string, fields bool) ([]span, string) {
	noun, numbered := "byte/character position", "byte/character positions are numbered from 1"
	wrong := "invalid byte or character range"
	if fields {
		noun, numbered, wrong = "field", "fields are numbered from 1", "invalid field range"
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
			n, msg := position(text, noun, fields)
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
	return joinSpans(spans), ""
}

func position(text, noun string, fields bool) (int, string) {
	if strings.Trim(text, "0123456789") != "" {
		if fields {
			return 0, "invalid field value " + quote(strings.TrimLeft(text, "0123456789"))
		}
		return 0, "invalid byte/character position " + quote(strings.TrimLeft(text, "0123456789"))
	}
	n, err := strconv.Atoi(text)
	if err != nil || n == math.MaxInt {
		if fields {
			noun = "field number"
		} else {
			noun = "byte/character offset"
		}
		return 0, noun + " " + quote(text) + " is too large"
	}
	return n, ""
}

func joinSpans(spans []span) []span {
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

func (j *cutJob) file(name string) bool {
	in, err := open(j.p, name)
	if err != nil {
		j.p.Errorf("%s: %s", quotef(name), why(err))
		return false
	}
	defer closeInput(in)
	l := newLines(j.p, in, j.eol)
	defer l.close()
	for run := l.buffered(); len(run) > 0; run = l.buffered() {
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
	if err := l.failed(); err != nil {
		j.p.Errorf("%s: %s", quotef(name), why(err))
		return false
	}
	return true
}

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
				_, _ = j.out.WriteString(j.glue) // shows at the flush, as all below
			}
			_, _ = j.out.Write(line[s.from-1 : min(s.to, len(line))])
			glued = true
		}
		_ = j.out.WriteByte(j.eol)
	}
}

// cutFields cuts complete lines, each found by the search for delimiters.
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
			j.oneSpan(line)
		} else {
			j.manySpans(line)
		}
	}
}

// oneSpan prints a line's only range of fields.
func (j *cutJob) oneSpan(line []byte) {
	at, s := 0, j.spans[0]
	for n := 1; n < s.from; n++ {
		i := bytes.IndexByte(line[at:], j.delim)
		if i < 0 {
			j.short(line, n == 1)
			return
		}
		at += i + 1
	}
	for n := s.from; n <= s.to; n++ {
		i := bytes.IndexByte(line[at:], j.delim)
		if i < 0 {
			if n == 1 {
				j.short(line, true)
				return
			}
			j.field(line[at:], n > s.from)
			break
		}
		j.field(line[at:at+i], n > s.from)
		at += i + 1
	}
	_ = j.out.WriteByte(j.eol) // shows at the flush
}

// short prints a line that ends before the fields asked for.
func (j *cutJob) short(line []byte, undelimited bool) {
	if undelimited {
		if j.only {
			return
		}
		_, _ = j.out.Write(line) // shows at the flush, as below
	}
	_ = j.out.WriteByte(j.eol)
}

func (j *cutJob) field(f []byte, glued bool) {
	if glued {
		if len(j.glue) == 1 {
			_ = j.out.WriteByte(j.glue[0]) // shows at the flush, as all below
		} else {
			_, _ = j.out.WriteString(j.glue)
		}
	}
	_, _ = j.out.Write(f)
}

func (j *cutJob) manySpans(line []byte) {
	if bytes.IndexByte(line, j.delim) < 0 {
		j.short(line, true)
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
			j.field(line[at:at+end], glued)
			glued = true
		}
		if n == s.to {
			next++
		}
		at += end + 1
	}
	_ = j.out.WriteByte(j.eol) // shows at the flush
}

// cutLines treats the lines of the whole input as fields, which is what a
// newline as delimiter means.
func (j *cutJob) cutLines(l *lines, run []byte) {
	n, next, glued := 0, 0, false
	for ; len(run) > 0; run = l.buffered() {
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
				j.field(line, glued)
				glued = true
			}
		}
	}
	_ = j.out.WriteByte(j.eol) // shows at the flush
}
