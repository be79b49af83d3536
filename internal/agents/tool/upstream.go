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
	connectTime  = 30 * time.Second
	retryAfter   = 5 * time.Second // until the next attempt after a failed connection
	upstreamTime = 10 * time.Minute
	defaultIdle  = 5 * time.Minute // after which an unused connection is closed
)

// upstream is a remote server whose tools are passed on. It is connected to when it
// is first needed, and again after the connection has ended.
type upstream struct {
	name      string
	transport string
	address   string            // of an HTTP server
	headers   map[string]string // of requests to an HTTP server
	command   program           // of a server that is a program
	only      []string          // tools; nil: all
	limit     time.Duration     // of a call
	idleTime  time.Duration

	tokens atomic.Int64 // progress tokens used

	lock         chan struct{}      // has a buffer of one; guards the fields below with waits that can be cancelled
	session      *mcp.ClientSession // nil: none
	sessionEnded chan struct{}      // closed when the session has ended
	cancel       context.CancelFunc // cancels the session's context; nil: there is none
	program      *childProgram      // of the session; nil: none
	closed       bool
	idle         *time.Timer // closes the session; nil: none

	inUse atomic.Int64 // running calls

	mu       sync.Mutex
	progress map[string]func(float64, float64, string) // guarded by mu, as all below; by token
	failed   time.Time                                 // of the last failed connection
	lastErr  error                                     // of the last attempt to connect; nil: it succeeded, or there was none
	retrying bool                                      // an attempt runs in the background
}

// childProgram is the program that was started for a session.
type childProgram struct {
	cmd  *exec.Cmd
	mark string
}

// readUpstream decodes a remote server:
//
//	{"transport": "stdio", "command": "npx", "args": ["-y", "some-server"], "env": {"TOKEN": "$ENV.TOKEN"}, "tools": ["search"]}
//	{"transport": "streamable-http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer $ENV.TOKEN"}}
func (f *file) readUpstream(r *objectReader, name, transport string) *upstream {
	u := &upstream{name: name, idleTime: defaultIdle, transport: transport, only: r.readTexts("tools"), limit: r.readDuration("timeout", upstreamTime, time.Millisecond, maxTime), lock: make(chan struct{}, 1), progress: make(map[string]func(float64, float64, string))}
	if transport != "stdio" {
		u.address = f.expandEnv(r.o.of["url"], "url", r.readText("url"))
		if a, err := url.Parse(u.address); err != nil || a.Host == "" || a.Scheme != "http" && a.Scheme != "https" {
			r.addFault("url", "it must be an address like https://mcp.example.com/mcp")
		}
		u.headers = f.readFixed(r, "headers")
		if token := r.readText("authorization_token"); token != "" {
			u.headers["Authorization"] = "Bearer " + f.expandEnv(r.o.of["authorization_token"], "authorization_token", token)
		}
		return u
	}
	var words []string
	switch n := r.get("command"); {
	case n == nil:
		r.addFault("command", "it is missing: it is the program that is the server")
	default:
		if s, ok := n.value.(string); ok {
			words = []string{s}
		} else {
			words = r.readTexts("command")
		}
	}
	for _, w := range append(words, r.readTexts("args")...) {
		u.command.args = append(u.command.args, template{{text: f.expandEnv(r.o.of["command"], "command", w)}})
	}
	u.command.dir = f.expandEnv(r.n, "dir", r.readText("dir"))
	u.command.pass = slices.Concat(passedEnv, []string{"HOME", "USER"}, r.readTexts("pass"))
	u.command.env = make(map[string]template)
	for k, v := range f.readFixed(r, "env") {
		u.command.env[k] = template{{text: v}}
	}
	return u
}

// readFixed decodes an object of texts without placeholders.
func (f *file) readFixed(r *objectReader, name string) map[string]string {
	m := make(map[string]string)
	for k, t := range f.readTemplates(r, name) {
		v, ok := t.fixedText()
		if !ok {
			r.addFault(name, "%s: it can't come from the input: the server is started, or connected to, once for all", k)
		}
		m[k] = v
	}
	return m
}

