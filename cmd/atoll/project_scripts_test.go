package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/cmd/internal/program"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestProjectScripts runs the scripts about the work of projects, where the git of
// a sandbox is this machine's.
func TestProjectScripts(t *testing.T) {
	testenv.Real(t, "namespace")
	if _, err := exec.LookPath("git"); err != nil {
		testenv.Skip(t, "git", "git is not there")
	}
	realScripts(t, "testdata/script/project", "namespace", "")
}

// enter is a program that makes a sandbox of the repository it is in, and carries
// that in: enter NAME [MODE].
func enter() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := entered(ctx, os.Args[1], append(os.Args[2:], string(project.Manual))[0]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func entered(ctx context.Context, name, mode string) (err error) {
	a := &app.App{Streams: tty.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Wiring: program.Wiring(), Home: os.Getenv("ATOLL_HOME"), DriverName: os.Getenv("ATOLL_DRIVER")}
	if a.Config, err = config.Load(nil); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Disconnect(ctx), a.CloseDrivers()) }()
	repo, err := project.Open(ctx, ".")
	if err != nil {
		return err
	}
	host, err := pairing.HostID(a)
	if err != nil {
		return err
	}
	sb, err := a.CreateSandbox(ctx, atoll.Config{Spec: atoll.Spec{Name: name, Labels: map[string]string{
		project.Label: name, project.LabelPath: repo.Dir, project.LabelHost: host, project.LabelMode: mode,
	}}})
	if err != nil {
		return err
	}
	_, err = repo.Import(ctx, sb, project.ImportOptions{})
	return err
}
