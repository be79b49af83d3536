package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/sandboxflag"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

func (a commands) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "agent",
		Example: `  atoll agent install claude
  atoll agent run claude "add a test for parse.go"
  atoll agent ls`,
		Short: "Run coding agents in sandboxes",
		Long: `Run coding agents, such as Claude Code, in sandboxes. An agent works without
asking: it cannot reach files of this machine, its network is limited to its
model and what you allow, and the model's API key stays outside the sandbox.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.agentRun(), a.agentLs(), a.agentSessions(), a.agentInstallCommand(), a.agentUninstallCommand())
	return cmd
}

// turnFlags say what a turn is like.
type turnFlags struct {
	turn              agent.Turn
	connector, chat   string
	inside            string
	attach, arguments []string
	budget            agent.Budget
	timeout           time.Duration
	verbose, detach   bool
	queue             bool
	retries           int
}

// addTalk adds what every message can have.
func (f *turnFlags) addTalk(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.chat, "chat", "", "go on with this `CHAT`: its files and what was said are there")
	fl.StringArrayVarP(&f.attach, "attach", "a", nil, "`FILE` that goes along (repeatable)")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "show thoughts, and all that tools write")
	fl.DurationVar(&f.timeout, "timeout", 0, "end the turn after this `DURATION` (default 1h)")
	fl.BoolVar(&f.queue, "queue", false, "wait for the turns of the chat; without it, one under way is an error")
	fl.IntVar(&f.retries, "retries", 0, "repeat the turn up to `N` times if the model's API refuses it for a while")
}

// add adds what a turn of a bare agent can have besides.
func (f *turnFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&f.connector, "connector", "c", "", "`CONNECTOR` to the model, a file in connectors/ of the app directory (default: of keys in the environment, or the only one)")
	fl.StringVarP(&f.turn.Model, "model", "m", "", "`MODEL` to ask (default: the connector's)")
	fl.StringVar(&f.turn.System, "system", "", "`TEXT` added to the agent's own instructions")
	fl.BoolVar(&f.turn.Ask, "ask", false, "ask before it uses tools")
	fl.BoolVar(&f.turn.Trust, "trust", false, "let it follow settings, hooks and tools of the project in its workspace")
	fl.IntVar(&f.turn.MaxTurns, "max-turns", 0, "stop after this many requests to the model")
	fl.StringVar(&f.inside, "sandbox", "", "`SANDBOX` to work in, which stays (default: one of this turn)")
	fl.StringArrayVar(&f.arguments, "arg", nil, "the agent's own argument, `NAME=VALUE` ('atoll agent ls --json' lists them; repeatable)")
	fl.Int64Var(&f.budget.Tokens, "max-tokens", 0, "stop at this many tokens in and out")
	fl.Int64Var(&f.budget.Requests, "max-requests", 0, "refuse more requests to the model than this")
	fl.Float64Var(&f.budget.Cost, "max-cost", 0, "stop at this many US `DOLLARS`")
	fl.BoolVarP(&f.detach, "detach", "d", false, "only start it, and print its id (needs a server)")
}

// buildRequest builds the request without the agent or assistant that it is for.
func (f *turnFlags) buildRequest(text string) (agent.Request, error) {
	if f.budget.Tokens < 0 || f.budget.Requests < 0 || f.budget.Cost < 0 || f.turn.MaxTurns < 0 {
		return agent.Request{}, fmt.Errorf("%w: --max-…: must not be negative", atoll.ErrInvalid)
	}
	r := agent.Request{Connector: f.connector, Chat: f.chat, Turn: f.turn, Sandbox: f.inside, Budget: f.budget, Timeout: f.timeout, Queue: f.queue, Retries: f.retries}
	r.Prompt = agent.Text(text)
	for _, name := range f.attach {
		c, err := readAttachment(name)
		if err != nil {
			return r, err
		}
		r.Prompt = append(r.Prompt, c)
	}
	for _, arg := range f.arguments {
		k, v, ok := strings.Cut(arg, "=")
		if !ok || k == "" {
			return r, fmt.Errorf("%w: --arg %q: must be NAME=VALUE", atoll.ErrInvalid, arg)
		}
		if r.Arguments == nil {
			r.Arguments = make(map[string]any)
		}
		r.Arguments[k] = parseArgument(v)
	}
	return r, nil
}

// parseArgument is a value as JSON has it: a number or a truth where it looks like
// one.
func parseArgument(v string) any {
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		return n
	}
	switch v {
	case "true":
		return true
	case "false":
		return false
	}
	return v
}

// maxAttachment is how large a file may be that goes along with a prompt.
const maxAttachment = 32 << 20

func readAttachment(name string) (agent.Content, error) {
	f, err := os.Open(name)
	if err != nil {
		return agent.Content{}, fmt.Errorf("--attach: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAttachment+1))
	if err != nil {
		return agent.Content{}, fmt.Errorf("--attach: %w", err)
	}
	if len(data) > maxAttachment {
		return agent.Content{}, fmt.Errorf("%w: --attach %s: more than %s; put it into the workspace with 'atoll workspace cp'", atoll.ErrInvalid, name, output.FormatBytes(maxAttachment))
	}
	kind := mime.TypeByExtension(filepath.Ext(name))
	if kind == "" {
		kind = http.DetectContentType(data)
	}
	return agent.Content{Name: filepath.Base(name), Type: kind, Data: data}, nil
}

// promptText returns the prompt from the command line or from standard input.
func (a commands) promptText(args []string) (string, error) {
	if len(args) > 0 && (len(args) > 1 || args[0] != "-") {
		text := strings.Join(args, " ")
		if strings.TrimSpace(text) == "" {
			return "", fmt.Errorf("%w: the prompt is empty: write the task behind the name", atoll.ErrInvalid)
		}
		return text, nil
	}
	if tty.IsTerminal(a.In) && len(args) == 0 {
		return "", fmt.Errorf("%w: a prompt is missing: write the task behind the name, or to standard input", atoll.ErrInvalid)
	}
	b, err := io.ReadAll(a.In)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(string(b)) == "" {
		return "", fmt.Errorf("%w: a prompt is missing, and standard input is empty: write the task behind the name, or to standard input", atoll.ErrInvalid)
	}
	return string(b), nil
}

func (a commands) agentRun() *cobra.Command {
	var f turnFlags
	var spec sandboxflag.Flags
	cmd := &cobra.Command{
		Use:   "run AGENT [flags] [PROMPT...] [-- COMMAND...]",
		Short: "Run an agent in a sandbox",
		Long: `Run an agent in a new sandbox, which is removed when the agent is done. Its
