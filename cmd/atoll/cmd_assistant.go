package main

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
	"github.com/atoll-sandbox/atoll/internal/assistant"
	"github.com/atoll-sandbox/atoll/internal/model"
	"github.com/atoll-sandbox/atoll/internal/skill"
	"github.com/atoll-sandbox/atoll/internal/spell"
	"github.com/atoll-sandbox/atoll/internal/tool"
)

func (a *app) assistantCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "assistant", Aliases: []string{"assistants"},
		Short: "What people talk to: list, check and begin assistants",
		Long: `What people talk to: list, check and begin assistants. An assistant is a directory
beneath assistants/ of the app directory: package.yao names its connector and, perhaps,
an agent and its sandbox; prompts.yml, skills/, mcps/ and src/index.ts (hooks) may
stand beside it.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().String("app", "", "`DIRECTORY` of assistants, connectors, mcps and skills (default ~/.config/atoll)")
	cmd.AddCommand(a.assistantLs(), a.assistantCheck(), a.assistantNew())
	return cmd
}

func (a *app) assistantLs() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the assistants",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client(cmd.Context())
			if err != nil {
				return err
			}
			all, err := c.Assistants(cmd.Context())
			if err != nil {
				return err
			}
			a.leftOut(all)
			if a.json {
				return a.print(some(all))
			}
			if len(all) == 0 {
				a.progress("there are no assistants to talk to; 'atoll assistant new NAME' makes one")
				return nil
			}
			rows := [][]string{{"ASSISTANT", "AGENT", "CONNECTOR", "SKILLS", "TOOLS", "HOOKS", "DESCRIPTION"}}
			for _, i := range all {
				about := i.Description
				if about == "" && i.Name != i.ID {
					about = i.Name
				}
				rows = append(rows, []string{i.ID, dash(i.Agent), dash(i.Connector), listed(i.Skills), listed(i.Tools), listed(i.Hooks), about})
			}
			return a.table(rows)
		},
	}
}

// leftOut tells a person that some assistants of this machine are not in the list.
func (a *app) leftOut(all []agent.AssistantInfo) {
	dir, err := a.appDir()
	if err != nil || get[string](a.config, "host") != "" || get[string](a.config, "context") != "" {
		return // they are another machine's
	}
	found, _ := assistant.Find(filepath.Join(dir, "assistants")) // check tells what is wrong with names
	for _, i := range all {
		delete(found, i.ID)
	}
	if len(found) > 0 {
		a.progress("left out: %s; 'atoll assistant check' says why", strings.Join(slices.Sorted(maps.Keys(found)), ", "))
	}
}

func listed(list []string) string { return dash(strings.Join(list, ",")) }

func (a *app) assistantCheck() *cobra.Command {
	lenient := false
	cmd := &cobra.Command{
		Use:   "check [NAME|DIRECTORY]...",
		Short: "Tell what is wrong with assistants",
		Long: `Tell what is wrong with assistants, and what they need: every mistake on a line of its
own, as FILE:LINE:COLUMN: FIELD: TEXT. The exit status is 1 if there is one. Without a
name it is all of the app directory. A DIRECTORY is an assistant's, or one with
assistants beneath it; what they name is looked for beside assistants/, if it is in
such a directory, else in the app directory.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := &checking{problems: []*assistant.Problem{}, found: []string{}, env: os.LookupEnv}
			if lenient {
				c.env = set
			}
			dir, err := a.appDir()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				c.tree(filepath.Join(dir, "assistants"), dir)
			}
			for _, arg := range args {
				if err := c.argument(arg, dir); err != nil {
					return err
				}
			}
			return a.showChecked(c)
		},
	}
	cmd.Flags().BoolVar(&lenient, "unset", false, "take variables of the environment that are not set as if they were: elsewhere they may be")
	return cmd
}

// set is an environment in which everything is set.
func set(name string) (string, bool) {
	if v, ok := os.LookupEnv(name); ok {
		return v, true
	}
	return "unset", true
}

// checking is what a check has found.
type checking struct {
	problems []*assistant.Problem
	found    []string // ids of assistants
	wrong    int      // of them
	env      func(string) (string, bool)
	shelves  map[string]*assistant.LoadOptions // by app directory
}

// argument checks what a name or a directory means.
func (c *checking) argument(arg, app string) error {
	if info, err := os.Stat(arg); err == nil && info.IsDir() && strings.ContainsAny(arg, "./\\") {
		c.directory(filepath.Clean(arg), app)
		return nil
	}
	root := filepath.Join(app, "assistants")
	all, err := assistant.Find(root)
	dir, ok := all[arg]
	if !ok {
		hint := spell.Hint(arg, slices.Collect(maps.Keys(all)))
		return errors.Join(fmt.Errorf("assistant %q: %w in %s%s; write a directory as ./%s", arg, atoll.ErrNotFound, root, hint, arg), err)
	}
	c.one(dir, arg, app)
	return nil
}

