package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

const (
	connectTime = 30 * time.Second
	retryAfter  = 5 * time.Second // a server that could not be reached is not asked for so long
	upstreamMax = 10 * time.Minute
	usualIdle   = 5 * time.Minute // after which a connection that nobody uses is ended
)

// upstream is a server elsewhere whose tools are passed on. It is connected to
// when it is first needed, and again when the connection has ended.
type upstream struct {
	name      string
	transport string
	address   string            // of those that are reached over HTTP
	headers   map[string]string // the same
	command   program           // of those that are programs
	only      []string          // tools; nil: all
	limit     time.Duration     // of a call
	idleTime  time.Duration

	tokens atomic.Int64 // of progress

	turn    chan struct{}      // has room for one: who works on what is below, whose wait may end
	session *mcp.ClientSession // nil: none
	gone    chan struct{}      // closed when the session has ended
	end     context.CancelFunc // of what it was begun with; nil: nothing was
	program *running           // of the session; nil: none
	failed  time.Time          // when it could not be reached
	why     error              // the same
	closed  bool
	idle    *time.Timer // ends the session; nil: none

	users atomic.Int64 // calls under way

	mu   sync.Mutex
	tell map[string]func(float64, float64, string) // guarded by mu; by token
}

// running is a program that was started for a session.
type running struct {
	cmd  *exec.Cmd
	mark string
}

// upstream reads a server that is elsewhere:
//
//	{"transport": "stdio", "command": "npx", "args": ["-y", "some-server"], "env": {"TOKEN": "$ENV.TOKEN"}, "tools": ["search"]}
//	{"transport": "streamable-http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer $ENV.TOKEN"}}
func (f *file) upstream(r *reader, name, transport string) *upstream {
	u := &upstream{name: name, idleTime: usualIdle, transport: transport, only: r.texts("tools"), limit: r.duration("timeout", upstreamMax, time.Millisecond, maxTime), turn: make(chan struct{}, 1), tell: make(map[string]func(float64, float64, string))}
	if transport != "stdio" {
		u.address = f.expand(r.o.of["url"], "url", r.text("url"))
		if a, err := url.Parse(u.address); err != nil || a.Host == "" || a.Scheme != "http" && a.Scheme != "https" {
			r.bad("url", "it must be an address like https://mcp.example.com/mcp")
		}
		u.headers = f.fixed(r, "headers")
		if token := r.text("authorization_token"); token != "" {
			u.headers["Authorization"] = "Bearer " + f.expand(r.o.of["authorization_token"], "authorization_token", token)
		}
		return u
	}
	var words []string
	switch n := r.get("command"); {
	case n == nil:
		r.bad("command", "it is missing: it is the program that is the server")
	default:
		if s, ok := n.value.(string); ok {
			words = []string{s}
		} else {
			words = r.texts("command")
		}
	}
	for _, w := range append(words, r.texts("args")...) {
		u.command.args = append(u.command.args, template{{text: f.expand(r.o.of["command"], "command", w)}})
	}
	u.command.dir = f.expand(r.n, "dir", r.text("dir"))
	u.command.pass = slices.Concat(passed, []string{"HOME", "USER"}, r.texts("pass"))
	u.command.env = make(map[string]template)
	for k, v := range f.fixed(r, "env") {
		u.command.env[k] = template{{text: v}}
	}
	return u
}

// fixed reads an object of texts.
func (f *file) fixed(r *reader, name string) map[string]string {
	m := make(map[string]string)
	for k, t := range f.templates(r, name) {
		v, ok := t.fixed()
		if !ok {
			r.bad(name, "%s: it can't come from the input: the server is started, or connected to, once for all", k)
		}
		m[k] = v
	}
	return m
}

