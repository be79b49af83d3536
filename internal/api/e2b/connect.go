package e2b

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The Connect protocol, as far as clients with JSON use it: unary calls are POST requests with JSON;
// streams are messages, each with a prefix of five bytes: flags, and the length in big-endian order.
const (
	prefixSize     = 5
	flagCompressed = 1
	flagEnd        = 2 // the last message, with the error if there is one

	unaryType  = "application/json"
	streamType = "application/connect+json"
)

// rpcError is an error of the Connect protocol.
type rpcError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// codes maps HTTP statuses to codes of the Connect protocol.
var codes = map[int]string{
	400: "invalid_argument", 401: "unauthenticated", 403: "permission_denied", 404: "not_found", 408: "deadline_exceeded", 409: "failed_precondition",
	413: "resource_exhausted", 415: "invalid_argument", 422: "invalid_argument", 429: "resource_exhausted", 499: "canceled",
	501: "unimplemented", 502: "unavailable", 503: "unavailable", 504: "deadline_exceeded", 507: "resource_exhausted",
}

func codeOfStatus(status int) string {
	if code := codes[status]; code != "" {
		return code
	}
	return "internal"
}

// isRPC reports whether a request is a call of the Connect protocol.
func isRPC(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/process.Process/") || strings.HasPrefix(r.URL.Path, "/filesystem.Filesystem/")
}

// errAlreadyExists is the error of something that exists. Its code differs from that of other conflicts.
var errAlreadyExists = errors.New("it exists already")

// writeRPCError answers a unary call with an error whose code its HTTP status does not have.
func (c *call) writeRPCError(status int, code, message string) error {
	return c.writeJSON(status, rpcError{code, message})
}

// addUnary registers a unary call.
func addUnary[I, O any](s *Server, name string, f func(c *call, in *I) (*O, error)) {
	add(s.data, "POST "+name, func(c *call) error {
		if err := c.checkMedia(unaryType); err != nil {
			return err
		}
		var in I
		if err := c.readJSON(&in); err != nil {
			return err
		}
		out, err := f(c, &in)
		if errors.Is(err, errAlreadyExists) {
			return c.writeRPCError(http.StatusConflict, "already_exists", err.Error())
		}
		if err != nil {
			return err
		}
		return c.writeJSON(http.StatusOK, out)
	})
}

// checkMedia refuses a body of another type than a call has.
func (c *call) checkMedia(want string) error {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != want {
		return &Error{Status: http.StatusUnsupportedMediaType, Message: fmt.Sprintf("Content-Type %q: must be %s", shortenText(c.r.Header.Get("Content-Type")), want)}
	}
	return nil
}

// readMessage reads the next message of a stream of a client into v. It returns io.EOF at the end.
func (c *call) readMessage(v any) error {
	prefix := make([]byte, prefixSize)
	if _, err := io.ReadFull(c.r.Body, prefix); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return invalidError("the stream ends within a message")
		}
		return err
	}
	if prefix[0]&flagEnd != 0 {
		return io.EOF
	}
	size := binary.BigEndian.Uint32(prefix[1:])
	if size > maxBody {
		return &Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("a message of %d bytes: the limit is %d", size, maxBody)}
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.r.Body, b); err != nil {
		return invalidError("the stream ends within a message")
	}
	if prefix[0]&flagCompressed != 0 {
		var err error
		if b, err = c.decompressMessage(b); err != nil {
			return err
		}
	}
	return decodeJSON(b, v)
}

// decompressMessage returns the content of a compressed message.
func (c *call) decompressMessage(b []byte) ([]byte, error) {
	if coding := c.r.Header.Get("Connect-Content-Encoding"); coding != "gzip" {
		return nil, unsupportedError("Connect-Content-Encoding %q", shortenText(coding))
	}
	z, err := gzip.NewReader(strings.NewReader(string(b)))
	if err != nil {
		return nil, invalidError("a compressed message: %v", err)
	}
	b, err = io.ReadAll(io.LimitReader(z, maxBody+1))
	if err == nil && len(b) > maxBody {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, invalidError("a compressed message: %v", err)
	}
	return b, nil
}

// stream is the response of a call whose answers are a stream. Its methods may be called concurrently.
type stream struct {
	ctx context.Context //nolint:containedctx // of the request
	ctl *http.ResponseController

	mu     sync.Mutex
	w      http.ResponseWriter // guarded by mu, as all below
	last   time.Time           // when something was sent
	closed bool
	err    error // first error of writing
}

// errStreamClosed is the error of writing to a stream that has ended.
var errStreamClosed = errors.New("the stream has ended")

// newStream begins a response.
func (c *call) newStream() *stream {
	c.w.Header().Set("Content-Type", streamType)
	c.w.WriteHeader(http.StatusOK)
	return &stream{ctx: c.r.Context(), ctl: http.NewResponseController(c.w), w: c.w, last: time.Now()}
}

// send sends a message.
func (o *stream) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.write(0, b)
}

// sendLocked is send for a caller that holds mu.
func (o *stream) sendLocked(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.writeLocked(0, b)
}

func (o *stream) write(flags byte, b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writeLocked(flags, b)
}

// writeLocked is write for a caller that holds mu.
func (o *stream) writeLocked(flags byte, b []byte) error {
	switch {
	case o.err != nil:
		return o.err
	case o.closed:
		return errStreamClosed
	}
	prefix := make([]byte, prefixSize, prefixSize+len(b))
	prefix[0] = flags
	binary.BigEndian.PutUint32(prefix[1:], uint32(len(b)))
	_, o.err = o.w.Write(append(prefix, b...))
	if o.err == nil {
		o.err = o.ctl.Flush()
	}
	o.last = time.Now()
	return o.err
}

// endWith ends the stream, with an error if err is not nil. It waits for a write in progress: nothing is
// written after it.
func (o *stream) endWith(err error) {
	var last struct {
		Error *rpcError `json:"error,omitempty"`
	}
	if err != nil {
		last.Error = &rpcError{Code: codeOfStatus(statusOf(err)), Message: err.Error()}
	}
	b, merr := json.Marshal(last)
	o.mu.Lock()
	defer o.mu.Unlock()
	if merr == nil && o.ctx.Err() == nil {
		_ = o.writeLocked(flagEnd, b) // an error means that the client is gone
	}
	o.closed = true
}

// keepAlive sends a message whenever nothing else was sent for an interval, until ctx is done.
func (o *stream) keepAlive(ctx context.Context, every time.Duration, message any) {
	t := time.NewTicker(every / 2)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		o.mu.Lock()
		quiet := time.Since(o.last)
		o.mu.Unlock()
		if quiet >= every/2 && o.send(message) != nil {
			return
		}
	}
}

// keepAliveInterval returns how often a client wants to hear from a stream.
func (c *call) keepAliveInterval() time.Duration {
	n, err := strconv.Atoi(c.r.Header.Get("Keepalive-Ping-Interval"))
	if err != nil || n < 1 || n > 3600 {
		n = 90
	}
	return time.Duration(n) * time.Second
}

// readTimeout returns the time that a call may take; 0: any.
func (c *call) readTimeout() (time.Duration, error) {
	v := c.r.Header.Get("Connect-Timeout-Ms")
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || len(v) > 10 {
		return 0, invalidError("Connect-Timeout-Ms %q: must be at most 10 digits", shortenText(v))
	}
	return time.Duration(n) * time.Millisecond, nil
}
