package text

import (
	"bytes"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const tacUsage = `Usage: tac [OPTION]... [FILE]...
Write each FILE to standard output, last line first.

With no FILE, or when FILE is -, read standard input.

  -b, --before             attach the separator before instead of after
  -r, --regex              interpret the separator as a regular expression
  -s, --separator=STRING   use STRING as the separator instead of newline
      --help               display this help and exit
`

var tacOptions = option.Parser{Options: []option.Option{{Short: 'b', Long: "before"}, {Short: 'r', Long: "regex"}, {Short: 's', Long: "separator", Arg: option.Required}}}

// tacJob is the state of one run of tac.
type tacJob struct {
	p      *kernel.Proc
	sep    []byte
	re     *regex.Regexp
	before bool
}

func runTac(p *kernel.Proc) int {
	j := &tacJob{p: p, sep: []byte("\n")}
	opts, names, ok := tacOptions.Parse(p)
	if !ok {
		return 1
	}
	asRegex := false
	for _, o := range opts {
		switch o.Key {
		case 'b':
			j.before = true
		case 'r':
			asRegex = true
		case 's':
			j.sep = []byte(o.Value)
			if o.Value == "" {
				j.sep = []byte{0}
			}
		}
	}
	if asRegex {
		re, err := regex.Compile(string(j.sep), regex.Options{Syntax: regex.BRE, Dialect: regex.Posix, Budget: p})
		if err != nil {
			p.Errorf("%v", err)
			return 1
		}
		j.re = re
	}
	code := 0
	for _, name := range stream.OperandsOrStdin(names) {
		if !j.reverseFile(name) {
			code = 1
		}
	}
	return code
}

// reverseFile prints one operand reversed and reports whether it could be read.
func (j *tacJob) reverseFile(name string) bool {
	in, err := stream.Open(j.p, name)
	if err != nil {
		j.p.Errorf("failed to open %s for reading: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	defer stream.Close(in)
	data, err := j.p.ReadAll(in)
	if err != nil {
		j.p.Errorf("%s: read error: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return false
	}
	j.printReversed(data)
	j.p.Free(int64(cap(data)))
	return true
}

// printReversed prints the records of data, the last one first. A record ends after a separator, or
// with -b begins with it.
func (j *tacJob) printReversed(data []byte) {
	out := j.p.Out()
	end := len(data)
	for end > 0 {
		j.p.Tick(1)
		at := j.lastRecordStart(data, end)
		_, _ = out.Write(data[at:end]) // Flush reports the error
		end = at
	}
}

// lastRecordStart returns the start of the last record of data[:end].
func (j *tacJob) lastRecordStart(data []byte, end int) int {
	limit := end
	if !j.before {
		limit = end - 1 // the separator of the record may end here
	}
	for limit > 0 {
		begin, stop := j.lastSeparator(data[:limit])
		switch {
		case begin < 0:
			return 0
		case j.before && begin < end && (begin > 0 || stop > begin):
			return begin
		case !j.before && stop < end:
			return stop
		}
		limit = stop - 1
	}
	return 0
}

// lastSeparator finds the last separator in data.
func (j *tacJob) lastSeparator(data []byte) (begin, end int) {
	if j.re == nil {
		i := bytes.LastIndex(data, j.sep)
		j.p.Tick((len(data)-max(i, 0))>>4 + 1)
		return i, i + len(j.sep)
	}
	caps := make([]int, 2)
	for i := len(data) - 1; i >= 0; i-- {
		j.p.Tick(1)
		if j.re.Match(data[:len(data):len(data)], i, caps, j.p) && caps[0] == i && caps[1] > i {
			return i, caps[1]
		}
	}
	return -1, -1
}
