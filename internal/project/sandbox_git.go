package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// guest runs the git of a sandbox. Its answers are untrusted: they are limited in size, and the
// objects and names in them are checked.
type guest struct {
	sb  atoll.Sandbox
	dir string // working directory
	env []string

	visits *visits // of the nested repositories of one act; nil: there were none
}

// visits remembers the repositories that an act has visited, so that links that lead around end.
type visits struct{ seen map[string]bool } // by their common git directories

// maxVisits limits the repositories that an act visits.
const maxVisits = 200

// enter returns a guest for a nested repository; ok is false if it was visited before, also as an outer one.
func (g guest) enter(ctx context.Context, dir string) (inner guest, ok bool, err error) {
	if g.visits == nil {
		common, err := g.commonDir(ctx)
		if err != nil {
			return g, false, err
		}
		g.visits = &visits{map[string]bool{common: true}}
	}
	inner = g.inDir(dir)
	common, err := inner.commonDir(ctx)
	if err != nil || g.visits.seen[common] {
		return g, false, err
	}
	if len(g.visits.seen) >= maxVisits {
		return g, false, fmt.Errorf("%w: there are more than %d repositories in the sandbox's", ErrTooLarge, maxVisits)
	}
	g.visits.seen[common] = true
	return inner, true, nil
}

// commonDir returns the git directory that all working trees of a repository inside share.
func (g guest) commonDir(ctx context.Context) (string, error) {
	return g.runLine(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
}

// Limits of one call inside.
const (
	maxGuestOutput = 64 << 20         // bytes of a list
	guestTimeout   = 10 * time.Minute // the caller's context may be shorter
)

// guestConfig holds the settings for every call of a sandbox's git. Hooks of the repository inside are
// meant for the programs inside, not for atoll.
var guestConfig = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.quotePath=false", "core.pager=cat", "gc.auto=0", "maintenance.auto=false",
	"commit.gpgSign=false", "color.ui=false", "safe.directory=*", "submodule.recurse=false", "advice.addEmbeddedRepo=false", "core.splitIndex=false",
}

// inDir returns a guest for another directory.
func (g guest) inDir(dir string) guest {
	g.dir = dir
	return g
}

// withEnv returns a guest with further variables.
func (g guest) withEnv(env ...string) guest {
	g.env = append(slices.Clip(g.env), env...)
	return g
}

// guestError is a failed command inside.
type guestError struct {
	command string
	code    int
	stderr  string
}

func (e *guestError) Error() string {
	return fmt.Sprintf("git %s in the sandbox: exit status %d: %s", e.command, e.code, e.stderr)
}

// run runs git inside. Without in, its input is empty; without out, its output is discarded.
func (g guest) run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	all := []string{"git"}
	for _, c := range guestConfig {
		all = append(all, "-c", c)
	}
	if out == nil {
		out = io.Discard
	}
	said := &tailBuffer{max: 2000}
	exit, err := g.sb.Exec(ctx, atoll.Cmd{
		Internal: true,
		Args:     append(all, args...), Dir: g.dir, Stdin: in, Stdout: out, Stderr: said, Timeout: guestTimeout,
		Env: append([]string{"LC_ALL=C", "LANGUAGE=", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1"}, g.env...),
	})
	switch {
	case err != nil:
		return fmt.Errorf("git %s in the sandbox: %w", args[0], err)
	case exit.Code == 127 || exit.Code == 126:
		return fmt.Errorf("%w in the sandbox: its image needs the program git (%s)", ErrNoGit, said.printable())
	case exit.Code != 0:
		return &guestError{command: args[0], code: exit.Code, stderr: said.printable()}
	}
	return nil
}

// runWithInput runs git inside with input and returns its output, up to maxGuestOutput.
func (g guest) runWithInput(ctx context.Context, in string, args ...string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &limitedBuffer{max: maxGuestOutput, full: cancel}
	err := g.run(ctx, strings.NewReader(in), out, args...)
	if out.over {
		return "", fmt.Errorf("git %s in the sandbox: %w: it printed more than %d bytes", args[0], ErrTooLarge, int64(maxGuestOutput))
	}
	return out.buf.String(), err
}

func (g guest) runOutput(ctx context.Context, args ...string) (string, error) {
	return g.runWithInput(ctx, "", args...)
}

// runStatus is runOutput for a command whose exit status 1 is an answer.
func (g guest) runStatus(ctx context.Context, args ...string) (string, int, error) {
	out, err := g.runOutput(ctx, args...)
	var bad *guestError
	if errors.As(err, &bad) && bad.code == 1 {
		return out, 1, nil
	}
	return out, 0, err
}

// runLine is runOutput for a command that prints one line.
func (g guest) runLine(ctx context.Context, args ...string) (string, error) {
	out, err := g.runOutput(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// runObjectID is runLine for a command that prints an object id.
func (g guest) runObjectID(ctx context.Context, args ...string) (string, error) {
	id, err := g.runLine(ctx, args...)
	if err == nil && !isObjectID(id) {
		err = fmt.Errorf("git %s in the sandbox: %w: it printed %q instead of an object id", args[0], ErrUnsafe, printable(id))
	}
	return id, err
}

// isObjectID reports whether a text is an object id of either format.
func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// checkShell reports whether the sandbox has a shell, which terminals, prepare steps and rescue need.
func (g guest) checkShell(ctx context.Context) error {
	exit, err := g.sb.Exec(ctx, atoll.Cmd{Internal: true, Args: []string{"sh", "-c", ":"}, Dir: g.dir, Timeout: guestTimeout, MaxOutput: 1 << 10})
	switch {
	case err != nil:
		return fmt.Errorf("sh in the sandbox: %w", err)
	case exit.Code != 0:
		return fmt.Errorf("%w in the sandbox: its image needs the program sh (exit status %d)", ErrNoShell, exit.Code)
	}
	return nil
}

// checkGit reports why the sandbox's git can't be used.
func (g guest) checkGit(ctx context.Context) error {
	out, err := g.runLine(ctx, "version")
	if err != nil {
		return err
	}
	if v, ok := parseVersion(out); !ok || slices.Compare(v[:], []int{2, 29}) < 0 {
		return fmt.Errorf("%w in the sandbox that is new enough: it is %q, and must be 2.29 or newer", ErrNoGit, printable(out))
	}
	return nil
}
