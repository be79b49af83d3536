package project

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// oldest is the oldest git that has all that is used on the host:
// merge-tree --write-tree came with it.
var oldest = [2]int{2, 38}

// findGit returns the host's git.
func findGit(ctx context.Context) (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", fmt.Errorf("%w on this host: install git %d.%d or newer (%w)", ErrNoGit, oldest[0], oldest[1], err)
	}
	out, err := host{path: path, dir: "/"}.output(ctx, "version")
	switch {
	case ctx.Err() != nil:
		return "", err
	case err != nil:
		return "", fmt.Errorf("%w on this host: %w", ErrNoGit, err)
	}
	v, ok := version(out)
	if !ok || slices.Compare(v[:], oldest[:]) < 0 {
		return "", fmt.Errorf("%w that is new enough on this host: %s is %q, and must be %d.%d or newer", ErrNoGit, path, shown(strings.TrimSpace(out)), oldest[0], oldest[1])
	}
	return path, nil
}

// version reads what 'git version' says.
func version(s string) (v [2]int, ok bool) {
	s, ok = strings.CutPrefix(s, "git version ")
	major, rest, dot := strings.Cut(s, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(strings.TrimSpace(major))
	b, err2 := strconv.Atoi(strings.TrimSpace(minor))
	return [2]int{a, b}, ok && dot && err1 == nil && err2 == nil
}

// harmless are settings for every call of the host's git: no hook, helper,
// pager, editor, credential, signature, transport or upkeep.
var harmless = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=keep", "core.splitIndex=false",
	"core.pager=cat", "core.editor=false", "sequence.editor=false", "core.askPass=false", "core.sshCommand=false", "core.gitProxy=false",
	"core.alternateRefsCommand=true", "core.protectHFS=true", "core.protectNTFS=true", "core.quotePath=false",
	"credential.helper=", "gpg.program=false", "gpg.ssh.program=false", "gpg.x509.program=false",
	"commit.gpgSign=false", "tag.gpgSign=false", "merge.verifySignatures=false", "log.showSignature=false",
	"protocol.allow=never", "protocol.ext.allow=never", "protocol.file.allow=never", "protocol.git.allow=never",
	"protocol.http.allow=never", "protocol.https.allow=never", "protocol.ssh.allow=never",
	"submodule.recurse=false", "fetch.recurseSubmodules=false", "diff.ignoreSubmodules=none", "diff.noprefix=false", "diff.mnemonicPrefix=false",
	"diff.renames=false", "diff.orderFile=/dev/null", "gc.auto=0", "maintenance.auto=false", "merge.autoStash=false", "merge.renormalize=false",
	"color.ui=false", "core.logAllRefUpdates=always", "transfer.fsckObjects=true", "status.showUntrackedFiles=all",
}

// host runs the host's git.
type host struct {
	path     string // of the program
	dir      string // where it runs
	gitDir   string // empty: git looks for it
	workTree string

	config []string // more settings
	env    []string // more variables
	turn   *os.File // that git has, too, as long as it runs; nil: none. See Repo.writing
}

// gitError is a git that ended with an error.
type gitError struct {
	command string
	code    int
	said    string
}

func (e *gitError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("git %s: exit status %d", e.command, e.code)
	}
	return fmt.Sprintf("git %s: exit status %d: %s", e.command, e.code, e.said)
}

// environment is what git of the host sees: the user's, without what would
// change where and how it works.
func environment() []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "EDITOR", "VISUAL", "PAGER", "LESS", "SSH_ASKPASS", "SSH_AUTH_SOCK", "LANG", "LANGUAGE", "GPG_AGENT_INFO":
			continue
		}
		if !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "LC_") {
			env = append(env, e)
		}
	}
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ASKPASS=false", "GIT_SSH_COMMAND=false",
		"GIT_EDITOR=false", "GIT_PAGER=cat", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1", "GIT_MERGE_AUTOEDIT=no")
}

// with returns a host with more variables.
func (h host) with(env ...string) host {
	h.env = append(slices.Clip(h.env), env...)
	return h
}

// set returns a host with more settings, "name=value".
func (h host) set(config ...string) host {
	h.config = append(slices.Clip(h.config), config...)
	return h
}

func (h host) command(ctx context.Context, args []string) *exec.Cmd {
	var all []string
	if h.gitDir != "" {
		all = append(all, "--git-dir="+h.gitDir, "--work-tree="+h.workTree)
	}
	for _, c := range slices.Concat(harmless, h.config) {
		all = append(all, "-c", c)
	}
	cmd := exec.CommandContext(ctx, h.path, append(all, args...)...)
	cmd.Dir = h.dir
	cmd.Env = append(environment(), h.env...)
	// A git that is ended in the middle takes its locks and temporary files away.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if h.turn != nil {
		cmd.ExtraFiles = []*os.File{h.turn}
	}
	return cmd
}

// run runs git to its end; a nil in or out is empty or dropped.
// What it says to an exit status other than 0 is a *gitError.
func (h host) run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	cmd := h.command(ctx, args)
	said := &tail{max: 2000}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, said
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &gitError{command: args[0], code: exit.ExitCode(), said: said.text()}
	}
	if err != nil {
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	return nil
}

// mostOutput is how much of what git prints is kept; none of the lists that are
// read comes near.
const mostOutput = 256 << 20

func (h host) feed(ctx context.Context, in string, args ...string) (string, error) {
	out := &bounded{max: mostOutput}
	err := h.run(ctx, strings.NewReader(in), out, args...)
	if out.over {
		return "", fmt.Errorf("git %s: %w: it printed more than %d bytes", args[0], ErrTooLarge, int64(mostOutput))
	}
	return out.buf.String(), err
}

func (h host) output(ctx context.Context, args ...string) (string, error) {
	return h.feed(ctx, "", args...)
}

// status is output of a command whose exit status 1 is an answer; code is 0 or 1.
func (h host) status(ctx context.Context, args ...string) (string, int, error) {
	out, err := h.output(ctx, args...)
	var bad *gitError
	if errors.As(err, &bad) && bad.code == 1 {
		return out, 1, nil
	}
	return out, 0, err
}

func (h host) lines(ctx context.Context, args ...string) ([]string, error) {
	out, err := h.output(ctx, args...)
	return splitLines(out), err
}

// split parts what ends with a byte each.
func split(s, end string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, end), end)
}

func splitLines(s string) []string { return split(s, "\n") }

// bounded keeps what is written up to a bound, and fails past it.
type bounded struct {
	buf  bytes.Buffer
	max  int64
	over bool
	full func() // called past the bound; nil: nothing
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(b.buf.Len()+len(p)) > b.max {
		b.over = true
		if b.full != nil {
			b.full()
		}
		return 0, ErrTooLarge
	}
	return b.buf.Write(p)
}

// tail keeps the last bytes of what is written.
type tail struct {
	buf []byte
	max int
}

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = slices.Delete(t.buf, 0, over)
	}
	return len(p), nil
}

// text is the kept bytes as one line that any terminal can be shown.
func (t *tail) text() string {
	var said []string
	for line := range strings.Lines(string(t.buf)) {
		if line = strings.TrimSpace(line); line != "" {
			said = append(said, line)
		}
	}
	return shown(strings.Join(said, "; "))
}

// shown is a text out of a sandbox as people may see it: without control
// characters, those that turn the direction of writing, and what is too long.
func shown(s string) string {
	const most = 1000
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '\uFFFD'
		}
		return c
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// closed joins the error of work with that of taking its traces away.
func closed(err *error, f func() error) {
	if e := f(); e != nil {
		*err = errors.Join(*err, e)
	}
}
