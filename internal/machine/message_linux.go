package machine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Bounds of a message between parts of atoll.
const (
	maxMessage = 4 << 20
	maxFiles   = 64
)

// send writes a JSON document and files.
func send(c *net.UnixConn, v any, files ...*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("a message of %d bytes and %d files is too large", len(b), len(files))
	}
	if _, _, err := c.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(b))), rights(files), nil); err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}

// rights is the control message that hands files over.
func rights(files []*os.File) []byte {
	if len(files) == 0 {
		return nil
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return syscall.UnixRights(fds...)
}

// receive reads what send wrote. The caller closes the files.
func receive(c *net.UnixConn, v any) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
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
	if files, err = filesOf(oob[:oobn]); err != nil {
		return files, err
	}
	if flags&syscall.MSG_CTRUNC != 0 {
		return files, errors.New("files of a message were lost")
	}
	if _, err := io.ReadFull(c, head[n:]); err != nil {
		return files, err
	}
	b, err := readSized(c, binary.BigEndian.Uint32(head[:]), maxMessage)
	if err != nil {
		return files, err
	}
	return files, json.Unmarshal(b, v)
}

// readSized reads as many bytes as were announced, if they are not too many;
// what only was announced allocates nothing.
func readSized(r io.Reader, size, most uint32) ([]byte, error) {
	if size > most {
		return nil, fmt.Errorf("a message of %d bytes: at most %d are taken", size, most)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(b) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func filesOf(oob []byte) ([]*os.File, error) {
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

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close() // they were only lent
		}
	}
}

// socketpair returns two ends: one for this process, one to give away.
func socketpair() (*net.UnixConn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socketpair")
	ours, err := connOf(os.NewFile(uintptr(fds[0]), "socketpair"))
	if err != nil {
		_ = theirs.Close() // the error says more
		return nil, nil, err
	}
	return ours, theirs, nil
}

// connOf makes a connection of a socket, which it owns from then on.
func connOf(f *os.File) (*net.UnixConn, error) {
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close() // it is of no use
		return nil, errors.New("not a unix socket")
	}
	return u, nil
}

// mostPath is how long the path of a unix socket may be.
const mostPath = 107

// socketPath returns a path of a socket that is short enough, until done is
// called.
func socketPath(dir, name string) (path string, done func(), err error) {
	if len(dir)+1+len(name) <= mostPath {
		return dir + "/" + name, func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) + "/" + name, func() { _ = f.Close() }, nil
}
