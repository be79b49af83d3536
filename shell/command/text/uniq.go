package text

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const uniqUsage = `Usage: uniq [OPTION]... [INPUT [OUTPUT]]
Filter adjacent matching lines from INPUT (or standard input),
writing to OUTPUT (or standard output).

With no options, matching lines are merged to the first occurrence.

  -c, --count           prefix lines by the number of occurrences
  -d, --repeated        only print duplicate lines, one for each group
  -D                    print all duplicate lines
      --all-repeated[=METHOD]  like -D, but allow separating groups
                                 with an empty line;
                                 METHOD={none(default),prepend,separate}
  -f, --skip-fields=N   avoid comparing the first N fields
      --group[=METHOD]  show all items, separating groups with an empty line;
                          METHOD={separate(default),prepend,append,both}
  -i, --ignore-case     ignore differences in case when comparing
  -s, --skip-chars=N    avoid comparing the first N characters
  -u, --unique          only print unique lines
  -z, --zero-terminated     line delimiter is NUL, not newline
  -w, --check-chars=N   compare no more than N characters in lines
      --help            display this help and exit

A field is a run of blanks (usually spaces and/or TABs), then non-blank
characters.  Fields are skipped before chars.
`

// grouping is where uniq prints an empty line between groups.
type grouping int

const (
	groupNone grouping = iota
	groupPrepend
	groupSeparate
	groupAppend
	groupBoth
)

// uniqJob is the state of one run of uniq.
type uniqJob struct {
	p                     *kernel.Proc
	out                   *bufio.Writer
	count, fold           bool
	unique, first, others bool // which lines to print
	groups                grouping
	all                   bool // --group
	fields, chars, width  int
	delim                 byte

	began bool // a group was printed
	num   []byte
}

var uniqOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Short: 'c', Long: "count"},
	{Short: 'd', Long: "repeated"},
	{Short: 'D'},
	{Long: "all-repeated", Arg: option.Optional, ID: 'D'},
	{Long: "group", Arg: option.Optional, ID: 'g'},
	{Short: 'i', Long: "ignore-case"},
	{Short: 'u', Long: "unique"},
	{Short: 'f', Long: "skip-fields", Arg: option.Required},
	{Short: 's', Long: "skip-chars", Arg: option.Required},
	{Short: 'w', Long: "check-chars", Arg: option.Required},
	{Short: 'z', Long: "zero-terminated"},
}}

func runUniq(p *kernel.Proc) int {
	opts, names, ok := uniqOptions.Parse(p)
	if !ok {
		return 1
	}
	j := uniqJob{p: p, unique: true, first: true, width: -1, delim: '\n'}
	picky := false // an option selects lines
	for _, o := range opts {
		if !j.applyOption(o) {
			return 1
		}
		picky = picky || strings.ContainsRune("cdDu", o.Key)
	}
	for len(names) > 0 && parseOldSkip(names[0], &j.chars) {
		names = names[1:]
	}
	if option.ReportExtra(p, names, 2) {
		return 1
	}
	switch {
	case j.all && picky:
		p.Errorf("--group is mutually exclusive with -c/-d/-D/-u")
		option.SuggestHelp(p)
		return 1
	case j.count && j.others:
		p.Errorf("printing all duplicated lines and repeat counts is meaningless")
		option.SuggestHelp(p)
		return 1
	}
	return j.run(names)
}

func (j *uniqJob) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'c':
		j.count = true
	case 'd':
		j.unique = false
	case 'u':
		j.first = false
	case 'i':
		j.fold = true
	case 'z':
		j.delim = 0
	case 'D':
		j.unique, j.others = false, true
		return j.applyGroupMethod("--all-repeated", o, groupNone, []option.Choice{{Word: "none", Value: 0}, {Word: "prepend", Value: 1}, {Word: "separate", Value: 2}})
	case 'g':
		j.all = true
		return j.applyGroupMethod("--group", o, groupSeparate, []option.Choice{{Word: "prepend", Value: 1}, {Word: "append", Value: 3}, {Word: "separate", Value: 2}, {Word: "both", Value: 4}})
	case 'f', '#':
		return j.parseCount(&j.fields, o.Value, "invalid number of fields to skip")
	case 's':
		return j.parseCount(&j.chars, o.Value, "invalid number of bytes to skip")
	case 'w':
		return j.parseCount(&j.width, o.Value, "invalid number of bytes to compare")
	}
	return true
}

func (j *uniqJob) applyGroupMethod(name string, o option.Setting, otherwise grouping, list []option.Choice) bool {
	j.groups = otherwise
	if !o.HasValue {
		return true
	}
	v, ok := option.Choose(j.p, name, o.Value, list)
	j.groups = grouping(v)
	return ok
}

func (j *uniqJob) parseCount(to *int, s, msg string) bool {
	n, fault := number.ParseSize(s, "")
	if fault == number.Invalid || s == "" {
		j.p.Errorf("%s: %s", s, msg)
		return false
	}
	*to = int(n)
	return true
}

