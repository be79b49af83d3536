package text

import (
	"bufio"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// pasteJob is the state of one run of paste.
type pasteJob struct {
	p      *kernel.Proc
	out    *bufio.Writer
	delims []string // "" is none
	eol    byte
	failed bool
}

var pasteOptions = option.Parser{Options: []option.Option{
	{Short: 's', Long: "serial"}, {Short: 'd', Long: "delimiters", Arg: option.Required}, {Short: 'z', Long: "zero-terminated"},
}}

func runPaste(p *kernel.Proc) int {
	opts, names, ok := pasteOptions.Parse(p)
	if !ok {
		return 1
	}
	j := pasteJob{p: p, out: p.Out(), delims: []string{"\t"}, eol: '\n'}
	serial := false
	for _, o := range opts {
		switch o.Key {
		case 's':
			serial = true
		case 'z':
			j.eol = 0
		case 'd':
			p.Alloc(16 * int64(len(o.Value)))
			if j.delims, ok = parseDelims(o.Value); !ok {
				p.Errorf("delimiter list ends with an unescaped backslash: %s", o.Value)
				return 1
			}
		}
	}
	names = stream.OperandsOrStdin(names)
	if serial {
		for _, name := range names {
			j.pasteSerially(name)
		}
	} else if !j.pasteInParallel(names) {
		return 1
	}
	return int(number.FromBool(j.failed))
}

// parseDelims parses the list of -d.
func parseDelims(list string) ([]string, bool) {
	out := make([]string, 0, len(list))
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

func (j *pasteJob) reportError(name string, err error) {
	j.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
	j.failed = true
}

// pasteSerially joins the lines of one file.
func (j *pasteJob) pasteSerially(name string) {
	in, err := stream.Open(j.p, name)
	if err != nil {
		j.reportError(name, err)
		if errors.Is(err, vfs.EISDIR) {
			_ = j.out.WriteByte(j.eol) // Flush reports the error
		}
		return
	}
	defer stream.Close(in)
	l := stream.NewLineReader(j.p, in, j.eol)
	defer l.Close()
	n := 0
	for line := l.Next(); line != nil; line = l.Next() {
		if n > 0 {
			_, _ = j.out.WriteString(j.delims[(n-1)%len(j.delims)]) // Flush reports the error, here and below
		}
		_, _ = j.out.Write(stream.TrimDelimiter(line, j.eol))
		n++
	}
	_ = j.out.WriteByte(j.eol)
	if err := l.Err(); err != nil {
		j.reportError(name, err)
	}
}

// pasteInParallel joins the n-th lines of all files. All files must exist at the start.
func (j *pasteJob) pasteInParallel(names []string) bool {
	files := make([]*stream.LineReader, len(names))
	var stdin *stream.LineReader
	for i, name := range names {
		if name == "-" && stdin != nil {
			files[i] = stdin
			continue
		}
		in, err := stream.Open(j.p, name)
		if err != nil {
			j.reportError(name, err)
			return false
		}
		defer stream.Close(in)
		files[i] = stream.NewLineReader(j.p, in, j.eol)
		if len(names) > 16 {
			j.p.Alloc(stream.ChunkSize)
		}
		if name == "-" {
			stdin = files[i]
		}
	}
	ended := make([]bool, len(files))
	for j.pasteRow(names, files, ended) {
		j.p.Tick(len(files))
	}
	return true
}

// pasteRow writes one line if some file has one left. Delimiters before the first such file are
// written only when it is found.
func (j *pasteJob) pasteRow(names []string, files []*stream.LineReader, ended []bool) bool {
	pending := 0
	any := false
	for i, l := range files {
		var line []byte
		if !ended[i] {
			if line = l.Next(); line == nil {
				ended[i] = true
				if err := l.Err(); err != nil {
					j.reportError(names[i], err)
				}
			}
		}
		if line != nil {
			if !any {
				for k := range pending {
					_, _ = j.out.WriteString(j.delims[k%len(j.delims)]) // Flush reports the error, here and below
				}
			}
			any = true
			_, _ = j.out.Write(stream.TrimDelimiter(line, j.eol))
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
