package machine

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
)

// maxLine bounds a line of QMP, which comes from a process that may be in the
// hands of its guest.
const maxLine = 1 << 20

// qmp speaks with QEMU (docs/interop/qmp-spec). Its methods may be called at
// once; one command is under way at a time.
type qmp struct {
	conn    *net.UnixConn
	is      string        // QEMU's version
	turn    chan struct{} // holds a token while a command is under way
	replies chan qmpReply
	done    chan struct{} // closed when the connection has ended
	err     error         // why; to be read when done is closed

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

// newQMP waits for QEMU's greeting on a connection, which it owns from then on.
// The listener is told of events, one after another.
func newQMP(ctx context.Context, conn *net.UnixConn, listener func(name string, data json.RawMessage)) (*qmp, error) {
	q := &qmp{conn: conn, turn: make(chan struct{}, 1), replies: make(chan qmpReply, 1), done: make(chan struct{}), listener: listener}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	r := bufio.NewReaderSize(conn, 64<<10)
	line, err := qmpNext(r)
	if err == nil && line.Greeting == nil {
		err = errors.New("it does not greet")
	}
	if err != nil {
		_ = conn.Close() // the error says more
		return nil, fmt.Errorf("%w: QEMU: %w", atoll.ErrUnavailable, errors.Join(context.Cause(ctx), err))
	}
	v := line.Greeting.Version.QEMU
	q.is = fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
	go q.read(r)
	return q, q.do(ctx, "qmp_capabilities", nil)
}

// qmpNext reads one line, bounded.
func qmpNext(r *bufio.Reader) (*qmpLine, error) {
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
		return nil, fmt.Errorf("it says what is no message: %.100q", text)
	}
	return line, nil
}

// read takes lines until the connection ends.
func (q *qmp) read(r *bufio.Reader) {
	for {
		line, err := qmpNext(r)
		if err != nil {
			q.err = err
			close(q.done)
			_ = q.conn.Close() // nothing comes any more
			return
		}
		if line.Event != "" {
			q.listener(line.Event, line.Data)
			continue
		}
		reply := qmpReply{value: line.Return}
		if line.Error != nil {
			reply.err = fmt.Errorf("%s", printable(line.Error.Desc, maxShown))
		}
		q.answer(line.ID, reply)
	}
}

// answer passes a reply on to who waits for it, if he still does.
func (q *qmp) answer(id uint64, r qmpReply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id == 0 || id != q.awaited {
		return
	}
	q.awaited = 0
	q.replies <- r // there is room: one is awaited at a time, and forget empties it
}

// do gives a command and waits until QEMU has answered. Files go along with it.
func (q *qmp) do(ctx context.Context, command string, arguments any, files ...*os.File) error {
	return q.ask(ctx, command, arguments, nil, files...)
}

// ask is do for a command whose answer is wanted.
func (q *qmp) ask(ctx context.Context, command string, arguments, value any, files ...*os.File) error {
	fail := func(err error) error { return fmt.Errorf("%w: QEMU: %s: %w", atoll.ErrUnavailable, command, err) }
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	case <-q.done:
		return fail(q.ended())
	}
	q.mu.Lock()
	q.lastID++
	id := q.lastID
	q.awaited = id
	q.mu.Unlock()
	defer q.forget()
	text, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        uint64 `json:"id"`
	}{command, arguments, id})
	if err != nil {
		return err
	}
	if _, _, err := q.conn.WriteMsgUnix(append(text, '\n'), rights(files), nil); err != nil {
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
		return fail(q.ended())
	}
}

// forget gives up an answer that is still awaited, or came too late.
func (q *qmp) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaited = 0
	select {
	case <-q.replies:
	default:
	}
}

func (q *qmp) ended() error {
	if errors.Is(q.err, io.EOF) {
		return errors.New("it has ended")
	}
	return q.err
}
