package atoll

import (
	"context"
	"time"
)

// Notifier is a sandbox that reports events inside it.
type Notifier interface {
	// Notices calls f for each event from now on, one call at a time, until ctx is done or f
	// returns an error. It returns that error. The first notice is NoticeReady.
	Notices(ctx context.Context, f func(Notice) error) error
}

// Notice is an event inside a sandbox.
type Notice struct {
	Kind    NoticeKind `json:"kind"`
	Time    time.Time  `json:"time"`
	Port    int        `json:"port,omitempty"`    // of port.opened and port.closed
	Address string     `json:"address,omitempty"` // listening address of that port
	PID     int        `json:"pid,omitempty"`     // inside the sandbox
	Process string     `json:"process,omitempty"` // id of a detached command, or name of a terminal
	Command string     `json:"command,omitempty"` // name of the program
	Code    int        `json:"code,omitempty"`    // of process.ended
	Message string     `json:"message,omitempty"` // text for users

	Suggestion string `json:"suggestion,omitempty"` // of network.denied: rule that would have allowed the connection
}

// NoticeKind is the kind of an event inside a sandbox.
type NoticeKind string

// The kinds of notices.
const (
	NoticeReady        NoticeKind = "ready"         // the subscription has begun
	NoticePortOpened   NoticeKind = "port.opened"   // a program listens on a port
	NoticePortClosed   NoticeKind = "port.closed"   //
	NoticeActive       NoticeKind = "active"        // activity after an idle period
	NoticeIdle         NoticeKind = "idle"          // no use of processor, terminals and files for a while
	NoticeOutOfMemory  NoticeKind = "oom"           // the kernel killed a process
	NoticeProcessEnded NoticeKind = "process.ended" // a detached command or the command of a terminal ended
	NoticeDenied       NoticeKind = "network.denied"
	NoticeLost         NoticeKind = "lost" // the listener was too slow; Message has the number of notices that it missed
)

// Notices calls f for each event inside a sandbox; see [Notifier].
func Notices(ctx context.Context, sb Sandbox, f func(Notice) error) error {
	n, err := requireAbility[Notifier](sb, "notices")
	if err != nil {
		return err
	}
	return n.Notices(ctx, f)
}
