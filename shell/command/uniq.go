package command

import (
	"bufio"
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

type grouping int

const (
	groupNone grouping = iota
	groupPrepend
	groupSeparate
	groupAppend
	groupBoth
)

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

var uniqOptions = parsing{digits: true, options: []option{
	{short: 'c', long: "count"},
	{short: 'd', long: "repeated"},
	{short: 'D'},
	{long: "all-repeated", arg: optional, id: 'D'},
	{long: "group", arg: optional, id: 'g'},
	{short: 'i', long: "ignore-case"},
	{short: 'u', long: "unique"},
	{short: 'f', long: "skip-fields", arg: required},
	{short: 's', long: "skip-chars", arg: required},
	{short: 'w', long: "check-chars", arg: required},
	{short: 'z', long: "zero-terminated"},
}}

func uniq(p *kernel.Proc) int {
	opts, names, ok := uniqOptions.parse(p)
	if !ok {
		return 1
	}
	j := uniqJob{p: p, unique: true, first: true, width: -1, delim: '\n'}
	picky := false // an option that says which lines to print
	for _, o := range opts {
		if !j.option(o) {
			return 1
		}
		picky = picky || strings.ContainsRune("cdDu", o.key)
	}
	for len(names) > 0 && oldSkip(names[0], &j.chars) {
		names = names[1:]
	}
	if extra(p, names, 2) {
		return 1
	}
	switch {
	case j.all && picky:
		p.Errorf("--group is mutually exclusive with -c/-d/-D/-u")
		tryHelp(p)
		return 1
	case j.count && j.others:
		p.Errorf("printing all duplicated lines and repeat counts is meaningless")
		tryHelp(p)
		return 1
	}
	return j.run(names)
}

func (j *uniqJob) option(o given) bool {
	switch o.key {
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
		return j.method("--all-repeated", o, groupNone, []choice{{"none", 0}, {"prepend", 1}, {"separate", 2}})
	case 'g':
		j.all = true
		return j.method("--group", o, groupSeparate, []choice{{"prepend", 1}, {"append", 3}, {"separate", 2}, {"both", 4}})
	case 'f', '#':
		return j.number(&j.fields, o.value, "invalid number of fields to skip")
	case 's':
		return j.number(&j.chars, o.value, "invalid number of bytes to skip")
	case 'w':
		return j.number(&j.width, o.value, "invalid number of bytes to compare")
	}
	return true
}

func (j *uniqJob) method(name string, o given, otherwise grouping, list []choice) bool {
	j.groups = otherwise
	if !o.has {
		return true
	}
	v, ok := choose(j.p, name, o.value, list)
	j.groups = grouping(v)
	return ok
}

func (j *uniqJob) number(to *int, s, msg string) bool {
	n, fault := parseSize(s, "")
	if fault == sizeBad || s == "" {
		j.p.Errorf("%s: %s", s, msg)
		return false
	}
	*to = int(n)
	return true
}

// oldSkip reads +N, which once was -s N.
func oldSkip(s string, chars *int) bool {
	if len(s) < 2 || s[0] != '+' {
		return false
	}
	n, err := strconv.Atoi(s[1:])
	if err == nil {
		*chars = n
	}
	return err == nil
}

func (j *uniqJob) run(names []string) int {
	name := "-"
	if len(names) > 0 {
		name = names[0]
	}
	in, err := open(j.p, name)
	if errors.Is(err, vfs.EISDIR) {
		j.p.Errorf("error reading %s", quote(name))
		return 1
	}
	if err != nil {
		j.p.Errorf("%s: %s", quotef(name), why(err))
		return 1
	}
	defer closeInput(in)
	j.out = j.p.Out()
	if len(names) > 1 && names[1] != "-" {
		h, err := j.p.Create(names[1])
		if err != nil {
			j.p.Errorf("%s: %s", quotef(names[1]), why(err))
			return 1
		}
		defer closeInput(h)
		j.out = bufio.NewWriterSize(h, 32<<10)
	}
	l := newLines(j.p, in, j.delim)
	defer l.close()
	if j.count || !j.unique || !j.first {
		j.filter(l)
	} else {
		j.merge(l)
	}
	if err := l.failed(); err != nil {
		j.p.Errorf("error reading %s: %s", quote(name), why(err))
		return 1
	}
	if err := j.out.Flush(); err != nil {
		j.p.Errorf("write error: %s", why(err))
		return 1
	}
	return 0
}

// merge prints the first line of each group, or with --group all of them.
func (j *uniqJob) merge(l *lines) {
	var prev []byte // a copy
	started := false
	for line := l.next(); line != nil; line = l.next() {
		text := trimDelim(line, j.delim)
		fresh := !started || !j.same(prev, text)
		if fresh && j.all && (j.groups == groupPrepend || j.groups == groupBoth || started && (j.groups == groupAppend || j.groups == groupSeparate)) {
			_ = j.out.WriteByte(j.delim) // shows at the flush, as all below
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

// filter prints the lines of those groups that are asked for.
func (j *uniqJob) filter(l *lines) {
	var prev []byte // a copy
	n := int64(-1)  // lines of the group before this one
	for line := l.next(); line != nil; line = l.next() {
		text := trimDelim(line, j.delim)
		if n >= 0 && j.same(prev, text) {
			n++
			if n == 1 && j.others {
				j.separate()
			}
			if !j.others {
				continue
			}
			j.emit(prev, n)
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

// separate writes the empty line before a group of --all-repeated.
func (j *uniqJob) separate() {
	if j.groups == groupPrepend || j.groups == groupSeparate && j.began {
		_ = j.out.WriteByte(j.delim) // shows at the flush
	}
	j.began = true
}

func (j *uniqJob) write(text []byte, n int64, repeated bool) {
	if repeated && !j.first || !repeated && !j.unique {
		return
	}
	j.emit(text, n)
}

func (j *uniqJob) emit(text []byte, n int64) {
	if j.count {
		j.num = strconv.AppendInt(j.num[:0], n+1, 10)
		for i := len(j.num); i < 7; i++ {
			_ = j.out.WriteByte(' ') // shows at the flush, as all below
		}
		_, _ = j.out.Write(append(j.num, ' '))
	}
	_, _ = j.out.Write(text)
	_ = j.out.WriteByte(j.delim)
}

func (j *uniqJob) same(a, b []byte) bool {
	a, b = j.key(a), j.key(b)
	if len(a) != len(b) {
		return false
	}
	if j.fold {
		return equalFoldASCII(a, b)
	}
	return bytes.Equal(a, b)
}

// key returns the part of a line that is compared.
func (j *uniqJob) key(b []byte) []byte {
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
		if upper(c) != upper(b[i]) {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}
