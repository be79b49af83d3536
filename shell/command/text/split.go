package text

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const splitUsage = `Usage: split [OPTION]... [FILE [PREFIX]]
Output pieces of FILE to PREFIXaa, PREFIXab, ...;
default size is 1000 lines, and default PREFIX is 'x'.

With no FILE, or when FILE is -, read standard input.

  -a, --suffix-length=N   generate suffixes of length N (default 2)
      --additional-suffix=SUFFIX  append an additional SUFFIX to file names
  -b, --bytes=SIZE        put SIZE bytes per output file
  -C, --line-bytes=SIZE   put at most SIZE bytes of records per output file
  -d                      use numeric suffixes starting at 0, not alphabetic
      --numeric-suffixes[=FROM]  same as -d, but allow setting the start value
  -x                      use hex suffixes starting at 0, not alphabetic
      --hex-suffixes[=FROM]  same as -x, but allow setting the start value
  -e, --elide-empty-files  do not generate empty output files with '-n'
      --filter=COMMAND    write to shell COMMAND; file name is $FILE
  -l, --lines=NUMBER      put NUMBER lines/records per output file
  -n, --number=CHUNKS     generate CHUNKS output files; see explanation below
  -t, --separator=SEP     use SEP instead of newline as the record separator
      --verbose           print a diagnostic just before each
                            output file is opened
      --help              display this help and exit

CHUNKS may be:
  N       split into N files based on size of input
  K/N     output Kth of N to stdout
  l/N     split into N files without splitting lines/records
  l/K/N   output Kth of N to stdout without splitting lines/records
  r/N     like 'l' but use round robin distribution
  r/K/N   likewise but only output Kth of N to stdout
`

var splitOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Short: 'a', Long: "suffix-length", Arg: option.Required},
	{Long: "additional-suffix", Arg: option.Required, ID: 'A'},
	{Short: 'b', Long: "bytes", Arg: option.Required},
	{Short: 'C', Long: "line-bytes", Arg: option.Required},
	{Short: 'd', ID: 'd'},
	{Long: "numeric-suffixes", Arg: option.Optional, ID: 'd'},
	{Short: 'x', ID: 'x'},
	{Long: "hex-suffixes", Arg: option.Optional, ID: 'x'},
	{Short: 'e', Long: "elide-empty-files"},
	{Long: "filter", Arg: option.Required, ID: 'F'},
	{Short: 'l', Long: "lines", Arg: option.Required},
	{Short: 'n', Long: "number", Arg: option.Required},
	{Short: 't', Long: "separator", Arg: option.Required},
	{Long: "verbose", ID: 'V'},
	{Short: 'u', Long: "unbuffered"},
}}

// splitJob is the state of one run of split.
type splitJob struct {
	p        *kernel.Proc
	mode     byte // b, C, l, n, L (n l/), r (n r/)
	size     int64
	chunk    int64 // K of K/N; 0: all
	delim    byte
	elide    bool
	verbose  bool
	filter   string
	prefix   string
	extra    string
	digits   string
	length   int
	fixed    bool // the length of suffixes was given
	from     int64
	made     int64
	out      io.WriteCloser
	failed   bool
	finished bool
}

const splitLetters = "abcdefghijklmnopqrstuvwxyz"

func runSplit(p *kernel.Proc) int {
	j := &splitJob{p: p, mode: 0, delim: '\n', prefix: "x", digits: splitLetters, length: 2}
	opts, names, ok := splitOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !j.applyOption(o) {
			return 1
		}
	}
	if option.ReportExtra(p, names, 2) {
		return 1
	}
	if j.mode == 0 {
		j.mode, j.size = 'l', 1000
	}
	name := "-"
	if len(names) > 0 {
		name = names[0]
	}
	if len(names) > 1 {
		j.prefix = names[1]
	}
	in, err := stream.Open(p, name)
	if err != nil {
		p.Errorf("cannot open %s for reading: %s", quoting.QuoteName(name), program.Reason(err))
		return 1
	}
	defer stream.Close(in)
	j.run(in, name)
	j.closePiece()
	return int(number.FromBool(j.failed))
}

