package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/atoll-sandbox/atoll"
)

type execIn struct {
	Command string   `json:"command,omitempty" jsonschema:"shell text, run by sh -c; give this or args"`
	Args    []string `json:"args,omitempty" jsonschema:"a program and its arguments, run without a shell; give this or command"`
	Dir     string   `json:"dir,omitempty" jsonschema:"absolute working directory; the sandbox's own if left out"`
	Stdin   string   `json:"stdin,omitempty" jsonschema:"what the command reads on standard input"`
	Timeout float64  `json:"timeout_seconds,omitempty" jsonschema:"time limit; the sandbox's own limit if left out"`
	Sandbox string   `json:"sandbox,omitempty" jsonschema:"name or id of the sandbox; your default one if left out"`
}

// maxTimeout is the longest timeout of a call, in seconds.
const maxTimeout = 24 * 60 * 60

// progressInterval is the interval of progress notifications.
const progressInterval = time.Second

func (t *tools) addExec(s *mcp.Server) {
	add(s, &mcp.Tool{
		Name: "exec",
		Description: `Run a command in a sandbox and wait for its end. Each call is a process of its own: a cd or a variable does not last, files do.
The answer is the standard output, then "[stderr]" and the standard error, then the exit status if it is not 0. Long output is cut in
the middle: send it to a file and look at parts with read_file or grep. At the time limit the command is ended with all its children and
what it wrote until then is the answer.`,
		Annotations: changingTool("Run a command", true),
	}, t.exec)
}

func (t *tools) exec(ctx context.Context, req *mcp.CallToolRequest, in execIn) (string, error) {
	cmd := atoll.Cmd{Args: in.Args, Shell: in.Command, Dir: in.Dir}
	if in.Stdin != "" {
		cmd.Stdin = strings.NewReader(in.Stdin)
	}
	if in.Timeout < 0 || in.Timeout > maxTimeout {
		return "", fmt.Errorf("%w: timeout_seconds %v: must be between 0 and %d", atoll.ErrInvalid, in.Timeout, maxTimeout)
	}
	cmd.Timeout = time.Duration(in.Timeout * float64(time.Second))
	if err := cmd.Check(); err != nil {
		return "", err
	}
	sb, err := t.open(ctx, in.Sandbox)
	if err != nil {
		return "", err
	}
	out, errs := newTruncatedBuffer(maxText*3/4), newTruncatedBuffer(maxText/4)
	cmd.Stdout, cmd.Stderr = out, errs
	stop := reportProgress(ctx, req, out, errs)
	exit, err := sb.Exec(ctx, cmd)
	stop()
	text := formatOutput(out, errs)
	switch {
	case errors.Is(err, atoll.ErrTimeout):
		return text, fmt.Errorf("[ended: %w; the output until then is above]", err)
	case err != nil:
		return text, err
	case exit.Signal != "":
		text += fmt.Sprintf("[exit status %d, ended by signal %s]", exit.Code, exit.Signal)
	case exit.Code != 0:
		text += fmt.Sprintf("[exit status %d]", exit.Code)
	case text == "":
		text = "[exit status 0, no output]"
	}
	return text, nil
}

// formatOutput returns the output of a command as the answer shows it.
func formatOutput(out, errs *truncatedBuffer) string {
	text := out.String()
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if e := errs.String(); e != "" {
		text += "[stderr]\n" + e
		if !strings.HasSuffix(e, "\n") {
			text += "\n"
		}
	}
	return text
}

// reportProgress notifies a client that has asked for it, each second, of the bytes written and
// the last line, until the returned function is called.
func reportProgress(ctx context.Context, req *mcp.CallToolRequest, out, errs *truncatedBuffer) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			msg := fmt.Sprintf("%ds, %d bytes of output", n, out.Len()+errs.Len())
			if last := out.Last(); last != "" {
				msg += ": " + last
			}
			p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: msg}
			if req.Session.NotifyProgress(ctx, p) != nil {
				return // the client has disconnected; the call returns the error
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
