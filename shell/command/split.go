package command

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var splitOptions = parsing{digits: true, options: []option{
	{short: 'a', long: "suffix-length", arg: required},
	{long: "additional-suffix", arg: required, id: 'A'},
	{short: 'b', long: "bytes", arg: required},
	{short: 'C', long: "line-bytes", arg: required},
	{short: 'd', id: 'd'},
	{long: "numeric-suffixes", arg: optional, id: 'd'},
	{short: 'x', id: 'x'},
	{long: "hex-suffixes", arg: optional, id: 'x'},
	{short: 'e', long: "elide-empty-files"},
	{long: "filter", arg: required, id: 'F'},
	{short: 'l', long: "lines", arg: required},
	{short: 'n', long: "number", arg: required},
	{short: 't', long: "separator", arg: required},
	{long: "verbose", id: 'V'},
	{short: 'u', long: "unbuffered"},
}}

// splitJob is one run of split.
type splitJob struct {
	p        *kernel.Proc
	how      byte // b, C, l, n, L (n l/), r (n r/)
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
	fixed    bool // the length was given
	from     int64
	made     int64
	out      io.WriteCloser
	failed   bool
	finished bool
}

const splitLetters = "abcdefghijklmnopqrstuvwxyz"

func split(p *kernel.Proc) int {
	j := &splitJob{p: p, how: 0, delim: '\n', prefix: "x", digits: splitLetters, length: 2}
	opts, names, ok := splitOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !j.option(o) {
			return 1
		}
	}
	if extra(p, names, 2) {
		return 1
	}
	if j.how == 0 {
		j.how, j.size = 'l', 1000
	}
	name := "-"
	if len(names) > 0 {
		name = names[0]
	}
	if len(names) > 1 {
		j.prefix = names[1]
	}
	in, err := open(p, name)
	if err != nil {
		p.Errorf("cannot open %s for reading: %s", quote(name), why(err))
		return 1
	}
	defer closeInput(in)
	j.run(in, name)
	j.end()
	return int(b2i(j.failed))
}

func (j *splitJob) option(o given) bool {
	switch o.key {
	case 'b', 'C', 'l', '#':
		return j.amount(o)
	case 'n':
		return j.chunks(o.value)
	case 'a':
		n, err := strconv.Atoi(o.value)
		if err != nil || n < 0 || n > 200 {
			j.p.Errorf("invalid suffix length: %s", cite(o.value))
			return false
		}
		j.length, j.fixed = n, n > 0
		if n == 0 {
			j.length = 2
		}
	case 'A':
		if strings.Contains(o.value, "/") {
			j.p.Errorf("invalid suffix %s, contains directory separator", cite(o.value))
			return false
		}
		j.extra = o.value
	case 'd', 'x':
		return j.numeric(o)
	case 'e':
		j.elide = true
	case 'V':
		j.verbose = true
	case 'F':
		j.filter = o.value
	case 't':
		sep := o.value
		if sep == `\0` {
			sep = "\x00"
		}
		if len(sep) != 1 {
			j.p.Errorf("multi-character separator %s", cite(o.value))
			return false
		}
		j.delim = sep[0]
	}
	return true
}

func (j *splitJob) numeric(o given) bool {
	j.digits = "0123456789"
	base := 10
	if o.key == 'x' {
		j.digits, base = "0123456789abcdef", 16
	}
	if !o.has {
		return true
	}
	n, err := strconv.ParseInt(o.value, base, 48)
	if err != nil || n < 0 {
		j.p.Errorf("%s: invalid start value for numerical suffix", o.value)
		return false
	}
	j.from, j.fixed = n, true
	return true
}

// mode sets the way to split, which may be said once.
func (j *splitJob) mode(how byte, size int64) bool {
	if j.how != 0 {
		j.p.Errorf("cannot split in more than one way")
		tryHelp(j.p)
		return false
	}
	j.how, j.size = how, size
	return true
}

