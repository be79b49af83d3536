package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"

	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/isolation/jail"
)

// initMain is process 1 of a namespace sandbox: it reads its setup from descriptor 3, isolates
// itself, and serves.
func initMain([]string) int {
	var cfg guest.Config
	in, err := jail.Enter(os.NewFile(3, "socket"), func(s *jail.Setup) error {
		if err := json.Unmarshal(s.Guest, &cfg); err != nil {
			return err
		}
		return redirectEgress(s, &cfg)
	})
	if err == nil {
		err = serveInside(in, cfg)
	}
	if err == nil {
		return 0
	}
	in.ReportFailure(err)
	return printFailure("init", err)
}

// redirectEgress redirects connections to the egress proxy. If that fails, a sandbox without a
// network starts all the same.
func redirectEgress(s *jail.Setup, cfg *guest.Config) error {
	if !cfg.Egress {
		return nil
	}
	err := guest.RedirectConnections()
	if err != nil && !s.Egress {
		fmt.Fprintln(os.Stderr, "no connection to the egress proxy:", err)
		cfg.Egress, err = false, nil
	}
	return err
}

func serveInside(in *jail.InitProcess, cfg guest.Config) error {
	if in.Cgroup != nil {
		cfg.Cgroup = int(in.Cgroup.Fd())
	}
	l, err := net.FileListener(in.Listener)
	if err != nil {
		return err
	}
	if err := in.DropPrivileges(); err != nil {
		return err
	}
	var s *guest.Server
	err = in.ReportReady(func() (err error) {
		s, err = guest.Prepare(cfg)
		return err
	})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Serve(l)
}
