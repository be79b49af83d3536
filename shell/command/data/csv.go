package data

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const csvCommonUsage = `
  -d, --delimiter C       fields are separated by C, not by a comma; -t: tabs
  -H, --no-header-row     there is no header: columns are a, b, c...
  -K, --skip-lines N      skip N lines first
  -S, --skipinitialspace  ignore a space after a delimiter
  -l, --linenumbers       begin rows with their numbers

COLUMNS are names, numbers from 1 and ranges: 2,name,4-6. This is a part of
csvkit 1.0: the delimiter is not guessed, and dates stay as they are.
`

const (
	csvCutUsage = `Usage: csvcut [OPTION]... [FILE]
Print columns of CSV.

  -n, --names             print the names of the columns
  -c, --columns COLUMNS   print these, in this order;  -C: all others
  -x, --delete-empty-rows
` + csvCommonUsage
	csvGrepUsage = `Usage: csvgrep -c COLUMNS (-m TEXT|-r REGEX|-f FILE) [OPTION]... [FILE]
Print the rows of CSV whose columns all match.

  -n, --names             print the names of the columns
  -c, --columns COLUMNS   where to search
  -m, --match TEXT        what contains TEXT
  -r, --regex REGEX       what REGEX matches
  -f, --file FILE         what is a line of FILE
  -i, --invert-match      the rows that do not match
  -a, --any-match         one of the columns is enough
` + csvCommonUsage
	csvSortUsage = `Usage: csvsort [OPTION]... [FILE]
Sort the rows of CSV. Columns of numbers are sorted by value.

  -n, --names             print the names of the columns
  -c, --columns COLUMNS   sort by these (default: all)
  -r, --reverse
  -i, --ignore-case
  -I, --no-inference      take all values as text
` + csvCommonUsage
	csvLookUsage = `Usage: csvlook [OPTION]... [FILE]
Print CSV as a table of Markdown.

      --max-rows N, --max-columns N, --max-column-width N
  -I, --no-inference      take all values as text
` + csvCommonUsage
	csvJSONUsage = `Usage: csvjson [OPTION]... [FILE]
Print CSV as an array of JSON objects.

  -i, --indent N          indent by N spaces
  -k, --key COLUMN        print an object of the rows by a column
      --stream            print an object on each line
  -I, --no-inference      take all values as text
` + csvCommonUsage
	csvFormatUsage = `Usage: csvformat [OPTION]... [FILE]
Print CSV in another form.

  -D, --out-delimiter C   separate by C;  -T: by tabs
  -U, --out-quoting N     0: quote what must be quoted, 1: everything
  -M, --out-lineterminator TEXT
  -E, --skip-header
` + csvCommonUsage
	csvStackUsage = `Usage: csvstack [OPTION]... FILE...
Print the rows of CSV files with the same columns, one file after another.
` + csvCommonUsage
)

const (
	csvStream rune = 256 + iota
	csvMaxRows
	csvMaxColumns
	csvMaxWidth
	csvIgnored
)

// newCSVOptions returns the options of a program: the common ones, and those of list.
func newCSVOptions(list ...option.Option) *option.Parser {
	return &option.Parser{Options: append(list,
		option.Option{Short: 'd', Long: "delimiter", Arg: option.Required}, option.Option{Short: 't', Long: "tabs"}, option.Option{Short: 'H', Long: "no-header-row"},
		option.Option{Short: 'K', Long: "skip-lines", Arg: option.Required}, option.Option{Short: 'S', Long: "skipinitialspace"}, option.Option{Short: 'l', Long: "linenumbers"},
		option.Option{Short: 'e', Long: "encoding", Arg: option.Required, ID: csvIgnored}, option.Option{Short: 'y', Long: "snifflimit", Arg: option.Required, ID: csvIgnored}, option.Option{Short: 'v', Long: "verbose", ID: csvIgnored},
	)}
}

// csvRun is one run of a program for CSV.
type csvRun struct {
	p     *kernel.Proc
	opts  []option.Setting
	in    *csv.Reader
	meter *csvMeter
	names []string
	first []string // a row that was read for the names
	lines int      // of -l: the rows so far; -1: no numbers

	columns  string
	lineName string // of the column that -l adds
}

// csvError is the reason why a program for CSV stops.
type csvError string

func (e csvError) Error() string { return string(e) }

// csvUsageError is an error in the command line.
type csvUsageError string

func (e csvUsageError) Error() string { return string(e) }

// newCSVProgram returns a program that parses its options, opens its file and calls run.
func newCSVProgram(options *option.Parser, run func(r *csvRun) error) kernel.Program {
	return func(p *kernel.Proc) int {
		opts, names, ok := options.Parse(p)
		if !ok {
			return 2
		}
		r := &csvRun{p: p, opts: opts, lineName: "line_number"}
		r.columns = r.value('c')
		if option.ReportExtra(p, names, 1) {
			return 2
		}
		return r.report(r.readFile(stream.OperandsOrStdin(names)[0], run))
	}
}