func (j *splitJob) amount(o given) bool {
	what, how := "bytes", byte(o.key)
	if o.key == 'l' || o.key == '#' {
		what, how = "lines", 'l'
	}
	n, fault := parseSize(o.value, "bEKkMmGgTtPYZ0")
	switch {
	case fault == sizeBad:
		j.p.Errorf("invalid number of %s: %s", what, cite(o.value))
		return false
	case n == 0:
		j.p.Errorf("invalid number of %s: %s: Numerical result out of range", what, cite(o.value))
		return false
	}
	return j.mode(how, n)
}

// chunks reads N, K/N, l/N, l/K/N, r/N and r/K/N.
func (j *splitJob) chunks(s string) bool {
	how, rest := byte('n'), s
	if t, ok := strings.CutPrefix(rest, "l/"); ok {
		how, rest = 'L', t
	} else if t, ok := strings.CutPrefix(rest, "r/"); ok {
		how, rest = 'r', t
	}
	if k, n, ok := strings.Cut(rest, "/"); ok {
		v, err := strconv.ParseInt(k, 10, 64)
		if err != nil || v < 1 {
			j.p.Errorf("invalid chunk number: %s", cite(k))
			return false
		}
		j.chunk, rest = v, n
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		j.p.Errorf("invalid number of chunks: %s", cite(rest))
		return false
	case n < 1:
		j.p.Errorf("invalid number of chunks: %s: Numerical result out of range", cite(rest))
		return false
	case n < j.chunk:
		j.p.Errorf("invalid chunk number: %s: Numerical result out of range", cite(strconv.FormatInt(j.chunk, 10)))
		return false
	}
	return j.mode(how, n)
}

func (j *splitJob) run(in *kernel.Handle, name string) {
	switch j.how {
	case 'b':
		j.bytes(in, func(int64) int64 { return j.size })
	case 'l':
		j.lines(in)
	case 'C':
		j.lineBytes(in)
	case 'r':
		j.roundRobin(in)
	default:
		j.parts(in, name)
	}
}

func (j *splitJob) fail(format string, args ...any) {
	j.p.Errorf(format, args...)
	j.failed, j.finished = true, true
}