// parseOldSkip parses +N, the obsolete form of -s N.
func parseOldSkip(s string, chars *int) bool {
	if len(s) < 2 || s[0] != '+' {
		return false
	}
	n, err := strconv.Atoi(s[1:])
	if err == nil {
		*chars = n
	}
	return err == nil
}

// run opens the input and the output, compares the lines and returns the exit status.
func (j *uniqJob) run(names []string) int {
	name := "-"
	if len(names) > 0 {
		name = names[0]
	}
	in, err := stream.Open(j.p, name)
	if errors.Is(err, vfs.EISDIR) {
		j.p.Errorf("error reading %s", quoting.QuoteName(name))
		return 1
	}
	if err != nil {
		j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return 1
	}
	defer stream.Close(in)
	j.out = j.p.Out()
	if len(names) > 1 && names[1] != "-" {
		h, err := j.p.Create(names[1])
		if err != nil {
			j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(names[1]), program.Reason(err))
			return 1
		}
		defer stream.Close(h)
		j.out = bufio.NewWriterSize(h, 32<<10)
	}
	l := stream.NewLineReader(j.p, in, j.delim)
	defer l.Close()
	if j.count || !j.unique || !j.first {
		j.printSelectedGroups(l)
	} else {
		j.printFirstLines(l)
	}
	if err := l.Err(); err != nil {
		j.p.Errorf("error reading %s: %s", quoting.QuoteName(name), program.Reason(err))
		return 1
	}
	if err := j.out.Flush(); err != nil {
		j.p.Errorf("write error: %s", program.Reason(err))
		return 1
	}
	return 0
}

// printFirstLines prints the first line of each group, or with --group all lines.
func (j *uniqJob) printFirstLines(l *stream.LineReader) {
	var prev []byte // copied
	started := false
	for line := l.Next(); line != nil; line = l.Next() {
		text := stream.TrimDelimiter(line, j.delim)
		fresh := !started || !j.sameKey(prev, text)
		if fresh && j.all && (j.groups == groupPrepend || j.groups == groupBoth || started && (j.groups == groupAppend || j.groups == groupSeparate)) {
			_ = j.out.WriteByte(j.delim) // Flush reports the error, here and below
		}
		if fresh || j.all {
			_, _ = j.out.Write(text)
			_ = j.out.WriteByte(j.delim)
		}
		if fresh {
			prev = append(prev[:0], text...)
			started = true
		}
	}
	if started && j.all && (j.groups == groupAppend || j.groups == groupBoth) {
		_ = j.out.WriteByte(j.delim)
	}
}

// printSelectedGroups prints the lines of the groups that -d, -D or -u select.
func (j *uniqJob) printSelectedGroups(l *stream.LineReader) {
	var prev []byte // copied
	n := int64(-1)  // lines of the group before this one
	for line := l.Next(); line != nil; line = l.Next() {
		text := stream.TrimDelimiter(line, j.delim)
		if n >= 0 && j.sameKey(prev, text) {
			n++
			if n == 1 && j.others {
				j.printSeparator()
			}
			if !j.others {
				continue
			}
			j.printLine(prev, n)
		} else {
			if n >= 0 {
				j.write(prev, n, n > 0)
			}
			n = 0
		}
		prev = append(prev[:0], text...)
	}
	if n >= 0 {
		j.write(prev, n, n > 0)
	}
}

// printSeparator writes the empty line before a group of --all-repeated.
func (j *uniqJob) printSeparator() {
	if j.groups == groupPrepend || j.groups == groupSeparate && j.began {
		_ = j.out.WriteByte(j.delim) // Flush reports the error
	}
	j.began = true
}

func (j *uniqJob) write(text []byte, n int64, repeated bool) {
	if repeated && !j.first || !repeated && !j.unique {
		return
	}
	j.printLine(text, n)
}

func (j *uniqJob) printLine(text []byte, n int64) {
	if j.count {
		j.num = strconv.AppendInt(j.num[:0], n+1, 10)
		for i := len(j.num); i < 7; i++ {
			_ = j.out.WriteByte(' ') // Flush reports the error, here and below
		}
		_, _ = j.out.Write(append(j.num, ' '))
	}
	_, _ = j.out.Write(text)
	_ = j.out.WriteByte(j.delim)
}

func (j *uniqJob) sameKey(a, b []byte) bool {
	a, b = j.keyOf(a), j.keyOf(b)
	if len(a) != len(b) {
		return false
	}
	if j.fold {
		return equalFoldASCII(a, b)
	}
	return bytes.Equal(a, b)
}

// keyOf returns the part of a line that is compared.
func (j *uniqJob) keyOf(b []byte) []byte {
	for n := j.fields; n > 0 && len(b) > 0; n-- {
		b = bytes.TrimLeft(b, " \t\n")
		i := bytes.IndexAny(b, " \t\n")
		if i < 0 {
			i = len(b)
		}
		b = b[i:]
	}
	b = b[min(j.chars, len(b)):]
	if j.width >= 0 && len(b) > j.width {
		b = b[:j.width]
	}
	return b
}

func equalFoldASCII(a, b []byte) bool {
	for i, c := range a {
		if toUpperASCII(c) != toUpperASCII(b[i]) {
			return false
		}
	}
	return true
}

func toUpperASCII(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}
