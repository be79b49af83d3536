package atoll

import (
	"context"
	"strconv"
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

// PortLister is a Notifier that knows the ports on which programs inside listen.
type PortLister interface {
	// Ports returns the open ports, ordered by number.
	Ports(ctx context.Context) ([]Port, error)
}

// Port is a port on which a program inside a sandbox listens.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"`           // "127.0.0.1", "::", …
	PID     int    `json:"pid,omitempty"`     // inside the sandbox
	Command string `json:"command,omitempty"` // name of the program
}

// Ports returns the ports on which programs in a sandbox listen.
func Ports(ctx context.Context, sb Sandbox) ([]Port, error) {
	p, err := requireAbility[PortLister](sb, "ports")
	if err != nil {
		return nil, err
	}
	return p.Ports(ctx)
}

// DevServerPorts returns the ports on which programs in a sandbox listen, by the name of the
// program. A second port of the same program is called "NAME:PORT".
func DevServerPorts(ctx context.Context, sb Sandbox) (map[string]int, error) {
	list, err := Ports(ctx, sb)
	if err != nil {
		return nil, err
	}
	return namePorts(list), nil
}

func namePorts(list []Port) map[string]int {
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

// Detacher is a sandbox whose commands can outlive their caller.
type Detacher interface {
	// Detach starts a command that runs on without an attached client and without this
	// process. The last MaxOutput bytes of each output stream are kept. Stdin, Stdout and
	// Stderr of cmd are not used.
	Detach(ctx context.Context, cmd Cmd) (Process, error)
	// Reattach copies the kept and all later output of a detached command to the writers of
	// streams, and Stdin, Signals and TTY.Resize of streams to the command. It returns the
	// command's Exit, or the context's error when ctx is done, which leaves the command
	// running. The next value of Signals is received after the previous one was delivered;
	// an empty value sends nothing and confirms delivery of the previous one.
	Reattach(ctx context.Context, id string, streams Cmd) (Exit, error)
	// Detached returns the detached commands, oldest first. Commands that have ended stay
	// for a while.
	Detached(ctx context.Context) ([]Process, error)
}
