package project

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/pairing"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/forge"
)

// pullRequestFlags are the flags of 'atoll pr'.
type pullRequestFlags struct {
	project.PublishOptions
	title, body, bodyFile string
	forge, api            string
	draft, dryRun, yes    bool
}

func (a commands) pullRequestCommand() *cobra.Command {
	var f pullRequestFlags
	cmd := &cobra.Command{
		Use:   "pr [NAME] [BRANCH]",
		Short: "Open a pull request with work of a project's sandbox",
		Long: `Push a branch of a project's sandbox to your remote and open a pull request, or
on GitLab a merge request. Both happen on this machine with your credentials:
the sandbox never sees them. The branch is fetched first, and you are asked once
about files that can run code, here or in CI. Nothing on the remote is
overwritten, and no hook of the repository runs.

The pull request is opened by 'gh' or 'glab' where it is installed, else by the
API with the token in GH_TOKEN, GITHUB_TOKEN or GITLAB_TOKEN. Without both, the
branch is pushed and the page on which you can open it is printed.

The body is by default the last message of the agent that worked on the branch
('atoll agents'), else that of the only commit or the list of commits. The title
is that of the only commit, else the first line of the agent's message, else the
branch's name. Uncommitted changes are not part of it.

The exit status is 3 if it was refused: the remote's branch has other commits,
or you declined.`,
		Example: `  atoll pr --dry-run
  atoll pr --title "Fix the login" --draft
  atoll pr web feature/login --base develop
  atoll pr --to fix-login --body-file summary.md --yes`,
		Args:              app.CheckArgCount(0, 2, "at most the name of a sandbox and a branch"),
		ValidArgsFunction: a.completeBranches(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.openPullRequest(cmd.Context(), args, f)
		},
	}
	cmd.Flags().StringVarP(&f.Branch, "branch", "b", "", "the branch, where no NAME is given")
	cmd.Flags().StringVar(&f.Base, "base", "", "the `BRANCH` to merge into (default: the remote's default branch)")
	cmd.Flags().StringVar(&f.Target, "to", "", "the `BRANCH` on the remote (default: as in the sandbox)")
	cmd.Flags().StringVar(&f.Remote, "remote", "", "your remote (default: the only one, or origin)")
	cmd.Flags().StringVarP(&f.title, "title", "t", "", "the title")
	cmd.Flags().StringVar(&f.body, "body", "", "the body, in Markdown")
	cmd.Flags().StringVar(&f.bodyFile, "body-file", "", "read the body from this `FILE`")
	cmd.Flags().BoolVar(&f.draft, "draft", false, "open it as a draft")
	cmd.Flags().StringVar(&f.forge, "forge", "", "github or gitlab (default: by the name of the remote's host)")
	cmd.Flags().StringVar(&f.api, "api", "", "the base `URL` of the forge's API (default: that of the host)")
	cmd.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "say what would happen, push nothing")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask about files that can make something run")
	cmd.MarkFlagsMutuallyExclusive("body", "body-file")
	return cmd
}

// pullRequest is the result as --json prints it.
type pullRequest struct {
	Sandbox string         `json:"sandbox"`
	Branch  string         `json:"branch"`
	Remote  string         `json:"remote"`
	To      string         `json:"to"`
	Base    string         `json:"base"`
	Tip     string         `json:"tip"`
	Commits int            `json:"commits"`
	Files   int            `json:"files"`
	Title   string         `json:"title"`
	Body    string         `json:"body"`
	Summary string         `json:"-"`  // the agent's last message
	By      string         `json:"by"` // how it is opened: by gh, by the API…, by hand
	Pushed  bool           `json:"pushed"`
	URL     string         `json:"url,omitempty"` // of the pull request; by hand: of the page to open it
	Opened  bool           `json:"opened"`
	DryRun  bool           `json:"dry_run"`
	Risks   []pairing.Risk `json:"risks"`
	Error   string         `json:"error,omitempty"`
	Kind    string         `json:"kind,omitempty"`
}

func (a commands) openPullRequest(ctx context.Context, args []string, f pullRequestFlags) error {
	var err error
	if f.Branch, err = branchOf(args, f.Branch); err != nil {
		return err
	}
	if f.bodyFile != "" {
		text, err := os.ReadFile(f.bodyFile)
		if err != nil {
			return err
		}
		f.body = string(text)
	}
	w, err := pairing.FindByArg(ctx, a.App, args)
	if err != nil {
		return err
	}
	repo, branch, got, err := a.fetchBranch(ctx, w, f.Branch, false)
	if err != nil {
		return err
	}
	f.Name, f.Branch = w.Name(), branch
	plan, err := repo.PlanPublication(ctx, f.PublishOptions)
	if err != nil {
		return explainPublication(a.App, w, err)
	}
	if got != nil && got.WorkCommit != "" {
		a.Progress("atoll: uncommitted changes in %s are not part of it", w.Name())
	}
	to, err := forge.ParseRemote(plan.URL, forge.Kind(f.forge))
	if err != nil {
		return err
	}
	res := pullRequest{
		Sandbox: w.Name(), Branch: branch, Remote: plan.Remote, To: plan.Target, Base: plan.Base, Tip: plan.Tip, Commits: plan.Commits, Files: plan.Files,
		DryRun: f.dryRun, Risks: pairing.ListRisks(plan.Risks),
	}
	if f.body == "" {
		if res.Summary, err = a.agentSummary(ctx, w, branch); err != nil {
			return err
		}
	}
	res.Title, res.Body = describePullRequest(plan, f.title, f.body, res.Summary)
	client := forge.Client{API: f.api, Log: a.Err}
	access, err := client.FindAccess(to)
	if err != nil && !errors.Is(err, forge.ErrNoAccess) {
		return err
	}
	res.By = access.String()
	byHand := err
	if err = a.publish(ctx, repo, plan, client, to, f, byHand, &res); a.JSON {
		return pairing.PrintRefused(a.App, err, func(text, kind string) error {
			res.Error, res.Kind = text, kind
			return a.PrintJSON(res)
		})
	}
	if err != nil {
		return err
	}
	return pairing.PrintLines(a.App, formatPullRequest(res, byHand)+formatRisksOf(plan, f.dryRun))
}

