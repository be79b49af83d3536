package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"

	"github.com/atoll-sandbox/atoll/internal/guest"
	"github.com/atoll-sandbox/atoll/internal/jail"
)

// initMain is process 1 of a namespace sandbox: it builds its walls as it is
// told on descriptor 3, then it serves.
func initMain([]string) int {
	var cfg guest.Config
	in, err := jail.Enter(os.NewFile(3, "socket"), func(s *jail.Setup) error {
		if err := json.Unmarshal(s.Guest, &cfg); err != nil {
			return err
		}
		return redirect(s, &cfg)
	})
	if err == nil {
		err = serveInside(in, cfg)
	}
	if err == nil {
		return 0
	}
	in.Failed(err)
	return fail("init", err)
}

// redirect leads connections to the gate. Where that can't be, a sandbox that
// has no network loses nothing.
func redirect(s *jail.Setup, cfg *guest.Config) error {
	if !cfg.Gate {
		return nil
	}
	err := guest.Redirect()
	if err != nil && !s.Gated {
		fmt.Fprintln(os.Stderr, "without a way to the gate:", err)
		cfg.Gate, err = false, nil
	}
	return err
}

func serveInside(in *jail.Inside, cfg guest.Config) error {
	if in.Cgroup != nil {
		cfg.Cgroup = int(in.Cgroup.Fd())
	}
	l, err := net.FileListener(in.Listener)
	if err != nil {
		return err
	}
	if err := in.Drop(); err != nil {
		return err
	}
	var s *guest.Server
	err = in.Ready(func() (err error) {
		s, err = guest.Prepare(cfg)
		return err
	})
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Serve(l)
}