// suffix is the suffix of the n-th file. Where no length was given it grows:
// yz is followed by zaaa, 89 by 9000.
func (j *splitJob) suffix(n int64) (string, bool) {
	n += j.from
	base := int64(len(j.digits))
	length, head := j.length, ""
	if !j.fixed {
		for room := power(base, length) / base * (base - 1); n >= room; room = power(base, length) / base * (base - 1) {
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

func power(base int64, n int) int64 {
	v := int64(1)
	for range n {
		if v > 1<<40 {
			return v
		}
		v *= base
	}
	return v
}

// begin opens the next output.
func (j *splitJob) begin() bool {
	j.end()
	if j.finished {
		return false
	}
	suffix, ok := j.suffix(j.made)
	if !ok {
		j.fail("output file suffixes exhausted")
		return false
	}
	j.made++
	name := j.prefix + suffix + j.extra
	if j.verbose {
		_, _ = fmt.Fprintf(j.p.Out(), "creating file %s\n", quote(name)) // errors of Out show at its flush
	}
	if j.filter != "" {
		j.out = &splitFilter{j: j, name: name}
		return true
	}
	h, err := j.p.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		j.fail("%s: %s", quotef(name), why(err))
		return false
	}
	j.out = h
	return true
}

func (j *splitJob) end() {
	if j.out == nil {
		return
	}
	if err := j.out.Close(); err != nil {
		j.fail("%s", why(err))
	}
	j.out = nil
}

func (j *splitJob) write(b []byte) {
	if j.out == nil || len(b) == 0 || j.finished {
		return
	}
	if _, err := j.out.Write(b); err != nil {
		j.fail("%s", why(err))
	}
}

// splitFilter gathers a piece and gives it to a command.
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
	_ = p.Out().Flush() // a lost stdout is the next write's business
	spawn.Stdin = p.Memory(f.data)
	spawn.Env = append(append([]string(nil), p.Env...), "FILE="+f.name)
	status, err := p.Call(spawn)
	p.Free(int64(cap(f.data)))
	if err != nil {
		return err
	}
	if status.Code != 0 {
		f.j.fail("with FILE=%s, exit %d from command: %s", f.name, status.Code, f.j.filter)
	}
	return nil
}

// bytes cuts by size; limit gives the size of each piece.
func (j *splitJob) bytes(in io.Reader, limit func(n int64) int64) {
	left := int64(0)
	err := eachChunk(j.p, in, func(b []byte) {
		for len(b) > 0 && !j.finished {
			if left == 0 {
				if !j.begin() {
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
	j.readError(err)
}

func (j *splitJob) readError(err error) {
	if err != nil {
		j.fail("read error: %s", why(err))
	}
}

func (j *splitJob) lines(in io.Reader) {
	left := int64(0)
	fresh := true
	err := eachChunk(j.p, in, func(b []byte) {
		for len(b) > 0 && !j.finished {
			if fresh && left == 0 {
				if !j.begin() {
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
	j.readError(err)
}

// lineBytes puts as many whole records into each piece as fit.
func (j *splitJob) lineBytes(in io.Reader) {
	list := newLines(j.p, in, j.delim)
	defer list.close()
	used := int64(0)
	for line := list.next(); line != nil && !j.finished; line = list.next() {
		if j.out == nil || used > 0 && used+int64(len(line)) > j.size {
			if !j.begin() {
				return
			}
			used = 0
		}
		for int64(len(line)) > j.size-used {
			j.write(line[:j.size-used])
			line = line[j.size-used:]
			if !j.begin() {
				return
			}
			used = 0
		}
		j.write(line)
		used += int64(len(line))
	}
	j.readError(list.failed())
}

// roundRobin deals the records out.
func (j *splitJob) roundRobin(in io.Reader) {
	list := newLines(j.p, in, j.delim)
	defer list.close()
	var outs []io.WriteCloser
	for n := int64(0); ; n++ {
		line := list.next()
		if line == nil || j.finished {
			break
		}
		k := n % j.size
		if j.chunk > 0 {
			if k == j.chunk-1 {
				_, _ = j.p.Out().Write(line) // errors of Out show at its flush
			}
			continue
		}
		if int64(len(outs)) <= k {
			if !j.begin() {
				break
			}
			outs, j.out = append(outs, j.out), nil
		}
		j.out = outs[k]
		j.write(line)
		j.out = nil
	}
	for j.chunk == 0 && !j.elide && int64(len(outs)) < j.size && !j.finished && j.begin() {
		outs, j.out = append(outs, j.out), nil
	}
	for _, out := range outs {
		j.out = out
		j.end()
	}
	j.readError(list.failed())
}

// parts cuts into a number of pieces of the same size, or of whole records.
func (j *splitJob) parts(in *kernel.Handle, name string) {
	data, err := j.p.ReadAll(in)
	if err != nil {
		j.fail("%s: %s", quotef(name), why(err))
		return
	}
	size, at := int64(len(data)), int64(0)
	for k := int64(1); k <= j.size && !j.finished; k++ {
		j.p.Tick(1)
		end := size / j.size * k
		if k == j.size {
			end = size
		}
		if j.how == 'L' && k < j.size {
			end = max(at, end)
			if end > at && data[end-1] != j.delim {
				if i := bytes.IndexByte(data[end:], j.delim); i >= 0 {
					end += int64(i) + 1
				} else {
					end = size
				}
			}
		}
		j.part(k, data[at:end])
		at = end
	}
	j.p.Free(int64(cap(data)))
}

func (j *splitJob) part(k int64, b []byte) {
	switch {
	case j.chunk > 0:
		if k == j.chunk {
			_, _ = j.p.Out().Write(b) // errors of Out show at its flush
		}
	case len(b) == 0 && j.elide:
	case j.begin():
		j.write(b)
	}
}
