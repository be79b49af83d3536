package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(serveStdio) != "" {
		stdioServer()
		return
	}
	goleak.VerifyTestMain(m)
}

// listen serves an offer on a listener of the loopback, as a sandbox's wire does,
// and returns its address. At the end of the test all connections have ended.
func listen(t *testing.T, o *tool.Toolset) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				if err := o.Serve(ctx, conn); err != nil {
					t.Logf("serve: %v", err) // what a client sent was wrong
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		served.Wait()
	})
	return l.Addr().String()
}

// connect returns a session of a client of a version of the protocol; empty: the
// newest.
func connect(t *testing.T, addr, version string, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), &sdk.IOTransport{Reader: conn, Writer: conn}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() }) // it may be closed already
	return cs
}

var who = tool.Caller{Owner: atoll.Owner{App: "shop", User: "ann"}, Chat: "c1", Assistant: "coder", Turn: "t1"}

// echoTool answers with its input and who calls.
func echoTool(server, name string) tool.Tool {
	return tool.Tool{Server: server, Name: name, Description: "Says it again.", Call: func(_ context.Context, c tool.Call) (tool.Result, error) {
		return tool.Result{Text: fmt.Sprintf("%s %s/%s %s %s %s", c.Input, c.Caller.Owner.App, c.Caller.Owner.User, c.Caller.Chat, c.Caller.Assistant, c.Caller.Turn)}, nil
	}}
}

func failingTool(name string, err error) tool.Tool {
	return tool.Tool{Server: "s", Name: name, Call: func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{}, err }}
}

func resultText(r *sdk.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

func TestEveryVersionOfTheProtocol(t *testing.T) {
	addr := listen(t, &tool.Toolset{Caller: who, Tools: []tool.Tool{echoTool("s", "echo"), echoTool("s", "yao.process")}})
	for _, v := range append(sdk.SupportedProtocolVersions(), "") {
		t.Run(v, func(t *testing.T) {
			cs := connect(t, addr, v, nil)
			list, err := cs.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 2 {
				t.Fatalf("list: %v, %v", list, err)
			}
			for _, name := range []string{"echo", "yao_process"} {
				r, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: map[string]any{"a": 1}})
				if err != nil || r.IsError || resultText(r) != `{"a":1} shop/ann c1 coder t1` {
					t.Errorf("%s: %q, %v", name, resultText(r), err)
				}
			}
		})
	}
}

