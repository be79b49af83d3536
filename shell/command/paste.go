package command

import (
	"bufio"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const pasteUsage = `Usage: paste [OPTION]... [FILE]...
Write lines consisting of the sequentially corresponding lines from
each FILE, separated by TABs, to standard output.

With no FILE, or when FILE is -, read standard input.

  -d, --delimiters=LIST   reuse characters from LIST instead of TABs
  -s, --serial            paste one file at a time instead of in parallel
  -z, --zero-terminated    line delimiter is NUL, not newline
      --help              display this help and exit
`

type pasteJob struct {
	p      *kernel.Proc
	out    *bufio.Writer
	delims []string // "" is none
	eol    byte
	failed bool
}

var pasteOptions = parsing{options: []option{
	{short: 's', long: "serial"}, {short: 'd', long: "delimiters", arg: required}, {short: 'z', long: "zero-terminated"},
}}

func paste(p *kernel.Proc) int {
	opts, names, ok := pasteOptions.parse(p)
	if !ok {
		return 1
	}
	j := pasteJob{p: p, out: p.Out(), delims: []string{"\t"}, eol: '\n'}
	serial := false
	for _, o := range opts {
		switch o.key {
		case 's':
			serial = true
		case 'z':
			j.eol = 0
		case 'd':
			if j.delims, ok = pasteDelims(o.value); !ok {
				p.Errorf("delimiter list ends with an unescaped backslash: %s", o.value)
				return 1
			}
		}
	}
	names = operandsOr(names)
	if serial {
		for _, name := range names {
			j.serial(name)
		}
	} else if !j.parallel(names) {
		return 1
	}
	return int(b2i(j.failed))
}

// pasteDelims reads the list of -d.
func pasteDelims(list string) ([]string, bool) {
	var out []string
	for len(list) > 0 {
		if list[0] != '\\' {
			_, w := utf8.DecodeRuneInString(list)
			out = append(out, list[:1])
			list = list[1:]
			for ; w > 1; w-- { // bytes, as GNU has it
				out = append(out, list[:1])
				list = list[1:]
			}
			continue
		}
		if len(list) == 1 {
			return nil, false
		}
		c := list[1:2]
		list = list[2:]
		if i := strings.IndexByte(`0bfnrtv\`, c[0]); i >= 0 {
			c = []string{"", "\b", "\f", "\n", "\r", "\t", "\v", "\\"}[i]
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		out = []string{""}
	}
	return out, true
}

func (j *pasteJob) complain(name string, err error) {
	j.p.Errorf("%s: %s", quotef(name), why(err))
	j.failed = true
}

func (j *pasteJob) serial(name string) {
	in, err := open(j.p, name)
	if err != nil {
		j.complain(name, err)
		if errors.Is(err, vfs.EISDIR) {
			_ = j.out.WriteByte(j.eol) // shows at the flush
		}
		return
	}
	defer closeInput(in)
	l := newLines(j.p, in, j.eol)
	defer l.close()
	n := 0
	for line := l.next(); line != nil; line = l.next() {
		if n > 0 {
			_, _ = j.out.WriteString(j.delims[(n-1)%len(j.delims)]) // shows at the flush, as all below
		}
		_, _ = j.out.Write(trimDelim(line, j.eol))
		n++
	}
	_ = j.out.WriteByte(j.eol)
	if err := l.failed(); err != nil {
		j.complain(name, err)
	}
}

// parallel pastes line by line. All files must be there at the start.
func (j *pasteJob) parallel(names []string) bool {
	files := make([]*lines, len(names))
	var stdin *lines
	for i, name := range names {
		if name == "-" && stdin != nil {
			files[i] = stdin
			continue
		}
		in, err := open(j.p, name)
		if err != nil {
			j.complain(name, err)
			return false
		}
		defer closeInput(in)
		files[i] = newLines(j.p, in, j.eol)
		if len(names) > 16 {
			j.p.Alloc(chunk)
		}
		if name == "-" {
			stdin = files[i]
		}
	}
	ended := make([]bool, len(files))
	for j.row(names, files, ended) {
		j.p.Tick(len(files))
	}
	return true
}

// row writes one line, if some file still has one. The delimiters before the
// first of them wait until it is known that there is one.
func (j *pasteJob) row(names []string, files []*lines, ended []bool) bool {
	pending := 0
	any := false
	for i, l := range files {
		var line []byte
		if !ended[i] {
			if line = l.next(); line == nil {
				ended[i] = true
				if err := l.failed(); err != nil {
					j.complain(names[i], err)
				}
			}
		}
		if line != nil {
			if !any {
				for k := range pending {
					_, _ = j.out.WriteString(j.delims[k%len(j.delims)]) // shows at the flush, as all below
				}
			}
			any = true
			_, _ = j.out.Write(trimDelim(line, j.eol))
		}
		switch {
		case i == len(files)-1:
		case any:
			_, _ = j.out.WriteString(j.delims[i%len(j.delims)])
		default:
			pending++
		}
	}
	if any {
		_ = j.out.WriteByte(j.eol)
	}
	return any
}