// connect returns a session, which it begins if there is none.
func (u *upstream) connect(ctx context.Context) (*mcp.ClientSession, error) {
	select {
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch {
	case u.closed:
		return nil, fmt.Errorf("%w: the servers of tools are closed", atoll.ErrState)
	case u.session != nil:
		select {
		case <-u.gone:
			u.drop()
		default:
			u.idle.Reset(u.idleTime)
			return u.session, nil
		}
	case time.Since(u.failed) < retryAfter:
		return nil, u.why
	}
	if err := u.begin(ctx); err != nil {
		u.drop()
		err = fmt.Errorf("%w: server %s: %w", atoll.ErrUnavailable, u.name, err)
		if ctx.Err() == nil { // it is not that who asked has gone
			u.failed, u.why = time.Now(), err
		}
		return nil, err
	}
	return u.session, nil
}

// begin begins a session. It is its turn.
func (u *upstream) begin(ctx context.Context) error {
	t, err := u.dial()
	if err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "atoll", Version: version()}, &mcp.ClientOptions{
		ProgressNotificationHandler: u.progressed, Capabilities: &mcp.ClientCapabilities{},
	})
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // the session outlives the call that begins it
	u.end = end
	timer := time.AfterFunc(connectTime, end)
	stop := context.AfterFunc(ctx, end)
	session, err := client.Connect(life, t, nil)
	timer.Stop()
	stop()
	if err != nil {
		return err
	}
	u.session, u.gone = session, make(chan struct{})
	u.idle = time.AfterFunc(u.idleTime, u.rest)
	go func(gone chan struct{}) { // ends with the session, which close ends
		defer close(gone)
		_ = session.Wait() // however it ended: it is begun anew when it is needed
	}(u.gone)
	return nil
}

// dial returns the way to the server. It is its turn.
func (u *upstream) dial() (mcp.Transport, error) {
	switch u.transport {
	case "sse":
		return &mcp.SSEClientTransport{Endpoint: u.address, HTTPClient: u.client()}, nil
	case "streamable-http":
		return &mcp.StreamableClientTransport{Endpoint: u.address, HTTPClient: u.client()}, nil
	}
	mark := "ATOLL_CALL=" + atoll.NewID()
	args, err := u.command.argv(scope{})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it lives as long as the session, not as long as one call
	cmd.Dir = u.command.dir
	if cmd.Env, err = u.command.environ(scope{}, mark); err != nil {
		return nil, err
	}
	lead(cmd)
	u.program = &running{cmd, mark}
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: patience}, nil
}

// client adds the headers, on the one host only.
func (u *upstream) client() *http.Client {
	host := ""
	if a, err := url.Parse(u.address); err == nil {
		host = a.Host
	}
	return &http.Client{CheckRedirect: stay, Transport: oneHost{host, u.headers, http.DefaultTransport}}
}

// oneHost asks one host only, with headers that are for it: a server may name
// the address that further messages go to, and it must be its own.
type oneHost struct {
	host    string
	headers map[string]string
	next    http.RoundTripper
}

func (t oneHost) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != t.host {
		if req.Body != nil {
			_ = req.Body.Close() // it is not sent
		}
		return nil, fmt.Errorf("%w: the server names another host, %s", atoll.ErrDenied, req.URL.Host)
	}
	if len(t.headers) > 0 {
		req = req.Clone(req.Context())
		for k, v := range t.headers {
			req.Header.Set(k, v)
		}
	}
	return t.next.RoundTrip(req)
}

// rest ends the session if nobody uses it.
func (u *upstream) rest() {
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	if u.session == nil {
		return
	}
	if u.users.Load() > 0 {
		u.idle.Reset(u.idleTime)
		return
	}
	u.drop()
}

// lost ends a session whose connection has failed a call: the next call begins
// anew, and does not find out for itself.
func (u *upstream) lost(ctx context.Context, session *mcp.ClientSession, err error) {
	var answered *jsonrpc.Error
	if ctx.Err() != nil || errors.As(err, &answered) {
		return
	}
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	if u.session == session {
		u.drop()
	}
}

