package launch_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/cli/launch"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// launcher returns a launcher whose full program records its arguments and fails with an error.
func launcher(out *bytes.Buffer, got *[]string, err error) launch.Launcher {
	return launch.Launcher{
		Streams: tty.Streams{Out: out, Err: out},
		Driver:  func() atoll.Driver { return &virtual.Driver{} },
		Replace: func(args []string) error { *got = args; return err },
	}
}

func TestVersionNeedsNoFullProgram(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}, {"version", "--json"}} {
		var out bytes.Buffer
		var got []string
		if code := launcher(&out, &got, errors.New("started")).Run(t.Context(), args); code != 0 || got != nil || !strings.Contains(out.String(), "devel") {
			t.Errorf("%q: status %d, full program %q, output %q", args, code, got, &out)
		}
	}
}

func TestOthersNeedTheFullProgram(t *testing.T) {
	for _, args := range [][]string{nil, {"run", "--", "true"}, {"version", "--format", "{{.Go}}"}, {"demo", "--driver", "docker"}, {"git-remote", "--", "origin"}} {
		var out bytes.Buffer
		var got []string
		if code := launcher(&out, &got, errors.New("no memory")).Run(t.Context(), args); code != 125 || !slices.Equal(got, args) || !strings.Contains(out.String(), "no memory") {
			t.Errorf("%q: status %d, full program %q, output %q", args, code, got, &out)
		}
	}
}

func TestDemoWithoutTheFullProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte("some words that are longer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d", "b.md"), []byte("more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"demo", "--from", dir}, 0, "destroy it"},
		{[]string{"demo", "--from", dir, "--json"}, 0, `"step": "destroy it"`},
		{[]string{"demo", "--driver", "docker"}, 2, "make build"},
		{[]string{"serve"}, 125, "make build"},
	} {
		var out bytes.Buffer
		var got []string
		err := errors.Join(atoll.ErrUnavailable, errors.New("use make build"))
		if code := launcher(&out, &got, err).Run(context.Background(), c.args); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: status %d, want %d; output without %q:\n%s", c.args, code, c.code, c.want, &out)
		}
	}
}

func TestResolveArguments(t *testing.T) {
	for _, c := range [][2][]string{
		{{"/bin/atoll", "run"}, {"run"}},
		{{"git-remote-atoll", "origin", "atoll::box"}, {"git-remote", "--", "origin", "atoll::box"}},
	} {
		if got := launch.ResolveArguments(c[0]); !slices.Equal(got, c[1]) {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}

// TestSetupOfHelpersNeedsNoFullProgram checks that the program that 'go install' builds can get the rest.
func TestSetupOfHelpersNeedsNoFullProgram(t *testing.T) {
	var out bytes.Buffer
	var got []string
	if code := launcher(&out, &got, errors.New("started")).Run(t.Context(), []string{"setup", "helpers"}); code != 125 || got != nil || !strings.Contains(out.String(), "make build") {
		t.Errorf("in a checkout: status %d, full program %q, output %q", code, got, &out)
	}
}
