package hypervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/isolation/fdpass"
)

// maxLine is the size limit of a line of QMP in bytes. Its sender may be controlled by its guest.
const maxLine = 1 << 20

// qmp is a connection to QEMU (docs/interop/qmp-spec). Its methods are safe for concurrent use; one
// command is in flight at a time.
type qmp struct {
	conn        *net.UnixConn
	versionText string
	commandSlot chan struct{} // holds a token while a command is in flight
	replies     chan qmpReply
	done        chan struct{} // closed when the connection has ended
	err         error         // the reason; valid once done is closed

	mu       sync.Mutex
	lastID   uint64                                  // guarded by mu
	awaited  uint64                                  // guarded by mu; 0: none
	listener func(name string, data json.RawMessage) // set before the first event
}

// qmpLine is a line from QEMU: greeting, reply or event.
type qmpLine struct {
	Greeting *qmpGreeting    `json:"QMP"`
	Return   json.RawMessage `json:"return"`
	Error    *qmpError       `json:"error"`
	ID       uint64          `json:"id"`
	Event    string          `json:"event"`
	Data     json.RawMessage `json:"data"`
}

type qmpGreeting struct {
	Version struct {
		QEMU struct{ Major, Minor, Micro int } `json:"qemu"`
	} `json:"version"`
}

type qmpError struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

type qmpReply struct {
	value json.RawMessage
	err   error
}

// newQMP waits for QEMU's greeting on a connection, which it then owns. It calls the listener for
// each event, one after another.
func newQMP(ctx context.Context, conn *net.UnixConn, listener func(name string, data json.RawMessage)) (*qmp, error) {
	q := &qmp{conn: conn, commandSlot: make(chan struct{}, 1), replies: make(chan qmpReply, 1), done: make(chan struct{}), listener: listener}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	r := bufio.NewReaderSize(conn, 64<<10)
	line, err := readQMPLine(r)
	if err == nil && line.Greeting == nil {
		err = errors.New("no greeting")
	}
	if err != nil {
		_ = conn.Close() // the error above is the cause
		return nil, fmt.Errorf("%w: QEMU: %w", atoll.ErrUnavailable, errors.Join(context.Cause(ctx), err))
	}
	v := line.Greeting.Version.QEMU
	q.versionText = fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
	go q.read(r)
	return q, q.runCommand(ctx, "qmp_capabilities", nil)
}

// readQMPLine reads one line of at most maxLine bytes.
func readQMPLine(r *bufio.Reader) (*qmpLine, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			return nil, fmt.Errorf("a line of more than %d bytes", maxLine)
		}
		text = append(text, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return nil, err
		}
		break
	}
	line := new(qmpLine)
	if err := json.Unmarshal(text, line); err != nil {
		return nil, fmt.Errorf("invalid message: %.100q", text)
	}
	return line, nil
}

// read dispatches lines until the connection ends.
func (q *qmp) read(r *bufio.Reader) {
	for {
		line, err := readQMPLine(r)
		if err != nil {
			q.err = err
			close(q.done)
			_ = q.conn.Close() // no more lines are expected
			return
		}
		if line.Event != "" {
			q.listener(line.Event, line.Data)
			continue
		}
		reply := qmpReply{value: line.Return}
		if line.Error != nil {
			reply.err = fmt.Errorf("%s", printableLine(line.Error.Desc, maxShown))
		}
		q.deliverReply(line.ID, reply)
	}
}

// deliverReply passes a reply to the command that waits for it, if any.
func (q *qmp) deliverReply(id uint64, r qmpReply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id == 0 || id != q.awaited {
		return
	}
	q.awaited = 0
	q.replies <- r // does not block: one reply is awaited at a time, and dropReply empties the channel
}

// runCommand runs a command, and waits for QEMU's reply. Files are sent with it.
func (q *qmp) runCommand(ctx context.Context, command string, arguments any, files ...*os.File) error {
	return q.runQuery(ctx, command, arguments, nil, files...)
}

// runQuery is runCommand for a command whose result is decoded into value.
func (q *qmp) runQuery(ctx context.Context, command string, arguments, value any, files ...*os.File) error {
	fail := func(err error) error { return fmt.Errorf("%w: QEMU: %s: %w", atoll.ErrUnavailable, command, err) }
	select {
	case q.commandSlot <- struct{}{}:
		defer func() { <-q.commandSlot }()
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	case <-q.done:
		return fail(q.endError())
	}
	q.mu.Lock()
	q.lastID++
	id := q.lastID
	q.awaited = id
	q.mu.Unlock()
	defer q.dropReply()
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        uint64 `json:"id"`
	}{command, arguments, id})
	if err != nil {
		return err
	}
	if _, _, err := q.conn.WriteMsgUnix(append(text, '\n'), fdpass.ControlMessage(files), nil); err != nil {
		return fail(err)
	}
	select {
	case r := <-q.replies:
		if r.err != nil {
			return fail(r.err)
		}
		if value != nil {
			return json.Unmarshal(r.value, value)
		}
		return nil
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	case <-q.done:
		return fail(q.endError())
	}
}

// dropReply stops waiting for a reply, and drops one that came too late.
func (q *qmp) dropReply() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaited = 0
	select {
	case <-q.replies:
	default:
	}
}

// endError returns the reason why the connection ended.
func (q *qmp) endError() error {
	if errors.Is(q.err, io.EOF) {
		return errors.New("it has exited")
	}
	return q.err
}
