// Package demo demonstrates a sandbox on the files of a directory.
package demo

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// Demo is a demonstration of a driver.
type Demo struct {
	Driver atoll.Driver
	From   string    // directory whose files are copied
	Out    io.Writer // for the steps and their output
	JSON   bool      // print one JSON document at the end instead
	Flag   string    // that chooses the driver, for the last line; empty: none
}

// demo is the demonstration under way.
type demo struct {
	Demo
	ctx   context.Context //nolint:containedctx // it lives as long as the command
	ft    atoll.Features
	sb    atoll.Sandbox
	steps []demoStep
}

// Run runs the demonstration. Steps that the driver does not support are skipped.
func (d Demo) Run(ctx context.Context) error { return (&demo{Demo: d, ctx: ctx}).run() }

// demoDir is where the files are in the sandbox.
const demoDir = "/workspace/src"

// demoStep is one step as --json prints it.
type demoStep struct {
	Step   string        `json:"step"`
	Took   time.Duration `json:"took"`
	Output string        `json:"output,omitempty"`
}

// runStep runs one step and prints its name, duration and output.
func (s *demo) runStep(what string, do func() (string, error)) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	start := time.Now()
	out, err := do()
	took := time.Since(start)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	s.steps = append(s.steps, demoStep{what, took, out})
	if s.JSON {
		return nil
	}
	fmt.Fprintf(s.Out, "%2d. %-62s %9s\n", len(s.steps), what, output.RoundDuration(took))
	for line := range strings.Lines(out) {
		fmt.Fprintf(s.Out, "      %s\n", output.Clean(strings.TrimRight(line, "\n")))
	}
	return nil
}

// runShell runs a command where the files are, and shows it with what it printed.
func (s *demo) runShell(what, text string) error {
	return s.runStep(what, func() (string, error) {
		out, err := s.runAndRead(s.sb, text)
		return "$ " + text + "\n" + out, err
	})
}

// runAndRead returns what a command prints.
func (s *demo) runAndRead(sb atoll.Sandbox, text string) (string, error) {
	exit, err := sb.Exec(s.ctx, atoll.Cmd{Shell: text, Dir: demoDir})
	if err != nil {
		return "", err
	}
	if exit.Code != 0 {
		return "", fmt.Errorf("%s: exit status %d: %s", text, exit.Code, exit.Stderr)
	}
	return string(exit.Stdout), nil
}

func (s *demo) run() (err error) {
	defer func() {
		if s.sb != nil {
			err = errors.Join(err, s.sb.Destroy(context.WithoutCancel(s.ctx)))
		}
	}()
	if s.ft, err = s.Driver.Probe(s.ctx); err != nil {
		return fmt.Errorf("driver %s: %w", s.Driver.Name(), err)
	}
	for _, part := range []struct {
		do  func() error
		can bool
	}{
		{s.create, true},
		{s.put, true},
		{s.runPipelines, true},
		{s.get, true},
		{s.goBack, s.ft.Snapshot},
		{s.forkSandbox, s.ft.Fork},
		{s.exceedDeadline, true},
		{s.printStatistics, s.ft.Stats},
		{s.printHistory, s.ft.History},
		{s.destroySandbox, true},
	} {
		if !part.can {
			continue
		}
		if err := part.do(); err != nil {
			return err
		}
	}
	if s.JSON {
		return output.WriteJSON(s.Out, s.steps, true)
	}
	fmt.Fprintf(s.Out, "\nYours: atoll create%s --name box && atoll shell box\n", s.Flag)
	return nil
}

func (s *demo) create() error {
	return s.runStep(fmt.Sprintf("create a sandbox (%s, isolation %s)", s.Driver.Name(), s.ft.Isolation), func() (string, error) {
		sb, err := s.Driver.Create(s.ctx, atoll.Spec{Name: "demo"})
		s.sb = sb
		return "", err
	})
}

func (s *demo) put() error {
	files, err := chooseFiles(s.ctx, s.From)
	if err != nil {
		return err
	}
	return s.runStep(fmt.Sprintf("put %d files of %s into it", len(files), s.From), func() (string, error) {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		for _, name := range files {
			if err := packFile(tw, filepath.Join(s.From, name), filepath.ToSlash(name)); err != nil {
				return "", err
			}
		}
		if err := tw.Close(); err != nil {
			return "", err
		}
		return "", s.sb.Import(s.ctx, demoDir, &b)
	})
}

// packFile writes a small regular file to an archive under a name.
func packFile(tw *tar.Writer, file, name string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = tw.Write(content)
	return err
}

