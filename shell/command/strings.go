package command

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var stringsOptions = parsing{digits: true, options: []option{
	{short: 'a', long: "all"},
	{short: 'f', long: "print-file-name"},
	{short: 'n', long: "bytes", arg: required},
	{short: 't', long: "radix", arg: required},
	{short: 'w', long: "include-all-whitespace"},
	{short: 'o'},
	{short: 'h', long: "help"},
	{short: 'e', long: "encoding", arg: required},
	{short: 'd', long: "data"},
}}

// stringsJob is one run of strings.
type stringsJob struct {
	p      *kernel.Proc
	least  int
	radix  string
	names  bool
	spaces bool
	code   int
}

func stringsMain(p *kernel.Proc) int {
	j := &stringsJob{p: p, least: 4}
	opts, names, ok := stringsOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.key {
		case 'n', '#':
			n, err := strconv.ParseInt(o.value, 0, 32)
			if err != nil {
				p.Errorf("invalid integer argument %s", o.value)
				return 1
			}
			if n < 1 {
				p.Errorf("minimum string length is too small: %d", n)
				return 1
			}
			j.least = int(n)
		case 't':
			j.radix = o.value
		case 'o':
			j.radix = "o"
		case 'f':
			j.names = true
		case 'w':
			j.spaces = true
		case 'h':
			_, _ = p.Out().WriteString(stringsUsage) // errors of Out show at its flush
			return 0
		}
	}
	if len(names) == 0 {
		j.scan(p.Stdin, "{standard input}")
	}
	for _, name := range names {
		j.file(name)
	}
	return j.code
}

func (j *stringsJob) file(name string) {
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
		j.p.Errorf("%s: %s", name, why(err))
		j.code = 1
		return
	}
	defer closeInput(h)
	j.scan(h, name)
}

func (j *stringsJob) graphic(c byte) bool {
	return c >= ' ' && c <= '~' || c == '\t' || j.spaces && c >= '\n' && c <= '\r'
}

func (j *stringsJob) scan(in io.Reader, name string) {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	out := j.p.Out()
	var run []byte // what may become a string, up to least
	at, long := int64(0), false
	for {
		n, err := in.Read(b[:])
		j.p.Tick(n)
		for _, c := range b[:n] {
			switch {
			case !j.graphic(c):
				if long {
					_ = out.WriteByte('\n') // errors of out show at its flush
				}
				run, long = run[:0], false
			case long:
				_ = out.WriteByte(c)
			default:
				run = append(run, c)
				if len(run) == j.least {
					j.head(name, at+1-int64(len(run)))
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

func (j *stringsJob) head(name string, at int64) {
	out := j.p.Out()
	if j.names {
		_, _ = out.WriteString(name + ": ") // errors of out show at its flush
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
