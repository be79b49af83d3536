package atoll

import (
	"context"
	"strconv"
	"time"
)

// Notifier is a sandbox that tells what happens inside.
type Notifier interface {
	// Notices calls f for each thing that happens from now on, one call at a
	// time, until ctx is done or f returns an error, which it returns. The
	// first notice is NoticeReady.
	Notices(ctx context.Context, f func(Notice) error) error
}

// Notice is something that happened in a sandbox.
type Notice struct {
	Kind    NoticeKind `json:"kind"`
	Time    time.Time  `json:"time"`
	Port    int        `json:"port,omitempty"`    // of port.opened and port.closed
	Address string     `json:"address,omitempty"` // it listens on; likewise
	PID     int        `json:"pid,omitempty"`     // inside
	Process string     `json:"process,omitempty"` // id of a detached command, or name of a terminal
	Command string     `json:"command,omitempty"` // name of the program
	Code    int        `json:"code,omitempty"`    // of process.ended
	Message string     `json:"message,omitempty"` // for people
}

// NoticeKind says what happened.
type NoticeKind string

// What happens in sandboxes.
const (
	NoticeReady        NoticeKind = "ready"         // nothing: notices have begun
	NoticePortOpened   NoticeKind = "port.opened"   // a program listens
	NoticePortClosed   NoticeKind = "port.closed"   //
	NoticeActive       NoticeKind = "active"        // something runs again after idle
	NoticeIdle         NoticeKind = "idle"          // nothing used the processor, a terminal or a file for a while
	NoticeOutOfMemory  NoticeKind = "oom"           // the kernel ended a process
	NoticeProcessEnded NoticeKind = "process.ended" // a detached command or a terminal's
	NoticeDenied       NoticeKind = "network.denied"
	NoticeLost         NoticeKind = "lost" // the listener was too slow for all: Message says how many it has missed
)

// Notices calls f for each thing that happens in a sandbox; see [Notifier].
func Notices(ctx context.Context, sb Sandbox, f func(Notice) error) error {
	n, err := able[Notifier](sb, "notices")
	if err != nil {
		return err
	}
	return n.Notices(ctx, f)
}

// Porter is a Notifier that knows which ports programs inside listen on.
type Porter interface {
	// Ports returns those of now, in the order of their numbers.
	Ports(ctx context.Context) ([]Port, error)
}

// Port is one that a program inside listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"`           // "127.0.0.1", "::", …
	PID     int    `json:"pid,omitempty"`     // inside
	Command string `json:"command,omitempty"` // name of the program
}

// Ports returns the ports that programs in a sandbox listen on.
func Ports(ctx context.Context, sb Sandbox) ([]Port, error) {
	p, err := able[Porter](sb, "ports")
	if err != nil {
		return nil, err
	}
	return p.Ports(ctx)
}

// DevServerPorts returns the ports that programs in a sandbox listen on, by name:
// that of the program, and for a second of the same "NAME:PORT".
func DevServerPorts(ctx context.Context, sb Sandbox) (map[string]int, error) {
	list, err := Ports(ctx, sb)
	if err != nil {
		return nil, err
	}
	return namedPorts(list), nil
}

func namedPorts(list []Port) map[string]int {
	ports := make(map[string]int, len(list))
	for _, p := range list {
		name := p.Command
		if name == "" {
			name = strconv.Itoa(p.Port)
		}
		if other, taken := ports[name]; taken && other != p.Port {
			name += ":" + strconv.Itoa(p.Port)
		}
		ports[name] = p.Port
	}
	return ports
}

// Detacher is a sandbox whose commands can go on without their caller.
type Detacher interface {
	// Detach starts a command that goes on when nobody is attached, also
	// without this process. Of its output the last MaxOutput bytes of each
	// stream are kept. Stdin, Stdout and Stderr are not used.
	Detach(ctx context.Context, cmd Cmd) (Process, error)
	// Reattach gives what is kept and what comes of a detached command to
	// the writers of streams, and its Stdin, Signals and TTY.Resize to the
	// command. It returns what became of it, or when ctx is done, which
	// leaves it running. The next of Signals is taken when the one before
	// has arrived at the command; an empty one is none, and only tells that.
	Reattach(ctx context.Context, id string, streams Cmd) (Exit, error)
	// Detached returns the detached commands, oldest first; those that have
	// ended stay for a while.
	Detached(ctx context.Context) ([]Process, error)
}
