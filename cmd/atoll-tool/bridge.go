package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// reconnectTime is how long the host is tried to be reached again after its connection was lost: a server that
// is restarted continues the turns of agents.
const reconnectTime = time.Minute

// Pauses between attempts to reach the host.
const (
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 2 * time.Second
)

// bridge connects an MCP client on standard input and output to the host. When the connection is lost, it connects
// again and repeats the handshake, if the version of the protocol has one; calls in flight fail.
type bridge struct {
	addr string
	out  io.Writer

	mu          sync.Mutex
	conn        net.Conn        // guarded by mu, as all below; nil: the connection is lost
	connected   sync.Cond       // signals changes of conn and done
	initialize  []byte          // the client's handshake: its request; nil: none
	initialized []byte          // its notification that it has the answer; nil: none
	pending     map[string]bool // ids of requests without an answer
	answered    bool            // the host has answered
	lost        time.Time       // when the connection was lost after the last answer; zero: it was not
	done        bool            // the client has closed its input, or the host can't be reached
}

// serveMCP copies between the standard streams and the host until the client has closed its input and the host its
// side, or the host can't be reached any more.
func serveMCP(args []string) error {
	addr := ""
	if len(args) > 0 {
		addr = args[0]
	}
	conn, err := dial(addr)
	if err != nil {
		return err
	}
	b := &bridge{addr: addr, out: os.Stdout, conn: conn, pending: make(map[string]bool)}
	b.connected.L = &b.mu
	go b.readClient(os.Stdin) // ends with the process: nothing else ends a read of standard input
	return b.readHost()
}

// readClient sends the client's messages to the host.
func (b *bridge) readClient(in io.Reader) {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			b.send(line)
		}
		if err != nil {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = true
	if h, ok := b.conn.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite() // the host sees the end, or is gone
	}
}

// send sends a message to the host, once it is connected.
func (b *bridge) send(line []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.conn == nil && !b.done {
		b.connected.Wait()
	}
	if b.conn == nil {
		return
	}
	var m message
	_ = json.Unmarshal(line, &m) // the host answers what is no message
	switch m.Method {
	case "initialize":
		b.initialize = bytes.Clone(line)
	case "notifications/initialized":
		b.initialized = bytes.Clone(line)
	}
	if m.Method != "" && m.ID != nil {
		b.pending[string(m.ID)] = true
	}
	_, _ = b.conn.Write(line) // reading reports a lost connection
}

// readHost passes the host's messages to the client.
func (b *bridge) readHost() error {
	for {
		b.mu.Lock()
		conn := b.conn
		b.mu.Unlock()
		r := bufio.NewReader(conn)
		if err := b.copyAnswers(r); err != nil {
			return err
		}
		_ = conn.Close() // the other direction is useless
		again, err := b.connectAgain()
		if err != nil || !again {
			return err
		}
	}
}

// copyAnswers copies messages to the client until the connection ends. It returns an error if the client is gone.
func (b *bridge) copyAnswers(r *bufio.Reader) error {
	for {
		line, lost := r.ReadBytes('\n')
		var m message
		if lost == nil && json.Unmarshal(line, &m) == nil && m.Method == "" && m.ID != nil {
			b.mu.Lock()
			delete(b.pending, string(m.ID))
			b.answered, b.lost = true, time.Time{}
			b.mu.Unlock()
		}
		if lost != nil && !b.isOver() {
			return nil // a part of a message is useless to a client that goes on
		}
		if _, err := b.out.Write(line); err != nil || lost != nil {
			return err
		}
	}
}

// isOver reports whether the end of the connection is the end.
func (b *bridge) isOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done || !b.answered
}

// connectAgain fails the calls in flight, and connects again. It returns false if the client has closed its input or
// has not begun: then the host's end is the end.
func (b *bridge) connectAgain() (bool, error) {
	if b.isOver() {
		return false, nil
	}
	b.mu.Lock()
	b.conn = nil
	lost := b.pending
	b.pending = make(map[string]bool)
	if b.lost.IsZero() {
		b.lost = time.Now()
	}
	begun := b.lost
	b.mu.Unlock()
	for id := range lost {
		if err := b.answerLost(json.RawMessage(id)); err != nil {
			return false, err
		}
	}
	for wait := reconnectMin; ; wait = min(2*wait, reconnectMax) {
		conn, err := b.shakeHands()
		b.mu.Lock()
		over := b.done
		if err == nil {
			b.conn = conn
		}
		b.done = b.done || time.Since(begun) > reconnectTime
		b.connected.Broadcast()
		gaveUp := b.done
		b.mu.Unlock()
		switch {
		case over:
			return false, nil
		case gaveUp:
			return false, newFault(unreachable, "the connection to the host was lost: %v", err)
		case err == nil:
			return true, nil
		}
		time.Sleep(wait) //nolint:forbidigo // between attempts; the process ends by a signal
	}
}

// answerLost answers a request whose answer is lost.
func (b *bridge) answerLost(id json.RawMessage) error {
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": rpcError{
		-32000, "the connection to the host was lost during the call, which may have had its effect; it can be repeated",
	}})
	if err != nil {
		return err
	}
	_, err = b.out.Write(append(answer, '\n'))
	return err
}

// shakeHands connects to the host and repeats the client's handshake.
func (b *bridge) shakeHands() (net.Conn, error) {
	conn, err := dial(b.addr)
	if err != nil {
		return nil, err
	}
	if b.initialized == nil {
		return conn, nil
	}
	_ = conn.SetDeadline(time.Now().Add(reconnectTime)) // sockets support deadlines
	_, err = conn.Write(b.initialize)
	if err == nil {
		err = readAnswer(conn)
	}
	if err == nil {
		_, err = conn.Write(b.initialized)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the handshake: %w", err), conn.Close())
	}
	_ = conn.SetDeadline(time.Time{}) // likewise
	return conn, nil
}

// readAnswer reads the answer to the first request, byte by byte: what follows it is for the client.
func readAnswer(conn net.Conn) error {
	for {
		var line []byte
		for one := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; line = append(line, one[0]) {
			if _, err := io.ReadFull(conn, one); err != nil {
				return err
			}
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return err
		}
		switch {
		case m.Method != "": // a notification before the answer
		case m.Error != nil:
			return m.Error
		default:
			return nil
		}
	}
}
