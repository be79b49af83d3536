package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

// Serve serves one connection of the Model Context Protocol until its client closes
// it, which is no error. It may be called concurrently. When ctx is done, it cancels
// all running calls and closes the connection.
//
// More than 32 connections at once are closed, with ErrQuota.
func (o *Toolset) Serve(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	o.prepareOnce()
	select {
	case o.sessions <- struct{}{}:
		defer func() { <-o.sessions }()
	default:
		return fmt.Errorf("serving tools: %w: %d connections are open", atoll.ErrQuota, maxSessions)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends all reads and writes
	defer stop()
	t := &throttledTransport{conn: conn, backlog: &o.backlog}
	defer t.releaseAll()
	session, err := o.server.Connect(ctx, t, nil)
	if err != nil {
		return fmt.Errorf("serving tools: %w", err)
	}
	err = session.Wait()
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// newServer returns an MCP server of the offered tools.
func (o *Toolset) newServer() *mcp.Server {
	s := mcp.NewServer(
		&mcp.Implementation{Name: o.name(), Title: "Tools of the host", Version: buildVersion()},
		&mcp.ServerOptions{PageSize: len(o.entries) + 1, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}},
	)
	for _, e := range o.entries {
		o.add(s, e)
	}
	return s
}

// add adds a tool; it leaves out one with a schema that the protocol refuses.
func (o *Toolset) add(s *mcp.Server, e *entry) {
	defer func() {
		if v := recover(); v != nil { // the SDK panics on a bad schema
			o.logEvent(Event{Caller: o.Caller, Server: e.tool.Server, Tool: e.tool.Name, Err: fmt.Sprint("it is not offered: ", v)})
		}
	}()
	s.AddTool(&mcp.Tool{Name: e.Name, Description: e.Description, InputSchema: e.Schema}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		tell, stop := startProgress(ctx, req)
		defer stop()
		r, err := o.Call(ctx, e.Name, req.Params.Arguments, tell)
		if err != nil {
			return nil, err
		}
		return encodeResult(r), nil
	})
}

// encodeResult returns a result in the protocol's format.
func encodeResult(r Result) *mcp.CallToolResult {
	out := &mcp.CallToolResult{IsError: r.Failed, StructuredContent: r.Structured}
	if r.Text != "" || len(r.Images) == 0 {
		out.Content = append(out.Content, &mcp.TextContent{Text: r.Text})
	}
	for _, im := range r.Images {
		out.Content = append(out.Content, &mcp.ImageContent{Data: im.Data, MIMEType: im.Type})
	}
	return out
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "0"
}
