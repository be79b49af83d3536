package text

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const joinUsage = `Usage: join [OPTION]... FILE1 FILE2
For each pair of input lines with identical join fields, write a line to
standard output.  The default join field is the first, delimited by blanks.

When FILE1 or FILE2 (not both) is -, read standard input.

  -a FILENUM             also print unpairable lines from file FILENUM, where
                           FILENUM is 1 or 2, corresponding to FILE1 or FILE2
  -e STRING              replace missing (empty) input fields with STRING;
                           I.e., missing fields specified with '-12jo' options
  -i, --ignore-case      ignore differences in case when comparing fields
  -j FIELD               equivalent to '-1 FIELD -2 FIELD'
  -o FORMAT              obey FORMAT while constructing output line
  -t CHAR                use CHAR as input and output field separator
  -v FILENUM             like -a FILENUM, but suppress joined output lines
  -1 FIELD               join on this FIELD of file 1
  -2 FIELD               join on this FIELD of file 2
      --check-order      check that the input is correctly sorted, even
                           if all input lines are pairable
      --nocheck-order    do not check that the input is correctly sorted
      --header           treat the first line in each file as field headers,
                           print them without trying to pair them
  -z, --zero-terminated     line delimiter is NUL, not newline
      --help             display this help and exit

FORMAT is one or more comma or blank separated specifications, each being
'FILENUM.FIELD' or '0', or 'auto' for the fields of the first lines.
`

// joinRow is a line and its fields.
type joinRow struct {
	text   []byte
	fields [][]byte
}

// joinSide is an input and its current group of lines with equal keys.
type joinSide struct {
	name   string
	in     *stream.LineReader
	field  int // the one to join on, from 0; -1: not given
	alone  bool
	line   int
	prev   joinRow
	warned bool
	auto   int // fields of the first line
	group  []joinRow
	ended  bool
}

// joinColumn is an item of -o: a field of a side, or the join field.
type joinColumn struct{ side, field int }

// joinJob is the state of one run of join.
type joinJob struct {
	p       *kernel.Proc
	sides   [2]joinSide
	pairs   bool // print joined lines
	filler  string
	fold    bool
	sep     int // -1: blanks
	columns []joinColumn
	auto    bool
	check   int // of the order: -1 never, 0 if some line has no pair, 1 always
	header  bool
	eol     byte

	unpaired bool
	stop     bool // a disorder ended the program
}

var joinOptions = option.Parser{Options: []option.Option{
	{Short: 'a', Arg: option.Required},
	{Short: 'e', Arg: option.Required},
	{Short: 'i', Long: "ignore-case"},
	{Short: 'j', Arg: option.Required},
	{Short: 'o', Arg: option.Required},
	{Short: 't', Arg: option.Required},
	{Short: 'v', Arg: option.Required},
	{Short: '1', Arg: option.Required},
	{Short: '2', Arg: option.Required},
	{Long: "check-order", ID: 'C'},
	{Long: "nocheck-order", ID: 'N'},
	{Long: "header", ID: 'H'},
	{Short: 'z', Long: "zero-terminated"},
}}

func runJoin(p *kernel.Proc) int {
	opts, names, ok := joinOptions.Parse(p)
	if !ok {
		return 1
	}
	j := joinJob{p: p, pairs: true, sep: -1, eol: '\n'}
	j.sides[0].field, j.sides[1].field = -1, -1
	for _, o := range opts {
		if msg := j.applyOption(o); msg != "" {
			p.Errorf("%s", msg)
			return 1
		}
		if o.Key == 'o' { // its list may continue in the operands
			for len(names) > 2 && j.parseFormat(names[0]) == "" {
				names = names[1:]
			}
		}
	}
	if option.ReportMissing(p, names, 2) || option.ReportExtra(p, names, 2) {
		return 1
	}
	if names[0] == "-" && names[1] == "-" {
		p.Errorf("both files cannot be standard input")
		return 1
	}
	for i := range j.sides {
		s := &j.sides[i]
		s.name, s.field = names[i], max(0, s.field)
		in, err := stream.Open(p, s.name)
		if err != nil {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(s.name), program.Reason(err))
			return 1
		}
		defer stream.Close(in)
		s.in = stream.NewLineReader(p, in, j.eol)
	}
	return j.run()
}

