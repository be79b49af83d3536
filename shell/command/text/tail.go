package text

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const tailUsage = `Usage: tail [OPTION]... [FILE]...
Print the last 10 lines of each FILE to standard output.
With more than one FILE, precede each with a header giving the file name.

With no FILE, or when FILE is -, read standard input.

  -c, --bytes=[+]NUM       output the last NUM bytes; or use -c +NUM to
                             output starting with byte NUM of each file
  -f, --follow[={name|descriptor}]
                           output appended data as the file grows;
                             an absent option argument means 'descriptor'
  -F                       same as --follow=name --retry
  -n, --lines=[+]NUM       output the last NUM lines, instead of the last 10;
                             or use -n +NUM to output starting with line NUM
      --max-unchanged-stats=N
                           accepted for compatibility
      --pid=PID            with -f, terminate after process ID, PID dies
  -q, --quiet, --silent    never output headers giving file names
      --retry              keep trying to open a file if it is inaccessible
  -s, --sleep-interval=N   with -f, sleep for approximately N seconds
                             (default 1.0) between iterations;
                             without it, changes show at once
  -v, --verbose            always output headers giving file names
  -z, --zero-terminated    line delimiter is NUL, not newline
      --help               display this help and exit

NUM may have a multiplier suffix:
b 512, kB 1000, K 1024, MB 1000*1000, M 1024*1024, and so on for G, T, P, E.

Following ends with the command's deadline.
`

var tailOptions = option.Parser{AllowDigits: true, Options: []option.Option{
	{Short: 'c', Long: "bytes", Arg: option.Required},
	{Short: 'f'},
	{Long: "follow", Arg: option.Optional, ID: 'W'},
	{Long: "lines", Short: 'n', Arg: option.Required},
	{Long: "max-unchanged-stats", Arg: option.Required, ID: 'M'},
	{Long: "pid", Arg: option.Required, ID: 'P'},
	{Short: 'q', Long: "quiet"},
	{Long: "silent", ID: 'q'},
	{Long: "retry", ID: 'R'},
	{Short: 's', Long: "sleep-interval", Arg: option.Required},
	{Short: 'v', Long: "verbose"},
	{Short: 'z', Long: "zero-terminated"},
	{Short: 'F'},
}}

func runTail(p *kernel.Proc) int {
	t := tailJob{excerpt: excerpt{count: 10, delim: '\n'}}
	var follow follower
	convertOldTail(p)
	opts, names, ok := tailOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !t.applyOption(p, o, &follow) {
			return 1
		}
	}
	if t.count == 0 && !t.other && !follow.on {
		return 0
	}
	names = stream.OperandsOrStdin(names)
	code := 0
	for _, name := range names {
		if !t.tailFile(p, name, len(names) > 1, &follow) {
			code = 1
		}
	}
	if follow.on {
		return max(code, follow.run(p, &t.excerpt, len(names) > 1))
	}
	return code
}

// tailJob is the state of one run of tail.
type tailJob struct{ excerpt }

func (t *tailJob) applyOption(p *kernel.Proc, o option.Setting, f *follower) bool {
	switch o.Key {
	case 'c', 'n':
		t.bytes = o.Key == 'c'
		num, plus := strings.CutPrefix(o.Value, "+")
		t.other = plus
		return t.parseCount(p, strings.TrimPrefix(num, "-"), strings.TrimPrefix(num, "-"))
	case '#':
		p.Errorf("option used in invalid context -- %c", o.Value[0])
		return false
	case 'q':
		t.headers = -1
	case 'v':
		t.headers = 1
	case 'z':
		t.delim = 0
	default:
		return f.applyOption(p, o)
	}
	return true
}

// convertOldTail replaces a first argument like +5 or -20cf by the options it stands for.
func convertOldTail(p *kernel.Proc) {
	a := p.Args
	if n := len(a); n < 2 || n == 3 && len(a[2]) > 1 && a[2][0] == '-' && a[2] != "--" || n == 4 && a[2] != "--" || n > 4 {
		return
	}
	arg := a[1]
	if len(arg) < 2 || arg[0] != '+' && arg[0] != '-' || arg == "-c" {
		return
	}
	rest := strings.TrimLeft(arg[1:], "0123456789")
	num := arg[1 : len(arg)-len(rest)]
	if num == "" && (arg[0] == '-' || rest == "") {
		return
	}
	if num == "" {
		num = "10"
	}
	unit := "-n"
	switch {
	case strings.HasPrefix(rest, "b"):
		unit, num, rest = "-c", num+"b", rest[1:]
	case strings.HasPrefix(rest, "c"):
		unit, rest = "-c", rest[1:]
	case strings.HasPrefix(rest, "l"):
		rest = rest[1:]
	}
	if rest != "" && rest != "f" {
		return
	}
	if arg[0] == '+' {
		num = "+" + num
	}
	args := []string{a[0], unit, num}
	if rest == "f" {
		args = append(args, "-f")
	}
	p.Args = append(args, a[2:]...)
}

