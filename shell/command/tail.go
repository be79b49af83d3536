package command

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var tailOptions = parsing{digits: true, options: []option{
	{short: 'c', long: "bytes", arg: required},
	{short: 'f'},
	{long: "follow", arg: optional, id: 'W'},
	{long: "lines", short: 'n', arg: required},
	{long: "max-unchanged-stats", arg: required, id: 'M'},
	{long: "pid", arg: required, id: 'P'},
	{short: 'q', long: "quiet"},
	{long: "silent", id: 'q'},
	{long: "retry", id: 'R'},
	{short: 's', long: "sleep-interval", arg: required},
	{short: 'v', long: "verbose"},
	{short: 'z', long: "zero-terminated"},
	{short: 'F'},
}}

func tail(p *kernel.Proc) int {
	t := tailJob{excerpt: excerpt{count: 10, delim: '\n'}}
	var follow follower
	oldTail(p)
	opts, names, ok := tailOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if !t.option(p, o, &follow) {
			return 1
		}
	}
	if t.count == 0 && !t.other && !follow.on {
		return 0
	}
	names = operandsOr(names)
	code := 0
	for _, name := range names {
		if !t.file(p, name, len(names) > 1, &follow) {
			code = 1
		}
	}
	if follow.on {
		return max(code, follow.run(p, &t.excerpt, len(names) > 1))
	}
	return code
}

type tailJob struct{ excerpt }

func (t *tailJob) option(p *kernel.Proc, o given, f *follower) bool {
	switch o.key {
	case 'c', 'n':
		t.bytes = o.key == 'c'
		num, plus := strings.CutPrefix(o.value, "+")
		t.other = plus
		return t.number(p, strings.TrimPrefix(num, "-"), strings.TrimPrefix(num, "-"))
	case '#':
		p.Errorf("option used in invalid context -- %c", o.value[0])
		return false
	case 'q':
		t.headers = -1
	case 'v':
		t.headers = 1
	case 'z':
		t.delim = 0
	default:
		return f.option(p, o)
	}
	return true
}

// oldTail turns a first argument like +5 or -20cf into the options it means.
func oldTail(p *kernel.Proc) {
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

func (t *tailJob) file(p *kernel.Proc, name string, several bool, f *follower) bool {
	in, ok := t.input(p, name, several)
	if !ok {
		f.lost(name)
		return false
	}
	err := t.copy(p, in)
	if f.on && (name != "-" || in.File() != nil) {
		f.add(p, name, in)
	} else {
		closeInput(in)
	}
	var lost *writeError
	if err != nil && !errors.As(err, &lost) {
		p.Errorf("error reading %s: %s", quote(name), why(err))
		return false
	}
	return true
}

func (t *tailJob) copy(p *kernel.Proc, in *kernel.Handle) error {
	switch {
	case t.other && t.bytes:
		return t.fromByte(p, in)
	case t.other:
		return t.fromLine(p, in)
	case in.File() != nil && t.bytes:
		return t.lastOfFile(p, in)
	case in.File() != nil:
		if err := t.seekLines(p, in); err != nil {
			return err
		}
		return copyThrough(p, p.Out(), in)
	}
	return t.lastOfPipe(p, in)
}

func (t *tailJob) fromByte(p *kernel.Proc, in *kernel.Handle) error {
	skip := max(0, t.count-1)
	if in.File() != nil {
		if _, err := in.Seek(skip, io.SeekCurrent); err != nil {
			return err
		}
	} else if err := copyThrough(p, io.Discard, io.LimitReader(in, skip)); err != nil {
		return err
	}
	return copyThrough(p, p.Out(), in)
}

func (t *tailJob) fromLine(p *kernel.Proc, in *kernel.Handle) error {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	for left := t.count - 1; left > 0; {
		n, err := in.Read(b[:])
		skipped, found := upTo(b[:n], t.delim, left)
		left -= found
		if left == 0 {
			if _, werr := p.Out().Write(b[len(skipped):n]); werr != nil {
				return &writeError{werr}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return copyThrough(p, p.Out(), in)
}

func (t *tailJob) lastOfFile(p *kernel.Proc, in *kernel.Handle) error {
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
	return copyThrough(p, p.Out(), in)
}

// seekLines moves to where the last lines of a plain file begin, reading it
// backwards.
func (t *tailJob) seekLines(p *kernel.Proc, in *kernel.Handle) error {
	start, err := in.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	end, err := in.Seek(0, io.SeekEnd)
	if err != nil || t.count == 0 || end <= start {
		return err
	}
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	left := t.count
	for pos := end; pos > start; {
		n := min(pos-start, chunk)
		pos -= n
		if _, err := in.File().ReadAt(b[:n], pos); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		p.Tick(1 + int(n>>6))
		part := b[:n]
		if pos+n == end {
			part = trimDelim(part, t.delim) // the end of the last line
		}
		if i, more := backTo(part, t.delim, left); i >= 0 {
			_, err := in.Seek(pos+int64(i)+1, io.SeekStart)
			return err
		} else {
			left = more
		}
	}
	_, err = in.Seek(start, io.SeekStart)
	return err
}

// backTo returns the index of the n-th delimiter from the end of b, or -1 and
// how many are still to be found.
func backTo(b []byte, delim byte, n int64) (int, int64) {
	for end := len(b); ; n-- {
		i := bytes.LastIndexByte(b[:end], delim)
		if i < 0 || n == 1 {
			return i, n
		}
		end = i
	}
}

// lastOfPipe keeps the newest part of what can't be read backwards.
func (t *tailJob) lastOfPipe(p *kernel.Proc, in io.Reader) error {
	q := &backlog{p: p}
	defer q.free()
	var delims int64 // in the backlog
	for {
		n, err := q.read(in)
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if t.bytes {
			q.drop(int(max(0, int64(len(q.data()))-t.count)))
		} else {
			d := q.data()
			delims += int64(bytes.Count(d[len(d)-n:], []byte{t.delim}))
			over := delims - t.count
			if end && len(d) > 0 && d[len(d)-1] != t.delim {
				over++
			}
			if part, found := upTo(d, t.delim, over); over > 0 && found == over {
				q.drop(len(part))
				delims -= found
			} else if t.count == 0 {
				q.drop(len(d))
			}
		}
		if end {
			if _, err := p.Out().Write(q.data()); err != nil {
				return &writeError{err}
			}
			return nil
		}
	}
}
