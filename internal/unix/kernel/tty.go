package kernel

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/vfs"
)

// TTY is the terminal of a command. Its methods are safe for concurrent use.
type TTY struct {
	k      *Kernel
	n      int // of /dev/pts
	leader *task
	out    *FileDescription // to the host

	mu      sync.Mutex
	line    line // guarded by mu, as are all fields below
	size    atoll.Size
	group   int // foreground process group
	ended   bool
	hung    bool
	waiting []*Proc
	host    sync.Cond // for the goroutine that copies the input
}

// withDefaultSize returns a size with the defaults for missing values.
func withDefaultSize(s atoll.Size) atoll.Size {
	if s.Rows == 0 {
		s.Rows = 24
	}
	if s.Cols == 0 {
		s.Cols = 80
	}
	return s
}

// newTTY makes the terminal of a command. It is /dev/pts/n until closeTTY.
func (t *task) newTTY(size atoll.Size) *TTY {
	y := &TTY{k: t.k, leader: t, size: withDefaultSize(size), line: line{mode: SaneMode()}, group: t.main.Group()}
	y.host.L = &y.mu
	t.k.mu.Lock()
	defer t.k.mu.Unlock()
	for t.k.ttys[y.n] != nil {
		y.n++
	}
	if t.k.ttys == nil {
		t.k.ttys = make(map[int]*TTY)
	}
	t.k.ttys[y.n] = y
	return y
}

// open returns an open file of the terminal.
func (y *TTY) open(name string, flag int) *FileDescription { return newOpen(ttyEnd{y}, name, flag) }

// Name returns the file name of the terminal.
func (y *TTY) Name() string { return "/dev/pts/" + strconv.Itoa(y.n) }

// Mode returns the terminal's mode.
func (y *TTY) Mode() Mode {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.line.mode
}

// SetMode changes the terminal's mode. Input that was not read yet is kept.
func (y *TTY) SetMode(m Mode) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.line.set(m)
	y.wakeAll()
}

// Discard discards input that was not read yet.
func (y *TTY) Discard() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.line.drop(len(y.line.input))
	y.wakeAll()
}

// Size returns the size in characters, which is never 0.
func (y *TTY) Size() atoll.Size {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.size
}

// SetSize changes the size; if it differs, the foreground processes get SIGWINCH.
func (y *TTY) SetSize(s atoll.Size) {
	s = withDefaultSize(s)
	y.mu.Lock()
	same, group := y.size == s, y.group
	y.size = s
	y.mu.Unlock()
	if !same {
		_ = y.k.KillGroup(group, SIGWINCH) // the group may be empty
	}
}

// Foreground returns the process group that may read, and gets the signals.
func (y *TTY) Foreground() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.group
}

// SetForeground makes a process group the foreground group.
func (y *TTY) SetForeground(group int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.group = group
	y.wakeAll()
}

// wakeAll wakes all waiting processes and the input goroutine; the caller holds mu.
func (y *TTY) wakeAll() {
	for _, p := range y.waiting {
		p.wakeUp()
	}
	clear(y.waiting)
	y.waiting = y.waiting[:0]
	y.host.Broadcast()
}

// wait blocks p until something changes; the caller holds mu, which wait releases and acquires
// again.
func (y *TTY) wait(p *Proc, kind blockKind) {
	if !slices.Contains(y.waiting, p) {
		y.waiting = append(y.waiting, p)
	}
	y.mu.Unlock()
	defer y.mu.Lock() // also if it unwinds
	p.blockUntilWoken(kind)
}

// stopGroup sends the process's own group a stop signal; the caller holds mu, which stopGroup
// releases and acquires again.
func (y *TTY) stopGroup(p *Proc, s Signal) {
	y.mu.Unlock()
	defer y.mu.Lock()
	_ = p.k.KillGroup(p.Group(), s) // the process itself is in it
	p.check()
}

// copyInput copies the host's input to the terminal, until one of them ends.
func (y *TTY) copyInput(r io.Reader) {
	b := make([]byte, 4<<10)
	for {
		n, err := r.Read(b)
		if !y.receiveInput(b[:n]) {
			return
		}
		if err != nil {
			y.endInput(err != io.EOF)
			return
		}
	}
}