func (j *splitJob) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'b', 'C', 'l', '#':
		return j.parseAmount(o)
	case 'n':
		return j.parseChunks(o.Value)
	case 'a':
		n, err := strconv.Atoi(o.Value)
		if err != nil || n < 0 || n > 200 {
			j.p.Errorf("invalid suffix length: %s", quoting.QuoteWord(o.Value))
			return false
		}
		j.length, j.fixed = n, n > 0
		if n == 0 {
			j.length = 2
		}
	case 'A':
		if strings.Contains(o.Value, "/") {
			j.p.Errorf("invalid suffix %s, contains directory separator", quoting.QuoteWord(o.Value))
			return false
		}
		j.extra = o.Value
	case 'd', 'x':
		return j.setNumericSuffixes(o)
	case 'e':
		j.elide = true
	case 'V':
		j.verbose = true
	case 'F':
		j.filter = o.Value
	case 't':
		sep := o.Value
		if sep == `\0` {
			sep = "\x00"
		}
		if len(sep) != 1 {
			j.p.Errorf("multi-character separator %s", quoting.QuoteWord(o.Value))
			return false
		}
		j.delim = sep[0]
	}
	return true
}

// setNumericSuffixes applies -d and -x.
func (j *splitJob) setNumericSuffixes(o option.Setting) bool {
	j.digits = "0123456789"
	base := 10
	if o.Key == 'x' {
		j.digits, base = "0123456789abcdef", 16
	}
	if !o.HasValue {
		return true
	}
	n, err := strconv.ParseInt(o.Value, base, 48)
	if err != nil || n < 0 {
		j.p.Errorf("%s: invalid start value for numerical suffix", o.Value)
		return false
	}
	j.from, j.fixed = n, true
	return true
}

// setMode sets how to split. A second call is an error.
func (j *splitJob) setMode(how byte, size int64) bool {
	if j.mode != 0 {
		j.p.Errorf("cannot split in more than one way")
		option.SuggestHelp(j.p)
		return false
	}
	j.mode, j.size = how, size
	return true
}

func (j *splitJob) parseAmount(o option.Setting) bool {
	what, how := "bytes", byte(o.Key)
	if o.Key == 'l' || o.Key == '#' {
		what, how = "lines", 'l'
	}
	n, fault := number.ParseSize(o.Value, "bEKkMmGgTtPYZ0")
	switch {
	case fault == number.Invalid:
		j.p.Errorf("invalid number of %s: %s", what, quoting.QuoteWord(o.Value))
		return false
	case n == 0:
		j.p.Errorf("invalid number of %s: %s: Numerical result out of range", what, quoting.QuoteWord(o.Value))
		return false
	}
	return j.setMode(how, n)
}

// parseChunks parses N, K/N, l/N, l/K/N, r/N and r/K/N.
func (j *splitJob) parseChunks(s string) bool {
	how, rest := byte('n'), s
	if t, ok := strings.CutPrefix(rest, "l/"); ok {
		how, rest = 'L', t
	} else if t, ok := strings.CutPrefix(rest, "r/"); ok {
		how, rest = 'r', t
	}
	if k, n, ok := strings.Cut(rest, "/"); ok {
		v, err := strconv.ParseInt(k, 10, 64)
		if err != nil || v < 1 {
			j.p.Errorf("invalid chunk number: %s", quoting.QuoteWord(k))
			return false
		}
		j.chunk, rest = v, n
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		j.p.Errorf("invalid number of chunks: %s", quoting.QuoteWord(rest))
		return false
	case n < 1:
		j.p.Errorf("invalid number of chunks: %s: Numerical result out of range", quoting.QuoteWord(rest))
		return false
	case n < j.chunk:
		j.p.Errorf("invalid chunk number: %s: Numerical result out of range", quoting.QuoteWord(strconv.FormatInt(j.chunk, 10)))
		return false
	}
	return j.setMode(how, n)
}

