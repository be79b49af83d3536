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

// guest runs the git of a sandbox. Whatever it answers may be a lie: answers are
// bounded, and what they name is checked.
type guest struct {
	sb  atoll.Sandbox
	dir string // where it runs
	env []string
}

// Bounds of one call inside.
const (
	mostAnswer = 64 << 20         // bytes of a list
	guestTime  = 10 * time.Minute // of a command, whose caller may say less
)

// inside are settings for every call of a sandbox's git: what the repository
// there has as hooks is for who works there.
var inside = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.quotePath=false", "core.pager=cat", "gc.auto=0", "maintenance.auto=false",
	"commit.gpgSign=false", "color.ui=false", "safe.directory=*", "submodule.recurse=false", "advice.addEmbeddedRepo=false", "core.splitIndex=false",
}

// in returns a guest for another directory.
func (g guest) in(dir string) guest {
	g.dir = dir
	return g
}

// with returns a guest with more variables.
func (g guest) with(env ...string) guest {
	g.env = append(slices.Clip(g.env), env...)
	return g
}

// guestError is a command inside that ended with an error.
type guestError struct {
	command string
	code    int
	said    string
}

func (e *guestError) Error() string {
	return fmt.Sprintf("git %s in the sandbox: exit status %d: %s", e.command, e.code, e.said)
}

// run runs git inside; a nil in or out is empty or dropped.
func (g guest) run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	all := []string{"git"}
	for _, c := range inside {
		all = append(all, "-c", c)
	}
	if out == nil {
		out = io.Discard
	}
	said := &tail{max: 2000}
	exit, err := g.sb.Exec(ctx, atoll.Cmd{
		Args: append(all, args...), Dir: g.dir, Stdin: in, Stdout: out, Stderr: said, Timeout: guestTime,
		Env: append([]string{"LC_ALL=C", "LANGUAGE=", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1"}, g.env...),
	})
	switch {
	case err != nil:
		return fmt.Errorf("git %s in the sandbox: %w", args[0], err)
	case exit.Code == 127 || exit.Code == 126:
		return fmt.Errorf("%w in the sandbox: its image needs the program git (%s)", ErrNoGit, said.text())
	case exit.Code != 0:
		return &guestError{command: args[0], code: exit.Code, said: said.text()}
	}
	return nil
}

// feed gives git inside its input and returns what it printed, up to mostAnswer.
func (g guest) feed(ctx context.Context, in string, args ...string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &bounded{max: mostAnswer, full: cancel}
	err := g.run(ctx, strings.NewReader(in), out, args...)
	if out.over {
		return "", fmt.Errorf("git %s in the sandbox: %w: it printed more than %d bytes", args[0], ErrTooLarge, int64(mostAnswer))
	}
	return out.buf.String(), err
}

func (g guest) output(ctx context.Context, args ...string) (string, error) {
	return g.feed(ctx, "", args...)
}

// status is output of a command whose exit status 1 is an answer.
func (g guest) status(ctx context.Context, args ...string) (string, int, error) {
	out, err := g.output(ctx, args...)
	var bad *guestError
	if errors.As(err, &bad) && bad.code == 1 {
		return out, 1, nil
	}
	return out, 0, err
}

// word is output that is one line.
func (g guest) word(ctx context.Context, args ...string) (string, error) {
	out, err := g.output(ctx, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// object is word for an object's id.
func (g guest) object(ctx context.Context, args ...string) (string, error) {
	id, err := g.word(ctx, args...)
	if err == nil && !isObject(id) {
		err = fmt.Errorf("git %s in the sandbox: %w: it printed %q, not an object's id", args[0], ErrUnsafe, shown(id))
	}
	return id, err
}

// isObject reports whether a text is the id of an object, of either format.
func isObject(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}

// hasShell reports that the sandbox has no shell, which terminals, steps and what
// is saved at its end need.
func (g guest) hasShell(ctx context.Context) error {
	exit, err := g.sb.Exec(ctx, atoll.Cmd{Args: []string{"sh", "-c", ":"}, Dir: g.dir, Timeout: guestTime, MaxOutput: 1 << 10})
	switch {
	case err != nil:
		return fmt.Errorf("sh in the sandbox: %w", err)
	case exit.Code != 0:
		return fmt.Errorf("%w in the sandbox: its image needs the program sh (exit status %d)", ErrNoShell, exit.Code)
	}
	return nil
}

// hasGit reports why the sandbox's git can't be used.
func (g guest) hasGit(ctx context.Context) error {
	out, err := g.word(ctx, "version")
	if err != nil {
		return err
	}
	if v, ok := version(out); !ok || slices.Compare(v[:], []int{2, 29}) < 0 {
		return fmt.Errorf("%w in the sandbox that is new enough: it is %q, and must be 2.29 or newer", ErrNoGit, shown(out))
	}
	return nil
}