// directory is an assistant's, an app's, or one with assistants beneath it.
func (c *checking) directory(dir, app string) {
	if whole, err := filepath.Abs(dir); err == nil {
		if above, _, ok := strings.Cut(whole+string(filepath.Separator), string(filepath.Separator)+"assistants"+string(filepath.Separator)); ok {
			app = above
		}
	}
	for _, name := range []string{"package.yao", "atoll.yaml", "atoll.yml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			c.one(dir, filepath.Base(dir), app)
			return
		}
	}
	if below := filepath.Join(dir, "assistants"); isDir(below) {
		dir, app = below, dir
	}
	c.tree(dir, app)
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// tree checks all assistants beneath a directory.
func (c *checking) tree(dir, app string) {
	all, err := assistant.Find(dir)
	c.add(err)
	c.shelf(app)
	for id, at := range sorted(all) {
		c.one(at, id, app)
	}
}

// one checks an assistant.
func (c *checking) one(dir, id, app string) {
	_, err := assistant.Read(dir, id, *c.shelf(app))
	c.found = append(c.found, id)
	if err != nil {
		c.wrong++
		c.add(err)
	}
}

func (c *checking) add(err error) { c.problems = append(c.problems, assistant.Problems(err)...) }

// shelf reads what assistants of an app directory may name. Mistakes in it are
// told once.
func (c *checking) shelf(app string) *assistant.LoadOptions {
	if o := c.shelves[app]; o != nil {
		return o
	}
	o := &assistant.LoadOptions{Agents: agents(), Processes: processes(), Env: c.env}
	var err error
	o.Connectors, err = model.Load(filepath.Join(app, "connectors"), c.env)
	c.add(err)
	o.Servers, err = tool.Load(filepath.Join(app, "mcps"), o.Processes, c.env)
	c.add(err)
	if dir := filepath.Join(app, "skills"); isDir(dir) {
		list, problems, err := skill.Load(skill.Within(dir))
		c.add(err)
		for _, p := range problems {
			if p.Fatal {
				c.problems = append(c.problems, &assistant.Problem{File: filepath.Join(dir, p.File), Line: p.Line, Field: p.Field, Text: p.Text})
			}
		}
		o.Skills = list
	}
	if c.shelves == nil {
		c.shelves = make(map[string]*assistant.LoadOptions)
	}
	c.shelves[app] = o
	return o
}

func (a *app) showChecked(c *checking) error {
	if a.json {
		if err := a.print(map[string]any{"assistants": c.found, "problems": c.problems}); err != nil {
			return err
		}
	} else {
		for _, p := range c.problems {
			if _, err := fmt.Fprintln(a.out, plain(p.Error())); err != nil {
				return err
			}
		}
	}
	if len(c.problems) > 0 {
		a.progress("%s; %d of %s are wrong", counted(len(c.problems), "problem"), c.wrong, counted(len(c.found), "assistant"))
		return status(1)
	}
	a.progress("nothing is wrong with %s", counted(len(c.found), "assistant"))
	return nil
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

//go:embed skeleton
var skeleton embed.FS

func (a *app) assistantNew() *cobra.Command {
	var agentName, connector string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Begin an assistant: a directory that works, to be changed",
		Args:  needArgs(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, err := a.appDir()
			if err != nil {
				return err
			}
			name := args[0]
			if err := atoll.CheckName(name); err != nil || strings.Contains(name, ".") {
				return fmt.Errorf("%w: %q: the name of an assistant has only a-z, 0-9, '-' and '_', and begins and ends with a letter or digit", atoll.ErrInvalid, name)
			}
			if all := agents(); agentName != "none" && all[agentName] == nil {
				names := slices.Sorted(maps.Keys(all))
				return fmt.Errorf("%w: agent %q%s; there is: %s, none", atoll.ErrNotFound, agentName, spell.Hint(agentName, names), strings.Join(names, ", "))
			}
			dir := filepath.Join(app, "assistants", name)
			if _, err := os.Lstat(dir); err == nil {
				return fmt.Errorf("%w: %s", atoll.ErrExists, dir)
			}
			if err := a.copySkeleton(dir, strings.NewReplacer("{name}", name, "{agent}", agentName, "{connector}", connector)); err != nil {
				return err
			}
			if a.json {
				return a.print(map[string]string{"id": name, "directory": dir})
			}
			_, err = fmt.Fprintln(a.out, dir)
			a.progress("talk to it with 'atoll chat %s'", name)
			return err
		},
	}
	cmd.Flags().StringVar(&agentName, "agent", "claude", "`AGENT` that does the work in a sandbox; none: the model itself answers")
	cmd.Flags().StringVarP(&connector, "connector", "c", "", "`CONNECTOR` to the model (default: of the environment's keys)")
	return cmd
}

// copySkeleton writes the files of a new assistant. What is for another kind of
// assistant, or about a connector that nobody named, is left out.
func (a *app) copySkeleton(dir string, fill *strings.Replacer) error {
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
