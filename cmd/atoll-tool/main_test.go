package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll/internal/agents/tool"
)

// isTool makes this test binary the program itself.
const isTool = "ATOLL_TOOL_ITSELF"

func TestMain(m *testing.M) {
	if os.Getenv(isTool) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// serve listens before any other program can, and serves hosts.
func serve(t *testing.T, network, addr string, tools ...tool.Tool) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	o := &tool.Toolset{Tools: tools}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() { _ = o.Serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		cancel()
		served.Wait()
	})
	return l.Addr().String()
}

// program is atoll-tool with arguments, in a directory of its own.
func program(t *testing.T, addr string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = []string{isTool + "=1", "ATOLL_TOOLS=" + addr}
	cmd.Dir = t.TempDir()
	return cmd
}

func echo(name string) tool.Tool {
	return tool.Tool{
		Server: "s", Name: name, Description: "Says it again.\nReally.", Schema: []byte(`{"type":"object","properties":{"n":{"type":"integer"},"on":{"type":"boolean"},"list":{"type":"array"},"s":{"type":"string"}},"additionalProperties":false}`),
		Call: func(_ context.Context, c tool.Call) (tool.Result, error) {
			return tool.Result{Text: string(c.Input)}, nil
		},
	}
}

func TestCommand(t *testing.T) {
	addr := serve(t, "tcp", "127.0.0.1:0", echo("echo"),
		tool.Tool{Name: "fail", Call: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{}, &tool.Error{Text: "no such user"}
		}},
		tool.Tool{Name: "draw", Call: func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Text: "a dot", Images: []tool.Image{{Type: "image/png", Data: []byte("png")}}}, nil
		}},
	)
	file := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(file, []byte(`{"s":"file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		law    string
		args   []string
		stdin  string
		status int
		want   string // on both streams; beginning with "…": a part
	}{
		{"List", []string{"list"}, "", 0, "draw\necho  Says it again.\nfail\n"},
		{"ListAsJSON", []string{"list", "--json"}, "", 0, `…"name": "echo"`},
		{"HelpOfATool", []string{"help", "echo"}, "", 0, `…Really.`},
		{"Help", []string{"--help"}, "", 0, "…usage: atoll-tool list"},
		{"CallWithJSON", []string{"call", "echo", `{"n":1,"s":"a b"}`}, "", 0, `{"n":1,"s":"a b"}` + "\n"},
		{"CallWithNothing", []string{"call", "echo"}, "", 0, "{}\n"},
		{"CallWithStdin", []string{"call", "echo", "-"}, `{"s":"in"}`, 0, `{"s":"in"}` + "\n"},
		{"CallWithFile", []string{"call", "echo", "@" + file}, "", 0, `{"s":"file"}` + "\n"},
		{"CallWithoutFile", []string{"call", "echo", "@/nope"}, "", 2, "…the input: open /nope"},
		{"CallWithoutJSON", []string{"call", "echo", "x"}, "", 2, "…no JSON object"},
		{"Words", []string{"echo", "n=7", "on=true", "s=3", `list:=["a"]`}, "", 0, `{"list":["a"],"n":7,"on":true,"s":"3"}` + "\n"},
		{"WordsAreNotSplitTwice", []string{"echo", "s=a=b -c $(x)"}, "", 0, `{"s":"a=b -c $(x)"}` + "\n"},
		{"WordOfWrongType", []string{"echo", "n=x"}, "", 2, `…n: "x" is no number`},
		{"WordThatIsNone", []string{"echo", "n"}, "", 2, `…"n" is no KEY=VALUE`},
		{"WordThatIsNoJSON", []string{"echo", "list:=["}, "", 2, `…list: "[" is no JSON`},
		{"FieldThatIsNotThere", []string{"echo", "x=1"}, "", 1, `…there is no field "x"`},
		{"ToolFails", []string{"fail"}, "", 1, "no such user\n"},
		{"NoSuchTool", []string{"nope"}, "", 3, `…there is no tool "nope"; there is: draw, echo, fail`},
		{"NoSuchToolByCall", []string{"call", "nope"}, "", 3, `…there is no tool "nope"`},
		{"Picture", []string{"draw"}, "", 0, "…a dot\n./tool-"},
		{"Nothing", nil, "", 2, "…usage:"},
		{"UnknownFlag", []string{"--nope"}, "", 2, "…there is no flag --nope"},
	} {
		t.Run(c.law, func(t *testing.T) {
			cmd := program(t, addr, c.args...)
			cmd.Stdin = strings.NewReader(c.stdin)
			out, err := cmd.CombinedOutput()
			part, isPart := strings.CutPrefix(c.want, "…")
			if cmd.ProcessState.ExitCode() != c.status || !isPart && string(out) != c.want || !strings.Contains(string(out), part) {
				t.Errorf("exit status %d (%v), output %q; want %d, %q", cmd.ProcessState.ExitCode(), err, out, c.status, c.want)
			}
		})
	}
}

func TestNoHost(t *testing.T) {
	for _, addr := range []string{"", "127.0.0.1:1", "/nope.sock", "nonsense"} {
		cmd := program(t, addr, "list")
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != unreachable || !bytes.HasPrefix(out, []byte("atoll-tool: the")) {
			t.Errorf("%q: %q, %v", addr, out, err)
		}
	}
}

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	serve(t, "unix", path, echo("echo"))
	for _, addr := range []string{path, "unix:" + path} {
		if out, err := program(t, addr, "echo", "n=1").CombinedOutput(); err != nil || string(out) != "{\"n\":1}\n" {
			t.Errorf("%s: %q, %v", addr, out, err)
		}
	}
}

// TestServer talks through the program as agents do.
func TestServer(t *testing.T) {
	addr := serve(t, "tcp", "127.0.0.1:0", echo("echo"))
	for _, v := range sdk.SupportedProtocolVersions() {
		cmd := program(t, "", "mcp", addr)
		cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, &sdk.ClientSessionOptions{ProtocolVersion: v})
		if err != nil {
			t.Fatal(v, err)
		}
		begun := time.Now()
		for range 100 {
			if r, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: "echo", Arguments: map[string]any{"s": strings.Repeat("x", 1000)}}); err != nil || r.IsError {
				t.Fatal(v, r, err)
			}
		}
		t.Logf("%s: %v for a call", v, time.Since(begun)/100)
		if err := cs.Close(); err != nil {
			t.Errorf("%s: the program ends with %v", v, err)
		}
	}
}

// TestPumpPassesTheEnd: the end of standard input reaches the host, whose answer
// still comes; the end of the host ends the program.
func TestPumpPassesTheEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b, _ := io.ReadAll(conn) // what came is checked below
		fmt.Fprintf(conn, "heard %d bytes", len(b))
	}()
	cmd := program(t, l.Addr().String(), "mcp")
	cmd.Stdin = bytes.NewReader(make([]byte, 3<<20))
	if out, err := cmd.Output(); err != nil || string(out) != "heard 3145728 bytes" {
		t.Errorf("%q, %v", out, err)
	}

	cmd = program(t, l.Addr().String(), "mcp")
	stdin, err := cmd.StdinPipe() // which stays open
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.Close()
		}
	}()
	if err := cmd.Run(); err != nil {
		t.Errorf("the host has closed: %v", err)
	}
}

// TestServerIsRestarted loses the connection to the host, which listens again later: a call in flight fails with the
// reason, and the next ones work.
func TestServerIsRestarted(t *testing.T) {
	for _, v := range sdk.SupportedProtocolVersions() {
		t.Run(v, func(t *testing.T) { testRestart(t, v) })
	}
}

func testRestart(t *testing.T, version string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan struct{}, 1)
	waits := tool.Tool{Name: "waits", Call: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		called <- struct{}{}
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	first, end := context.WithCancel(t.Context())
	defer end()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := l.Accept()
		_ = l.Close()
		if err != nil {
			return
		}
		defer context.AfterFunc(first, func() { _ = conn.Close() })()
		_ = (&tool.Toolset{Tools: []tool.Tool{echo("echo"), waits}}).Serve(first, conn)
	}()
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: program(t, "", "mcp", l.Addr().String())}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	call := func(name string) (*sdk.CallToolResult, error) {
		return cs.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: map[string]any{"n": 1}})
	}
	if r, err := call("echo"); err != nil || r.IsError {
		t.Fatalf("before: %+v, %v", r, err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := call("waits")
		failed <- err
	}()
	<-called
	end()
	<-served
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "was lost during the call") {
		t.Errorf("the call in flight: %v", err)
	}
	serve(t, "tcp", l.Addr().String(), echo("echo"))
	if r, err := call("echo"); err != nil || r.IsError {
		t.Errorf("after: %+v, %v", r, err)
	}
	if err := cs.Close(); err != nil {
		t.Errorf("the program ends with %v", err)
	}
}

func TestInterruptCancels(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	addr := serve(t, "tcp", "127.0.0.1:0", tool.Tool{Name: "block", Call: func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return tool.Result{}, ctx.Err()
	}})
	cmd := program(t, addr, "call", "block")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-begun
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("it ends with %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the tool saw %v", err)
	}
}
