package data

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

// csvKind is the type of the values of a column.
type csvKind int

const (
	csvText csvKind = iota
	csvBoolean
	csvNumber
	csvDate
)

// csvTable has all rows of a file.
type csvTable struct {
	names []string
	rows  [][]string
	kinds []csvKind
}

var (
	csvNumberForm = regexp.MustCompile(`^[-+]?[$€£¥]?[-+]?(?:[0-9]+(?:,[0-9]{3})*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?%?$`)
	csvDateForm   = regexp.MustCompile(`^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$`)
	csvTruths     = map[string]bool{"1": true, "yes": true, "true": true, "y": true, "t": true, "0": false, "no": false, "false": false, "n": false, "f": false}
)

func isCSVNull(f string) bool {
	switch strings.ToLower(strings.TrimSpace(f)) {
	case "", "na", "n/a", "none", "null", ".":
		return true
	}
	return false
}

// readTable reads all rows, and finds the types of the columns. The numbers of -l are those of the file.
func (r *csvRun) readTable() (*csvTable, error) {
	t := &csvTable{names: r.numbered(r.names, true)}
	for {
		row, err := r.next()
		if err != nil {
			return nil, err
		}
		if row == nil {
			break
		}
		if len(row) > len(r.names) {
			return nil, csvError("ValueError: Row " + strconv.Itoa(len(t.rows)) + " has " + strconv.Itoa(len(row)) + " values, but Table only has " + strconv.Itoa(len(r.names)) + " columns.")
		}
		cost := csvRowSize(row) + 16*int64(len(r.names))
		r.p.Alloc(cost + 24)
		for len(row) < len(r.names) {
			row = append(row, "")
		}
		t.rows = append(t.rows, r.numbered(row, false))
	}
	r.p.Alloc(8 * int64(len(t.names)))
	t.kinds = make([]csvKind, len(t.names))
	if !r.has('I') {
		for i := range t.kinds {
			t.kinds[i] = r.findKind(t, i)
		}
	}
	for i := range t.names {
		for _, row := range t.rows {
			r.p.Tick(1)
			row[i] = normalize(row[i], t.kinds[i], r.has('I'))
		}
	}
	return t, nil
}

// findKind returns the type of a column: that of all its values.
func (r *csvRun) findKind(t *csvTable, i int) csvKind {
	kind := func(is func(string) bool) bool {
		for _, row := range t.rows {
			r.p.Tick(1 + len(row[i])>>2)
			if !isCSVNull(row[i]) && !is(strings.TrimSpace(row[i])) {
				return false
			}
		}
		return true
	}
	switch {
	case kind(func(f string) bool { _, ok := csvTruths[strings.ToLower(f)]; return ok }):
		return csvBoolean
	case kind(func(f string) bool { return len(f) < 400 && csvNumberForm.MatchString(f) }):
		return csvNumber
	case kind(csvDateForm.MatchString):
		return csvDate
	}
	return csvText
}

// normalize returns a value in the form of its type.
func normalize(f string, kind csvKind, asText bool) string {
	switch {
	case asText:
		return f
	case isCSVNull(f):
		return ""
	}
	switch kind {
	case csvBoolean:
		if csvTruths[strings.ToLower(strings.TrimSpace(f))] {
			return "True"
		}
		return "False"
	case csvNumber:
		return strings.TrimPrefix(strings.Map(func(c rune) rune {
			if strings.ContainsRune(",$€£¥%", c) {
				return -1
			}
			return c
		}, strings.TrimSpace(f)), "+")
	}
	return f
}

func csvFloat(f string) float64 {
	n, _ := strconv.ParseFloat(f, 64) // the form was checked; what is too large is infinite
	return n
}

var csvSortOptions = newCSVOptions(option.Option{Short: 'n', Long: "names"}, option.Option{Short: 'c', Long: "columns", Arg: option.Required}, option.Option{Short: 'r', Long: "reverse"}, option.Option{Short: 'i', Long: "ignore-case"}, option.Option{Short: 'I', Long: "no-inference"})