func TestCall(t *testing.T) {
	var mu sync.Mutex
	var events []tool.Event
	object := func(props, required string) json.RawMessage {
		return json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` + props + `},"required":[` + required + `]}`)
	}
	checked := func(name string, schema json.RawMessage) tool.Tool {
		x := echoTool("s", name)
		x.Schema = schema
		return x
	}
	result := func(name string, r tool.Result) tool.Tool {
		return tool.Tool{Server: "s", Name: name, Call: func(context.Context, tool.Call) (tool.Result, error) { return r, nil }}
	}
	o := &tool.Toolset{Caller: who, Log: func(e tool.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}, Tools: []tool.Tool{
		checked("n", object(`"n":{"type":"integer","minimum":1},"kind":{"enum":["a","b"]},"deep":{"type":"object","properties":{"list":{"type":"array","items":{"type":"string"}}}},"id":{"type":"string","pattern":"^[0-9]+$"}`, `"n"`)),
		checked("default", object(`"n":{"type":"integer","default":7}`, ``)),
		failingTool("told", &tool.Error{Text: "no such user"}),
		failingTool("wrapped", fmt.Errorf("asking: %w", &tool.Error{Text: "no such user"})),
		failingTool("secret", errors.New("dial db.internal:5432: password wrong")),
		failingTool("late", context.DeadlineExceeded),
		{Server: "s", Name: "panics", Call: func(context.Context, tool.Call) (tool.Result, error) { panic("secret of the host") }},
		result("failed", tool.Result{Text: "exit status 1", Failed: true}),
		result("structured", tool.Result{Structured: map[string]any{"ok": true}}),
		result("list", tool.Result{Structured: []int{1, 2}}),
		result("empty", tool.Result{}),
		result("big", tool.Result{Text: strings.Repeat("é", 1<<20)}),
		result("binary", tool.Result{Text: "a\xff\xfeb"}),
		result("channel", tool.Result{Structured: make(chan int)}),
	}}
	for _, c := range []struct {
		law, tool, input, want string // want: the whole answer, or, beginning with "…", a part
		failed                 bool
	}{
		{"InputPasses", "n", `{"n":3}`, `{"n":3} shop/ann c1 coder t1`, false},
		{"BigNumbersStay", "n", `{"n":9007199254740993}`, `{"n":9007199254740993} shop/ann c1 coder t1`, false},
		{"LastOfTwoKeysCountsForAll", "n", `{"n":"x","n":3}`, `{"n":3} shop/ann c1 coder t1`, false},
		{"MissingFieldIsNamed", "n", `{}`, `Invalid input: field "n" is missing`, true},
		{"NoInputIsAnEmptyObject", "n", ``, `Invalid input: field "n" is missing`, true},
		{"WrongTypeIsNamed", "n", `{"n":"x"}`, `Invalid input: field "n" must be an integer, not "x"`, true},
		{"FractionIsNoInteger", "n", `{"n":1.5}`, `Invalid input: field "n" must be an integer, not 1.5`, true},
		{"MinimumIsNamed", "n", `{"n":0}`, `Invalid input: field "n" must be at least 1, not 0`, true},
		{"EnumIsNamed", "n", `{"n":1,"kind":"c"}`, `Invalid input: field "kind" must be one of ["a","b"], not "c"`, true},
		{"UnknownFieldIsNamed", "n", `{"n":1,"m":1}`, `Invalid input: there is no field "m"; there is: deep, id, kind, n`, true},
		{"DeepFieldIsNamed", "n", `{"n":1,"deep":{"list":["a",2]}}`, `Invalid input: field "deep.list[1]" must be a string, not 2`, true},
		{"PatternIsNamed", "n", `{"n":1,"id":"x"}`, `Invalid input: field "id" must match ^[0-9]+$, not "x"`, true},
		{"ArrayIsNoObject", "n", `[1]`, `The input is no JSON object.`, true},
		{"TwoObjectsAreRefused", "n", `{"n":1}{"n":2}`, `The input is more than one JSON object.`, true},
		{"TooDeepIsRefused", "n", `{"n":` + strings.Repeat("[", 65) + strings.Repeat("]", 65) + `}`, `The input is nested more than 64 levels deep.`, true},
		{"BracketsInTextAreNotDeep", "told", `{"n":"` + strings.Repeat(`[\"`, 200) + `"}`, "no such user", true},
		{"TooBigIsRefused", "n", `{"n":"` + strings.Repeat("x", 2<<20) + `"}`, `The input has 2097160 bytes: the limit is 2097152.`, true},
		{"HugeNumberIsRefused", "n", `{"n":1e999}`, `The input has a number that is too large.`, true},
		{"DefaultIsFilledIn", "default", `{}`, `{"n":7} shop/ann c1 coder t1`, false},
		{"OwnFailureIsTold", "told", `{}`, "no such user", true},
		{"WrappedFailureIsTold", "wrapped", `{}`, "no such user", true},
		{"UnexpectedErrorIsNotTold", "secret", `{}`, "The tool failed. The reason is in the log of the host.", true},
		{"DeadlineIsTold", "late", `{}`, "The tool took too long and was ended.", true},
		{"PanicIsContained", "panics", `{}`, "The tool failed. The reason is in the log of the host.", true},
		{"FailedResultIsAnError", "failed", `{}`, "exit status 1", true},
		{"StructuredIsTextToo", "structured", `{}`, `{"ok":true}`, false},
		{"StructuredListIsText", "list", `{}`, `[1,2]`, false},
		{"EmptyAnswer", "empty", `{}`, ``, false},
		{"LongAnswerIsCut", "big", `{}`, "…é\n[… 2037152 bytes left out …]\né", false},
		{"AnswerIsText", "binary", `{}`, "a\uFFFDb", false},
		{"AnswerThatIsNoJSON", "channel", `{}`, "[the tool's result is not JSON]", false},
	} {
		t.Run(c.law, func(t *testing.T) {
			r, err := o.Call(t.Context(), c.tool, json.RawMessage(c.input), nil)
			part, isPart := strings.CutPrefix(c.want, "…")
			if err != nil || r.Failed != c.failed || !isPart && r.Text != c.want || isPart && !strings.Contains(r.Text, part) {
				t.Errorf("answer %.300q, failed %v, %v; want %q", r.Text, r.Failed, err, c.want)
			}
		})
	}
	if _, err := o.Call(t.Context(), "nope", nil, nil); !errors.Is(err, atoll.ErrNotFound) {
		t.Errorf("a tool that is not offered: %v", err)
	}
	for _, want := range []string{"db.internal", "secret of the host"} {
		if !slices.ContainsFunc(events, func(e tool.Event) bool { return strings.Contains(e.Err, want) && e.Caller == who }) {
			t.Errorf("the log has nothing of %q", want)
		}
	}
}

func TestNotOfferedCanNotBeCalled(t *testing.T) {
	addr := listen(t, &tool.Toolset{Caller: who, Tools: []tool.Tool{echoTool("s", "a.b"), failingTool("\x1b[31m", nil)}})
	cs := connect(t, addr, "", nil)
	for _, name := range []string{"hidden", "a.b", "", "../a_b", "A_B", "a_b\x00", "s_a_b", "\x1b[31m"} {
		if r, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: name}); err == nil {
			t.Errorf("%q: %s", name, resultText(r))
		}
	}
	if r, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "a_b"}); err != nil || r.IsError {
		t.Errorf("a_b: %v, %v", r, err)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("long_", 30)
	tools := []tool.Tool{
		echoTool("fs", "read"), echoTool("db", "read"), echoTool("fs", "yao.process"), echoTool("fs", "yao_process"), echoTool("fs", "yao process"),
		echoTool("fs", long+"a"), echoTool("fs", long+"b"), echoTool("fs", "ж\x1b[31m\n"), echoTool("fs", ""), echoTool("x", "Case"), echoTool("y", "case"),
	}
	valid := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	named := func(tools []tool.Tool) map[string]string {
		list := make(map[string]string)
		for _, l := range (&tool.Toolset{Tools: tools}).List() {
			if !valid.MatchString(l.Name) || len("mcp__atoll__"+l.Name) > 64 {
				t.Errorf("name %q of %q", l.Name, l.Tool)
			}
			if _, ok := list[strings.ToLower(l.Name)]; ok {
				t.Errorf("name %q twice", l.Name)
			}
			list[strings.ToLower(l.Name)] = l.Server + "/" + l.Tool
		}
		return list
	}
	if list := (&tool.Toolset{Tools: []tool.Tool{echoTool("a", "b"), echoTool("a", "b")}}).List(); len(list) != 1 {
		t.Errorf("the same twice: %v", list)
	}
	first := named(tools)
	if len(first) != len(tools) || first["fs_read"] != "fs/read" || first["db_read"] != "db/read" {
		t.Errorf("names: %v", first)
	}
	slices.Reverse(tools)
	for name, of := range named(tools) {
		if first[name] != of {
			t.Errorf("%s is %s, and in another order %s", name, first[name], of)
		}
	}
}

func TestProgress(t *testing.T) {
	out := make(chan struct{}) // closed when the last has come out
	addr := listen(t, &tool.Toolset{Tools: []tool.Tool{{Name: "steps", Call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
		for i := range 100_000 { // never waits for who listens
			c.Progress(float64(i%3), 3, "step") // nor goes back, for him
		}
		c.Progress(3, 3, "last")
		select {
		case <-ctx.Done():
		case <-out:
		case <-time.After(time.Minute):
		}
		return tool.Result{Text: "done"}, nil
	}}}})
	var mu sync.Mutex
	var told []sdk.ProgressNotificationParams
	cs := connect(t, addr, "", &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, *r.Params)
		if r.Params.Message == "last" {
			close(out)
		}
	}})
	p := &sdk.CallToolParams{Name: "steps"}
	p.SetProgressToken("tok")
	if r, err := cs.CallTool(t.Context(), p); err != nil || resultText(r) != "done" {
		t.Fatalf("%v, %v", r, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) == 0 || len(told) > 20 || told[len(told)-1].Message != "last" || told[0].ProgressToken != "tok" {
		t.Errorf("told %d times: %+v", len(told), told)
	}
	for i := range told[1:] {
		if told[i].Progress >= told[i+1].Progress {
			t.Errorf("progress %v, then %v", told[i].Progress, told[i+1].Progress)
		}
	}
}

// blockingTool is a tool that begins, and ends with its context.
func blockingTool(begun chan<- struct{}, ended chan<- error) tool.Tool {
	return tool.Tool{Name: "block", Call: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return tool.Result{}, ctx.Err()
	}}
}

func TestCancelled(t *testing.T) {
	for _, c := range []struct {
		law string
		end func(cancelCall, cancelServe func(), conn net.Conn)
	}{
		{"ByTheClient", func(call, _ func(), _ net.Conn) { call() }},
		{"ByTheContext", func(_, serve func(), _ net.Conn) { serve() }},
		{"ByTheEndOfTheConnection", func(_, _ func(), conn net.Conn) { _ = conn.Close() }},
	} {
		t.Run(c.law, func(t *testing.T) {
			begun, ended := make(chan struct{}, 1), make(chan error, 1)
			o := &tool.Toolset{Tools: []tool.Tool{blockingTool(begun, ended)}}
			here, there := net.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			served := make(chan error, 1)
			go func() { served <- o.Serve(ctx, there) }()
			cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: here, Writer: here}, nil)
			if err != nil {
				t.Fatal(err)
			}
			callCtx, cancelCall := context.WithCancel(t.Context())
			defer cancelCall()
			called := make(chan error, 1)
			go func() {
				_, err := cs.CallTool(callCtx, &sdk.CallToolParams{Name: "block"})
				called <- err
			}()
			<-begun
			c.end(cancelCall, cancel, here)
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the tool saw %v", err)
			}
			if err := <-called; err == nil {
				t.Error("the call went well")
			}
			_ = here.Close()
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
}

// TestStubbornToolIsAbandoned: a call does not wait for a tool that ignores its context.
func TestStubbornToolIsAbandoned(t *testing.T) {
	release, begun := make(chan struct{}), make(chan struct{})
	left := make(chan tool.Event, 1)
	done := make(chan struct{})
	o := &tool.Toolset{Log: func(e tool.Event) { left <- e }, Tools: []tool.Tool{{Name: "deaf", Call: func(context.Context, tool.Call) (tool.Result, error) {
		defer close(done)
		close(begun)
		<-release
		return tool.Result{}, nil
	}}}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := o.Call(ctx, "deaf", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	if e := <-left; !strings.Contains(e.Err, "after it was cancelled") {
		t.Errorf("the log says %q", e.Err)
	}
	close(release)
	<-done
}

func TestTenThousandCallsAtOnce(t *testing.T) {
	testenv.Logic(t)
	var running, most, total atomic.Int64
	addr := listen(t, &tool.Toolset{Tools: []tool.Tool{{Name: "count", Call: func(context.Context, tool.Call) (tool.Result, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		total.Add(1)
		return tool.Result{Text: "ok"}, nil
	}}}})
	cs := connect(t, addr, "", nil)
	var wg sync.WaitGroup
	for range 10_000 {
		wg.Go(func() {
			if r, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "count"}); err != nil || resultText(r) != "ok" {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	wg.Wait()
	if total.Load() != 10_000 || most.Load() > 64 {
		t.Errorf("%d calls, at most %d at once", total.Load(), most.Load())
	}
}

// dialRaw connects a client without a protocol.
func dialRaw(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(conn, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestUnreadAnswersStopReading: unread answers do not accumulate, nor do the calls
// behind them.
func TestUnreadAnswersStopReading(t *testing.T) {
	var calls atomic.Int64
	addr := listen(t, &tool.Toolset{Tools: []tool.Tool{{Name: "big", Call: func(context.Context, tool.Call) (tool.Result, error) {
		calls.Add(1)
		return tool.Result{Text: strings.Repeat("x", 50_000)}, nil
	}}}})
	conn := dialRaw(t, addr)
	if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	pad := strings.Repeat("y", 10_000)
	sent := 0
	for ; sent < 20_000; sent++ {
		if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"big","arguments":{"pad":"%s"}}}`+"\n", sent+1, pad); err != nil {
			break
		}
	}
	if sent == 20_000 || calls.Load() > 2000 {
		t.Errorf("%d calls were taken, %d done, although nobody reads", sent, calls.Load())
	}
}