// receiveInput processes typed bytes, and waits while there is no room. It reports whether the
// terminal is still connected.
func (y *TTY) receiveInput(b []byte) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	for len(b) > 0 && !y.hung {
		n := min(len(b), y.line.room())
		if n == 0 {
			y.host.Wait()
			continue
		}
		y.processInput(b[:n])
		b = b[n:]
	}
	return !y.hung
}

// processInput passes b through the line discipline; the caller holds mu.
func (y *TTY) processInput(b []byte) {
	var echo []byte
	for _, c := range b {
		var s Signal
		if echo, s = y.line.receive(c, echo); s != 0 {
			y.out.tryWrite(echo)
			echo = echo[:0]
			_ = y.k.KillGroup(y.group, s) // the group may be empty
		}
	}
	if len(echo) > 0 {
		y.out.tryWrite(echo) // an echo may be lost if the host does not read
	}
	y.wakeAll()
}

// endInput ends the input: all further reads return the end of file. If the client was
// disconnected, the processes get a hang-up.
func (y *TTY) endInput(gone bool) {
	y.mu.Lock()
	y.ended = true
	if l := &y.line; l.mode.Local&ICANON != 0 && len(l.input) > l.ready {
		l.ends[len(l.ends)-1] = true
		l.ready = len(l.input)
	}
	y.wakeAll()
	y.mu.Unlock()
	if gone {
		y.hangUp()
	}
}

// hangUp sends a hang-up to the processes, since the client was disconnected.
func (y *TTY) hangUp() {
	y.mu.Lock()
	y.hung = true
	group := y.group
	y.wakeAll()
	y.mu.Unlock()
	leader := y.leader.main
	for _, s := range []Signal{SIGHUP, SIGCONT} {
		_ = y.k.KillGroup(group, s) // the group may be empty
		if leader.Group() != group {
			_ = leader.Kill(s) // it may have ended
		}
	}
}

// closeTTY removes the terminal after its command.
func (y *TTY) closeTTY() {
	y.k.mu.Lock()
	delete(y.k.ttys, y.n)
	y.k.mu.Unlock()
	y.mu.Lock()
	y.hung = true
	y.line.input, y.line.ends, y.line.ready = nil, nil, 0
	y.wakeAll()
	y.mu.Unlock()
	y.out.Release()
}

// ttyEnd is a terminal as an open file.
type ttyEnd struct{ y *TTY }

func (ttyEnd) close() {}

func (e ttyEnd) read(p *Proc, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	y := e.y
	y.mu.Lock()
	defer y.mu.Unlock()
	if err := y.waitForForeground(p); err != nil {
		return 0, err
	}
	n, err := y.read(p, b)
	y.wakeAll() // there may be room now
	return n, err
}

// read waits for a line, or for the number of bytes that the mode requires; the caller holds mu.
func (y *TTY) read(p *Proc, b []byte) (int, error) {
	done := 0
	var until time.Time // timeout of VTIME
	for {
		m := &y.line.mode
		raw := m.Local&ICANON == 0
		least, tenths := int(m.Chars[VMIN]), time.Duration(m.Chars[VTIME])
		if y.line.ready > 0 {
			n, end := y.line.takeLine(b[done:])
			done += n
			if n > 0 {
				until = time.Time{}
			}
			if !raw || done == len(b) || done >= least {
				return finishRead(done, end)
			}
			continue
		}
		if y.hung || y.ended || raw && least == 0 && tenths == 0 || !until.IsZero() && !time.Now().Before(until) {
			return finishRead(done, true)
		}
		if p.caught.Load() != 0 {
			if done > 0 {
				return done, nil
			}
			return 0, vfs.EINTR
		}
		if raw && tenths > 0 && (least == 0 || done > 0) && until.IsZero() {
			until = time.Now().Add(tenths * 100 * time.Millisecond)
		}
		y.await(p, until)
	}
}

// finishRead returns the result of a read of n bytes.
func finishRead(n int, end bool) (int, error) {
	if n == 0 && end {
		return 0, io.EOF
	}
	return n, nil
}

// await waits for a change, or until a time if it is set; the caller holds mu, which await releases
// and acquires again.
func (y *TTY) await(p *Proc, until time.Time) {
	if until.IsZero() {
		y.wait(p, blockInner)
		return
	}
	timer := time.AfterFunc(time.Until(until), p.wakeUp)
	defer timer.Stop()
	p.wakeAt.Store(until.UnixNano())
	y.wait(p, blockSleep)
}