func (j *joinJob) applyOption(o option.Setting) string {
	switch o.Key {
	case 'a', 'v':
		n, err := strconv.Atoi(o.Value)
		if err != nil || n != 1 && n != 2 {
			return "invalid field number: " + quoting.QuoteWord(o.Value)
		}
		j.sides[n-1].alone = true
		j.pairs = j.pairs && o.Key == 'a'
	case 'e':
		if j.filler != "" && j.filler != o.Value {
			return "conflicting empty-field replacement strings"
		}
		j.filler = o.Value
	case 'i':
		j.fold = true
	case '1', '2', 'j':
		n, msg := parseJoinField(o.Value)
		if msg != "" {
			return msg
		}
		for i := range j.sides {
			s := &j.sides[i]
			if o.Key != 'j' && o.Key != rune('1'+i) {
				continue
			}
			if s.field >= 0 && s.field != n {
				return "incompatible join fields " + strconv.Itoa(s.field+1) + ", " + strconv.Itoa(n+1)
			}
			s.field = n
		}
	case 'o':
		if o.Value == "auto" {
			j.auto = true
			return ""
		}
		return j.parseFormat(o.Value)
	case 't':
		return j.setSeparator(o.Value)
	case 'C':
		j.check = 1
	case 'N':
		j.check = -1
	case 'H':
		j.header = true
	case 'z':
		j.eol = 0
	}
	return ""
}

func parseJoinField(s string) (int, string) {
	n, fault := number.ParseSize(s, "")
	if fault == number.Invalid || n == 0 {
		return 0, "invalid field number: " + quoting.QuoteWord(s)
	}
	return int(n - 1), ""
}

// setSeparator sets the separator of -t. It returns the message of an error, or "".
func (j *joinJob) setSeparator(s string) string {
	sep := '\n' // the whole line
	switch {
	case s == `\0`:
		sep = 0
	case len(s) > 1:
		return "multi-character tab " + quoting.QuoteWord(s)
	case s != "":
		sep = rune(s[0])
	}
	if j.sep >= 0 && j.sep != int(sep) {
		return "incompatible tabs"
	}
	j.sep = int(sep)
	return ""
}

func (j *joinJob) parseFormat(list string) string {
	var columns []joinColumn
	for item := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		j.p.Tick(4)
		if item == "0" {
			columns = append(columns, joinColumn{-1, 0})
			continue
		}
		file, field, dotted := strings.Cut(item, ".")
		switch {
		case file != "1" && file != "2" && (item[0] == '0' || item[0] == '1' || item[0] == '2'), dotted && file == "0", !dotted && (file == "1" || file == "2"):
			return "invalid field specifier: " + quoting.QuoteWord(item)
		case file != "1" && file != "2":
			return "invalid file number in field spec: " + quoting.QuoteWord(item)
		}
		n, msg := parseJoinField(field)
		if msg != "" {
			return msg
		}
		columns = append(columns, joinColumn{int(file[0] - '1'), n})
	}
	j.columns = append(j.columns, columns...)
	return ""
}

// read returns the next line of a side, with its fields.
func (j *joinJob) read(s *joinSide) (joinRow, bool) {
	line := s.in.Next()
	if line == nil {
		s.ended = true
		return joinRow{}, false
	}
	s.line++
	j.p.Alloc(int64(len(line)) + 96)
	r := joinRow{text: append([]byte(nil), stream.TrimDelimiter(line, j.eol)...)}
	r.fields = j.splitFields(r.text)
	j.checkOrder(s, r)
	if s.prev.text != nil {
		j.p.Free(int64(len(s.prev.text)) + 96)
	}
	s.prev = r
	return r, !j.stop
}