// run splits the input and returns the exit status.
func (j *splitJob) run(in *kernel.Handle, name string) {
	switch j.mode {
	case 'b':
		j.splitBytes(in, func(int64) int64 { return j.size })
	case 'l':
		j.splitLines(in)
	case 'C':
		j.splitLineBytes(in)
	case 'r':
		j.splitRoundRobin(in)
	default:
		j.splitParts(in, name)
	}
}

func (j *splitJob) reportError(format string, args ...any) {
	j.p.Errorf(format, args...)
	j.failed, j.finished = true, true
}

// makeSuffix returns the suffix of the n-th file, and false when suffixes are exhausted. If no
// length was given, suffixes grow: yz is followed by zaaa, 89 by 9000.
func (j *splitJob) makeSuffix(n int64) (string, bool) {
	n += j.from
	base := int64(len(j.digits))
	length, head := j.length, ""
	if !j.fixed {
		for room := limitedPower(base, length) / base * (base - 1); n >= room; room = limitedPower(base, length) / base * (base - 1) {
			n -= room
			length++
			head += j.digits[base-1:]
			if length > 12 {
				return "", false
			}
		}
	}
	out := make([]byte, length)
	for i := length - 1; i >= 0; i-- {
		out[i] = j.digits[n%base]
		n /= base
	}
	return head + string(out), n == 0
}

// limitedPower returns base to the power of n, or some number above 2^40 if it is larger.
func limitedPower(base int64, n int) int64 {
	v := int64(1)
	for range n {
		if v > 1<<40 {
			return v
		}
		v *= base
	}
	return v
}

// openPiece opens the next output file.
func (j *splitJob) openPiece() bool {
	j.closePiece()
	if j.finished {
		return false
	}
	suffix, ok := j.makeSuffix(j.made)
	if !ok {
		j.reportError("output file suffixes exhausted")
		return false
	}
	j.made++
	name := j.prefix + suffix + j.extra
	if j.verbose {
		_, _ = fmt.Fprintf(j.p.Out(), "creating file %s\n", quoting.QuoteName(name)) // Flush reports the error
	}
	if j.filter != "" {
		j.out = &splitFilter{j: j, name: name}
		return true
	}
	h, err := j.p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		j.reportError("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return false
	}
	j.out = h
	return true
}

// closePiece closes the current output file.
func (j *splitJob) closePiece() {
	if j.out == nil {
		return
	}
	if err := j.out.Close(); err != nil {
		j.reportError("%s", program.Reason(err))
	}
	j.out = nil
}

func (j *splitJob) write(b []byte) {
	if j.out == nil || len(b) == 0 || j.finished {
		return
	}
	if _, err := j.out.Write(b); err != nil {
		j.reportError("%s", program.Reason(err))
	}
}

// splitFilter collects a piece and pipes it to a command.
type splitFilter struct {
	j    *splitJob
	name string
	data []byte
}

func (f *splitFilter) Write(b []byte) (int, error) {
	if len(f.data)+len(b) > cap(f.data) {
		f.j.p.Alloc(int64(len(f.data) + 2*len(b)))
	}
	f.data = append(f.data, b...)
	return len(b), nil
}

func (f *splitFilter) Close() error {
	p := f.j.p
	spawn, err := p.Command([]string{"sh", "-c", f.j.filter})
	if err != nil {
		return err
	}
	_ = p.Out().Flush() // the next write reports the error
	spawn.Stdin = p.OpenMemory(f.data)
	spawn.Env = append(append([]string(nil), p.Env...), "FILE="+f.name)
	status, err := p.Call(spawn)
	p.Free(int64(cap(f.data)))
	if err != nil {
		return err
	}
	if status.Code != 0 {
		f.j.reportError("with FILE=%s, exit %d from command: %s", f.name, status.Code, f.j.filter)
	}
	return nil
}

// splitBytes splits by size; limit returns the size of the n-th piece.
func (j *splitJob) splitBytes(in io.Reader, limit func(n int64) int64) {
	left := int64(0)
	err := eachChunk(j.p, in, func(b []byte) {
		for len(b) > 0 && !j.finished {
			if left == 0 {
				if !j.openPiece() {
					return
				}
				left = limit(j.made - 1)
			}
			n := min(left, int64(len(b)))
			j.write(b[:n])
			b = b[n:]
			left -= n
		}
	})
	j.reportReadError(err)
}

