package project

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
)

// gitRemoteCommand serves 'git fetch sandbox-NAME'.
func (a commands) gitRemoteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "git-remote REMOTE NAME", Hidden: true,
		Short: "Serve a sandbox as a git remote",
		Args:  app.CheckArgCount(2, 2, "what git calls it with"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.JSON = false // git reads what is printed
			w, err := pairing.Find(cmd.Context(), a.App, strings.TrimPrefix(args[1], "atoll::"))
			if err != nil {
				return err
			}
			repo, err := openCallingRepo(cmd.Context())
			if err != nil {
				return err
			}
			return a.serveGit(cmd.Context(), w, repo, project.Limits{})
		},
	}
}

// openCallingRepo opens the repository that git works in when it calls.
func openCallingRepo(ctx context.Context) (*project.Repo, error) {
	at := "."
	if dir := os.Getenv("GIT_DIR"); filepath.IsAbs(dir) && filepath.Base(dir) == ".git" {
		at = filepath.Dir(dir) // 'git clone' is not in it
	}
	return project.Open(ctx, at)
}

// serveGit answers git, line by line. Git gets what was fetched as 'atoll sync'
// fetches: what is listed is in the repository already, and was checked.
func (a commands) serveGit(ctx context.Context, w *pairing.Pair, repo *project.Repo, limits project.Limits) error {
	in := bufio.NewReader(io.LimitReader(a.In, 64<<20))
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
			return fmt.Errorf("%w: git asks a sandbox for %q; only fetching is possible", atoll.ErrUnsupported, output.Clean(word))
		}
		if _, err := io.WriteString(a.Out, answer); err != nil {
			return err
		}
	}
}

// listGit fetches, and lists the branches of a sandbox.
func (a commands) listGit(ctx context.Context, w *pairing.Pair, repo *project.Repo, limits project.Limits, format bool) (string, error) {
	if err := w.CheckRunning(); err != nil {
		return "", err
	}
	got, err := repo.Fetch(ctx, w.Sandbox, project.FetchOptions{Name: w.Name(), Limits: limits})
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
