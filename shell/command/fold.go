package command

import (
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const foldUsage = `Usage: fold [OPTION]... [FILE]...
Wrap input lines in each FILE, writing to standard output.

With no FILE, or when FILE is -, read standard input.

  -b, --bytes         count bytes rather than columns
  -s, --spaces        break at spaces
  -w, --width=WIDTH   use WIDTH columns instead of 80
      --help          display this help and exit
`

var foldOptions = parsing{digits: true, options: []option{
	{short: 'b', long: "bytes"}, {short: 's', long: "spaces"}, {short: 'w', long: "width", arg: required},
}}

type foldJob struct {
	p      *kernel.Proc
	width  int
	bytes  bool
	spaces bool
}

func fold(p *kernel.Proc) int {
	opts, names, ok := foldOptions.parse(p)
	if !ok {
		return 1
	}
	j := foldJob{p: p, width: 80}
	for _, o := range opts {
		switch o.key {
		case 'b':
			j.bytes = true
		case 's':
			j.spaces = true
		case 'w', '#':
			n, err := strconv.Atoi(o.value)
			if err != nil || n < 1 {
				reason := ""
				if err == nil {
					reason = ": " + vfs.ERANGE.Error()
				}
				p.Errorf("invalid number of columns: %s%s", cite(o.value), reason)
				return 1
			}
			j.width = n
		}
	}
	return overLines(p, names, func(line []byte, ended bool) {
		j.line(line)
		if ended {
			_ = p.Out().WriteByte('\n') // shows at the flush
		}
	})
}

// line prints a line in pieces. GNU's fold counts each byte as a column,
// but for tabs, backspaces and carriage returns.
func (j *foldJob) line(line []byte) {
	out := j.p.Out()
	for {
		n := j.fits(line)
		if n >= len(line) {
			_, _ = out.Write(line) // shows at the flush, as below
			return
		}
		if j.spaces {
			if i := lastBlank(line[:n]); i >= 0 {
				n = i + 1
			}
		}
		j.p.Tick(1 + n)
		_, _ = out.Write(line[:n])
		_ = out.WriteByte('\n')
		line = line[n:]
	}
}

func lastBlank(b []byte) int {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == ' ' || b[i] == '\t' {
			return i
		}
	}
	return -1
}

// fits returns how many bytes of a line fit into the width, at least one.
func (j *foldJob) fits(line []byte) int {
	if j.bytes {
		return max(1, min(j.width, len(line)))
	}
	col := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\t':
			col += 8 - col%8
		case '\b':
			col = max(0, col-1)
		case '\r':
			col = 0
		default:
			col++
		}
		if col > j.width {
			return max(1, i)
		}
	}
	return len(line)
}
