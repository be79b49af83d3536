package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

func (a commands) portCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "port", Aliases: []string{"ports"},
		Example: `  atoll port ls box
  atoll port forward box 8080:3000`,
		Short: "Manage ports of a sandbox",
		Args:  app.UnknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.portLs(), a.portForward())
	return cmd
}

func (a commands) portLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls SANDBOX", Aliases: []string{"list"},
		Example:           "  atoll port ls box",
		Short:             "List the open ports of a sandbox",
		Args:              app.CheckArgCount(1, 1, "one sandbox"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			list, err := atoll.Ports(cmd.Context(), sb)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(list))
			}
			rows := [][]string{{"PORT", "ADDRESS", "PID", "PROGRAM"}}
			for _, p := range list {
				pid := "-"
				if p.PID > 0 {
					pid = strconv.Itoa(p.PID)
				}
				rows = append(rows, []string{strconv.Itoa(p.Port), p.Address, pid, output.DashIfEmpty(p.Command)})
			}
			return a.PrintTable(rows)
		},
	}
}

func (a commands) portForward() *cobra.Command {
	return &cobra.Command{
		Use:   "forward SANDBOX [[ADDRESS:]LOCAL:]REMOTE...",
		Short: "Forward ports of a sandbox to this machine",
		Long: `Forward ports of a sandbox to this machine until Ctrl-C. The default LOCAL port
is REMOTE; 0 is any free port. The default ADDRESS is 127.0.0.1. REMOTE may be
the path of a unix socket, with a LOCAL port before it.`,
		Example: `  atoll port forward box 8080
  atoll port forward box 3000:80 0:5432
  atoll port forward box 8000:/run/app.sock`,
		Args:              app.CheckArgCount(2, -1, "a sandbox and ports"),
		ValidArgsFunction: a.CompleteSandboxes(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			var list []*forward
			for _, text := range args[1:] {
				f, err := parseForward(text)
				if err != nil {
					return err
				}
				list = append(list, f)
			}
			sb, err := a.OpenSandbox(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.forwardPorts(cmd.Context(), sb, args[0], list)
		},
	}
}

// forward is a port of this machine that leads into a sandbox.
type forward struct {
	local           string // address to listen on
	network, remote string // to dial inside
	listener        net.Listener
}

// parseForward reads [[ADDRESS:]LOCAL:]REMOTE.
func parseForward(text string) (*forward, error) {
	bad := fmt.Errorf("%w: %q: must be [[ADDRESS:]LOCAL:]REMOTE, like 8080, 3000:80 or 0.0.0.0:3000:80", atoll.ErrInvalid, text)
	local, remote := "", text
	if i := strings.Index(text, ":/"); i > 0 {
		local, remote = text[:i], text[i+1:]
	} else if i := strings.LastIndexByte(text, ':'); i >= 0 {
		local, remote = text[:i], text[i+1:]
	}
	f := &forward{network: "unix", remote: remote}
	if !strings.HasPrefix(remote, "/") {
		port, err := strconv.ParseUint(remote, 10, 16)
		if err != nil || port == 0 {
			return nil, bad
		}
		f.network, f.remote = "tcp", net.JoinHostPort("localhost", remote)
		if local == "" {
			local = remote
		}
	}
	host, port := "127.0.0.1", local
	if i := strings.LastIndexByte(local, ':'); i >= 0 {
		host, port = strings.Trim(local[:i], "[]"), local[i+1:]
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil || host == "" {
		return nil, bad
	}
	f.local = net.JoinHostPort(host, port)
	return f, nil
}

// forwardPorts carries connections until ctx is done.
func (a commands) forwardPorts(ctx context.Context, sb *client.Sandbox, name string, list []*forward) (err error) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	failed := make(chan error, len(list))
	for _, f := range list {
		var lc net.ListenConfig
		f.listener, err = lc.Listen(ctx, "tcp", f.local)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("%w: %s: another program listens there; 0:%s takes any free port", atoll.ErrExists, f.local, strings.TrimPrefix(f.remote, "localhost:"))
		}
		if errors.Is(err, syscall.EACCES) {
			return fmt.Errorf("%w: %s: this user may not use ports below 1024: give another, like 8080:%s", atoll.ErrDenied, f.local, strings.TrimPrefix(f.remote, "localhost:"))
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			<-ctx.Done()
			_ = f.listener.Close() // it ends accept
		})
		wg.Go(func() { failed <- a.accept(ctx, sb, f, &wg) })
		if err := a.tellForward(name, f); err != nil {
			return err
		}
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// tellForward says where a port is now.
func (a commands) tellForward(name string, f *forward) error {
	url := "http://" + f.listener.Addr().String()
	remote := strings.TrimPrefix(f.remote, "localhost:")
	if a.JSON {
		return a.PrintJSONLine(map[string]string{"url": url, "address": f.listener.Addr().String(), "sandbox": name, "remote": remote})
	}
	_, err := fmt.Fprintf(a.Out, "%s -> %s:%s\n", url, output.Clean(name), remote)
	return err
}

// accept takes connections of one port.
func (a commands) accept(ctx context.Context, sb *client.Sandbox, f *forward, wg *sync.WaitGroup) error {
	for {
		c, err := f.listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			if err := forwardConnection(ctx, sb, f, c); err != nil && ctx.Err() == nil {
				a.Progress("atoll: %s: %v", c.RemoteAddr(), err)
			}
		})
	}
}

// forwardConnection joins a connection with one that it opens inside, each direction until
// it ends by itself.
func forwardConnection(ctx context.Context, sb *client.Sandbox, f *forward, outer net.Conn) error {
	defer outer.Close()
	inner, err := atoll.Dial(ctx, sb, f.network, f.remote)
	if err != nil {
		return err
	}
	defer inner.Close()
	defer context.AfterFunc(ctx, func() {
		_ = inner.Close()
		_ = outer.Close() // both copies end
	})()
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyHalf(inner, outer)
	}()
	copyHalf(outer, inner)
	<-done
	return nil
}

// copyHalf copies one direction and tells the receiver of its end. What breaks ends
// the other direction too.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	w, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || w.CloseWrite() != nil {
		_, _ = to.Close(), from.Close() // nothing more can be carried
	}
}