// sortRows is csvsort.
func sortRows(r *csvRun) error {
	if r.has('n') {
		return r.printNames()
	}
	columns, err := r.selectColumns(r.columns)
	if err != nil {
		return err
	}
	lines := r.lines
	r.lines = -1
	t, err := r.readTable()
	if err != nil {
		return err
	}
	fold := r.has('i')
	slices.SortStableFunc(t.rows, func(a, b []string) int {
		r.p.Tick(4)
		order := 0
		for _, i := range columns {
			if order = compareFields(a[i], b[i], t.kinds[i], fold); order != 0 {
				break
			}
		}
		if r.has('r') {
			return -order
		}
		return order
	})
	r.lines = lines
	if t.names != nil {
		r.printRow(r.numbered(t.names, true), csvPlain)
	}
	for _, row := range t.rows {
		r.printRow(r.numbered(row, false), csvPlain)
	}
	return nil
}

// compareFields compares values of a column; an empty one is greater than all others.
func compareFields(a, b string, kind csvKind, fold bool) int {
	switch {
	case a == "" && b == "":
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	case kind == csvNumber:
		return cmp.Compare(csvFloat(a), csvFloat(b))
	case fold:
		return cmp.Compare(strings.ToUpper(a), strings.ToUpper(b))
	}
	return cmp.Compare(a, b)
}

var csvLookOptions = newCSVOptions(option.Option{Long: "max-rows", Arg: option.Required, ID: csvMaxRows}, option.Option{Long: "max-columns", Arg: option.Required, ID: csvMaxColumns}, option.Option{Long: "max-column-width", Arg: option.Required, ID: csvMaxWidth}, option.Option{Short: 'I', Long: "no-inference"})

// printLook is csvlook.
func printLook(r *csvRun) error {
	maxRows, err := r.number(csvMaxRows, math.MaxInt)
	if err != nil {
		return err
	}
	maxColumns, err := r.number(csvMaxColumns, math.MaxInt)
	if err != nil {
		return err
	}
	maxWidth, err := r.number(csvMaxWidth, math.MaxInt)
	if err != nil {
		return err
	}
	r.lineName = "line_numbers"
	t, err := r.readTable()
	if err != nil || len(t.names) == 0 {
		return err
	}
	n := min(len(t.names), maxColumns)
	names, kinds, rows := t.names[:n:n], t.kinds[:n:n], t.rows[:min(len(t.rows), maxRows)]
	digits := make([]int, n)
	for i := range names {
		if kinds[i] == csvNumber {
			for _, row := range rows {
				r.p.Tick(1)
				digits[i] = max(digits[i], decimals(row[i]))
			}
		}
	}
	more := n < len(t.names)
	cells := make([][]string, 0, len(rows)+1)
	shown := func(row []string, header bool) []string {
		r.p.Alloc(csvRowSize(row))
		out := make([]string, n, n+1)
		for i := range out {
			if out[i] = row[i]; !header && kinds[i] == csvNumber && row[i] != "" {
				out[i] = formatLook(row[i], digits[i])
			}
			if utf8.RuneCountInString(out[i]) > maxWidth {
				out[i] = string([]rune(out[i])[:max(0, maxWidth-3)]) + "..."
			}
		}
		if more {
			out = append(out, "...")
		}
		return out
	}
	header := shown(names, true)
	for _, row := range rows {
		cells = append(cells, shown(row, false))
	}
	if more {
		kinds = append(kinds, csvText)
	}
	widths := make([]int, len(header))
	for _, row := range append(cells, header) {
		for i, f := range row {
			r.p.Tick(1 + len(f)>>4)
			widths[i] = max(widths[i], utf8.RuneCountInString(f))
		}
	}
	r.printLookRow(header, widths, kinds)
	line := make([]string, len(header))
	for i, w := range widths {
		r.p.Alloc(int64(w))
		line[i] = strings.Repeat("-", w)
	}
	r.printLookRow(line, widths, kinds)
	for _, row := range cells {
		r.printLookRow(row, widths, kinds)
	}
	if len(rows) < len(t.rows) {
		for i := range line {
			line[i] = "..."
		}
		r.printLookRow(line, widths, kinds)
	}
	return nil
}

// maxDecimals is how many decimals csvlook prints.
const maxDecimals = 3

// decimals returns how many decimals a number needs, at most one more than are printed.
func decimals(f string) int {
	text := strconv.FormatFloat(csvFloat(f), 'f', -1, 64)
	_, rest, _ := strings.Cut(text, ".")
	return min(len(rest), maxDecimals+1)
}

// formatLook returns a number with separators of thousands.
func formatLook(f string, digits int) string {
	tail := ""
	if digits > maxDecimals {
		digits, tail = maxDecimals, "…"
	}
	text := strconv.FormatFloat(csvFloat(f), 'f', digits, 64)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	whole, rest, _ := strings.Cut(text, ".")
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	if rest != "" {
		rest = "." + rest
	}
	return sign + b.String() + rest + tail
}