// TestConnectionsAreBounded: a client gets no more connections over the limit, and one
// more after one has ended.
func TestConnectionsAreBounded(t *testing.T) {
	addr := listen(t, &tool.Toolset{Caller: who, Tools: []tool.Tool{echoTool("s", "echo")}})
	open := make([]net.Conn, 0, 32)
	for range 32 {
		open = append(open, dialRaw(t, addr))
	}
	more, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer more.Close()
	if n, err := more.Read(make([]byte, 1)); err == nil {
		t.Errorf("one more was served: %d bytes", n)
	}
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; { // its end is noticed on the other side
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":1,"method":"ping"}`) // it may be closed
		n, err := conn.Read(make([]byte, 100))
		_ = conn.Close()
		if err == nil && n > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no other is served: %v", err)
		}
	}
}

func TestHostileFrames(t *testing.T) {
	addr := listen(t, &tool.Toolset{Caller: who, Tools: []tool.Tool{echoTool("s", "echo")}})
	for law, frame := range map[string]string{
		"Deep":        `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}}",
		"DeepEnough":  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}}}",
		"Giant":       `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"` + strings.Repeat("x", 8<<20) + `"}}}`,
		"Garbage":     "\x00\xff\xfe not json",
		"NoMethod":    `{"jsonrpc":"2.0","id":1,"method":"tools/exec"}`,
		"BadParams":   `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1,2]}`,
		"NullParams":  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":null}`,
		"OddID":       `{"jsonrpc":"2.0","id":{"a":1},"method":"tools/call","params":{"name":"echo"}}`,
		"SameID":      strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`+"\n", 50),
		"Batch":       "[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, 100) + `{"jsonrpc":"2.0","id":2,"method":"ping"}]`,
		"Response":    `{"jsonrpc":"2.0","id":77,"result":{}}`,
		"OddProgress": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":{"a":[]}}}}`,
	} {
		t.Run(law, func(t *testing.T) {
			conn := dialRaw(t, addr)
			_, _ = fmt.Fprintln(conn, frame) // it may be cut off before all is sent
			_ = conn.(*net.TCPConn).CloseWrite()
			b := make([]byte, 64<<10)
			for { // to its end, which comes
				n, err := conn.Read(b)
				if err != nil {
					var late net.Error
					if errors.As(err, &late) && late.Timeout() {
						t.Error("the connection goes on for ever")
					}
					return
				}
				if strings.Contains(string(b[:n]), "goroutine ") {
					t.Errorf("a stack was told: %s", b[:n])
				}
			}
		})
	}
	if r, err := connect(t, addr, "", nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "echo"}); err != nil || r.IsError {
		t.Errorf("others are served no more: %v, %v", r, err)
	}
}