files stay in the workspace of the chat, or in the one that --workspace names.
The answer is printed on stdout, its actions on stderr; with --json every event
is a line. A program after -- is the agent program of acp (any that speaks the
Agent Client Protocol) and command (any program), or replaces that of another
agent.

The exit status is 1 if the agent failed or exceeded a limit.`,
		Example: `  atoll agent run claude "write a fizzbuzz in Go and test it"
  atoll agent run claude -c deepseek/v3 --chat fizz "now in Rust"
  git diff | atoll agent run codex --max-cost 0.5 "review this:" -
  atoll agent run claude --ask --workspace web --allow github.com "add a linter"`,
		Args:              app.CheckArgCount(1, -1, "an agent and what it is to do"),
		ValidArgsFunction: a.CompleteFrom(0, a.agentNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			words := args[1:]
			if dash := cmd.ArgsLenAtDash(); dash > 0 {
				words, f.turn.Command = args[1:dash], args[dash:]
			}
			text, err := a.promptText(words)
			if err != nil {
				return err
			}
			r, err := f.buildRequest(text)
			if err != nil {
				return err
			}
			cfg, err := spec.Config(a.Config, a.HasVMs(cmd.Context()))
			if err != nil {
				return err
			}
			r.Agent = args[0]
			if r.Sandbox != "" {
				if err := refuseNewSandboxFlags(cmd); err != nil {
					return err
				}
				return a.runTurn(cmd.Context(), r, &f)
			}
			cfg.Driver = config.Get[string](a.Config.FlagsOnly(), "driver") // else one that runs real programs
			r.Config, r.Workspace = &cfg, workspaceOf(&cfg)
			return a.runTurn(cmd.Context(), r, &f)
		},
	}
	f.addTalk(cmd)
	f.add(cmd)
	spec.AddAll(cmd)
	spec.AddFleet(cmd)
	return cmd
}

// refuseNewSandboxFlags refuses flags that say what a new sandbox is like.
func refuseNewSandboxFlags(cmd *cobra.Command) error {
	var spec sandboxflag.Flags
	of := &cobra.Command{}
	spec.AddAll(of)
	spec.AddFleet(of)
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if of.Flags().Lookup(f.Name) != nil {
			err = fmt.Errorf("%w: --%s and --sandbox: one that is there has its own", atoll.ErrInvalid, f.Name)
		}
	})
	return err
}

// workspaceOf takes out of a configuration the workspace that an agent works
// in, if it names one.
func workspaceOf(cfg *atoll.Config) string {
	for i, w := range cfg.Workspaces {
		if w.At() == atoll.DefaultDir && !w.ReadOnly {
			cfg.Workspaces = append(cfg.Workspaces[:i:i], cfg.Workspaces[i+1:]...)
			return w.Workspace
		}
	}
	return ""
}

// explainTurnError adds to the error of an unknown assistant that a server of this machine has its own.
func explainTurnError(host string, err error) error {
	if !strings.HasPrefix(host, "unix:") || !errors.Is(err, atoll.ErrNotFound) {
		return err
	}
	return fmt.Errorf("%w\nthe server that runs has the app directory that it was started with: 'atoll serve --stop' ends it", err)
}

// runTurn starts a turn and shows it.
func (a commands) runTurn(ctx context.Context, r agent.Request, f *turnFlags) error {
	l, err := a.Client(ctx)
	if err != nil {
		return err
	}
	if f.detach && l.Host == "" {
		return errDetach
	}
	made, err := l.StartTurn(ctx, r)
	if err != nil {
		return explainTurnError(l.Host, err)
	}
	if f.detach {
		if a.JSON {
			return a.PrintJSON(made)
		}
		_, err := fmt.Fprintln(a.Out, made.ID)
		return err
	}
	result, err := a.followTurn(ctx, l.Client, made.ID, 0, a.newTurnView(f.verbose))
	if err != nil {
		return err
	}
	if f.chat == "" && made.Chat != "" && succeeded(result) {
		a.Progress("go on with: --chat %s", made.Chat)
	}
	return turnStatus(result)
}

func (a commands) agentNames(ctx context.Context) ([]string, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Agents(ctx)
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names, err
}

func (a commands) agentLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Example: `  atoll agent ls
  atoll agent ls --json`,
		Short: "List agents and their features",
		Args:  app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			all, err := c.Agents(cmd.Context())
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(output.NonNil(all))
			}
			rows := [][]string{{"NAME", "PROGRAM", "CAN"}}
			for _, i := range all {
				rows = append(rows, []string{i.Name, programVersion(i), strings.Join(agentAbilities(i.Features), " ")})
			}
			return a.PrintTable(rows)
		},
	}
}

// programVersion says where an agent's program is.
func programVersion(i agent.Info) string {
	switch {
	case i.Version != "":
		return i.Version
	case i.Features.Package != nil:
		return "'atoll agent install " + i.Name + "'"
	}
	return "in the sandbox"
}

func agentAbilities(f agent.Features) []string {
	var list []string
	for _, can := range []struct {
		yes  bool
		name string
	}{{f.Approvals, "ask"}, {f.Interrupt, "interrupt"}, {f.Resume, "resume"}, {f.Deltas, "stream"}, {f.Skills, "skills"}, {f.Tools, "tools"}, {f.Images, "images"}} {
		if can.yes {
			list = append(list, can.name)
		}
	}
	return list
}