// drop ends what is left of a session. It is its turn.
func (u *upstream) drop() {
	if u.idle != nil {
		u.idle.Stop()
		u.idle = nil
	}
	if u.session != nil {
		_ = u.session.Close() // it is not used any more
		<-u.gone
		u.session = nil
	}
	if u.program != nil && u.program.cmd.Process != nil {
		endRest(u.program.cmd.Process.Pid, u.program.mark) // closing has waited for it
	}
	u.program = nil
	if u.end != nil {
		u.end()
	}
}

func (u *upstream) close() {
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	u.closed = true
	u.drop()
}

// tools lists the server's tools, those of them that may be passed on.
func (u *upstream) tools(ctx context.Context) ([]Tool, error) {
	u.users.Add(1)
	defer u.users.Add(-1)
	session, err := u.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var list []Tool
	var names []string
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("%w: server %s: %w", atoll.ErrUnavailable, u.name, err)
		}
		names = append(names, t.Name)
		if u.only != nil && !slices.Contains(u.only, t.Name) {
			continue
		}
		if len(list) == maxTools {
			return nil, fmt.Errorf("%w: server %s has more than %d tools", atoll.ErrQuota, u.name, maxTools)
		}
		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("server %s: tool %s: %w", u.name, t.Name, err)
		}
		list = append(list, Tool{Server: u.name, Name: t.Name, Description: t.Description, Schema: schema, Foreign: true, Call: u.caller(t.Name)})
	}
	for _, want := range u.only {
		if !slices.Contains(names, want) {
			return nil, fmt.Errorf("%w: server %s has no tool %q; there is: %s", atoll.ErrNotFound, u.name, want, strings.Join(names, ", "))
		}
	}
	return list, nil
}

// caller returns a function that passes a call on. A call that fails with its
// connection is not tried again: nobody knows what it has done.
func (u *upstream) caller(name string) func(context.Context, Call) (Result, error) {
	return func(ctx context.Context, c Call) (Result, error) {
		u.users.Add(1)
		defer u.users.Add(-1)
		session, err := u.connect(ctx)
		if err != nil {
			return Result{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, u.limit)
		defer cancel()
		token := strconv.FormatInt(u.tokens.Add(1), 10)
		u.mu.Lock()
		u.tell[token] = c.Progress
		u.mu.Unlock()
		defer func() {
			u.mu.Lock()
			delete(u.tell, token)
			u.mu.Unlock()
		}()
		params := &mcp.CallToolParams{Name: name, Arguments: c.Input, Meta: mcp.Meta{
			"atoll/app": c.Who.Owner.App, "atoll/user": c.Who.Owner.User, "atoll/chat": c.Who.Chat, "atoll/assistant": c.Who.Assistant, "atoll/turn": c.Who.Turn,
		}}
		params.SetProgressToken(token)
		r, err := session.CallTool(ctx, params)
		if err != nil {
			u.lost(ctx, session, err)
			return Result{}, fmt.Errorf("server %s: tool %s: %w", u.name, name, err)
		}
		return passOn(r), nil
	}
}

// progressed passes progress on to the call that it is of.
func (u *upstream) progressed(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	token, _ := req.Params.ProgressToken.(string) // others are not ours
	u.mu.Lock()
	tell := u.tell[token]
	u.mu.Unlock()
	if tell != nil {
		tell(req.Params.Progress, req.Params.Total, req.Params.Message)
	}
}

// passOn makes a result of another server's.
func passOn(r *mcp.CallToolResult) Result {
	out := Result{Failed: r.IsError, Structured: r.StructuredContent}
	var texts []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.TextContent:
			texts = append(texts, c.Text)
		case *mcp.ImageContent:
			out.Images = append(out.Images, Image{c.MIMEType, c.Data})
		case *mcp.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				texts = append(texts, c.Resource.Text)
			} else if c.Resource != nil {
				texts = append(texts, "[a resource: "+c.Resource.URI+"]")
			}
		case *mcp.ResourceLink:
			texts = append(texts, "[a resource: "+c.URI+"]")
		default:
			texts = append(texts, "[a part that can't be passed on]")
		}
	}
	out.Text = strings.Join(texts, "\n")
	return out
}