// publish asks, pushes and opens the pull request; byHand is why it can't be opened from here, or nil.
func (a commands) publish(ctx context.Context, repo *project.Repo, plan *project.Publication, client forge.Client, to forge.Repository, f pullRequestFlags, byHand error, res *pullRequest) error {
	q := forge.Request{Head: plan.Target, Base: plan.Base, Title: res.Title, Body: res.Body, Draft: f.draft}
	if f.dryRun {
		return nil
	}
	if err := a.confirmMerge(ctx, &project.MergeResult{Risks: plan.Risks}, f.yes, "push"); err != nil {
		return err
	}
	if plan.Known != plan.Tip {
		if err := repo.Publish(ctx, plan, a.Err); err != nil {
			return exitcode.With(exitcode.Refused, err)
		}
	}
	res.Pushed = true
	if byHand != nil {
		res.URL = to.CompareURL(q)
		return nil
	}
	url, err := client.Open(ctx, to, q)
	switch {
	case errors.Is(err, atoll.ErrExists):
		return fmt.Errorf("%w\n%s was pushed: the open pull request has its commits", err, plan.Target)
	case err != nil:
		return fmt.Errorf("%w\n%s was pushed; open it at %s", err, plan.Target, to.CompareURL(q))
	}
	res.URL, res.Opened = url, true
	return nil
}

// agentSummary returns the last message of the agent that worked on a branch; empty: none did, or it was not done.
func (a commands) agentSummary(ctx context.Context, w *pairing.Pair, branch string) (string, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return "", err
	}
	s, err := c.Session(ctx, w.AgentChat(branch))
	if errors.Is(err, atoll.ErrNotFound) || err == nil && newBranchAgent(s, w.Info).State != agentDone {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	t, err := c.Turn(ctx, s.Turn)
	if err != nil || t.Result == nil || t.Result.Text == "" { // the turn is not stored any more: the session has the beginning
		return cleanSummary(s.Text), ctx.Err()
	}
	return cleanSummary(t.Result.Text), nil
}

// maxSummary limits an agent's summary, in bytes; forges have a limit of 65,536 characters.
const maxSummary = 32 << 10

// cleanSummary removes control characters from text of a sandbox.
func cleanSummary(s string) string {
	lines := strings.Split(strings.ToValidUTF8(s[:min(len(s), maxSummary)], ""), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(cleanCode(strings.TrimSuffix(line, "\r")), " ")
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// maxTitle limits a title that is taken from a summary, in characters.
const maxTitle = 72

// describePullRequest returns the title and the body; those given win. summary is the agent's, or empty.
func describePullRequest(p *project.Publication, title, body, summary string) (string, string) {
	rest := summary
	if title == "" {
		first, after, _ := strings.Cut(summary, "\n")
		first = strings.Trim(strings.TrimSpace(first), "#* ")
		switch {
		case p.Commits == 1:
			title = p.Subjects[0]
		case first != "" && utf8.RuneCountInString(first) <= maxTitle:
			title, rest = strings.TrimSuffix(first, "."), strings.TrimSpace(after)
		default:
			title = p.Target
		}
	}
	switch {
	case body != "":
		return title, body
	case rest != "":
		return title, rest
	case p.Commits == 1:
		return title, strings.TrimSpace(p.Message)
	}
	var b strings.Builder
	for _, s := range p.Subjects {
		fmt.Fprintf(&b, "- %s\n", s)
	}
	if more := p.Commits - len(p.Subjects); more > 0 {
		fmt.Fprintf(&b, "- and %s\n", output.FormatCount(more, "commit"))
	}
	return title, b.String()
}

// formatPullRequest formats the result for users.
func formatPullRequest(r pullRequest, byHand error) string {
	what := fmt.Sprintf("%s: %s, %s", r.Branch, output.FormatCount(r.Commits, "commit"), output.FormatCount(r.Files, "file"))
	if r.DryRun {
		text := fmt.Sprintf("%s: would be pushed to %s/%s\nwould open a pull request into %s, %s\ntitle: %s\n", what, r.Remote, r.To, r.Base, r.By, r.Title)
		if r.Body != "" {
			text += "\n" + r.Body + "\n"
		}
		return text
	}
	text := fmt.Sprintf("%s: pushed to %s/%s\n", what, r.Remote, r.To)
	if byHand != nil {
		return text + fmt.Sprintf("open it at %s\n(%v)\n", r.URL, byHand)
	}
	return text + r.URL + "\n"
}

// formatRisksOf formats the risks of a dry run; otherwise they were asked about.
func formatRisksOf(p *project.Publication, dryRun bool) string {
	if !dryRun {
		return ""
	}
	return pairing.FormatRisks(p.Risks)
}

// explainPublication adds the exit status to the refusal of a publication.
func explainPublication(a *app.App, w *pairing.Pair, err error) error {
	if errors.Is(err, project.ErrNoNewWork) {
		return exitcode.With(exitcode.OK, fmt.Errorf("%s: %w: the branch to merge into has all its commits", w.Name(), project.ErrNoNewWork))
	}
	return pairing.ExplainRefusal(a, w, err)
}