// waitForForeground stops processes that read in the background until they are in the foreground.
// The caller holds mu, which it releases meanwhile.
func (y *TTY) waitForForeground(p *Proc) error {
	for p.t == y.leader && p.Group() != y.group && y.group != 0 && !y.hung {
		if !p.mayStop(SIGTTIN) {
			return vfs.EIO
		}
		y.stopGroup(p, SIGTTIN)
		if p.caught.Load() != 0 {
			return vfs.EINTR
		}
	}
	return nil
}

// mayStop reports whether a signal of the terminal would stop the process, and a parent in another
// group could continue it.
func (p *Proc) mayStop(s Signal) bool {
	if p.ignored.Load()&s.bit() != 0 {
		return false
	}
	for q := p; q.parent != nil; q = q.parent {
		if q.parent.Group() != p.Group() && !q.parent.exited.Load() {
			return true
		}
	}
	return false
}

func (e ttyEnd) write(p *Proc, b []byte) (int, error) {
	y := e.y
	done := 0
	var text []byte
	for done < len(b) {
		n := min(len(b)-done, 2<<10)
		var err error
		if text, err = y.processOutput(p, text[:0], b[done:done+n]); err != nil {
			return done, err
		}
		if h, ok := y.out.dev.(*hostPipe); ok {
			if _, ok = h.writeAll(p, text); !ok {
				return done, vfs.EIO
			}
		} else if _, err := y.out.dev.write(p, text); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// processOutput waits until p may write, and appends b to a buffer as the terminal writes it.
func (y *TTY) processOutput(p *Proc, to, b []byte) ([]byte, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for p.t == y.leader && y.line.mode.Local&TOSTOP != 0 && p.Group() != y.group && !y.hung && p.mayStop(SIGTTOU) {
		y.stopGroup(p, SIGTTOU)
		if p.caught.Load() != 0 {
			return to, vfs.EINTR
		}
	}
	for y.line.halted && !y.hung {
		y.wait(p, blockInner)
	}
	if y.hung {
		return to, vfs.EIO
	}
	return y.line.output(to, b), nil
}

func (e ttyEnd) ready(*Proc) bool {
	e.y.mu.Lock()
	defer e.y.mu.Unlock()
	return e.y.isReadable()
}

func (y *TTY) isReadable() bool { return y.line.ready > 0 || y.ended || y.hung }

func (e ttyEnd) await(p *Proc) {
	y := e.y
	y.mu.Lock()
	defer y.mu.Unlock()
	if !y.isReadable() {
		y.wait(p, blockInner)
	}
}

// Terminal returns the terminal behind the handle, or nil.
func (h *Handle) Terminal() *TTY {
	o := h.Open()
	if o == nil {
		return nil
	}
	if e, ok := o.dev.(ttyEnd); ok {
		return e.y
	}
	return nil
}

// Terminal returns the terminal that controls the process, or nil.
func (p *Proc) Terminal() *TTY { return p.t.tty }

// ttyAt returns the terminal at an absolute path, or nil.
func (p *Proc) ttyAt(abs string) *TTY {
	if abs == "/dev/tty" {
		return p.t.tty
	}
	name, ok := strings.CutPrefix(abs, "/dev/pts/")
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(name)
	if err != nil || strconv.Itoa(n) != name {
		return nil
	}
	p.k.mu.Lock()
	defer p.k.mu.Unlock()
	return p.k.ttys[n]
}

// ttyMode is the file mode of a terminal.
const ttyMode = fs.ModeDevice | fs.ModeCharDevice | 0o620

// ttyNames returns the entries of /dev/pts.
func (k *Kernel) ttyNames() []fs.DirEntry {
	k.mu.Lock()
	defer k.mu.Unlock()
	var list []fs.DirEntry
	for n := range k.ttys {
		list = append(list, entry{strconv.Itoa(n), ttyMode})
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// attachTTY opens a terminal as the first process's descriptors 0 to 2.
func (p *Proc) attachTTY(s *streams, r Run) {
	y := p.t.newTTY(r.TTY.Size)
	y.out = s.openOut(0, r.Stdout, y.hangUp)
	p.t.tty = y
	o := y.open(y.Name(), os.O_RDWR)
	p.fds = []slot{{f: o}, {f: o.Retain()}, {f: o.Retain()}}
	if r.Stdin == nil {
		y.endInput(false)
		return
	}
	go y.copyInput(r.Stdin)
}
