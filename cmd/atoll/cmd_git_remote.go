package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// remoteHelper is the name under which git calls atoll for remotes atoll::NAME.
const remoteHelper = "git-remote-atoll"

// arguments are what atoll is called with; by git, they mean its hidden command.
func arguments(args []string) []string {
	if filepath.Base(args[0]) == remoteHelper {
		return append([]string{"git-remote", "--"}, args[1:]...) // a URL may look like a flag
	}
	return args[1:]
}

// gitRemoteCommand is what git runs for 'git fetch sandbox-NAME'.
func (a *app) gitRemoteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "git-remote REMOTE NAME", Hidden: true,
		Short: "What git runs for a remote that is a sandbox",
		Args:  needArgs(2, 2, "what git calls it with"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.json = false // git reads what is printed
			w, err := a.project(cmd.Context(), strings.TrimPrefix(args[1], "atoll::"))
			if err != nil {
				return err
			}
			repo, err := gitsRepo(cmd.Context())
			if err != nil {
				return err
			}
			return a.serveGit(cmd.Context(), w, repo, project.Limits{})
		},
	}
}

// gitsRepo is the repository that git works in when it calls.
func gitsRepo(ctx context.Context) (*project.Repo, error) {
	at := "."
	if dir := os.Getenv("GIT_DIR"); filepath.IsAbs(dir) && filepath.Base(dir) == ".git" {
		at = filepath.Dir(dir) // 'git clone' is not in it
	}
	return project.Open(ctx, at)
}

// serveGit answers git, line by line. Git gets what was fetched as 'atoll sync'
// fetches: what is listed is in the repository already, and was checked.
func (a *app) serveGit(ctx context.Context, w *workplace, repo *project.Repo, limits project.Limits) error {
	in := bufio.NewReader(io.LimitReader(a.in, 64<<20))
	format := false
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return nil
		}
		if err != nil {
			return err
		}
		answer := ""
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "":
			return nil
		case "capabilities":
			answer = "fetch\npush\noption\nobject-format\n\n"
		case "option":
			answer = "unsupported\n"
			if name, _, _ := strings.Cut(rest, " "); name == "object-format" { // with a value or without one
				format, answer = true, "ok\n"
			}
		case "list":
			if rest != "" {
				return fmt.Errorf("%w: nothing is pushed into a sandbox this way: your work goes in with 'atoll up', or 'atoll cp'; only fetching is", atoll.ErrUnsupported)
			}
			if answer, err = a.listGit(ctx, w, repo, limits, format); err != nil {
				return err
			}
		case "fetch": // all that is listed is there
			for line != "\n" {
				if line, err = in.ReadString('\n'); err != nil {
					return err
				}
			}
			answer = "\n"
		default:
			return fmt.Errorf("%w: git asks a sandbox for %q; only fetching is possible", atoll.ErrUnsupported, plain(word))
		}
		if _, err := io.WriteString(a.out, answer); err != nil {
			return err
		}
	}
}

// listGit fetches, and lists the branches of a sandbox.
func (a *app) listGit(ctx context.Context, w *workplace, repo *project.Repo, limits project.Limits, format bool) (string, error) {
	if err := w.running(); err != nil {
		return "", err
	}
	got, err := repo.Fetch(ctx, w.sb, project.Fetch{Name: w.name(), Limits: limits})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if format {
		fmt.Fprintf(&b, ":object-format %s\n", repo.ObjectFormat())
	}
	for _, name := range slices.Sorted(maps.Keys(got.Heads)) {
		fmt.Fprintf(&b, "%s refs/heads/%s\n", got.Heads[name], name)
	}
	if got.Heads[got.Branch] != "" {
		fmt.Fprintf(&b, "@refs/heads/%s HEAD\n", got.Branch)
	}
	return b.String() + "\n", nil
}

// addRemote gives the repository of a project the remote of its sandbox, and
// this machine the program that git needs for it.
func (a *app) addRemote(ctx context.Context, w *workplace) error {
	if err := w.repo.AddRemote(ctx, w.name()); err != nil {
		if errors.Is(err, atoll.ErrExists) {
			return nil // the user's own; it stays
		}
		return err
	}
	if _, err := exec.LookPath(remoteHelper); err == nil {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bin := filepath.Join(a.home, "bin")
	link := filepath.Join(bin, remoteHelper)
	if to, err := os.Readlink(link); err == nil && to == self {
		return nil
	}
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(self, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	a.progress("atoll: 'git fetch sandbox-%s' works when %s is in your PATH", w.name(), bin)
	return nil
}
