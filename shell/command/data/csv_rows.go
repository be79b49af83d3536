package data

import (
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

var csvCutOptions = newCSVOptions(option.Option{Short: 'n', Long: "names"}, option.Option{Short: 'c', Long: "columns", Arg: option.Required}, option.Option{Short: 'C', Long: "not-columns", Arg: option.Required}, option.Option{Short: 'x', Long: "delete-empty-rows"})

// cutColumns is csvcut.
func cutColumns(r *csvRun) error {
	if r.has('n') {
		return r.printNames()
	}
	columns, err := r.selectColumns(r.columns)
	if err != nil {
		return err
	}
	if r.has('C') {
		not, err := r.selectColumns(r.value('C'))
		if err != nil {
			return err
		}
		columns = slices.DeleteFunc(columns, func(i int) bool { r.p.Tick(1 + len(not)); return slices.Contains(not, i) })
	}
	pick := func(row []string) []string {
		cost := 16 * int64(len(columns))
		r.p.Alloc(cost)
		r.p.Free(cost)
		out := make([]string, len(columns))
		for k, i := range columns {
			out[k] = field(row, i)
		}
		return out
	}
	if r.names != nil {
		r.printRow(r.numbered(pick(r.names), true), csvPlain)
	}
	for {
		row, err := r.next()
		if row == nil || err != nil {
			return err
		}
		row = pick(row)
		if r.has('x') && !slices.ContainsFunc(row, func(f string) bool { return f != "" }) {
			continue
		}
		r.printRow(r.numbered(row, false), csvPlain)
	}
}

var csvGrepOptions = newCSVOptions(option.Option{Short: 'n', Long: "names"}, option.Option{Short: 'c', Long: "columns", Arg: option.Required}, option.Option{Short: 'm', Long: "match", Arg: option.Required}, option.Option{Short: 'r', Long: "regex", Arg: option.Required}, option.Option{Short: 'f', Long: "file", Arg: option.Required}, option.Option{Short: 'i', Long: "invert-match"}, option.Option{Short: 'a', Long: "any-match"})

// grepRows is csvgrep.
func grepRows(r *csvRun) error {
	if r.has('n') {
		return r.printNames()
	}
	if r.columns == "" {
		return csvUsageError("error: You must specify at least one column to search using the -c option.")
	}
	columns, err := r.selectColumns(r.columns)
	if err != nil {
		return err
	}
	match, err := r.newFieldMatch()
	if err != nil {
		return err
	}
	r.lineName = "line_numbers"
	r.printRow(r.numbered(r.names, true), csvPlain)
	for {
		row, err := r.next()
		if row == nil || err != nil {
			return err
		}
		shown := r.numbered(row, false)
		matches := func(i int) bool { r.p.Tick(1); return match(field(row, i)) }
		found := false
		if r.has('a') {
			found = slices.ContainsFunc(columns, matches)
		} else {
			found = !slices.ContainsFunc(columns, func(i int) bool { return !matches(i) })
		}
		if found != r.has('i') {
			r.printRow(shown, csvPlain)
		}
	}
}

// newFieldMatch returns the function that reports whether a field matches -m, -r or -f.
func (r *csvRun) newFieldMatch() (func(string) bool, error) {
	switch {
	case r.has('r'):
		re, err := regex.Compile(r.value('r'), regex.Options{Syntax: regex.Perl, Budget: r.p})
		if err != nil {
			return nil, csvError("-r " + r.value('r') + ": " + err.Error())
		}
		return func(f string) bool { return re.Match([]byte(f), 0, nil, r.p) }, nil
	case r.has('m'):
		return func(f string) bool { r.p.Tick(len(f) >> 4); return strings.Contains(f, r.value('m')) }, nil
	case r.has('f'):
		h, err := stream.Open(r.p, r.value('f'))
		if err != nil {
			return nil, csvError(r.value('f') + ": " + program.Reason(err))
		}
		defer stream.Close(h)
		lines := stream.NewLineReader(r.p, h, '\n')
		defer lines.Close()
		set := map[string]bool{}
		for line := lines.Next(); line != nil; line = lines.Next() {
			r.p.Alloc(int64(len(line)) + 80)
			set[strings.TrimRight(string(line), "\r\n")] = true
		}
		return func(f string) bool { return set[f] }, nil
	}
	return nil, csvUsageError("error: One of -r, -m or -f must be specified, unless using the -n option.")
}

var csvFormatOptions = newCSVOptions(option.Option{Short: 'D', Long: "out-delimiter", Arg: option.Required}, option.Option{Short: 'T', Long: "out-tabs"}, option.Option{Short: 'U', Long: "out-quoting", Arg: option.Required}, option.Option{Short: 'M', Long: "out-lineterminator", Arg: option.Required}, option.Option{Short: 'E', Long: "skip-header"})

// formatRows is csvformat.
func formatRows(r *csvRun) error {
	form := csvPlain
	c, err := r.delimiter('D', 'T', ',')
	if err != nil {
		return err
	}
	quoting, err := r.number('U', 0)
	if err == nil && quoting > 1 {
		err = csvError("-U " + strconv.Itoa(quoting) + " is not supported: 0 or 1")
	}
	if err != nil {
		return err
	}
	form.delimiter, form.all = string(c), quoting == 1
	if r.has('M') {
		form.end = strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(r.value('M'))
	}
	if r.names != nil && !r.has('E') {
		r.printRow(r.names, form)
	}
	for {
		row, err := r.next()
		if row == nil || err != nil {
			return err
		}
		r.printRow(row, form)
	}
}

var csvStackOptions = newCSVOptions()

// runCSVStack is csvstack.
func runCSVStack(p *kernel.Proc) int {
	opts, names, ok := csvStackOptions.Parse(p)
	if !ok {
		return 2
	}
	var header []string
	for n, name := range stream.OperandsOrStdin(names) {
		r := &csvRun{p: p, opts: opts}
		err := r.readFile(name, func(r *csvRun) error {
			if n == 0 {
				header = r.names
				r.printRow(header, csvPlain)
			}
			order := make([]int, len(header))
			for i, column := range header {
				p.Tick(len(r.names))
				if order[i] = slices.Index(r.names, column); order[i] < 0 {
					return csvError(name + ": there is no column '" + column + "': files need the same columns")
				}
			}
			if len(r.names) > len(header) {
				return csvError(name + ": it has more columns than the first file: files need the same columns")
			}
			for {
				row, err := r.next()
				if row == nil || err != nil {
					return err
				}
				out := make([]string, len(order))
				for k, i := range order {
					out[k] = field(row, i)
				}
				r.printRow(out, csvPlain)
			}
		})
		if err != nil {
			return r.report(err)
		}
	}
	return 0
}
