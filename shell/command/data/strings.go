package data

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const stringsUsage = `Usage: strings [option(s)] [file(s)]
 Display printable strings in [file(s)] (stdin by default)
 The options are:
  -a - --all                Scan the entire file (always done)
  -f --print-file-name      Print the name of the file before each string
  -n <number>               Locate & print any sequence of at least <number>
    --bytes=<number>         displayable characters.  (The default is 4).
  -t --radix={o,d,x}        Print the location of the string in base 8, 10 or 16
  -w --include-all-whitespace Include all whitespace as valid string characters
  -o                        An alias for --radix=o
  -h --help                 Display this information
`

var stringsOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Short: 'a', Long: "all"},
	{Short: 'f', Long: "print-file-name"},
	{Short: 'n', Long: "bytes", Arg: option.Required},
	{Short: 't', Long: "radix", Arg: option.Required},
	{Short: 'w', Long: "include-all-whitespace"},
	{Short: 'o'},
	{Short: 'h', Long: "help"},
	{Short: 'e', Long: "encoding", Arg: option.Required},
	{Short: 'd', Long: "data"},
}}

// stringsJob is the state of one run of strings.
type stringsJob struct {
	p      *kernel.Proc
	least  int
	radix  string
	names  bool
	spaces bool
	code   int
}

func runStrings(p *kernel.Proc) int {
	j := &stringsJob{p: p, least: 4}
	opts, names, ok := stringsOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.Key {
		case 'n', '#':
			n, err := strconv.ParseInt(o.Value, 0, 32)
			if err != nil {
				p.Errorf("invalid integer argument %s", o.Value)
				return 1
			}
			if n < 1 {
				p.Errorf("minimum string length is too small: %d", n)
				return 1
			}
			j.least = int(n)
		case 't':
			j.radix = o.Value
		case 'o':
			j.radix = "o"
		case 'f':
			j.names = true
		case 'w':
			j.spaces = true
		case 'h':
			_, _ = p.Out().WriteString(stringsUsage) // Flush reports the error
			return 0
		}
	}
	if len(names) == 0 {
		j.scan(p.Stdin, "{standard input}")
	}
	for _, name := range names {
		j.printFile(name)
	}
	return j.code
}

func (j *stringsJob) printFile(name string) {
	info, err := j.p.Stat(name)
	if err != nil {
		j.p.Errorf("'%s': No such file", name)
		j.code = 1
		return
	}
	if info.IsDir() {
		j.p.Errorf("Warning: '%s' is a directory", name)
		j.code = 1
		return
	}
	h, err := j.p.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		j.p.Errorf("%s: %s", name, program.Reason(err))
		j.code = 1
		return
	}
	defer stream.Close(h)
	j.scan(h, name)
}

func (j *stringsJob) isGraphic(c byte) bool {
	return c >= ' ' && c <= '~' || c == '\t' || j.spaces && c >= '\n' && c <= '\r'
}

// growRun returns a possible string with twice the room. It is charged before it is allocated.
func (j *stringsJob) growRun(run []byte) []byte {
	size := max(4096, 2*cap(run))
	j.p.Alloc(int64(size))
	grown := append(make([]byte, 0, size), run...)
	j.p.Free(int64(cap(run)))
	return grown
}

// scan prints the strings in an input.
func (j *stringsJob) scan(in io.Reader, name string) {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
	out := j.p.Out()
	var run []byte // a possible string, up to the minimum length
	defer func() { j.p.Free(int64(cap(run))) }()
	at, long := int64(0), false
	for {
		n, err := in.Read(b[:])
		j.p.Tick(n)
		for _, c := range b[:n] {
			switch {
			case !j.isGraphic(c):
				if long {
					_ = out.WriteByte('\n') // Flush reports the error
				}
				run, long = run[:0], false
			case long:
				_ = out.WriteByte(c)
			default:
				if len(run) == cap(run) {
					run = j.growRun(run)
				}
				run = append(run, c)
				if len(run) == j.least {
					j.printPrefix(name, at+1-int64(len(run)))
					_, _ = out.Write(run)
					long = true
				}
			}
			at++
		}
		if err != nil {
			break
		}
	}
	if long {
		_ = out.WriteByte('\n')
	}
}

func (j *stringsJob) printPrefix(name string, at int64) {
	out := j.p.Out()
	if j.names {
		_, _ = out.WriteString(name + ": ") // Flush reports the error
	}
	switch j.radix {
	case "o":
		_, _ = fmt.Fprintf(out, "%7o ", at)
	case "d":
		_, _ = fmt.Fprintf(out, "%7d ", at)
	case "x":
		_, _ = fmt.Fprintf(out, "%7x ", at)
	}
}
