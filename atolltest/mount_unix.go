//go:build unix

package atolltest

import (
	"net"
	"path/filepath"
	"syscall"

	"github.com/atoll-sandbox/atoll"
)

func mountedSpecialFilesDontBlock(e *env) {
	if !e.features.Mounts {
		return // FeaturesAreTrue has seen the refusal
	}
	dir := e.hostDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		e.Fatal(err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(e.ctx(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		e.Fatal(err)
	}
	defer l.Close()
	sb := e.mounted(dir, nil)
	e.sh(sb, "ls -l /share; echo x > /share/file; find /share; rm -f /share/s; test -e /share/pipe")
	e.soon("a host that is asked for a pipe which nobody serves", func() {
		// Real programs may wait for a pipe, until their own deadline.
		for _, name := range []string{"pipe", "s"} {
			if b, err := atoll.ReadFile(e.ctx(), sb, "/share/"+name); err == nil {
				e.Errorf("ReadFile of %s: %q", name, b)
			}
			_, _ = atoll.Stat(e.ctx(), sb, "/share/"+name) // that it returns is what counts
		}
		_ = e.export(sb, share)
		if err := atoll.WriteFile(e.ctx(), sb, "/share/pipe", []byte("now a file"), 0o644); err != nil {
			e.Errorf("WriteFile over a pipe: %v", err)
		}
		eq(e, "what took its place", e.sh(sb, "cat /share/pipe"), "now a file")
	})
}