// openSession returns the session, or starts a new one.
func (u *upstream) openSession(ctx context.Context) (*mcp.ClientSession, error) {
	select {
	case u.lock <- struct{}{}:
		defer func() { <-u.lock }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch {
	case u.closed:
		return nil, fmt.Errorf("%w: the servers of tools are closed", atoll.ErrState)
	case u.session != nil:
		select {
		case <-u.sessionEnded:
			u.closeSession()
		default:
			u.idle.Reset(u.idleTime)
			return u.session, nil
		}
	}
	if err, recent := u.lastFailure(); recent {
		return nil, err
	}
	if err := u.startSession(ctx); err != nil {
		u.closeSession()
		err = fmt.Errorf("%w: server %s: %w", atoll.ErrUnavailable, u.name, err)
		if ctx.Err() == nil { // else the caller gave up
			u.setFailure(err)
		}
		return nil, err
	}
	u.setFailure(nil)
	return u.session, nil
}

func (u *upstream) setFailure(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failed, u.lastErr = time.Now(), err
}

// lastFailure returns the error of the last attempt to connect, and whether it is recent.
func (u *upstream) lastFailure() (err error, recent bool) { //nolint:revive // the error is a value here
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lastErr, u.lastErr != nil && time.Since(u.failed) < retryAfter
}

// knownFailure returns the error of the last attempt to connect, so that a request does not wait for a server that is missing. If the
// attempt is not recent, it starts another one in the background, for later requests.
func (u *upstream) knownFailure() error {
	err, recent := u.lastFailure()
	if err == nil || recent {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.retrying {
		u.retrying = true
		go func() { // ends after connectTime, or when the connection is made
			ctx, cancel := context.WithTimeout(context.Background(), connectTime)
			defer cancel()
			_, _ = u.openSession(ctx) // lastErr has its error
			u.mu.Lock()
			defer u.mu.Unlock()
			u.retrying = false
		}()
	}
	return err
}

// startSession starts a session. The caller holds lock.
func (u *upstream) startSession(ctx context.Context) error {
	t, err := u.dial()
	if err != nil {
		return err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "atoll", Version: buildVersion()}, &mcp.ClientOptions{
		ProgressNotificationHandler: u.forwardProgress, Capabilities: &mcp.ClientCapabilities{},
	})
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // the session outlives this call
	u.cancel = end
	timer := time.AfterFunc(connectTime, end)
	stop := context.AfterFunc(ctx, end)
	session, err := client.Connect(life, t, nil)
	timer.Stop()
	stop()
	if err != nil {
		return err
	}
	u.session, u.sessionEnded = session, make(chan struct{})
	u.idle = time.AfterFunc(u.idleTime, u.closeIdle)
	go func(gone chan struct{}) { // returns when the session ends
		defer close(gone)
		_ = session.Wait() // openSession starts a new one when it is needed
	}(u.sessionEnded)
	return nil
}

// dial returns the transport to the server. The caller holds lock.
func (u *upstream) dial() (mcp.Transport, error) {
	switch u.transport {
	case "sse":
		return &mcp.SSEClientTransport{Endpoint: u.address, HTTPClient: u.httpClient()}, nil
	case "streamable-http":
		return &mcp.StreamableClientTransport{Endpoint: u.address, HTTPClient: u.httpClient()}, nil
	}
	mark := "ATOLL_CALL=" + atoll.NewID()
	args, err := u.command.fillArgs(scope{})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it runs as long as the session, not as long as one call
	cmd.Dir = u.command.dir
	if cmd.Env, err = u.command.buildEnv(scope{}, mark); err != nil {
		return nil, err
	}
	setProcessGroup(cmd)
	u.program = &childProgram{cmd, mark}
	return &mcp.CommandTransport{Command: cmd, TerminateDuration: stopGrace}, nil
}

// httpClient returns a client that adds the headers and calls only the one host.
func (u *upstream) httpClient() *http.Client {
	host := ""
	if a, err := url.Parse(u.address); err == nil {
		host = a.Host
	}
	return &http.Client{CheckRedirect: refuseOtherHosts, Transport: singleHostTransport{host, u.headers, http.DefaultTransport}}
}

// singleHostTransport sends requests with headers to one host only: a server may name
// the address for further messages, which must be its own.
type singleHostTransport struct {
	host    string
	headers map[string]string
	next    http.RoundTripper
}

func (t singleHostTransport) RoundTrip(req *http.Request) (*http.Response, error) {
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

// closeIdle closes the session if no call runs.
func (u *upstream) closeIdle() {
	u.lock <- struct{}{}
	defer func() { <-u.lock }()
	if u.session == nil {
		return
	}
	if u.inUse.Load() > 0 {
		u.idle.Reset(u.idleTime)
		return
	}
	u.closeSession()
}

// dropBroken closes a session whose connection failed during a call, so that the next
// call starts a new one at once.
func (u *upstream) dropBroken(ctx context.Context, session *mcp.ClientSession, err error) {
	var answered *jsonrpc.Error
	if ctx.Err() != nil || errors.As(err, &answered) {
		return
	}
	u.lock <- struct{}{}
	defer func() { <-u.lock }()
	if u.session == session {
		u.closeSession()
	}
}

// closeSession closes the session and its program. The caller holds lock.
func (u *upstream) closeSession() {
	if u.idle != nil {
		u.idle.Stop()
		u.idle = nil
	}
	if u.session != nil {
		_ = u.session.Close() // the error does not matter any more
		<-u.sessionEnded
		u.session = nil
	}
	if u.program != nil && u.program.cmd.Process != nil {
		killDescendants(u.program.cmd.Process.Pid, u.program.mark) // Close has waited for the program
	}
	u.program = nil
	if u.cancel != nil {
		u.cancel()
	}
}

func (u *upstream) close() {
	u.lock <- struct{}{}
	defer func() { <-u.lock }()
	u.closed = true
	u.closeSession()
}

// listTools lists the server's tools, filtered by only.
func (u *upstream) listTools(ctx context.Context) ([]Tool, error) {
	if err := u.knownFailure(); err != nil {
		return nil, err
	}
	u.inUse.Add(1)
	defer u.inUse.Add(-1)
	session, err := u.openSession(ctx)
	if err != nil {
		return nil, err
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var list []Tool
	var names []string
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			err = fmt.Errorf("%w: server %s: %w", atoll.ErrUnavailable, u.name, err)
			if !errors.Is(caller.Err(), context.Canceled) {
				u.setFailure(err) // the next turn does not wait for it
			}
			return nil, err
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
		list = append(list, Tool{Server: u.name, Name: t.Name, Description: t.Description, Schema: schema, ServerValidates: true, Call: u.toolCaller(t.Name)})
	}
	for _, want := range u.only {
		if !slices.Contains(names, want) {
			return nil, fmt.Errorf("%w: server %s has no tool %q; there is: %s", atoll.ErrNotFound, u.name, want, strings.Join(names, ", "))
		}
	}
	return list, nil
}

// toolCaller returns a function that forwards a call. A call whose connection fails is
// not repeated, since it may have had effects.
func (u *upstream) toolCaller(name string) func(context.Context, Call) (Result, error) {
	return func(ctx context.Context, c Call) (Result, error) {
		u.inUse.Add(1)
		defer u.inUse.Add(-1)
		session, err := u.openSession(ctx)
		if err != nil {
			return Result{}, err
		}
		ctx, cancel := context.WithTimeout(ctx, u.limit)
		defer cancel()
		token := strconv.FormatInt(u.tokens.Add(1), 10)
		u.mu.Lock()
		u.progress[token] = c.Progress
		u.mu.Unlock()
		defer func() {
			u.mu.Lock()
			delete(u.progress, token)
			u.mu.Unlock()
		}()
		params := &mcp.CallToolParams{Name: name, Arguments: c.Input, Meta: mcp.Meta{
			"atoll/app": c.Caller.Owner.App, "atoll/user": c.Caller.Owner.User, "atoll/chat": c.Caller.Chat, "atoll/assistant": c.Caller.Assistant, "atoll/turn": c.Caller.Turn,
		}}
		params.SetProgressToken(token)
		r, err := session.CallTool(ctx, params)
		if err != nil {
			u.dropBroken(ctx, session, err)
			return Result{}, fmt.Errorf("server %s: tool %s: %w", u.name, name, err)
		}
		return convertResult(r), nil
	}
}

// forwardProgress forwards progress to the call with its token.
func (u *upstream) forwardProgress(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	token, _ := req.Params.ProgressToken.(string) // other types are not ours
	u.mu.Lock()
	tell := u.progress[token]
	u.mu.Unlock()
	if tell != nil {
		tell(req.Params.Progress, req.Params.Total, req.Params.Message)
	}
}

// convertResult converts a result of a remote server.
func convertResult(r *mcp.CallToolResult) Result {
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
