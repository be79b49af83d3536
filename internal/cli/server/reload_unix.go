//go:build unix

package server

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// notifyReload sends to c when a reload is asked for. It is SIGUSR2, as SIGHUP ends a server whose
// terminal was closed.
func notifyReload(c chan<- os.Signal) { signal.Notify(c, syscall.SIGUSR2) }

// replaceProcess replaces this process with a program. It returns only if that fails.
func replaceProcess(path string, args, env []string) error {
	signal.Ignore(syscall.SIGUSR2) // stays so in the new program until it is notified
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, env))
}
