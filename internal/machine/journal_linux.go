package machine

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// How much of what a hypervisor and a guest's console say is kept: the
// beginning, and the end.
const (
	keptHead = 256 << 10
	keptTail = 64 << 10
)

// journal writes boot.log. It may be written to from several goroutines.
type journal struct {
	mu    sync.Mutex
	file  io.Writer // guarded by mu, as all below
	head  int       // bytes written
	tail  []byte    // what came after the head; older halves are dropped
	lost  int64
	line  []byte // of the console, not ended yet
	panic string // what the kernel said when it gave up
	said  string // the last line that our own process 1 said of itself
	fault string // the last line that the hypervisor said
}

// Marks of lines that tell why a machine ends.
const (
	panicMark = "Kernel panic - not syncing: "
	ourMark   = "atoll: "
)

// console is where the guest's console goes, hypervisor where QEMU's own errors
// go.
type (
	console    struct{ *journal }
	hypervisor struct{ *journal }
)

// Write never fails: what doesn't fit is dropped.
func (c console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := plain(bytes.Clone(p))
	c.keep(text)
	for _, b := range text {
		if b == '\n' {
			c.remark(string(c.line))
			c.line = c.line[:0]
		} else if len(c.line) < maxShown {
			c.line = append(c.line, b)
		}
	}
	return len(p), nil
}

// remark looks for a line that tells why the machine ends. A guest may write
// such lines as it likes: nothing follows from them but what people read.
func (j *journal) remark(line string) {
	if _, what, ok := strings.Cut(line, panicMark); ok && j.panic == "" {
		j.panic = strings.TrimSpace(what)
	}
	if i := strings.Index(line, ourMark); i >= 0 {
		j.said = strings.TrimSpace(line[i+len(ourMark):])
	}
}

// Write never fails: what doesn't fit is dropped.
func (h hypervisor) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := plain(bytes.Clone(p))
	h.keep(text)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.Contains(line, "warning: ") {
			h.fault = line[:min(len(line), maxShown)]
		}
	}
	return len(p), nil
}

func (j *journal) keep(text []byte) {
	if n := min(len(text), keptHead-j.head); n > 0 {
		_, _ = j.file.Write(text[:n]) // a full disk must not stop the machine
		j.head += n
		text = text[n:]
	}
	j.tail = append(j.tail, text...)
	if over := len(j.tail) - keptTail; over > keptTail {
		j.lost += int64(over)
		j.tail = append(j.tail[:0], j.tail[over:]...)
	}
}

// close writes what was kept of the end.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if over := len(j.tail) - keptTail; over > 0 {
		j.lost += int64(over)
		j.tail = j.tail[over:]
	}
	if j.lost > 0 {
		fmt.Fprintf(j.file, "\n[%d bytes are left out]\n", j.lost)
	}
	_, _ = j.file.Write(j.tail) // nobody is left to be told
	j.tail = nil
}

// hints are what was said that tells why a machine ends.
func (j *journal) hints() (panic, said, fault string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.line) > 0 {
		j.remark(string(j.line)) // without its end
	}
	return j.panic, j.said, j.fault
}

// Bounds of what errors quote of a log.
const (
	tailLines = 10
	tailBytes = 4 << 10
)

// Tail returns the last lines of a machine's boot.log, as errors quote them;
// empty: there are none.
func Tail(dir string) string {
	f, err := os.Open(dir + "/" + BootLog)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd) // else all of it is read
	}
	b, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(plain(b))), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