// splitFields splits a line into fields.
func (j *joinJob) splitFields(b []byte) [][]byte {
	if len(b) == 0 {
		return nil
	}
	if j.sep >= 0 {
		if j.sep == '\n' {
			return [][]byte{b}
		}
		return bytes.Split(b, []byte{byte(j.sep)})
	}
	b = bytes.TrimLeft(b, " \t\n")
	fields := make([][]byte, 0, 8)
	for len(b) > 0 {
		i := bytes.IndexAny(b, " \t\n")
		if i < 0 {
			return append(fields, b)
		}
		fields = append(fields, b[:i])
		if b = bytes.TrimLeft(b[i:], " \t\n"); len(b) == 0 {
			fields = append(fields, nil) // blanks at the end begin an empty field
		}
	}
	return fields
}

// checkOrder reports a line that sorts before the previous one.
func (j *joinJob) checkOrder(s *joinSide, r joinRow) {
	if j.check < 0 || j.check == 0 && !j.unpaired || s.warned || s.prev.text == nil {
		return
	}
	if j.compare(s.prev, r, s.field, s.field) > 0 {
		j.p.Errorf("%s:%d: is not sorted: %s", s.name, s.line, r.text)
		s.warned = true
		j.stop = j.check > 0
	}
}

// compare orders two lines by a field of each.
func (j *joinJob) compare(a, b joinRow, i, k int) int {
	var x, y []byte
	if i < len(a.fields) {
		x = a.fields[i]
	}
	if k < len(b.fields) {
		y = b.fields[k]
	}
	if j.fold {
		for n := range min(len(x), len(y)) {
			if c, d := toUpperASCII(x[n]), toUpperASCII(y[n]); c != d {
				return int(c) - int(d)
			}
		}
		return len(x) - len(y)
	}
	return bytes.Compare(x, y)
}

// run joins the two inputs and returns the exit status.
func (j *joinJob) run() int {
	a, b := &j.sides[0], &j.sides[1]
	j.readFirst(a)
	j.readFirst(b)
	if j.header && (len(a.group) > 0 || len(b.group) > 0) {
		j.print(a.firstRow(), b.firstRow())
		a.prev, b.prev = joinRow{}, joinRow{}
		j.readNext(a)
		j.readNext(b)
	}
	for len(a.group) > 0 && len(b.group) > 0 && !j.stop {
		switch c := j.compare(a.group[0], b.group[0], a.field, b.field); {
		case c < 0:
			j.printUnpaired(0)
		case c > 0:
			j.printUnpaired(1)
		default:
			j.joinGroups(a, b)
		}
	}
	j.drainSide(0)
	j.drainSide(1)
	for i := range j.sides {
		if err := j.sides[i].in.Err(); err != nil {
			j.p.Errorf("read error: %s", program.Reason(err))
			return 1
		}
		j.sides[i].in.Close()
	}
	if a.warned || b.warned {
		if !j.stop {
			j.p.Errorf("input is not in sorted order")
		}
		return 1
	}
	return 0
}

func (s *joinSide) firstRow() *joinRow {
	if len(s.group) == 0 {
		return nil
	}
	return &s.group[0]
}

func (j *joinJob) readFirst(s *joinSide) {
	j.readNext(s)
	if len(s.group) > 0 {
		s.auto = len(s.group[0].fields)
	}
}

// readNext replaces the group by the next line.
func (j *joinJob) readNext(s *joinSide) {
	s.group = s.group[:0]
	if r, ok := j.read(s); ok {
		s.group = append(s.group, r)
	}
}

// printUnpaired prints the current line of side i, which has no pair, if requested, and reads the
// next one.
func (j *joinJob) printUnpaired(i int) {
	s := &j.sides[i]
	if s.alone {
		j.printAlone(i, &s.group[0])
	}
	j.readNext(s)
	j.unpaired = true
}

