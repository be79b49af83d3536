package fdpass

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// MaxMessage is the size limit of a message in bytes, without its length prefix.
const MaxMessage = 4 << 20

// maxFiles is the number of files that one message may carry; the kernel's limit is 253.
const maxFiles = 250

// Send writes v as a JSON document, and hands copies of the files to the receiver. The caller still
// closes its own. Only one goroutine may send on a connection at a time.
func Send(c *net.UnixConn, v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxMessage || len(files) > maxFiles {
		return fmt.Errorf("a message of %d bytes and %d files is too large", len(b), len(files))
	}
	if _, _, err := c.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(b))), ControlMessage(files), nil); err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}

// ControlMessage returns the control message that passes files over a Unix socket; nil without files.
func ControlMessage(files []*os.File) []byte {
	if len(files) == 0 {
		return nil
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return syscall.UnixRights(fds...)
}

// Receive reads a message of Send into v, and returns its files, which the caller closes. The error
// is io.EOF when the peer has closed the connection. With an error there are no files.
func Receive(c *net.UnixConn, v any) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			CloseAll(files)
			files = nil
		}
	}()
	var head [4]byte
	oob := make([]byte, syscall.CmsgSpace(maxFiles*4))
	n, oobn, flags, _, err := c.ReadMsgUnix(head[:], oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	if files, err = parseFiles(oob[:oobn]); err != nil {
		return files, err
	}
	if flags&syscall.MSG_CTRUNC != 0 {
		return files, errors.New("files of a message were lost")
	}
	if _, err := io.ReadFull(c, head[n:]); err != nil {
		return files, err
	}
	b, err := ReadSized(c, binary.BigEndian.Uint32(head[:]), MaxMessage)
	if err != nil {
		return files, err
	}
	return files, json.Unmarshal(b, v)
}

// ReadSized reads a message of an announced size, which may be at most limit. Memory is allocated
// for the bytes that arrive, not for those that are announced.
func ReadSized(r io.Reader, size, limit uint32) ([]byte, error) {
	if size > limit {
		return nil, fmt.Errorf("a message of %d bytes exceeds the limit of %d", size, limit)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(b) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

// parseFiles returns the files of a control message. With an error it returns those that were
// received before it.
func parseFiles(oob []byte) ([]*os.File, error) {
	list, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range list {
		fds, err := syscall.ParseUnixRights(&list[i])
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// CloseAll closes files, and skips nil ones.
func CloseAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // nothing is buffered for them here
		}
	}
}

// NewPair returns the two ends of a stream socket: one for this process, one for another.
func NewPair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socketpair")
	ours, err := Conn(os.NewFile(uintptr(fds[0]), "socketpair"))
	if err != nil {
		_ = theirs.Close() // the error above is the cause
		return nil, nil, err
	}
	return ours, theirs, nil
}

// Conn returns a connection for a Unix socket. It closes f, also if there is an error.
func Conn(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close() // the error below is the cause
		return nil, errors.New("not a unix socket")
	}
	return u, nil
}