// tailFile prints the end of one operand and reports whether it could be read.
func (t *tailJob) tailFile(p *kernel.Proc, name string, several bool, f *follower) bool {
	in, ok := t.openOperand(p, name, several)
	if !ok {
		f.addMissing(name)
		return false
	}
	err := t.copy(p, in)
	if f.on && (name != "-" || in.File() != nil) {
		f.add(p, name, in)
	} else {
		stream.Close(in)
	}
	var lost *stream.WriteError
	if err != nil && !errors.As(err, &lost) {
		p.Errorf("error reading %s: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	return true
}

// copy copies the requested part of an input.
func (t *tailJob) copy(p *kernel.Proc, in *kernel.Handle) error {
	switch {
	case t.other && t.bytes:
		return t.copyFromByte(p, in)
	case t.other:
		return t.copyFromLine(p, in)
	case in.File() != nil && t.bytes:
		return t.printLastOfFile(p, in)
	case in.File() != nil:
		if err := t.seekLines(p, in); err != nil {
			return err
		}
		return stream.Copy(p, p.Out(), in)
	}
	return t.printLastOfPipe(p, in)
}

// copyFromByte copies from a byte position on.
func (t *tailJob) copyFromByte(p *kernel.Proc, in *kernel.Handle) error {
	skip := max(0, t.count-1)
	if in.File() != nil {
		if _, err := in.Seek(skip, io.SeekCurrent); err != nil {
			return err
		}
	} else if err := stream.Copy(p, io.Discard, io.LimitReader(in, skip)); err != nil {
		return err
	}
	return stream.Copy(p, p.Out(), in)
}

// copyFromLine copies from a line on.
func (t *tailJob) copyFromLine(p *kernel.Proc, in *kernel.Handle) error {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
	for left := t.count - 1; left > 0; {
		n, err := in.Read(b[:])
		skipped, found := prefixThroughNth(b[:n], t.delim, left)
		left -= found
		if left == 0 {
			if _, werr := p.Out().Write(b[len(skipped):n]); werr != nil {
				return &stream.WriteError{Err: werr}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return stream.Copy(p, p.Out(), in)
}

func (t *tailJob) printLastOfFile(p *kernel.Proc, in *kernel.Handle) error {
	at, err := in.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	end, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := in.Seek(max(at, end-t.count), io.SeekStart); err != nil {
		return err
	}
	return stream.Copy(p, p.Out(), in)
}

// seekLines moves to the start of the last lines of a regular file, which it reads backwards.
func (t *tailJob) seekLines(p *kernel.Proc, in *kernel.Handle) error {
	start, err := in.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	end, err := in.Seek(0, io.SeekEnd)
	if err != nil || t.count == 0 || end <= start {
		return err
	}
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
	left := t.count
	for pos := end; pos > start; {
		n := min(pos-start, stream.ChunkSize)
		pos -= n
		if _, err := in.File().ReadAt(b[:n], pos); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		p.Tick(1 + int(n>>6))
		part := b[:n]
		if pos+n == end {
			part = stream.TrimDelimiter(part, t.delim) // the end of the last line
		}
		if i, more := findBackward(part, t.delim, left); i >= 0 {
			_, err := in.Seek(pos+int64(i)+1, io.SeekStart)
			return err
		} else {
			left = more
		}
	}
	_, err = in.Seek(start, io.SeekStart)
	return err
}

// findBackward returns the index of the n-th delimiter from the end of b. If b has fewer, it returns -1
// and how many are missing.
func findBackward(b []byte, delim byte, n int64) (int, int64) {
	for end := len(b); ; n-- {
		i := bytes.LastIndexByte(b[:end], delim)
		if i < 0 || n == 1 {
			return i, n
		}
		end = i
	}
}

// printLastOfPipe buffers the newest part of an input that can't be read backwards, and prints it.
func (t *tailJob) printLastOfPipe(p *kernel.Proc, in io.Reader) error {
	q := &backlog{p: p}
	defer q.release()
	var delims int64 // in the backlog
	for {
		n, err := q.read(in)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if t.bytes {
			q.discard(int(max(0, int64(len(q.contents()))-t.count)))
		} else {
			d := q.contents()
			delims += int64(bytes.Count(d[len(d)-n:], []byte{t.delim}))
			over := delims - t.count
			if end && len(d) > 0 && d[len(d)-1] != t.delim {
				over++
			}
			if part, found := prefixThroughNth(d, t.delim, over); over > 0 && found == over {
				q.discard(len(part))
				delims -= found
			} else if t.count == 0 {
				q.discard(len(d))
			}
		}
		if end {
			if _, err := p.Out().Write(q.contents()); err != nil {
				return &stream.WriteError{Err: err}
			}
			return nil
		}
	}
}
