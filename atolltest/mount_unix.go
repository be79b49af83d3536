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
		return // FeaturesAreTrue checks the refusal
	}
	dir := e.hostDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		e.Fatal(err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(e.newContext(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		e.Fatal(err)
	}
	defer l.Close()
	sb := e.createWithMount(dir, nil)
	e.runShell(sb, "ls -l /share; echo x > /share/file; find /share; rm -f /share/s; test -e /share/pipe")
	e.mustFinish("access to a pipe without a writer", func() {
		// Real programs may wait for a pipe until their own deadline.
		for _, name := range []string{"pipe", "s"} {
			if b, err := atoll.ReadFile(e.newContext(), sb, "/share/"+name); err == nil {
				e.Errorf("ReadFile of %s: %q", name, b)
			}
			_, _ = atoll.Stat(e.newContext(), sb, "/share/"+name) // only that it returns counts
		}
		_ = e.exportPath(sb, mountTarget)
		if err := atoll.WriteFile(e.newContext(), sb, "/share/pipe", []byte("now a file"), 0o644); err != nil {
			e.Errorf("WriteFile over a pipe: %v", err)
		}
		wantEqual(e, "the file that replaced it", e.runShell(sb, "cat /share/pipe"), "now a file")
	})
}