func (r *csvRun) printLookRow(row []string, widths []int, kinds []csvKind) {
	out := r.p.Out()
	for i, f := range row {
		r.p.Tick(1 + widths[i]>>6)
		_, _ = out.WriteString("| ") // Flush reports the error
		pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(f)))
		if kinds[i] != csvText {
			f, pad = pad, f
		}
		_, _ = out.WriteString(f + pad + " ") // likewise
	}
	_, _ = out.WriteString("|\n") // likewise
}

var csvJSONOptions = newCSVOptions(option.Option{Short: 'i', Long: "indent", Arg: option.Required}, option.Option{Short: 'k', Long: "key", Arg: option.Required}, option.Option{Long: "stream", ID: csvStream}, option.Option{Short: 'I', Long: "no-inference"})

// printJSON is csvjson.
func printJSON(r *csvRun) error {
	indent, err := r.number('i', -1)
	if err != nil {
		return err
	}
	if indent > 100 {
		return csvError("invalid indent: 0 to 100")
	}
	key := -1
	if r.has('k') {
		if key, err = r.findColumn(r.value('k')); err != nil {
			return err
		}
	}
	r.lines = -1
	t, err := r.readTable()
	if err != nil {
		return err
	}
	space, open, end := "", "[", "]"
	if key >= 0 {
		open, end = "{", "}"
	}
	line := func(depth int) string {
		if indent < 0 {
			return space
		}
		return "\n" + strings.Repeat(" ", indent*depth)
	}
	put := func(text string) { _, _ = r.p.Out().WriteString(text) } // Flush reports the error
	if r.has(csvStream) {
		indent, open, end = -1, "", ""
	}
	if err := r.checkKeys(t, key); err != nil {
		return err
	}
	put(open)
	for n, row := range t.rows {
		switch {
		case r.has(csvStream):
		case n == 0:
			put(line(1))
		case indent < 0:
			put(", ")
		default:
			put("," + line(1))
		}
		if key >= 0 && !r.has(csvStream) {
			put(quoteJSON(row[key]) + ": ")
		}
		r.putObject(t, row, put, line, indent)
		if r.has(csvStream) {
			put("\n")
		}
	}
	if len(t.rows) > 0 && indent >= 0 {
		put(line(0))
	}
	put(end)
	return nil
}

// checkKeys checks that no two rows have the same key; -1: there is none.
func (r *csvRun) checkKeys(t *csvTable, key int) error {
	if key < 0 {
		return nil
	}
	seen := map[string]bool{}
	for _, row := range t.rows {
		r.p.Tick(1)
		r.p.Alloc(80)
		if seen[row[key]] {
			return csvError("ValueError: Value " + row[key] + " is not unique in the key column.")
		}
		seen[row[key]] = true
	}
	return nil
}

// putObject prints a row as an object.
func (r *csvRun) putObject(t *csvTable, row []string, put func(string), line func(int) string, indent int) {
	put("{")
	for i, name := range t.names {
		r.p.Tick(1 + len(row[i])>>4)
		switch {
		case i > 0 && indent < 0:
			put(", ")
		case i > 0:
			put("," + line(2))
		default:
			put(line(2))
		}
		put(quoteJSON(name) + ": " + jsonValue(row[i], t.kinds[i]))
	}
	if indent >= 0 {
		put(line(1))
	}
	put("}")
}

// jsonValue returns a value of a column as JSON.
func jsonValue(f string, kind csvKind) string {
	switch {
	case f == "":
		return "null"
	case kind == csvBoolean:
		return strings.ToLower(f)
	case kind == csvNumber:
		return pythonFloat(csvFloat(f))
	}
	return quoteJSON(f)
}

// pythonFloat returns a number as Python writes it: 1.0, 1e+20.
func pythonFloat(n float64) string {
	switch {
	case math.IsInf(n, 0):
		return strings.TrimPrefix(strings.Replace(strconv.FormatFloat(n, 'g', -1, 64), "Inf", "Infinity", 1), "+")
	case n != 0 && (math.Abs(n) >= 1e16 || math.Abs(n) < 1e-4):
		return strconv.FormatFloat(n, 'e', -1, 64)
	}
	text := strconv.FormatFloat(n, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// quoteJSON returns a text as a string of JSON; <, > and & stay.
func quoteJSON(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string can be encoded
	return strings.TrimSuffix(b.String(), "\n")
}
