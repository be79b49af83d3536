package daytona

import (
	"slices"
	"strings"
	"sync"
)

// outputLog keeps the output of a command in the order in which it came. Its methods may be called
// concurrently.
type outputLog struct {
	mu     sync.Mutex
	chunks []logChunk    // guarded by mu
	size   int           // guarded by mu
	more   chan struct{} // closed when there is more; guarded by mu
}

type logChunk struct {
	stream byte
	data   []byte
}

func newOutputLog() *outputLog { return &outputLog{more: make(chan struct{})} }

// truncatedText is the end of the output of a command that writes too much.
const truncatedText = "\n[atoll: the rest of the output was dropped: the limit of a command is 16 MiB]\n"

// write appends output, up to a limit.
func (l *outputLog) write(stream byte, b []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxLog {
		return
	}
	if l.size += len(b); l.size > maxLog {
		b = append(slices.Clone(b[:len(b)-(l.size-maxLog)]), truncatedText...)
		l.size = maxLog + 1
	}
	for part := range slices.Chunk(b, maxFrame) {
		l.chunks = append(l.chunks, logChunk{stream, slices.Clone(part)})
	}
	close(l.more)
	l.more = make(chan struct{})
}

// frame returns the output from a chunk on as a message with markers, the chunk that follows, and a channel
// that is closed when there is more. A nil message: there is no output yet.
func (l *outputLog) frame(at int) (message []byte, next int, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at < len(l.chunks) && (len(message) == 0 || len(message)+len(l.chunks[at].data)+3 <= 4*maxFrame) {
		k := l.chunks[at]
		message = append(message, k.stream, k.stream, k.stream)
		message = append(message, k.data...)
		at++
	}
	return message, at, l.more
}

// texts returns the output with markers, and each stream without.
func (l *outputLog) texts() (mixed, stdout, stderr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []byte
	var streams [3][]byte
	last := byte(0)
	for _, k := range l.chunks {
		if k.stream != last {
			all = append(all, k.stream, k.stream, k.stream)
			last = k.stream
		}
		all = append(all, k.data...)
		streams[k.stream] = append(streams[k.stream], k.data...)
	}
	text := func(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }
	return text(all), text(streams[1]), text(streams[2])
}