// TestHalfClosedIsAnswered: a client that closes its writing side still gets its answer.
func TestHalfClosedIsAnswered(t *testing.T) {
	addr := listen(t, &tool.Toolset{Tools: []tool.Tool{{Name: "slow", Call: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		select {
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		case <-time.After(50 * time.Millisecond):
			return tool.Result{Text: "heard"}, nil
		}
	}}}})
	conn := dialRaw(t, addr)
	if _, err := fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	if n, err := conn.Read(b); err != nil || !strings.Contains(string(b[:n]), "heard") {
		t.Errorf("%q, %v", b[:n], err)
	}
}

func TestImages(t *testing.T) {
	var images []tool.Image
	for range 10 {
		images = append(images, tool.Image{Type: "image/png", Data: []byte("png")})
	}
	images[1].Data = make([]byte, 6<<20)
	addr := listen(t, &tool.Toolset{Tools: []tool.Tool{{Name: "draw", Call: func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Images: images}, nil
	}}}})
	r, err := connect(t, addr, "2025-06-18", nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "draw"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range r.Content {
		if im, ok := c.(*sdk.ImageContent); ok && im.MIMEType == "image/png" && string(im.Data) == "png" {
			n++
		}
	}
	if n != 7 || !strings.Contains(resultText(r), "2 more images left out") || !strings.Contains(resultText(r), "6291456 bytes left out") {
		t.Errorf("%d images and %q", n, resultText(r))
	}
}