func (r *csvRun) report(err error) int {
	if err == nil {
		return 0
	}
	_ = r.p.Out().Flush() // the next write reports the error
	r.p.Errorf("%v", err)
	var usage csvUsageError
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}

// readFile opens a file and calls run.
func (r *csvRun) readFile(name string, run func(r *csvRun) error) error {
	h, err := stream.Open(r.p, name)
	if err != nil {
		return csvError(name + ": " + program.Reason(err))
	}
	defer stream.Close(h)
	if err := r.open(h); err != nil {
		return err
	}
	err = run(r)
	var known csvError
	var usage csvUsageError
	if err != nil && !errors.As(err, &known) && !errors.As(err, &usage) {
		return csvError(name + ": " + program.Reason(err))
	}
	return err
}

func (r *csvRun) has(key rune) bool {
	return slices.ContainsFunc(r.opts, func(o option.Setting) bool { return o.Key == key })
}

// value returns the last value of an option; "" without it.
func (r *csvRun) value(key rune) (text string) {
	for _, o := range r.opts {
		if o.Key == key {
			text = o.Value
		}
	}
	return text
}

// number returns the value of an option that is a number; fallback without the option.
func (r *csvRun) number(key rune, fallback int) (int, error) {
	if !r.has(key) {
		return fallback, nil
	}
	n, err := strconv.Atoi(r.value(key))
	if err != nil || n < 0 {
		return 0, csvError("invalid number '" + r.value(key) + "': 0 or more is needed")
	}
	return n, nil
}

// csvMeter charges the bytes of a row that is read, with the fields that they may be, before the parser has them.
type csvMeter struct {
	p       *kernel.Proc
	in      io.Reader
	charged int64
}

// csvByteCost is what a byte may cost in the parser: a field of no bytes has a string and two positions.
const csvByteCost = 64

func (m *csvMeter) Read(b []byte) (int, error) {
	n, err := m.in.Read(b)
	m.p.Tick(n)
	cost := int64(n) * csvByteCost
	m.charged += cost
	m.p.Alloc(cost)
	return n, err
}

// release frees what was charged for rows that have been read.
func (m *csvMeter) release() {
	m.p.Free(m.charged)
	m.charged = 0
}

// open reads the names of the columns.
func (r *csvRun) open(in io.Reader) error {
	skip, err := r.number('K', 0)
	if err != nil {
		return err
	}
	if skip > 0 {
		lines := stream.NewLineReader(r.p, in, '\n')
		for range skip {
			if lines.Next() == nil {
				break
			}
		}
		in = &csvLines{lines: lines}
	}
	r.meter = &csvMeter{p: r.p, in: in}
	r.in = csv.NewReader(r.meter)
	r.in.FieldsPerRecord, r.in.LazyQuotes, r.in.ReuseRecord = -1, true, false
	r.in.TrimLeadingSpace = r.has('S')
	if r.in.Comma, err = r.delimiter('d', 't', ','); err != nil {
		return err
	}
	if r.lines = -1; r.has('l') {
		r.lines = 0
	}
	row, err := r.read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	r.names = row
	if r.has('H') {
		r.first, r.names = row, make([]string, len(row))
		for i := range row {
			r.names[i] = csvLetters(i)
		}
	}
	r.p.Alloc(csvRowSize(r.names))
	return nil
}

// csvLines reads what follows skipped lines.
type csvLines struct {
	lines *stream.LineReader
	rest  []byte
}