func (j *splitJob) reportReadError(err error) {
	if err != nil {
		j.reportError("read error: %s", program.Reason(err))
	}
}

// splitLines splits after every j.size lines.
func (j *splitJob) splitLines(in io.Reader) {
	left := int64(0)
	fresh := true
	err := eachChunk(j.p, in, func(b []byte) {
		for len(b) > 0 && !j.finished {
			if fresh && left == 0 {
				if !j.openPiece() {
					return
				}
				left, fresh = j.size, false
			}
			n := bytes.IndexByte(b, j.delim) + 1
			if n > 0 {
				left--
				fresh = left == 0
			} else {
				n = len(b)
			}
			j.write(b[:n])
			b = b[n:]
		}
	})
	j.reportReadError(err)
}

// splitLineBytes puts as many whole records into each piece as fit.
func (j *splitJob) splitLineBytes(in io.Reader) {
	list := stream.NewLineReader(j.p, in, j.delim)
	defer list.Close()
	used := int64(0)
	for line := list.Next(); line != nil && !j.finished; line = list.Next() {
		if j.out == nil || used > 0 && used+int64(len(line)) > j.size {
			if !j.openPiece() {
				return
			}
			used = 0
		}
		for int64(len(line)) > j.size-used {
			j.write(line[:j.size-used])
			line = line[j.size-used:]
			if !j.openPiece() {
				return
			}
			used = 0
		}
		j.write(line)
		used += int64(len(line))
	}
	j.reportReadError(list.Err())
}

// splitRoundRobin distributes the records over the pieces in turn.
func (j *splitJob) splitRoundRobin(in io.Reader) {
	list := stream.NewLineReader(j.p, in, j.delim)
	defer list.Close()
	var outs []io.WriteCloser
	for n := int64(0); ; n++ {
		line := list.Next()
		if line == nil || j.finished {
			break
		}
		k := n % j.size
		if j.chunk > 0 {
			if k == j.chunk-1 {
				_, _ = j.p.Out().Write(line) // Flush reports the error
			}
			continue
		}
		if int64(len(outs)) <= k {
			if !j.openPiece() {
				break
			}
			outs, j.out = append(outs, j.out), nil
		}
		j.out = outs[k]
		j.write(line)
		j.out = nil
	}
	for j.chunk == 0 && !j.elide && int64(len(outs)) < j.size && !j.finished && j.openPiece() {
		outs, j.out = append(outs, j.out), nil
	}
	for _, out := range outs {
		j.out = out
		j.closePiece()
	}
	j.reportReadError(list.Err())
}

// splitParts splits into a number of pieces of equal size, or of whole records.
func (j *splitJob) splitParts(in *kernel.Handle, name string) {
	data, err := j.p.ReadAll(in)
	if err != nil {
		j.reportError("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return
	}
	size, at := int64(len(data)), int64(0)
	for k := int64(1); k <= j.size && !j.finished; k++ {
		j.p.Tick(1)
		end := size / j.size * k
		if k == j.size {
			end = size
		}
		if j.mode == 'L' && k < j.size {
			end = max(at, end)
			if end > at && data[end-1] != j.delim {
				if i := bytes.IndexByte(data[end:], j.delim); i >= 0 {
					end += int64(i) + 1
				} else {
					end = size
				}
			}
		}
		j.writePart(k, data[at:end])
		at = end
	}
	j.p.Free(int64(cap(data)))
}

// writePart writes the k-th part, or prints it if only that one is requested.
func (j *splitJob) writePart(k int64, b []byte) {
	switch {
	case j.chunk > 0:
		if k == j.chunk {
			_, _ = j.p.Out().Write(b) // Flush reports the error
		}
	case len(b) == 0 && j.elide:
	case j.openPiece():
		j.write(b)
	}
}
