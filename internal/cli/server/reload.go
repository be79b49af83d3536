package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/api"
	"github.com/atoll-sandbox/atoll/internal/cli/previewserver"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// checkTimeout is the time that the check of a configuration may take.
const checkTimeout = 30 * time.Second

// serveAndReload serves, and replaces this process with a new server if a reload was asked for: with the
// program that is installed now, and the same sockets.
func (a commands) serveAndReload(ctx context.Context, o serveOptions) error {
	log := a.newLogger(o.verbose)
	files, err := previewserver.ListenerTLS(a.App, log)
	if err != nil {
		return err
	}
	inherited, err := api.Inherit(files)
	if err != nil {
		return err
	}
	reload, err := a.serve(ctx, o, inherited, log)
	if !reload {
		return errors.Join(err, inherited.Close())
	}
	if err := errors.Join(err, a.Disconnect(ctx), a.CloseDrivers()); err != nil {
		log.Warn("before the reload", "err", err)
	}
	environment, err := inherited.Environment()
	if err != nil {
		return err
	}
	self, err := helper.Executable()
	if err != nil {
		return err
	}
	return replaceProcess(self, append([]string{self}, os.Args[1:]...), append(os.Environ(), environment...))
}

// checkReload checks the configuration with the program that is installed now.
func (a commands) checkReload(ctx context.Context) error {
	self, err := helper.Executable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, self, "config", "check", "--home", a.Home).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s config check: %w: %s", self, err, strings.TrimSpace(string(out)))
	}
	return nil
}