func (s *demo) runPipelines() error {
	for _, c := range [][2]string{
		{"look around", "ls | head -5 && find . -type f | wc -l"},
		{"a real pipeline: which kinds of files, how many lines", `find . -type f -name '*.*' | sed 's/.*\.//' | sort | uniq -c | sort -rn | head -5`},
		{"another: the words this project uses most", `cat $(find . -name '*.md' -o -name '*.go') | tr -cs 'A-Za-z' '\n' | awk 'length > 6 { n[tolower($0)]++ } END { for (w in n) print n[w], w }' | sort -rn | head -5`},
		{"write a report inside", `{ echo "# report"; for d in */; do printf '%s %s\n' "${d%/}" "$(find "$d" -type f | wc -l)"; done; } > report.md && wc -l report.md`},
	} {
		if err := s.runShell(c[0], c[1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *demo) get() error {
	return s.runStep("get the report back out", func() (string, error) {
		b, err := atoll.ReadFile(s.ctx, s.sb, demoDir+"/report.md")
		head, _, _ := bytes.Cut(b, []byte("\n"))
		return fmt.Sprintf("%d bytes, beginning %q\n", len(b), head), err
	})
}

func (s *demo) goBack() error {
	err := s.runStep("snapshot", func() (string, error) {
		_, err := atoll.Snapshot(s.ctx, s.sb, "good")
		return "", err
	})
	if err == nil {
		err = s.runShell("break things", `rm -rf ../src && ls -d /workspace/src 2>&1 || true`)
	}
	if err == nil {
		err = s.runStep("restore", func() (string, error) { return "", atoll.Restore(s.ctx, s.sb, "good") })
	}
	if err == nil {
		err = s.runShell("all of it is there again", "pwd; wc -l < report.md")
	}
	return err
}

func (s *demo) forkSandbox() error {
	return s.runStep("fork: two computers that start alike and go their own ways", func() (out string, err error) {
		fork, err := atoll.Fork(s.ctx, s.sb, "", atoll.Spec{Name: "demo-fork"})
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, fork.Destroy(context.WithoutCancel(s.ctx))) }()
		if _, err := s.runAndRead(fork, "echo of the fork > report.md"); err != nil {
			return "", err
		}
		a, err := s.runAndRead(s.sb, "head -1 report.md")
		if err != nil {
			return "", err
		}
		b, err := s.runAndRead(fork, "head -1 report.md")
		return "first: " + a + "fork:  " + b, err
	})
}

// exceedDeadline shows a command that never ends.
func (s *demo) exceedDeadline() error {
	return s.runStep("an endless loop, with a deadline of 100 ms", func() (string, error) {
		_, err := s.sb.Exec(s.ctx, atoll.Cmd{Shell: "while :; do :; done", Timeout: 100 * time.Millisecond})
		if !errors.Is(err, atoll.ErrTimeout) {
			return "", fmt.Errorf("it ended with %w, not by its deadline", err)
		}
		return err.Error() + "\n", nil
	})
}

func (s *demo) printStatistics() error {
	return s.runStep("statistics", func() (string, error) {
		st, err := atoll.StatsOf(s.ctx, s.sb)
		out := output.FormatBytes(st.DiskUsed) + " on disk"
		if st.DiskLimit > 0 {
			out += " of " + output.FormatBytes(st.DiskLimit)
		}
		if st.MemoryUsed > 0 {
			out += ", " + output.FormatBytes(st.MemoryUsed) + " of memory"
		}
		return out + "\n", err
	})
}

func (s *demo) printHistory() error {
	return s.runStep("history", func() (string, error) {
		list, err := atoll.History(s.ctx, s.sb)
		out := ""
		for _, r := range list[max(0, len(list)-3):] {
			out += fmt.Sprintf("status %d after %-9v %s\n", r.ExitCode, output.RoundDuration(r.Duration), output.OneLine(r.Command))
		}
		return out, err
	})
}

func (s *demo) destroySandbox() error {
	return s.runStep("destroy it", func() (string, error) {
		err := s.sb.Destroy(s.ctx)
		s.sb = nil
		return "", err
	})
}

// What the demonstration takes at most, to fit into the smallest sandbox.
const (
	demoFiles = 5000
	demoBytes = 40 << 20
)

// chooseFiles chooses the files to demonstrate on: those that git tracks, or all
// that are not hidden; small ones, and not more than fit.
func chooseFiles(ctx context.Context, dir string) ([]string, error) {
	names, err := listTracked(ctx, dir)
	if err != nil {
		names, err = listVisible(dir)
	}
	if err != nil {
		return nil, err
	}
	var list []string
	size := int64(0)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			continue
		}
		if size += info.Size(); size > demoBytes || len(list) == demoFiles {
			break
		}
		list = append(list, name)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: %s holds no files to show anything on; name a directory with --from", atoll.ErrNotFound, dir)
	}
	return list, nil
}

func listTracked(ctx context.Context, dir string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "-c", "core.fsmonitor=false", "ls-files", "-z").Output()
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}

func listVisible(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != dir && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case len(names) > demoFiles:
			return fs.SkipAll
		case d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		names = append(names, rel)
		return err
	})
	return names, err
}
