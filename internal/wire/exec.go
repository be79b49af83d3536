package wire

import (
	"time"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

// Command is an atoll.Cmd in JSON.
type Command struct {
	Process string   `json:"process,omitempty"` // id of the new process; empty: the server makes one
	Args    []string `json:"args,omitempty"`
	Shell   string   `json:"shell,omitempty"`
	Session bool     `json:"session,omitempty"`

	Internal bool `json:"internal,omitempty"` // a command of atoll itself, which lists leave out

	Dir  string   `json:"dir,omitempty"`
	Env  []string `json:"env,omitempty"`
	User string   `json:"user,omitempty"`

	Raw *Raw `json:"raw,omitempty"` // replaces args, shell, dir and env if they are not UTF-8

	Stdin  []byte `json:"stdin,omitempty"`  // whole standard input, base64; on a stream: its beginning
	Detach bool   `json:"detach,omitempty"` // run on when the caller disconnects
	Keep   bool   `json:"keep,omitempty"`   // go on for some minutes if the connection is lost, so that the caller can continue it by Resume

	Merged    bool          `json:"merged,omitempty"`  // standard error goes to standard output, in order
	Signals   bool          `json:"signals,omitempty"` // signals may follow on the stream; the driver must support them
	TTY       *atoll.Size   `json:"tty,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"`    // nanoseconds; 0: the sandbox's default; negative: none
	MaxOutput int64         `json:"max_output,omitempty"` // bytes kept of each stream; 0: 10 MiB
}

// Raw is the text of a command that is not UTF-8, in base64.
type Raw struct {
	Args  [][]byte `json:"args,omitempty"`
	Shell []byte   `json:"shell,omitempty"`
	Dir   []byte   `json:"dir,omitempty"`
	Env   [][]byte `json:"env,omitempty"`
}

// CommandOf converts a command, without its streams.
func CommandOf(cmd *atoll.Cmd) *Command {
	c := &Command{Session: cmd.Session, Internal: cmd.Internal, User: cmd.User, Timeout: cmd.Timeout, MaxOutput: cmd.MaxOutput}
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
		c.Raw = &Raw{Args: toByteSlices(cmd.Args), Shell: []byte(cmd.Shell), Dir: []byte(cmd.Dir), Env: toByteSlices(cmd.Env)}
	}
	return c
}

// Cmd converts back to an atoll.Cmd, without streams.
func (c *Command) Cmd() atoll.Cmd {
	cmd := atoll.Cmd{
		Args: c.Args, Shell: c.Shell, Session: c.Session, Internal: c.Internal, Dir: c.Dir, Env: c.Env, User: c.User,
		Timeout: c.Timeout, MaxOutput: c.MaxOutput,
	}
	if c.TTY != nil {
		cmd.TTY = &atoll.TTY{Size: *c.TTY}
	}
	if r := c.Raw; r != nil {
		cmd.Args, cmd.Shell, cmd.Dir, cmd.Env = toStrings(r.Args), string(r.Shell), string(r.Dir), toStrings(r.Env)
	}
	return cmd
}

func toByteSlices(list []string) [][]byte {
	b := make([][]byte, len(list))
	for i, s := range list {
		b[i] = []byte(s)
	}
	return b
}

func toStrings(list [][]byte) []string {
	s := make([]string, len(list))
	for i, b := range list {
		s[i] = string(b)
	}
	return s
}

// Exit is an atoll.Exit in JSON.
type Exit struct {
	Process   string        `json:"process,omitempty"`
	Code      int           `json:"code"`
	Signal    string        `json:"signal,omitempty"`
	Stdout    []byte        `json:"stdout,omitempty"` // base64
	Stderr    []byte        `json:"stderr,omitempty"` // base64
	Truncated bool          `json:"truncated,omitempty"`
	Duration  time.Duration `json:"duration"`        // nanoseconds
	Error     *Problem      `json:"error,omitempty"` // why it was killed, if it was
}

// Stream is the first byte of each binary message on the WebSocket of a command (subprotocol
// [ExecProtocol]). The payload follows.
type Stream byte

// The streams.
const (
	Stdin   Stream = 0 // to the server; at most Window unacknowledged bytes
	Stdout  Stream = 1 // from the server
	Stderr  Stream = 2 // from the server
	Control Stream = 3 // in both directions: a ClientControl or ServerControl as JSON
)

// The WebSocket subprotocols: ExecProtocol for commands and attached processes, DialProtocol for
// connections to addresses inside (messages are plain bytes), and ListenProtocol for listeners inside
// (the first message is a [Listening], the others are multiplexed by [NewSession]).
const (
	ExecProtocol   = "exec.v1.atoll"
	DialProtocol   = "dial.v1.atoll"
	ListenProtocol = "listen.v1.atoll"
)

// Sizes in bytes: Window is the most unacknowledged standard input, MaxPayload the longest payload of
// a message, MaxStart the longest first message, MaxKept the most output of each stream in one
// response.
const (
	Window          = 256 << 10
	MaxPayload      = 32 << 10
	MaxStart        = 4 << 20
	MaxInlineOutput = 16 << 20
)

// OutputWindow is the most unacknowledged output in bytes that our clients allow. A stream has such a
// window if its request asks for it (?window=BYTES). Then other messages of the server, such as the
// exit status, overtake output that the client does not read. Without it, only the connection's own
// flow control slows down a command.
const OutputWindow = 1 << 20

// ClientControl is a control message of a client. The first message on the WebSocket of a command has
// Start; each later one has one of the other fields.
type ClientControl struct {
	Start  *Command    `json:"start,omitempty"`
	Resume *Received   `json:"resume,omitempty"` // with Start: continue this command, whose connection was lost, instead
	Resize *atoll.Size `json:"resize,omitempty"`
	Signal string      `json:"signal,omitempty"`
	EOF    bool        `json:"eof,omitempty"`    // standard input has ended; may come with Start
	Ack    int         `json:"ack,omitempty"`    // bytes of output that were read, if the stream has a window
	Cancel bool        `json:"cancel,omitempty"` // kill the command with all its processes; Exit follows
	Detach bool        `json:"detach,omitempty"` // close the stream and leave the command running
}

// OpResumeExec is the operation of an error not_found of the server that says nothing about the sandbox: the command that a
// client wants to continue is not there any more.
const OpResumeExec = "resume exec"

// Received is the output of a command that a client has received.
type Received struct {
	Stdout int64 `json:"stdout"` // bytes
	Stderr int64 `json:"stderr"`
}

// ServerControl is a control message of a server.
type ServerControl struct {
	Process *atoll.Process `json:"process,omitempty"` // once, at the start
	Input   *int64         `json:"input,omitempty"`   // once, after Resume: bytes of standard input that the command has received; the client continues behind them
	Ack     int            `json:"ack,omitempty"`     // bytes of standard input that were read
	Lost    int64          `json:"lost,omitempty"`    // bytes of dropped output before the following output
	Size    *atoll.Size    `json:"size,omitempty"`    // size of the terminal for the following output
	Exit    *Exit          `json:"exit,omitempty"`    // last message, after all output
}
