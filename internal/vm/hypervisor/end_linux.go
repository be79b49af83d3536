package hypervisor

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

	"github.com/atoll-sandbox/atoll/internal/vm/timer"
)

// recordCause records why the monitor ends its VM. The first cause stays.
func (m *monitor) recordCause(err error) {
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

// countOOMKills returns how many processes of the group the kernel killed because memory ran out.
func (m *monitor) countOOMKills() int64 {
	if m.kills == nil {
		return 0
	}
	b := make([]byte, 4096)
	n, _ := m.kills.ReadAt(b, 0) // an error leaves no line to parse
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

// decideEnd returns why the VM ended. oom: processes of the group were killed because memory ran
// out.
func (m *monitor) decideEnd(oom bool) *End {
	m.mu.Lock()
	defer m.mu.Unlock()
	panicked, said, fault := m.log.endHints()
	end := &End{At: time.Now()}
	set := func(r Reason, format string, a ...any) *End {
		end.Reason, end.Message = r, fmt.Sprintf(format, a...)
		return end
	}
	how := m.hypervisorExit()
	switch {
	case m.endOrdered:
		return set(ByOrder, "it was switched off")
	case m.cause != nil && (how.state == nil || m.killedByMonitor || m.cause.isFinal()):
		end.Reason, end.Message, end.Code = m.cause.Reason, m.cause.Message, m.cause.Code
		return end
	case oom && how.signal == syscall.SIGKILL:
		return set(ByMemory, "the host killed the VM because memory ran out: its limit is less than the guest's memory and what the hypervisor needs")
	case how.signal == syscall.SIGSYS:
		return set(ByFault, "the hypervisor was killed: it made a system call that its filter forbids")
	case how.signal != 0:
		return set(BySignal, "the hypervisor was killed by a signal: %v", how.signal)
	case panicked != "":
		return set(ByPanic, "the guest's kernel panicked: %s", panicked)
	case how.code != 0:
		return set(ByFault, "the hypervisor ended with status %d: %s", how.code, fault)
	case m.mux == nil && strings.HasPrefix(said, timer.Fault):
		return set(ByTimer, "the guest: %s", said)
	case m.mux == nil && said != "":
		return set(ByBoot, "the guest: %s", said)
	case m.mux == nil:
		return set(ByBoot, "the VM switched itself off before its guest served")
	}
	return set(ByGuest, "the guest switched itself off")
}

// isFinal reports whether the cause stays the reason, independent of how the hypervisor then
// exited.
func (e *End) isFinal() bool {
	return e.Reason == BySetup || e.Reason == ByOrder || e.Reason == ByProtocol && e.Message == errProtocol
}

// exitInfo describes how the hypervisor exited.
type exitInfo struct {
	state  *os.ProcessState // nil: it was not started
	signal syscall.Signal   // 0: no signal
	code   int
}

func (m *monitor) hypervisorExit() (e exitInfo) {
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

// cleanUp writes end.json, and removes the other files of the VM.
func (m *monitor) cleanUp(end *End) error {
	b, err := json.Marshal(end)
	if err != nil {
		return err
	}
	werr := replaceFile(filepath.Join(m.o.Dir, EndFile), b)
	for _, name := range []string{GuestSocket, MonitorSocket, stateFile} {
		if rerr := os.Remove(filepath.Join(m.o.Dir, name)); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	if werr != nil { // the host's disk may have been full, and the removal has freed some space
		werr = replaceFile(filepath.Join(m.o.Dir, EndFile), b)
	}
	return errors.Join(err, werr)
}

// Error implements error, to return an End within the monitor.
func (e *End) Error() string { return e.Message }
