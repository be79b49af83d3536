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
	"sync"
	"time"
	"unicode"
)

// oldestGit is the oldest supported version of git on the host. It introduced
// merge-tree --write-tree.
var oldestGit = [2]int{2, 38}

// recentGits has the files of programs that findGit has found recent enough, by path.
var recentGits sync.Map

// findGit returns the path of the host's git.
func findGit(ctx context.Context) (string, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return "", fmt.Errorf("%w on this host: install git %d.%d or newer (%w)", ErrNoGit, oldestGit[0], oldestGit[1], err)
	}
	file, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%w on this host: %w", ErrNoGit, err)
	}
	if known, ok := recentGits.Load(path); ok && os.SameFile(file, known.(os.FileInfo)) && file.ModTime().Equal(known.(os.FileInfo).ModTime()) {
		return path, nil
	}
	out, err := host{path: path, dir: "/"}.runOutput(ctx, "version")
	switch {
	case ctx.Err() != nil:
		return "", err
	case err != nil:
		return "", fmt.Errorf("%w on this host: %w", ErrNoGit, err)
	}
	v, ok := parseVersion(out)
	if !ok || slices.Compare(v[:], oldestGit[:]) < 0 {
		return "", fmt.Errorf("%w that is recent enough on this host: %s is %q, and must be %d.%d or newer", ErrNoGit, path, printable(strings.TrimSpace(out)), oldestGit[0], oldestGit[1])
	}
	recentGits.Store(path, file)
	return path, nil
}

// parseVersion parses the output of 'git version'.
func parseVersion(s string) (v [2]int, ok bool) {
	s, ok = strings.CutPrefix(s, "git version ")
	major, rest, dot := strings.Cut(s, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err1 := strconv.Atoi(strings.TrimSpace(major))
	b, err2 := strconv.Atoi(strings.TrimSpace(minor))
	return [2]int{a, b}, ok && dot && err1 == nil && err2 == nil
}

// safeConfig holds the settings for every call of the host's git: no hooks, helpers, pagers, editors,
// credentials, signatures, transports or maintenance.
var safeConfig = []string{
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
	path     string // path of git
	dir      string // working directory
	gitDir   string // empty: git finds it
	workTree string

	config   []string // further settings
	env      []string // further variables
	lockFile *os.File // locked file that git inherits, so that the lock lasts as long as git; nil: none. See Repo.writing
}

// gitError is a failed call of the host's git.
type gitError struct {
	command string
	code    int
	stderr  string
}

func (e *gitError) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("git %s: exit status %d", e.command, e.code)
	}
	return fmt.Sprintf("git %s: exit status %d: %s", e.command, e.code, e.stderr)
}

// hostEnv returns the environment of the host's git: the user's, without variables that would change
// where and how git works. The variables that name the user's own settings stay.
func hostEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch name {
		case "EDITOR", "VISUAL", "PAGER", "LESS", "SSH_ASKPASS", "SSH_AUTH_SOCK", "LANG", "LANGUAGE", "GPG_AGENT_INFO":
			continue
		case "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM":
			env = append(env, e)
		}
		if !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "LC_") {
			env = append(env, e)
		}
	}
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_ASKPASS=false", "GIT_SSH_COMMAND=false",
		"GIT_EDITOR=false", "GIT_PAGER=cat", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_LITERAL_PATHSPECS=1", "GIT_MERGE_AUTOEDIT=no")
}

// withEnv returns a host with further variables.
func (h host) withEnv(env ...string) host {
	h.env = append(slices.Clip(h.env), env...)
	return h
}

// withConfig returns a host with further settings, "name=value".
func (h host) withConfig(config ...string) host {
	h.config = append(slices.Clip(h.config), config...)
	return h
}

func (h host) newCmd(ctx context.Context, args []string) *exec.Cmd {
	var all []string
	if h.gitDir != "" {
		all = append(all, "--git-dir="+h.gitDir, "--work-tree="+h.workTree)
	}
	for _, c := range slices.Concat(safeConfig, h.config) {
		all = append(all, "-c", c)
	}
	cmd := exec.CommandContext(ctx, h.path, append(all, args...)...)
	cmd.Dir = h.dir
	cmd.Env = append(hostEnv(), h.env...)
	// An interrupted git removes its locks and temporary files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if h.lockFile != nil {
		cmd.ExtraFiles = []*os.File{h.lockFile}
	}
	return cmd
}

// run runs git. Without in, its input is empty; without out, its output is discarded. A non-zero exit
// status is a *gitError.
func (h host) run(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	cmd := h.newCmd(ctx, args)
	said := &tailBuffer{max: 2000}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, said
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("git %s: %w", args[0], context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &gitError{command: args[0], code: exit.ExitCode(), stderr: said.printable()}
	}
	if err != nil {
		return fmt.Errorf("git %s: %w", args[0], err)
	}
	return nil
}

// maxOutput limits the output of git in bytes. No list that is read comes near it.
const maxOutput = 256 << 20

func (h host) runWithInput(ctx context.Context, in string, args ...string) (string, error) {
	out := &limitedBuffer{max: maxOutput}
	err := h.run(ctx, strings.NewReader(in), out, args...)
	if out.over {
		return "", fmt.Errorf("git %s: %w: it printed more than %d bytes", args[0], ErrTooLarge, int64(maxOutput))
	}
	return out.buf.String(), err
}

func (h host) runOutput(ctx context.Context, args ...string) (string, error) {
	return h.runWithInput(ctx, "", args...)
}

// runStatus is runOutput for a command whose exit status 1 is an answer. code is 0 or 1.
func (h host) runStatus(ctx context.Context, args ...string) (string, int, error) {
	out, err := h.runOutput(ctx, args...)
	var bad *gitError
	if errors.As(err, &bad) && bad.code == 1 {
		return out, 1, nil
	}
	return out, 0, err
}

func (h host) runLines(ctx context.Context, args ...string) ([]string, error) {
	out, err := h.runOutput(ctx, args...)
	return splitLines(out), err
}

// splitTerminated splits a text whose parts each end with the given string.
func splitTerminated(s, end string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, end), end)
}

func splitLines(s string) []string { return splitTerminated(s, "\n") }

// limitedBuffer is a buffer of limited size. A write past the limit fails.
type limitedBuffer struct {
	buf  bytes.Buffer
	max  int64
	over bool
	full func() // called past the limit; may be nil
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if int64(b.buf.Len()+len(p)) > b.max {
		b.over = true
		if b.full != nil {
			b.full()
		}
		return 0, ErrTooLarge
	}
	return b.buf.Write(p)
}

// tailBuffer keeps the last bytes that are written to it.
type tailBuffer struct {
	buf []byte
	max int
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = slices.Delete(t.buf, 0, over)
	}
	return len(p), nil
}

// printable returns the bytes as one line that is safe to print on a terminal.
func (t *tailBuffer) printable() string {
	var said []string
	for line := range strings.Lines(string(t.buf)) {
		if line = strings.TrimSpace(line); line != "" {
			said = append(said, line)
		}
	}
	return printable(strings.Join(said, "; "))
}

// printable makes text from a sandbox safe for terminals: it replaces control characters and those
// that change the writing direction, and truncates long text.
func printable(s string) string {
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

// joinClose calls f, which cleans up, and joins its error to err.
func joinClose(err *error, f func() error) {
	if e := f(); e != nil {
		*err = errors.Join(*err, e)
	}
}
