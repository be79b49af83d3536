package command

import (
	"errors"
	"strconv"
	"time"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// follower prints what is added to files, as tail -f does.
type follower struct {
	on     bool
	byName bool // reopen a file that was replaced
	retry  bool
	every  time.Duration
	pids   []int
	files  []*followed
	last   *followed
}

// followed is a file that is followed.
type followed struct {
	name string
	in   *kernel.Handle // nil while it can't be opened
	ino  uint64
}

const tailGlance = 20 * time.Millisecond

func (f *follower) option(p *kernel.Proc, o given) bool {
	switch o.key {
	case 'f':
		f.on = true
	case 'F':
		f.on, f.byName, f.retry = true, true, true
	case 'R':
		f.retry = true
	case 'W':
		f.on = true
		if !o.has {
			return true
		}
		v, ok := choose(p, "--follow", o.value, []choice{{"descriptor", 0}, {"name", 1}})
		f.byName = v == 1
		return ok
	case 's':
		sec, err := strconv.ParseFloat(o.value, 64)
		if err != nil || sec < 0 || sec > 1e9 {
			p.Errorf("invalid number of seconds: %s", cite(o.value))
			return false
		}
		f.every = time.Duration(sec * float64(time.Second))
	case 'P':
		pid, err := strconv.Atoi(o.value)
		if err != nil || pid < 0 {
			p.Errorf("invalid PID: %s", cite(o.value))
			return false
		}
		f.pids = append(f.pids, pid)
	case 'M':
		if _, err := strconv.ParseUint(o.value, 10, 64); err != nil {
			p.Errorf("invalid maximum number of unchanged stats between opens: %s", cite(o.value))
			return false
		}
	}
	return true
}

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

// lost notes a file that could not be opened, for when it can be.
func (f *follower) lost(name string) {
	if f.on && f.retry && name != "-" {
		f.files = append(f.files, &followed{name: name})
	}
}

// run prints what is added until the processes of --pid are gone or nothing
// is left to follow.
func (f *follower) run(p *kernel.Proc, x *excerpt, several bool) int {
	if f.every == 0 {
		f.every = tailGlance
	}
	for {
		alive := f.alive(p)
		open := false
		for _, w := range f.files {
			if f.byName || w.in == nil && f.retry {
				f.reopen(p, w)
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
			return int(b2i(err != nil))
		}
		p.Sleep(f.every, false)
	}
}

func (f *follower) alive(p *kernel.Proc) bool {
	for _, pid := range f.pids {
		if p.Kernel().Proc(pid) != nil {
			return true
		}
	}
	return len(f.pids) == 0
}

// reopen looks whether the name leads to another file by now.
func (f *follower) reopen(p *kernel.Proc, w *followed) {
	info, err := p.Stat(w.name)
	switch {
	case err != nil && w.in != nil:
		p.Errorf("%s has become inaccessible: %s", quote(w.name), why(err))
		closeInput(w.in)
		w.in = nil
		return
	case err != nil || w.in != nil && info.Ino() == w.ino:
		return
	}
	in, err := open(p, w.name)
	if err != nil {
		return
	}
	if w.in == nil {
		p.Errorf("%s has appeared;  following new file", quote(w.name))
	} else {
		p.Errorf("%s has been replaced;  following new file", quote(w.name))
		closeInput(w.in)
	}
	w.in, w.ino = in, info.Ino()
}

func (f *follower) print(p *kernel.Proc, x *excerpt, w *followed, several bool) {
	if file := w.in.File(); file != nil {
		at, err := w.in.Seek(0, 1)
		info, serr := file.Stat()
		if err != nil || serr != nil || info.Size() == at {
			return
		}
		if info.Size() < at {
			p.Errorf("%s: file truncated", quotef(w.name))
			if _, err := w.in.Seek(0, 0); err != nil {
				return
			}
		}
	}
	if several && f.last != w {
		x.header(p, w.name, true)
	}
	f.last = w
	var lost *writeError
	if err := copyThrough(p, p.Out(), w.in); err != nil && !errors.As(err, &lost) {
		p.Errorf("error reading %s: %s", quote(w.name), why(err))
	}
}
