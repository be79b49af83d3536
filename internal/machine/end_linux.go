package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// blame notes why the monitor ends its machine.
func (m *monitor) blame(err error) {
	var end *End
	if !errors.As(err, &end) {
		end = &End{Reason: ByFault, Message: err.Error()}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cause == nil {
		m.cause = end
	}
}

// killed is how many processes of the group were ended for want of memory.
func (m *monitor) killed() int64 {
	if m.kills == nil {
		return 0
	}
	b := make([]byte, 4096)
	n, _ := m.kills.ReadAt(b, 0) // what isn't there is no number
	for line := range strings.Lines(string(b[:n])) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// judge decides why the machine ended. oom: the group lost processes for want
// of memory.
func (m *monitor) judge(oom bool) *End {
	m.mu.Lock()
	defer m.mu.Unlock()
	panicked, said, fault := m.log.hints()
	end := &End{At: time.Now()}
	set := func(r Reason, format string, a ...any) *End {
		end.Reason, end.Message = r, fmt.Sprintf(format, a...)
		return end
	}
	how := m.ending()
	switch {
	case m.wanted:
		return set(ByOrder, "it was switched off")
	case m.cause != nil && (how.state == nil || m.shot || m.cause.strong()):
		end.Reason, end.Message, end.Code = m.cause.Reason, m.cause.Message, m.cause.Code
		return end
	case oom && how.signal == syscall.SIGKILL:
		return set(ByMemory, "the host ended the machine for want of memory: its limit is less than the guest's memory and what the hypervisor needs")
	case how.signal == syscall.SIGSYS:
		return set(ByFault, "the hypervisor was ended: it made a system call that its filter forbids")
	case how.signal != 0:
		return set(BySignal, "the hypervisor was ended by %v", how.signal)
	case panicked != "":
		return set(ByPanic, "the guest's kernel gave up: %s", panicked)
	case how.code != 0:
		return set(ByFault, "the hypervisor ended with status %d: %s", how.code, fault)
	case m.mux == nil && said != "":
		return set(ByBoot, "the guest: %s", said)
	case m.mux == nil:
		return set(ByBoot, "the machine switched itself off before its guest served")
	}
	return set(ByGuest, "the guest switched itself off")
}

// strong reports a cause that stands, whatever followed from it.
func (e *End) strong() bool {
	return e.Reason == BySetup || e.Reason == ByOrder || e.Reason == ByWire && e.Message == errProtocol
}

// ending is how the hypervisor ended.
type ending struct {
	state  *os.ProcessState // nil: there was none
	signal syscall.Signal   // 0: none
	code   int
}

func (m *monitor) ending() (e ending) {
	if m.cmd == nil || m.cmd.ProcessState == nil {
		return e
	}
	e.state = m.cmd.ProcessState
	if ws, ok := e.state.Sys().(syscall.WaitStatus); ok {
		if ws.Signaled() {
			e.signal = ws.Signal()
		}
		e.code = max(ws.ExitStatus(), 0)
	}
	return e
}

// clean leaves behind why the machine ended, and takes all else away.
func (m *monitor) clean(end *End) error {
	b, err := json.Marshal(end)
	if err != nil {
		return err
	}
	werr := replace(filepath.Join(m.o.Dir, EndFile), b)
	for _, name := range []string{GuestSocket, MonitorSocket, stateFile} {
		if rerr := os.Remove(filepath.Join(m.o.Dir, name)); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	if werr != nil { // the host's disk may have been full, and what was removed has left some room
		werr = replace(filepath.Join(m.o.Dir, EndFile), b)
	}
	return errors.Join(err, werr)
}

// Error makes an End travel as an error within the monitor.
func (e *End) Error() string { return e.Message }
