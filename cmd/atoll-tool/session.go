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
	"os/signal"
	"syscall"
)

// session is a client of the Model Context Protocol that sends one request after the other.
type session struct {
	conn net.Conn
	r    *bufio.Reader
	next int
}

// message is a message of the protocol of any kind.
type message struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

// offered is a tool of the host.
type offered struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// open connects and initializes the session.
func open() (*session, error) {
	conn, err := dial("")
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, r: bufio.NewReader(conn)}
	hello := map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "atoll-tool", "version": "1"}}
	if err := s.sendRequest("initialize", hello, nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, s.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
}

func (s *session) close() { _ = s.conn.Close() } // nothing is under way

func (s *session) send(m any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err := s.conn.Write(append(b, '\n')); err != nil {
		return newFault(unreachable, "asking the host: %v", err)
	}
	return nil
}

// sendRequest sends a request and decodes its response into result.
func (s *session) sendRequest(method string, params, result any) error {
	s.next++
	if err := s.send(map[string]any{"jsonrpc": "2.0", "id": s.next, "method": method, "params": params}); err != nil {
		return err
	}
	id := fmt.Append(nil, s.next)
	for {
		line, err := s.r.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return newFault(unreachable, "the host has closed the connection")
			}
			return newFault(unreachable, "the host's answer: %v", err)
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return newFault(unreachable, "the host's answer is no JSON: %v", err)
		}
		switch {
		case m.Method != "" && m.ID != nil: // all that we can do for the host
			answer := map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{}}
			if m.Method != "ping" {
				answer = map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": rpcError{-32601, "no such method"}}
			}
			if err := s.send(answer); err != nil {
				return err
			}
		case m.Method == "notifications/progress":
			tellProgress(m.Params)
		case m.Method != "" || !bytes.Equal(m.ID, id):
		case m.Error != nil:
			return m.Error
		case result != nil:
			return json.Unmarshal(m.Result, result)
		default:
			return nil
		}
	}
}

// tellProgress prints the progress of a call.
func tellProgress(params json.RawMessage) {
	var p struct{ Message string }
	if info, err := os.Stderr.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 || json.Unmarshal(params, &p) != nil || p.Message == "" {
		return
	}
	fmt.Fprintln(os.Stderr, cleanLine(p.Message))
}

// listTools returns the tools of the host.
func (s *session) listTools() ([]offered, error) {
	var all []offered
	cursor := ""
	for range 100 { // pages
		var page struct {
			Tools      []offered `json:"tools"`
			NextCursor string    `json:"nextCursor"`
		}
		params := map[string]any{}
		if cursor != "" {
			params["cursor"] = cursor
		}
		if err := s.sendRequest("tools/list", params, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Tools...)
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	return all, nil
}

// result is the result of a tool.
type result struct {
	Content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Data     []byte `json:"data"`
		MimeType string `json:"mimeType"`
	} `json:"content"`
	IsError bool `json:"isError"`
}

// callTool calls a tool; an interrupt cancels the call.
func (s *session) callTool(name string, input json.RawMessage) (*result, error) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, syscall.SIGINT, syscall.SIGTERM)
	id := s.next + 1
	go func() { // ends with the process, which does nothing after the call
		sig := <-interrupted
		_ = s.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id, "reason": "interrupted"}})
		n, _ := sig.(syscall.Signal) // all of them are
		os.Exit(128 + int(n))
	}()
	var r result
	err := s.sendRequest("tools/call", map[string]any{"name": name, "arguments": input, "_meta": map[string]any{"progressToken": 1}}, &r)
	return &r, err
}
