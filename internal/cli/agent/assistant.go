package agent

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/skill"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/agents/tool"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

func (a commands) assistantCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "assistant", Aliases: []string{"assistants"},
		Example: `  atoll assistant new coder
  atoll assistant check coder`,
		Short: "Manage assistants",
		Long: `Manage assistants. An assistant is a directory below assistants/ of the app
directory. Its package.yao names a connector and optionally an agent and a
sandbox; prompts.yml, skills/, mcps/ and src/index.ts (hooks) are optional.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().String("app", "", "`DIRECTORY` of assistants, connectors, mcps and skills (default ~/.config/atoll)")
	cmd.AddCommand(a.assistantLs(), a.assistantCheck(), a.assistantNew())
	return cmd
}

func (a commands) assistantLs() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Example: "  atoll assistant ls",
		Short:   "List assistants",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client(cmd.Context())
			if err != nil {
				return err
			}
			all, err := c.Assistants(cmd.Context())
			if err != nil {
				return err
			}
			a.leftOut(all)
			if a.JSON {
				return a.PrintJSON(output.NonNil(all))
			}
			for _, i := range all {
				if i.Problem != "" {
					a.Progress("%s: %s", i.ID, i.Problem)
				}
			}
			if len(all) == 0 {
				a.Progress("there are no assistants to talk to; 'atoll assistant new NAME' makes one")
				return nil
			}
			rows := [][]string{{"ASSISTANT", "AGENT", "CONNECTOR", "SKILLS", "TOOLS", "HOOKS", "DESCRIPTION"}}
			for _, i := range all {
				about := i.Description
				if about == "" && i.Name != i.ID {
					about = i.Name
				}
				rows = append(rows, []string{i.ID, output.DashIfEmpty(i.Agent), output.DashIfEmpty(i.Connector), joinOrDash(i.Skills), joinOrDash(i.Tools), joinOrDash(i.Hooks), about})
			}
			return a.PrintTable(rows)
		},
	}
}

// leftOut tells a person that some assistants of this machine are not in the list.
func (a commands) leftOut(all []agent.AssistantInfo) {
	dir, err := a.AppDir()
	if err != nil || config.Get[string](a.Config, "host") != "" || config.Get[string](a.Config, "context") != "" {
		return // they are another machine's
	}
	found, _ := assistant.Find(filepath.Join(dir, "assistants")) // check tells what is wrong with names
	for _, i := range all {
		delete(found, i.ID)
	}
	if len(found) > 0 {
		a.Progress("left out: %s; 'atoll assistant check' says why", strings.Join(slices.Sorted(maps.Keys(found)), ", "))
	}
}

func joinOrDash(list []string) string { return output.DashIfEmpty(strings.Join(list, ",")) }

func (a commands) assistantCheck() *cobra.Command {
	lenient := false
	cmd := &cobra.Command{
		Use: "check [NAME|DIRECTORY]...",
		Example: `  atoll assistant check
  atoll assistant check coder ./assistants/reviewer`,
		Short: "Check assistants for errors",
		Long: `Check assistants and print each error as FILE:LINE:COLUMN: FIELD: TEXT. The
exit status is 1 if there are errors. Without a NAME all assistants of the app
directory are checked. A DIRECTORY is an assistant or has assistants below it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := &checking{problems: []*assistant.Problem{}, found: []string{}, env: os.LookupEnv}
			if lenient {
				c.env = lookupAnyVariable
			}
			dir, err := a.AppDir()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				c.checkTree(filepath.Join(dir, "assistants"), dir)
			}
			for _, arg := range args {
				if err := c.checkArgument(arg, dir); err != nil {
					return err
				}
			}
			return a.showChecked(c)
		},
	}
	cmd.Flags().BoolVar(&lenient, "unset", false, "take variables of the environment that are not set as if they were: elsewhere they may be")
	return cmd
}