func (j *joinJob) printAlone(i int, r *joinRow) {
	if i == 0 {
		j.print(r, nil)
	} else {
		j.print(nil, r)
	}
}

// joinGroups joins all lines of both sides that have the current key.
func (j *joinJob) joinGroups(a, b *joinSide) {
	nextA, moreA := j.collectGroup(a, b.group[0], b.field)
	nextB, moreB := j.collectGroup(b, a.group[0], a.field)
	if j.stop {
		return
	}
	if j.pairs {
		for x := range a.group {
			for y := range b.group {
				j.p.Tick(1)
				j.print(&a.group[x], &b.group[y])
			}
		}
	}
	a.setGroup(nextA, moreA)
	b.setGroup(nextB, moreB)
}

// collectGroup adds lines to the group while their keys equal that of other. It returns the first
// line after the group, and false at the end of the input.
func (j *joinJob) collectGroup(s *joinSide, other joinRow, field int) (joinRow, bool) {
	kept := int64(0)
	for {
		r, ok := j.read(s)
		if !ok || j.compare(r, other, s.field, field) != 0 {
			j.p.Free(kept)
			return r, ok
		}
		n := r.memory()
		j.p.Alloc(n)
		kept += n
		s.group = append(s.group, r)
	}
}

// memory returns the bytes of a row in a group, with the room that the group grows by.
func (r *joinRow) memory() int64 {
	const row, field = 48, 24
	return int64(cap(r.text)) + field*int64(cap(r.fields)) + 3*row
}

func (s *joinSide) setGroup(r joinRow, more bool) {
	clear(s.group)
	s.group = s.group[:0]
	if more {
		s.group = append(s.group, r)
	}
}

// drainSide reads and prints the remaining lines of side i after the other side has ended.
func (j *joinJob) drainSide(i int) {
	s := &j.sides[i]
	checked := j.check > 0 || j.check == 0 && j.unpaired
	if len(s.group) == 0 || !s.alone && !checked || j.stop {
		return
	}
	if s.alone {
		j.printAlone(i, &s.group[0])
	}
	if len(j.sides[1-i].group) > 0 {
		j.unpaired = true
	}
	for {
		r, ok := j.read(s)
		if !ok || s.warned && !s.alone {
			return
		}
		if s.alone {
			j.printAlone(i, &r)
		}
	}
}

// print writes a line joined from a and b; nil stands for a side without a line.
func (j *joinJob) print(a, b *joinRow) {
	out := j.p.Out()
	sep := byte(' ')
	if j.sep >= 0 {
		sep = byte(j.sep)
	}
	key, keyField := a, j.sides[0].field
	if a == nil {
		key, keyField = b, j.sides[1].field
	}
	if len(j.columns) == 0 {
		j.printCell(key, keyField)
		for i, r := range []*joinRow{a, b} {
			s := &j.sides[i]
			n := s.auto
			if !j.auto {
				n = 0
				if r != nil {
					n = len(r.fields)
				}
			}
			for f := range n {
				if f != s.field {
					_ = out.WriteByte(sep) // Flush reports the error, here and below
					j.printCell(r, f)
				}
			}
		}
	}
	for i, c := range j.columns {
		if i > 0 {
			_ = out.WriteByte(sep)
		}
		switch c.side {
		case 0:
			j.printCell(a, c.field)
		case 1:
			j.printCell(b, c.field)
		default:
			j.printCell(key, keyField)
		}
	}
	_ = out.WriteByte(j.eol)
}

func (j *joinJob) printCell(r *joinRow, f int) {
	if r != nil && f < len(r.fields) && len(r.fields[f]) > 0 {
		_, _ = j.p.Out().Write(r.fields[f]) // Flush reports the error, here and below
		return
	}
	_, _ = j.p.Out().WriteString(j.filler)
}
