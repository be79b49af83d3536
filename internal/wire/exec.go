package wire

import (
	"time"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

// Command is an atoll.Cmd as the wire carries it.
type Command struct {
	Process string   `json:"process,omitempty"` // the id that it gets; empty: the server makes one
	Args    []string `json:"args,omitempty"`
	Shell   string   `json:"shell,omitempty"`
	Session bool     `json:"session,omitempty"`
	Dir     string   `json:"dir,omitempty"`
	Env     []string `json:"env,omitempty"`
	User    string   `json:"user,omitempty"`

	Raw *Raw `json:"raw,omitempty"` // instead of args, shell, dir and env, where they are not UTF-8

	Stdin  []byte `json:"stdin,omitempty"`  // all of it, base64; on a stream: what comes first
	Detach bool   `json:"detach,omitempty"` // go on when the caller is gone

	Merged    bool          `json:"merged,omitempty"`  // errors are written to the output, in order
	Signals   bool          `json:"signals,omitempty"` // some may come on the stream; needs a driver that has them
	TTY       *atoll.Size   `json:"tty,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`    // nanoseconds; 0: the sandbox's; negative: none
	MaxOutput int64         `json:"max_output,omitempty"` // bytes kept of each stream; 0: 10 MiB
}

// Raw is the text of a command that JSON can't carry, in base64.
type Raw struct {
	Args  [][]byte `json:"args,omitempty"`
	Shell []byte   `json:"shell,omitempty"`
	Dir   []byte   `json:"dir,omitempty"`
	Env   [][]byte `json:"env,omitempty"`
}

// CommandOf writes a command down, without its streams.
func CommandOf(cmd *atoll.Cmd) *Command {
	c := &Command{Session: cmd.Session, User: cmd.User, Timeout: cmd.Timeout, MaxOutput: cmd.MaxOutput}
	c.Signals = cmd.Signals != nil
	if cmd.TTY != nil {
		c.TTY = &cmd.TTY.Size
	}
	plain := utf8.ValidString(cmd.Shell) && utf8.ValidString(cmd.Dir)
	for _, list := range [][]string{cmd.Args, cmd.Env} {
		for _, s := range list {
			plain = plain && utf8.ValidString(s)
		}
	}
	if plain {
		c.Args, c.Shell, c.Dir, c.Env = cmd.Args, cmd.Shell, cmd.Dir, cmd.Env
	} else {
		c.Raw = &Raw{Args: bytesOf(cmd.Args), Shell: []byte(cmd.Shell), Dir: []byte(cmd.Dir), Env: bytesOf(cmd.Env)}
	}
	return c
}

// Cmd reads a command, without its streams.
func (c *Command) Cmd() atoll.Cmd {
	cmd := atoll.Cmd{
		Args: c.Args, Shell: c.Shell, Session: c.Session, Dir: c.Dir, Env: c.Env, User: c.User,
		Timeout: c.Timeout, MaxOutput: c.MaxOutput,
	}
	if c.TTY != nil {
		cmd.TTY = &atoll.TTY{Size: *c.TTY}
	}
	if r := c.Raw; r != nil {
		cmd.Args, cmd.Shell, cmd.Dir, cmd.Env = stringsOf(r.Args), string(r.Shell), string(r.Dir), stringsOf(r.Env)
	}
	return cmd
}

func bytesOf(list []string) [][]byte {
	b := make([][]byte, len(list))
	for i, s := range list {
		b[i] = []byte(s)
	}
	return b
}

func stringsOf(list [][]byte) []string {
	s := make([]string, len(list))
	for i, b := range list {
		s[i] = string(b)
	}
	return s
}

// Exit is an atoll.Exit as the wire carries it.
type Exit struct {
	Process   string        `json:"process,omitempty"`
	Code      int           `json:"code"`
	Signal    string        `json:"signal,omitempty"`
	Stdout    []byte        `json:"stdout,omitempty"` // base64
	Stderr    []byte        `json:"stderr,omitempty"` // base64
	Truncated bool          `json:"truncated,omitempty"`
	Duration  time.Duration `json:"duration"`        // nanoseconds
	Error     *Problem      `json:"error,omitempty"` // why it was ended, if it was
}

// Stream is the first byte of each binary message of an exec stream
// (WebSocket subprotocol [ExecProtocol]); the rest is its payload.
type Stream byte

// The streams.
const (
	Stdin   Stream = 0 // to the server; never more than Window bytes that are not acknowledged
	Stdout  Stream = 1 // from the server
	Stderr  Stream = 2 // from the server
	Control Stream = 3 // both ways: a JSON ClientControl or ServerControl
)

// ExecProtocol is the WebSocket subprotocol of commands and attached
// processes, DialProtocol that of connections to addresses inside (whose
// messages are plain bytes), ListenProtocol that of listeners inside (whose
// first message is a [Listening], and the others what [Multiplexed] makes of
// them).
const (
	ExecProtocol   = "exec.v1.atoll"
	DialProtocol   = "dial.v1.atoll"
	ListenProtocol = "listen.v1.atoll"
)

// Window is how much standard input may be under way, MaxPayload the longest
// payload of a message, MaxStart the longest first message, MaxKept how much of
// each output stream one answer holds.
const (
	Window     = 256 << 10
	MaxPayload = 32 << 10
	MaxStart   = 4 << 20
	MaxKept    = 16 << 20
)

// OutputWindow is how much output a client of ours lets come before it has
// acknowledged any. A stream has such a window if its request asks for one
// (?window=BYTES): then messages of the server, such as how the command ended,
// overtake output that nobody takes. Without it, the connection's own flow is
// all that holds a command back.
const OutputWindow = 1 << 20

// ClientControl is what a client says besides standard input. The first
// message of an exec stream has Start; one of the other members is set later.
type ClientControl struct {
	Start  *Command    `json:"start,omitempty"`
	Resize *atoll.Size `json:"resize,omitempty"`
	Signal string      `json:"signal,omitempty"`
	EOF    bool        `json:"eof,omitempty"`    // standard input has ended; may come with Start
	Ack    int         `json:"ack,omitempty"`    // bytes of output that were taken, if the stream has a window
	Cancel bool        `json:"cancel,omitempty"` // end the command with all its processes; Exit follows
	Detach bool        `json:"detach,omitempty"` // leave it running and close the stream
}

// ServerControl is what a server says besides output.
type ServerControl struct {
	Process *atoll.Process `json:"process,omitempty"` // once, at the start
	Ack     int            `json:"ack,omitempty"`     // bytes of standard input that were taken
	Lost    int64          `json:"lost,omitempty"`    // bytes of output that are no longer kept, before what follows
	Size    *atoll.Size    `json:"size,omitempty"`    // of the terminal, before what is shown in it
	Exit    *Exit          `json:"exit,omitempty"`    // last; output comes before it
}
