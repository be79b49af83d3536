package hypervisor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// Sizes of the parts of boot.log that are kept: its beginning and its end.
const (
	maxHead = 256 << 10
	maxTail = 64 << 10
)

// bootLog writes boot.log. It is safe for concurrent use.
type bootLog struct {
	mu       sync.Mutex
	file     io.Writer // guarded by mu, as are all fields below
	head     int       // bytes written
	tail     []byte    // text after the head; older halves are dropped
	lost     int64
	line     []byte // unfinished line of the console
	panic    string // message of a kernel panic
	initLine string // last line about itself that our process 1 wrote
	fault    string // last line of the hypervisor
}

// Prefixes of lines that explain why a VM ends.
const (
	panicMark = "Kernel panic - not syncing: "
	initMark  = "atoll: "
)

// consoleWriter receives the guest's console, hypervisorWriter the standard error of QEMU.
type (
	consoleWriter    struct{ *bootLog }
	hypervisorWriter struct{ *bootLog }
)

// Write never fails: text that does not fit is dropped.
func (c consoleWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := replaceNonASCII(bytes.Clone(p))
	c.appendText(text)
	for _, b := range text {
		if b == '\n' {
			c.scanLine(string(c.line))
			c.line = c.line[:0]
		} else if len(c.line) < maxShown {
			c.line = append(c.line, b)
		}
	}
	return len(p), nil
}

// scanLine remembers lines that explain why the VM ends. A guest can write any line: they are only
// shown to users.
func (j *bootLog) scanLine(line string) {
	if _, what, ok := strings.Cut(line, panicMark); ok && j.panic == "" {
		j.panic = strings.TrimSpace(what)
	}
	if i := strings.Index(line, initMark); i >= 0 {
		j.initLine = strings.TrimSpace(line[i+len(initMark):])
	}
}

// Write never fails: text that does not fit is dropped.
func (h hypervisorWriter) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := replaceNonASCII(bytes.Clone(p))
	h.appendText(text)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.Contains(line, "warning: ") {
			h.fault = line[:min(len(line), maxShown)]
		}
	}
	return len(p), nil
}

func (j *bootLog) appendText(text []byte) {
	if n := min(len(text), maxHead-j.head); n > 0 {
		_, _ = j.file.Write(text[:n]) // a full disk must not stop the VM
		j.head += n
		text = text[n:]
	}
	j.tail = append(j.tail, text...)
	if over := len(j.tail) - maxTail; over > maxTail {
		j.lost += int64(over)
		j.tail = append(j.tail[:0], j.tail[over:]...)
	}
}

// close writes the end of the log.
func (j *bootLog) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if over := len(j.tail) - maxTail; over > 0 {
		j.lost += int64(over)
		j.tail = j.tail[over:]
	}
	if j.lost > 0 {
		fmt.Fprintf(j.file, "\n[%d bytes are left out]\n", j.lost)
	}
	_, _ = j.file.Write(j.tail) // there is nothing to do about an error
	j.tail = nil
}

// endHints returns the lines that explain why a VM ends.
func (j *bootLog) endHints() (panic, said, fault string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.line) > 0 {
		j.scanLine(string(j.line)) // unfinished
	}
	return j.panic, j.initLine, j.fault
}

// Limits of the quotation of a log in errors.
const (
	tailLines = 10
	tailBytes = 4 << 10
)

// BootLogTail returns the last lines of a VM's boot.log, as errors quote them; empty if there are none.
func BootLogTail(dir string) string {
	f, err := os.Open(dir + "/" + BootLog)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = f.Seek(-tailBytes, io.SeekEnd) // otherwise the whole file is read
	}
	b, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(replaceNonASCII(b))), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