// lookupAnyVariable looks up a variable in an environment in which every variable is set.
func lookupAnyVariable(name string) (string, bool) {
	if v, ok := os.LookupEnv(name); ok {
		return v, true
	}
	return "unset", true
}

// checking holds the results of a check.
type checking struct {
	problems []*assistant.Problem
	found    []string // ids of assistants
	wrong    int      // of them
	env      func(string) (string, bool)
	shelves  map[string]*assistant.LoadOptions // by app directory
}

// checkArgument checks what a name or a directory means.
func (c *checking) checkArgument(arg, app string) error {
	if info, err := os.Stat(arg); err == nil && info.IsDir() && strings.ContainsAny(arg, "./\\") {
		c.checkDirectory(filepath.Clean(arg), app)
		return nil
	}
	root := filepath.Join(app, "assistants")
	all, err := assistant.Find(root)
	dir, ok := all[arg]
	if !ok {
		hint := suggest.Hint(arg, slices.Collect(maps.Keys(all)))
		return errors.Join(fmt.Errorf("assistant %q: %w in %s%s; write a directory as ./%s", arg, atoll.ErrNotFound, root, hint, arg), err)
	}
	c.checkAssistant(dir, arg, app)
	return nil
}

// checkDirectory is an assistant's, an app's, or one with assistants beneath it.
func (c *checking) checkDirectory(dir, app string) {
	if whole, err := filepath.Abs(dir); err == nil {
		if above, _, ok := strings.Cut(whole+string(filepath.Separator), string(filepath.Separator)+"assistants"+string(filepath.Separator)); ok {
			app = above
		}
	}
	for _, name := range []string{"package.yao", "atoll.yaml", "atoll.yml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			c.checkAssistant(dir, filepath.Base(dir), app)
			return
		}
	}
	if below := filepath.Join(dir, "assistants"); isDir(below) {
		dir, app = below, dir
	}
	c.checkTree(dir, app)
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// checkTree checks all assistants beneath a directory.
func (c *checking) checkTree(dir, app string) {
	all, err := assistant.Find(dir)
	c.add(err)
	c.loadOptions(app)
	for id, at := range output.SortedPairs(all) {
		c.checkAssistant(at, id, app)
	}
}

// checkAssistant checks an assistant.
func (c *checking) checkAssistant(dir, id, app string) {
	options := *c.loadOptions(app) // its problems are told first
	before := len(c.problems)
	_, err := assistant.Read(dir, id, options)
	c.found = append(c.found, id)
	if err != nil {
		c.add(err)
	}
	c.addSkills(filepath.Join(dir, "skills"))
	if len(c.problems) > before {
		c.wrong++
	}
}

// addSkills adds what 'atoll skill validate' finds in a directory of skills, which may be missing.
func (c *checking) addSkills(dir string) {
	if !isDir(dir) {
		return
	}
	dirs, err := skillDirs(dir)
	c.add(err)
	for _, at := range dirs {
		if at == dir {
			continue // no skills
		}
		for _, p := range validateSkill(at) {
			q := assistant.Problem{File: p.File, Line: p.Line, Field: p.Field, Text: p.Text}
			if !slices.ContainsFunc(c.problems, func(o *assistant.Problem) bool { return *o == q }) {
				c.problems = append(c.problems, &q)
			}
		}
	}
}

func (c *checking) add(err error) { c.problems = append(c.problems, assistant.Problems(err)...) }

