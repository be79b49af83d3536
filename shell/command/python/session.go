package python

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/internal/unix/wasi"
	"github.com/atoll-sandbox/atoll/vfs"
)

const (
	// maxMemory is the largest memory of an interpreter. The process of the interpreter has the same limit.
	maxMemory = wasi.MaxMemory
	// maxFiles is how many files an interpreter may have open.
	maxFiles = 200
	// maxRead is the number of bytes that one call reads.
	maxRead = 64 << 10
	// firstFile is the descriptor of the first file that is opened: those before are the streams and the root directory.
	firstFile = wasi.FirstFile
	// bufferCost is charged for the buffers of a connection.
	bufferCost = 128 << 10
)

// session is one run of python3.
type session struct {
	options

	p      *kernel.Proc
	conn   net.Conn
	calls  *bufio.Reader
	files  map[int64]*file
	memory int64 // that the interpreter is charged for
	given  bool  // the job
}

// file is an open file or directory of the interpreter.
type file struct {
	h     *kernel.Handle // nil: a directory
	path  string
	flags wasi.Flag

	entries []fs.DirEntry // of a directory that is being read
	listed  bool
}

// run runs the interpreter and returns its status.
func (s *session) run() (int, error) {
	start := s.start()
	if s.p.Python() == nil {
		return 0, fmt.Errorf("%w: python3 is not part of this sandbox", atoll.ErrUnavailable)
	}
	s.p.Alloc(bufferCost)
	defer s.p.Free(bufferCost)
	defer func() { // also if the process ends while it waits for an interpreter
		if s.conn != nil {
			_ = s.conn.Close() // the interpreter ends with it
		}
	}()
	err := s.p.Await(func(ctx context.Context) (err error) {
		s.conn, err = s.p.Python()(ctx, start != nil)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.calls, s.files = bufio.NewReaderSize(s.conn, maxRead), make(map[int64]*file)
	defer s.closeFiles()
	for {
		c, err := s.receive()
		if err != nil {
			return 0, err
		}
		if c.Op == wasi.OpExit {
			return int(c.Arg(0)) & 255, s.ending(&c)
		}
		var a wasi.Reply
		if c.Op == wasi.OpStart && start != nil {
			a, start = jsonReply(start), nil
		} else {
			a = s.answer(&c)
		}
		if err := s.send(a); err != nil {
			return 0, err
		}
	}
}

// ending returns why an interpreter ended that did not exit.
func (s *session) ending(c *wasi.Call) error {
	if len(c.Data) == 0 {
		return nil
	}
	return fmt.Errorf("the interpreter failed: %.300q", c.Data)
}

// receive waits for the next call. The time that the interpreter computes counts as work.
func (s *session) receive() (c wasi.Call, err error) {
	begin := time.Now()
	err = s.p.Await(func(ctx context.Context) (err error) {
		stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
		defer stop()
		c, err = wasi.ReadCall(s.calls)
		return err
	})
	s.p.Tick(1 + int(time.Since(begin).Microseconds()))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		err = errors.New("the interpreter has ended: it was out of memory, or its process was killed")
	}
	return c, err
}

// send sends an answer.
func (s *session) send(a wasi.Reply) error {
	return s.p.Await(func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
		defer stop()
		return wasi.WriteReply(s.conn, a)
	})
}

func jsonReply(v any) wasi.Reply {
	b, err := json.Marshal(v)
	if err != nil || len(b) > wasi.MaxData {
		return wasi.Reply{Errno: wasi.EINVAL}
	}
	return wasi.Reply{Data: b}
}

// answer makes a call of the interpreter.
func (s *session) answer(c *wasi.Call) wasi.Reply {
	switch c.Op {
	case wasi.OpJob:
		return s.giveJob(c.Arg(0))
	case wasi.OpGrow:
		return wasi.Reply{Errno: s.grow(c.Arg(0))}
	case wasi.OpSleep:
		s.p.Sleep(time.Duration(max(0, c.Arg(0))), false)
		return wasi.Reply{}
	case wasi.OpOpen:
		return s.open(c)
	case wasi.OpRead, wasi.OpWrite, wasi.OpSeek, wasi.OpClose, wasi.OpSync, wasi.OpStatFD, wasi.OpFlags, wasi.OpSetFlags, wasi.OpTruncate, wasi.OpTimesFD, wasi.OpReadDir:
		f := s.find(c.Arg(0))
		if f == nil {
			return wasi.Reply{Errno: wasi.EBADF}
		}
		return s.answerFile(c, f)
	}
	return s.answerPath(c)
}

// giveJob charges the memory that the interpreter has, and returns the job.
func (s *session) giveJob(size int64) wasi.Reply {
	if s.given {
		return wasi.Reply{Errno: wasi.EINVAL}
	}
	if no := s.grow(size); no != 0 {
		return wasi.Reply{Errno: no}
	}
	s.given = true
	return jsonReply(s.job())
}

// grow charges memory before the interpreter has it.
func (s *session) grow(size int64) wasi.Errno {
	more := size - s.memory
	switch {
	case more < 0 || size > maxMemory:
		return wasi.ENOMEM
	case more > s.p.FreeMemory():
		return wasi.ENOMEM
	}
	s.p.Alloc(more)
	s.memory = size
	return 0
}

// find returns an open file, or nil.
func (s *session) find(fd int64) *file {
	switch fd {
	case 0:
		return &file{h: s.p.Stdin, flags: wasi.FlagRead}
	case 1:
		return &file{h: s.p.Stdout, flags: wasi.FlagWrite}
	case 2:
		return &file{h: s.p.Stderr, flags: wasi.FlagWrite}
	}
	return s.files[fd]
}

func (s *session) closeFiles() {
	for _, f := range s.files {
		if f.h != nil {
			_ = f.h.Close() // nothing waits to be written
		}
	}
}

// errnoOf returns the number of an error.
func errnoOf(err error) wasi.Errno {
	if err == nil {
		return 0
	}
	var no vfs.Errno
	if !errors.As(err, &no) {
		return wasi.EIO
	}
	return wasi.ErrnoOf(no)
}

func failed(err error) wasi.Reply { return wasi.Reply{Errno: errnoOf(err)} }
