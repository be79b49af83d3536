// Command atoll-tool calls tools of the host from inside a sandbox: as a server of the
// Model Context Protocol on its standard streams, and as a command.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

const usage = `usage: atoll-tool list [--json]            what there is to call
       atoll-tool help TOOL                what it takes
       atoll-tool TOOL [KEY=VALUE | KEY:=JSON]...
       atoll-tool call TOOL [JSON | - | @FILE]
       atoll-tool mcp [ADDRESS]            all of it, as an MCP server on standard input and output

Tools are those of the host that this request may call. Their answer is printed;
pictures are written to files in the current directory, whose names are printed.
The host is at $ATOLL_TOOLS (HOST:PORT or the path of a socket).

Exit status: 0 done, 1 the tool failed, 2 it was called wrongly, 3 there is no
such tool, 4 the host can't be reached.
`

// Exit statuses.
const (
	failed      = 1
	wrong       = 2
	unknown     = 3
	unreachable = 4
)

// fault is an error with an exit status.
type fault struct {
	status int
	text   string
}

func (f *fault) Error() string { return f.text }

func newFault(status int, format string, args ...any) *fault {
	return &fault{status, fmt.Sprintf(format, args...)}
}

func main() {
	err := run(os.Args[1:])
	var f *fault
	switch {
	case err == nil:
	case errors.As(err, &f):
		if f.text != "" {
			fmt.Fprintf(os.Stderr, "atoll-tool: %s\n", f.text)
		}
		os.Exit(f.status)
	default:
		fmt.Fprintf(os.Stderr, "atoll-tool: %v\n", err)
		os.Exit(unreachable)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return newFault(wrong, "what to do?\n%s", usage)
	}
	name, rest := args[0], args[1:]
	switch name {
	case "mcp":
		return serveMCP(rest)
	case "list":
		return printTools(rest)
	case "call":
		return callJSON(rest)
	case "help", "-h", "--help":
		return printHelp(rest)
	}
	if strings.HasPrefix(name, "-") {
		return newFault(wrong, "there is no flag %s\n%s", name, usage)
	}
	return callFields(name, rest)
}

// dial connects to the host, at addr or at the address in the environment.
func dial(addr string) (net.Conn, error) {
	if addr == "" {
		addr = os.Getenv("ATOLL_TOOLS")
	}
	if addr == "" {
		return nil, newFault(unreachable, "there are no tools here: ATOLL_TOOLS is not set")
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok || strings.HasPrefix(addr, "/") {
		network, addr = "unix", path
	}
	conn, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(context.Background(), network, addr)
	if err != nil {
		return nil, newFault(unreachable, "the host can't be reached: %v", err)
	}
	return conn, nil
}
