// Package jsonrpc is JSON-RPC over lines as a dialogue without I/O: lines are
// given to a [Peer], which says what they are, and it makes those to send.
package jsonrpc

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// The codes of errors that every peer knows.
const (
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// Message is a line: a request has Method and ID, a notification only Method,
// an answer only ID.
type Message struct {
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error is what went wrong with a request.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Kind says what a message is.
type Kind int

// The kinds of messages.
const (
	Strange  Kind = iota // not JSON-RPC, or an answer to nothing that was asked
	Request              // to be answered
	Notice               // not to be answered
	Response             // to a call
)

// Peer is one side of a dialogue. Its zero value is ready.
type Peer struct {
	// Bare leaves out the version, as some peers want it.
	Bare bool

	last  int64
	calls map[int64]string
}

// Call makes a request. The answer to it is known by the method.
func (p *Peer) Call(method string, params any) []byte {
	p.last++
	if p.calls == nil {
		p.calls = map[int64]string{}
	}
	p.calls[p.last] = method
	return p.line(Message{ID: strconv.AppendInt(nil, p.last, 10), Method: method, Params: encode(params)})
}

// Notify makes a notification.
func (p *Peer) Notify(method string, params any) []byte {
	return p.line(Message{Method: method, Params: encode(params)})
}

// Answer makes the answer to a request.
func (p *Peer) Answer(id json.RawMessage, result any) []byte {
	return p.line(Message{ID: id, Result: encode(result)})
}

// Refuse makes the answer to a request that can't be granted.
func (p *Peer) Refuse(id json.RawMessage, code int, message string) []byte {
	return p.line(Message{ID: id, Error: &Error{Code: code, Message: message}})
}

// Waits reports that a call of the method has no answer yet.
func (p *Peer) Waits(method string) bool {
	for _, m := range p.calls {
		if m == method {
			return true
		}
	}
	return false
}

// Take reads a line. A Response gets the method of the call that it answers.
func (p *Peer) Take(line []byte) (Message, Kind) {
	var m Message
	if json.Unmarshal(line, &m) != nil {
		return Message{}, Strange
	}
	hasID := len(m.ID) > 0 && string(m.ID) != "null"
	switch {
	case m.Method != "" && hasID:
		return m, Request
	case m.Method != "":
		return m, Notice
	case !hasID:
		return m, Strange
	}
	id, ok := number(m.ID)
	method, asked := p.calls[id]
	if !ok || !asked {
		return m, Strange
	}
	delete(p.calls, id)
	m.Method = method
	return m, Response
}

// number reads an id of ours, which some peers give back as a string.
func number(id json.RawMessage) (int64, bool) {
	s := string(id)
	if len(s) > 2 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func (p *Peer) line(m Message) []byte {
	if !p.Bare {
		m.Version = "2.0"
	}
	return append(encode(m), '\n')
}

// encode panics for what can't be JSON, which is a mistake of the caller.
func encode(v any) json.RawMessage {
	if v == nil {
		return json.RawMessage("{}")
	}
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
