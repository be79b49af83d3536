package mcp

import (
	"fmt"
	"strings"
	"sync"
)

// maxText bounds the text of one answer, in bytes. Models can use even less.
const maxText = 30_000

// truncatedBuffer keeps the beginning and the end of its input.
type truncatedBuffer struct {
	headSize, tailSize int

	mu    sync.Mutex
	head  []byte // guarded by mu, as all below
	tail  []byte // up to twice tailSize; the last tailSize bytes count
	total int64
}

// newTruncatedBuffer returns a truncatedBuffer of max bytes, two thirds of them for the beginning.
func newTruncatedBuffer(max int) *truncatedBuffer {
	return &truncatedBuffer{headSize: max * 2 / 3, tailSize: max - max*2/3}
}

func (c *truncatedBuffer) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(b)
	c.total += int64(n)
	k := min(n, c.headSize-len(c.head))
	c.head = append(c.head, b[:k]...)
	b = b[k:]
	if len(b) > c.tailSize {
		b = b[len(b)-c.tailSize:]
	}
	if len(c.tail)+len(b) > 2*c.tailSize {
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-c.tailSize:]...)
	}
	c.tail = append(c.tail, b...)
	return n, nil
}

// Len returns how many bytes were written.
func (c *truncatedBuffer) Len() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// String returns the kept text as valid UTF-8, with a line in place of missing bytes.
func (c *truncatedBuffer) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	tail := c.tail
	if len(tail) > c.tailSize {
		tail = tail[len(tail)-c.tailSize:]
	}
	lost := c.total - int64(len(c.head)) - int64(len(tail))
	if lost == 0 {
		return validUTF8(string(c.head) + string(tail))
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", validUTF8(string(c.head)), lost, validUTF8(string(tail)))
}

// Last returns the last line that is not empty, at most 200 bytes of it.
func (c *truncatedBuffer) Last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.tail
	if len(end) == 0 {
		end = c.head
	}
	line := strings.TrimRight(string(end[max(0, len(end)-4096):]), " \t\r\n")
	if i := strings.LastIndexByte(line, '\n'); i >= 0 {
		line = line[i+1:]
	}
	return validUTF8(line[:min(len(line), 200)])
}

func validUTF8(s string) string { return strings.ToValidUTF8(s, "�") }
