package tty

import (
	"bytes"
	"io"
)

// ReadWriter is stdin and stdout as one.
type ReadWriter struct {
	io.Reader
	io.Writer
}

// Keyboard is a terminal in raw mode on which Ctrl-C, which the line editor
// takes for the end of the input, drops the line instead.
type Keyboard struct {
	Reader io.Reader
	hit    bool
}

const CtrlC, ctrlU = 3, 21

func (k *Keyboard) Read(b []byte) (int, error) {
	n, err := k.Reader.Read(b[:max(1, len(b)/2)])
	i := bytes.IndexByte(b[:n], CtrlC)
	if i < 0 || i+2 > len(b) {
		return n, err
	}
	k.hit = true
	b[i], b[i+1] = ctrlU, '\r'
	return i + 2, err
}

// Interrupted reports, once, that Ctrl-C was pressed.
func (k *Keyboard) Interrupted() bool {
	hit := k.hit
	k.hit = false
	return hit
}