// loadOptions reads what assistants of an app directory may name. Mistakes in it are
// told once.
func (c *checking) loadOptions(dir string) *assistant.LoadOptions {
	if o := c.shelves[dir]; o != nil {
		return o
	}
	o := &assistant.LoadOptions{Agents: app.ListAgents(), Processes: app.SupportedProcesses(), Env: c.env}
	var err error
	o.Connectors, err = model.Load(filepath.Join(dir, "connectors"), c.env)
	c.add(err)
	o.Servers, err = tool.Load(filepath.Join(dir, "mcps"), o.Processes, c.env)
	c.add(err)
	if dir := filepath.Join(dir, "skills"); isDir(dir) {
		list, _, err := skill.Load(skill.DirFS(dir))
		c.add(err)
		c.addSkills(dir)
		o.Skills = list
	}
	if c.shelves == nil {
		c.shelves = make(map[string]*assistant.LoadOptions)
	}
	c.shelves[dir] = o
	return o
}

func (a commands) showChecked(c *checking) error {
	if a.JSON {
		if err := a.PrintJSON(map[string]any{"assistants": c.found, "problems": c.problems}); err != nil {
			return err
		}
	} else {
		for _, p := range c.problems {
			if _, err := fmt.Fprintln(a.Out, output.Clean(p.Error())); err != nil {
				return err
			}
		}
	}
	if len(c.problems) > 0 {
		a.Progress("%s; %d of %s are wrong", pluralize(len(c.problems), "problem"), c.wrong, pluralize(len(c.found), "assistant"))
		return exitcode.Silent(exitcode.Problems)
	}
	a.Progress("nothing is wrong with %s", pluralize(len(c.found), "assistant"))
	return nil
}

// pluralize is a number of things.
func pluralize(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

//go:embed skeleton
var skeleton embed.FS

func (a commands) assistantNew() *cobra.Command {
	var agentName, connector string
	cmd := &cobra.Command{
		Use:     "new NAME",
		Example: "  atoll assistant new coder",
		Short:   "Create an assistant from a template",
		Args:    app.CheckArgCount(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			appDir, err := a.NewAppDir()
			if err != nil {
				return err
			}
			name := args[0]
			if err := atoll.CheckName(name); err != nil || strings.Contains(name, ".") {
				return fmt.Errorf("%w: %q: the name of an assistant has only a-z, 0-9, '-' and '_', and begins and ends with a letter or digit", atoll.ErrInvalid, name)
			}
			if all := app.ListAgents(); agentName != "none" && all[agentName] == nil {
				names := slices.Sorted(maps.Keys(all))
				return fmt.Errorf("%w: agent %q%s; there is: %s, none", atoll.ErrNotFound, agentName, suggest.Hint(agentName, names), strings.Join(names, ", "))
			}
			dir := filepath.Join(appDir, "assistants", name)
			if _, err := os.Lstat(dir); err == nil {
				return fmt.Errorf("%w: %s", atoll.ErrExists, dir)
			}
			if err := a.copySkeleton(dir, strings.NewReplacer("{name}", name, "{agent}", agentName, "{connector}", connector)); err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]string{"id": name, "directory": dir})
			}
			_, err = fmt.Fprintln(a.Out, dir)
			a.Progress("talk to it with 'atoll chat %s'", name)
			return err
		},
	}
	cmd.Flags().StringVar(&agentName, "agent", "claude", "`AGENT` that does the work in a sandbox; none: the model itself answers")
	cmd.Flags().StringVarP(&connector, "connector", "c", "", "`CONNECTOR` to the model (default: of the environment's keys)")
	return cmd
}

// copySkeleton writes the files of a new assistant. It omits files for other kinds of
// assistants and for connectors that were not named.
func (a commands) copySkeleton(dir string, fill *strings.Replacer) error {
	root, err := fs.Sub(skeleton, "skeleton")
	if err != nil {
		return err
	}
	kind := "agent"
	if fill.Replace("{agent}") == "none" {
		kind = "direct"
	}
	return fs.WalkDir(root, kind, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(strings.TrimPrefix(name, kind), "/")))
		if d.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		var keep []string
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "{connector}") && fill.Replace("{connector}") == "" {
				continue
			}
			keep = append(keep, fill.Replace(line))
		}
		return os.WriteFile(at, []byte(strings.Join(keep, "")), 0o644)
	})
}
