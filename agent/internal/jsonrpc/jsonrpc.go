// Package jsonrpc encodes and decodes JSON-RPC over lines, without I/O: a [Peer]
// parses the lines it is given and returns the lines to send.
package jsonrpc

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Standard error codes.
const (
	MethodNotFound = -32601
	InvalidParams  = -32602
	InternalError  = -32603
)

// Message is a JSON-RPC message: a request has Method and ID, a notification only
// Method, a response only ID.
type Message struct {
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// Error is the error of a response.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Kind is the kind of a message.
type Kind int

// The kinds of messages.
const (
	Unknown      Kind = iota // not JSON-RPC, or a response to an unknown call
	Request                  // expects a response
	Notification             // expects no response
	Response                 // answers a call
)

// Peer is one side of a dialogue. Its zero value is ready to use.
type Peer struct {
	// OmitVersion leaves out the member "jsonrpc", as some peers require.
	OmitVersion bool

	last  int64
	calls map[int64]string
}

// Call encodes a request. Parse returns its response with the same method.
func (p *Peer) Call(method string, params any) []byte {
	p.last++
	if p.calls == nil {
		p.calls = map[int64]string{}
	}
	p.calls[p.last] = method
	return p.encodeLine(Message{ID: strconv.AppendInt(nil, p.last, 10), Method: method, Params: encode(params)})
}

// Notify encodes a notification.
func (p *Peer) Notify(method string, params any) []byte {
	return p.encodeLine(Message{Method: method, Params: encode(params)})
}

// Reply encodes the response to a request.
func (p *Peer) Reply(id json.RawMessage, result any) []byte {
	return p.encodeLine(Message{ID: id, Result: encode(result)})
}

// ReplyError encodes an error as the response to a request.
func (p *Peer) ReplyError(id json.RawMessage, code int, message string) []byte {
	return p.encodeLine(Message{ID: id, Error: &Error{Code: code, Message: message}})
}

// IsPending reports whether a call of the method has no response yet.
func (p *Peer) IsPending(method string) bool {
	for _, m := range p.calls {
		if m == method {
			return true
		}
	}
	return false
}

// Parse parses a line. A Response gets the method of the call that it answers.
func (p *Peer) Parse(line []byte) (Message, Kind) {
	var m Message
	if json.Unmarshal(line, &m) != nil {
		return Message{}, Unknown
	}
	hasID := len(m.ID) > 0 && string(m.ID) != "null"
	switch {
	case m.Method != "" && hasID:
		return m, Request
	case m.Method != "":
		return m, Notification
	case !hasID:
		return m, Unknown
	}
	id, ok := parseID(m.ID)
	method, asked := p.calls[id]
	if !ok || !asked {
		return m, Unknown
	}
	delete(p.calls, id)
	m.Method = method
	return m, Response
}

// parseID parses an id of this peer, which some peers return as a string.
func parseID(id json.RawMessage) (int64, bool) {
	s := string(id)
	if len(s) > 2 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func (p *Peer) encodeLine(m Message) []byte {
	if !p.OmitVersion {
		m.Version = "2.0"
	}
	return append(encode(m), '\n')
}

// encode encodes v. It panics if v can't be JSON, which is an error of the caller.
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