func (c *csvLines) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.rest = c.lines.Next(); c.rest == nil {
			if err := c.lines.Err(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// csvLetters returns the name of a column without a header: a to z, aa, bb...
func csvLetters(i int) string { return strings.Repeat(string(rune('a'+i%26)), i/26+1) }

// delimiter returns the delimiter of an option that names one, or of the one for tabs.
func (r *csvRun) delimiter(key, tabs rune, fallback rune) (rune, error) {
	text := r.value(key)
	switch {
	case r.has(tabs) || text == `\t`:
		return '\t', nil
	case !r.has(key):
		return fallback, nil
	}
	list := []rune(text)
	if len(list) != 1 || list[0] == '"' || list[0] == '\r' || list[0] == '\n' || list[0] == '\uFFFD' {
		return 0, csvError("invalid delimiter '" + text + "': one character is needed")
	}
	return list[0], nil
}

// csvRowSize returns what a row costs that is kept.
func csvRowSize(row []string) int64 {
	n := int64(48)
	for _, f := range row {
		n += int64(len(f)) + 32
	}
	return n
}

// read reads a row.
func (r *csvRun) read() ([]string, error) {
	row, err := r.in.Read()
	r.meter.release()
	var bad *csv.ParseError
	if errors.As(err, &bad) {
		return nil, csvError("line " + strconv.Itoa(bad.Line) + ": " + bad.Err.Error())
	}
	return row, err
}

// next returns the next row after the header; nil at the end. With -l its number is the first field.
func (r *csvRun) next() ([]string, error) {
	row := r.first
	if r.first = nil; row == nil {
		var err error
		if row, err = r.read(); errors.Is(err, io.EOF) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	if row == nil {
		row = []string{}
	}
	return row, nil
}

// numbered returns a row with its number before it, if -l asks for that.
func (r *csvRun) numbered(row []string, header bool) []string {
	if r.lines < 0 {
		return row
	}
	first := r.lineName
	if !header {
		r.lines++
		first = strconv.Itoa(r.lines)
	}
	return append([]string{first}, row...)
}

// printNames prints the names of the columns with their numbers.
func (r *csvRun) printNames() error {
	for i, name := range r.names {
		number := strconv.Itoa(i + 1)
		_, _ = r.p.Out().WriteString(strings.Repeat(" ", max(0, 3-len(number))) + number + ": " + name + "\n") // Flush reports the error
	}
	return nil
}

// selectColumns returns the indexes of columns; "" are all.
func (r *csvRun) selectColumns(spec string) ([]int, error) {
	var list []int
	add := func(i int) {
		r.p.Tick(1)
		r.p.Alloc(16)
		list = append(list, i)
	}
	if spec == "" {
		for i := range r.names {
			add(i)
		}
		return list, nil
	}
	for word := range strings.SplitSeq(spec, ",") {
		word = strings.TrimSpace(word)
		if i, err := r.findColumn(word); err == nil {
			add(i)
			continue
		}
		at := strings.IndexAny(word, "-:")
		if at < 0 {
			_, err := r.findColumn(word)
			return nil, err
		}
		from, to := 0, len(r.names)-1
		var err error
		if word[:at] != "" {
			from, err = r.findColumn(word[:at])
		}
		if word[at+1:] != "" && err == nil {
			to, err = r.findColumn(word[at+1:])
		}
		if err != nil {
			return nil, csvError("ColumnIdentifierError: Invalid range " + word + ". Ranges must be two integers separated by a - or : character.")
		}
		for i := from; i <= to; i++ {
			add(i)
		}
	}
	return list, nil
}

// findColumn returns the index of a column by its name or number.
func (r *csvRun) findColumn(word string) (int, error) {
	r.p.Tick(len(r.names))
	if i := slices.Index(r.names, word); i >= 0 {
		return i, nil
	}
	n, err := strconv.Atoi(word)
	switch {
	case err != nil:
		return 0, csvError("ColumnIdentifierError: Column '" + word + "' is invalid. It is neither an integer nor a column name. Column names are: '" + strings.Join(r.names, "', '") + "'")
	case n < 1:
		return 0, csvError("ColumnIdentifierError: Column " + strconv.Itoa(n) + " is invalid. Columns are 1-based.")
	case n > len(r.names):
		return 0, csvError("ColumnIdentifierError: Column " + strconv.Itoa(n) + " is invalid. The last column is '" + strings.Join(r.names[max(0, len(r.names)-1):], "") + "' at index " + strconv.Itoa(len(r.names)) + ".")
	}
	return n - 1, nil
}

// csvForm is the form of rows that are printed.
type csvForm struct {
	delimiter, end string
	all            bool // quote every field
}

var csvPlain = csvForm{delimiter: ",", end: "\n"}

// printRow prints a row.
func (r *csvRun) printRow(row []string, form csvForm) {
	out := r.p.Out()
	for i, f := range row {
		r.p.Tick(1 + len(f)>>6)
		if i > 0 {
			_, _ = out.WriteString(form.delimiter) // Flush reports the error
		}
		if form.all || strings.ContainsAny(f, "\"\r\n") || strings.Contains(f, form.delimiter) || f == "" && len(row) == 1 {
			_, _ = out.WriteString(`"`) // likewise
			for part := range strings.SplitAfterSeq(f, `"`) {
				_, _ = out.WriteString(part) // likewise
				if strings.HasSuffix(part, `"`) {
					_, _ = out.WriteString(`"`) // likewise
				}
			}
			_, _ = out.WriteString(`"`) // likewise
			continue
		}
		_, _ = out.WriteString(f) // likewise
	}
	_, _ = out.WriteString(form.end) // likewise
}

// field returns a field of a row that may be short.
func field(row []string, i int) string {
	if i < len(row) {
		return row[i]
	}
	return ""
}
