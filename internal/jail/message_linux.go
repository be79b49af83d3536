package jail

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

// Bounds of a message between the ends of a jail's sockets.
const (
	maxMessage = 4 << 20
	maxFiles   = 250 // the kernel's bound is 253
)

// send writes a JSON document and files.
func send(c *net.UnixConn, v any, files []*os.File) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxMessage || len(files) > maxFiles {
		return fmt.Errorf("a message of %d bytes and %d files is too large", len(b), len(files))
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = syscall.UnixRights(fds...)
	}
	if _, _, err := c.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(b))), rights, nil); err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
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
	files, err = rightsOf(oob[:oobn])
	if err != nil {
		return files, err
	}
	if flags&syscall.MSG_CTRUNC != 0 {
		return files, errors.New("files of a message were lost")
	}
	if _, err := io.ReadFull(c, head[n:]); err != nil {
		return files, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessage {
		return files, fmt.Errorf("a message of %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c, b); err != nil {
		return files, err
	}
	return files, json.Unmarshal(b, v)
}

func rightsOf(oob []byte) ([]*os.File, error) {
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
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // they were only lent
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
