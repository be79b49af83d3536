package text

import (
	"errors"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// follower prints additions to files, for tail -f.
type follower struct {
	on     bool
	byName bool // reopen a file that was replaced
	retry  bool
	every  time.Duration
	pids   []int
	files  []*followed
	last   *followed
}

// followed is a file that tail follows.
type followed struct {
	name string
	in   *kernel.Handle // nil while it can't be opened
	ino  uint64
}

const tailGlance = 20 * time.Millisecond

func (f *follower) applyOption(p *kernel.Proc, o option.Setting) bool {
	switch o.Key {
	case 'f':
		f.on = true
	case 'F':
		f.on, f.byName, f.retry = true, true, true
	case 'R':
		f.retry = true
	case 'W':
		f.on = true
		if !o.HasValue {
			return true
		}
		v, ok := option.Choose(p, "--follow", o.Value, []option.Choice{{Word: "descriptor", Value: 0}, {Word: "name", Value: 1}})
		f.byName = v == 1
		return ok
	case 's':
		sec, err := strconv.ParseFloat(o.Value, 64)
		if err != nil || sec < 0 || sec > 1e9 {
			p.Errorf("invalid number of seconds: %s", quoting.QuoteWord(o.Value))
			return false
		}
		f.every = time.Duration(sec * float64(time.Second))
	case 'P':
		pid, err := strconv.Atoi(o.Value)
		if err != nil || pid < 0 {
			p.Errorf("invalid PID: %s", quoting.QuoteWord(o.Value))
			return false
		}
		f.pids = append(f.pids, pid)
	case 'M':
		if _, err := strconv.ParseUint(o.Value, 10, 64); err != nil {
			p.Errorf("invalid maximum number of unchanged stats between opens: %s", quoting.QuoteWord(o.Value))
			return false
		}
	}
	return true
}

// add adds a file to follow.
func (f *follower) add(p *kernel.Proc, name string, in *kernel.Handle) {
	w := &followed{name: name, in: in}
	if file := in.File(); file != nil {
		if info, err := file.Stat(); err == nil {
			w.ino = info.Ino()
		}
	}
	f.files = append(f.files, w)
	f.last = w
}

// addMissing records a file that could not be opened, to open it later.
func (f *follower) addMissing(name string) {
	if f.on && f.retry && name != "-" {
		f.files = append(f.files, &followed{name: name})
	}
}

// run prints additions until the processes of --pid have exited or no file is left to follow.
func (f *follower) run(p *kernel.Proc, x *excerpt, several bool) int {
	if f.every == 0 {
		f.every = tailGlance
	}
	for {
		alive := f.anyAlive(p)
		open := false
		for _, w := range f.files {
			if f.byName || w.in == nil && f.retry {
				f.reopenFile(p, w)
			}
			open = open || w.in != nil || f.retry
			if w.in != nil {
				f.print(p, x, w, several)
			}
		}
		if !open {
			if len(f.files) > 0 || !f.retry {
				p.Errorf("no files remaining")
			}
			return 1
		}
		if err := p.Out().Flush(); err != nil || !alive {
			return int(number.FromBool(err != nil))
		}
		p.Sleep(f.every, false)
	}
}

func (f *follower) anyAlive(p *kernel.Proc) bool {
	for _, pid := range f.pids {
		if p.Kernel().Proc(pid) != nil {
			return true
		}
	}
	return len(f.pids) == 0
}

// reopenFile opens the file again if its name refers to another one now.
func (f *follower) reopenFile(p *kernel.Proc, w *followed) {
	info, err := p.Stat(w.name)
	switch {
	case err != nil && w.in != nil:
		p.Errorf("%s has become inaccessible: %s", quoting.QuoteName(w.name), program.Reason(err))
		stream.Close(w.in)
		w.in = nil
		return
	case err != nil || w.in != nil && info.Ino() == w.ino:
		return
	}
	in, err := stream.Open(p, w.name)
	if err != nil {
		return
	}
	if w.in == nil {
		p.Errorf("%s has appeared;  following new file", quoting.QuoteName(w.name))
	} else {
		p.Errorf("%s has been replaced;  following new file", quoting.QuoteName(w.name))
		stream.Close(w.in)
	}
	w.in, w.ino = in, info.Ino()
}

// print prints what was added to a file.
func (f *follower) print(p *kernel.Proc, x *excerpt, w *followed, several bool) {
	if file := w.in.File(); file != nil {
		at, err := w.in.Seek(0, 1)
		info, serr := file.Stat()
		if err != nil || serr != nil || info.Size() == at {
			return
		}
		if info.Size() < at {
			p.Errorf("%s: file truncated", quoting.QuoteNameIfNeeded(w.name))
			if _, err := w.in.Seek(0, 0); err != nil {
				return
			}
		}
	}
	if several && f.last != w {
		x.printHeader(p, w.name, true)
	}
	f.last = w
	var lost *stream.WriteError
	if err := stream.Copy(p, p.Out(), w.in); err != nil && !errors.As(err, &lost) {
		p.Errorf("error reading %s: %s", quoting.QuoteName(w.name), program.Reason(err))
	}
}
