package daytona

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// registerProcesses registers the routes that run commands and code.
func (s *Server) registerProcesses() {
	s.addToolbox("POST", "/process/execute", s.executeCommand)
	s.addToolbox("POST", "/process/code-run", s.runCode)
}

// executeRequest is a command to run.
type executeRequest struct {
	Command string            `json:"command"`
	Cwd     string            `json:"cwd"`
	Envs    map[string]string `json:"envs"`
	Timeout int               `json:"timeout"` // seconds; 0: none
}

// executeReply is how a command has ended, with its output.
type executeReply struct {
	ExitCode int    `json:"exitCode"`
	Result   string `json:"result"`

	Artifacts *artifacts `json:"artifacts,omitempty"` // of code
}

// maxOutput is the output of a command in bytes that one answer has.
const maxOutput = 64 << 20

// outputBuffer collects the two streams of a command in the order in which they come.
type outputBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer // guarded by mu
	over bool         // guarded by mu
}

// Write appends output; past the limit it is dropped.
func (b *outputBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data.Len()+len(p) > maxOutput {
		b.over = true
		return len(p), nil
	}
	return b.data.Write(p)
}

// text returns the output.
func (b *outputBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.ToValidUTF8(b.data.String(), "\uFFFD")
}

// maxSeconds is the longest timeout of a command.
const maxSeconds = 7 * 24 * 3600

// timeoutOf returns the timeout that a client asks for in seconds; 0 is none.
func timeoutOf(seconds int) (time.Duration, error) {
	if seconds < 0 || seconds > maxSeconds {
		return 0, invalidError("timeout %d: must be 0 to %d seconds", seconds, maxSeconds)
	}
	if seconds == 0 {
		return -1, nil
	}
	return time.Duration(seconds) * time.Second, nil
}

// envOf returns environment variables in a fixed order.
func envOf(in map[string]string) []string {
	var env []string
	for _, k := range slices.Sorted(maps.Keys(in)) {
		env = append(env, k+"="+in[k])
	}
	return env
}

// absolutePath returns the absolute path of a file: paths are relative to the home of commands.
func absolutePath(name string) string {
	switch {
	case name == "~", name == "":
		name = home
	case strings.HasPrefix(name, "~/"):
		name = home + name[1:]
	case !strings.HasPrefix(name, "/"):
		name = home + "/" + name
	}
	return path.Clean(name)
}

// dirOf returns the working directory of a command.
func dirOf(name string) string {
	if name == "" {
		return ""
	}
	return absolutePath(name)
}

// executeCommand runs a command of the shell and answers with its output.
func (s *Server) executeCommand(c *call, sb *fleet.Sandbox) error {
	var in executeRequest
	if err := c.readJSON(&in); err != nil {
		return err
	}
	if strings.TrimSpace(in.Command) == "" {
		return invalidError("command: must not be empty")
	}
	shell, err := s.shells.Find(c.r.Context(), sb)
	if err != nil {
		return err
	}
	reply, err := s.execute(c.r.Context(), sb, &atoll.Cmd{Args: []string{shell, "-c", in.Command}, Dir: dirOf(in.Cwd), Env: envOf(in.Envs)}, in.Timeout)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, reply)
}

// execute runs a command and returns its output.
func (s *Server) execute(ctx context.Context, sb *fleet.Sandbox, cmd *atoll.Cmd, seconds int) (*executeReply, error) {
	var err error
	if cmd.Timeout, err = timeoutOf(seconds); err != nil {
		return nil, err
	}
	out := &outputBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	exit, err := sb.Exec(ctx, *cmd)
	switch {
	case errors.Is(err, atoll.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return nil, &Error{Status: http.StatusRequestTimeout, Code: "PROCESS_EXECUTION_TIMEOUT", Message: fmt.Sprintf("command execution timeout: the command was ended after %d s", seconds)}
	case err != nil:
		return nil, err
	}
	out.mu.Lock()
	over := out.over
	out.mu.Unlock()
	if over {
		return nil, &Error{Status: http.StatusInsufficientStorage, Message: fmt.Sprintf("the command has written more than %d bytes: let it write to a file", maxOutput)}
	}
	code := exit.Code
	if exit.Signal != "" && code == 0 {
		code = -1
	}
	return &executeReply{ExitCode: code, Result: out.text()}, nil
}
