package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/projectfile"
)

func (a *app) configCommand() *cobra.Command {
	var b strings.Builder
	for _, k := range keys {
		mark := " "
		if k.project {
			mark = "p"
		}
		fmt.Fprintf(&b, "  %s %-28s %s\n", mark, k.name, k.help)
	}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show what is configured, and where it comes from",
		Long: `Show what is configured, and where it comes from. Every value is the first of:
a flag; the environment (ATOLL_ and the key in capitals with '_' for '.', lists
separated by commas); the project's .atoll.yaml, which is looked for from here up
to the root of the repository; your own atoll.yaml; the machine's,
/etc/atoll/atoll.yaml ($ATOLL_SYSTEM_CONFIG names another); the default.

` + b.String() + `
Sizes are like 64m, durations like 30s, 7d or never. Those with p may stand in a
project's file too. contexts, in your own file or the machine's, are servers:

  contexts:
    team:
      host: https://atoll.example.com
      token_file: ~/.config/atoll/team.token   # or token
      ca: /etc/ssl/team.pem                    # if the system doesn't know it
  context: team`,
		Example: "  atoll config show --origin\n  ATOLL_DEFAULTS_MEMORY=64m atoll config show",
		Args:    noSuchCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configShow(), a.configPath(), a.configCheck())
	return cmd
}

// shownSetting is a setting for people and programs.
type shownSetting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // a list of texts where the key is one
	Origin string `json:"origin"`
}

func (a *app) configShow() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show every value that counts",
		Args:  needArgs(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			list := a.config.shown()
			if a.json {
				return a.print(list)
			}
			rows := [][]string{}
			for _, s := range list {
				row := []string{s.Key, fmt.Sprint(s.Value)}
				if l, ok := s.Value.([]string); ok {
					row[1] = strings.Join(l, ", ")
				}
				if origin {
					row = append(row, s.Origin)
				}
				rows = append(rows, row)
			}
			return a.table(rows)
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "and where each comes from: default, file and line, $NAME or --flag")
	return cmd
}

// shown lists what is set, contexts last. Tokens are not shown.
func (c *config) shown() []shownSetting {
	var list []shownSetting
	for i := range keys {
		k := &keys[i]
		s, ok := c.settings[k.name]
		if !ok || len(s.texts) == 0 {
			continue
		}
		var v any = s.texts[0]
		switch {
		case k.secret:
			v = "***"
		case k.form.list:
			v = s.texts
		}
		list = append(list, shownSetting{k.name, v, s.origin})
	}
	for _, name := range c.contextNames() {
		e := c.contexts[name]
		for _, f := range [][2]string{{"host", e.Host}, {"token", e.Token}, {"token_file", e.TokenFile}, {"ca", e.CA}} {
			if f[1] == "" {
				continue
			}
			if f[0] == "token" {
				f[1] = "***"
			}
			list = append(list, shownSetting{"contexts." + name + "." + f[0], f[1], e.origin})
		}
	}
	return list
}

func (c *config) contextNames() []string {
	var names []string
	for name := range c.contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// configFileInfo is a file that configures atoll, or could.
type configFileInfo struct {
	What string `json:"what"`
	Path string `json:"path"`
	Used bool   `json:"used"` // it is there
}

func (a *app) configPath() *cobra.Command {
	return &cobra.Command{
		Use:         "path",
		Short:       "Show which files are read",
		Args:        needArgs(0, 0, "no arguments"),
		Annotations: anyConfig,
		RunE: func(*cobra.Command, []string) error {
			list := []configFileInfo{}
			if a.config.project != "" {
				list = append(list, configFileInfo{"project", a.config.project, true})
			}
			for _, f := range []configFileInfo{{What: "user", Path: a.config.file}, {What: "machine", Path: a.config.system}} {
				if f.Path != "" {
					_, err := os.Stat(f.Path)
					f.Used = err == nil
					list = append(list, f)
				}
			}
			if a.json {
				return a.print(list)
			}
			rows := [][]string{}
			for _, f := range list {
				row := []string{f.What, f.Path}
				if !f.Used {
					row = append(row, "(not there)")
				}
				rows = append(rows, row)
			}
			return a.table(rows)
		},
	}
}

func (a *app) configCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check [FILE]",
		Short: "Say what is wrong with the configuration, or with one file",
		Long: `Say everything that is wrong with the configuration, or with one file. A file
called .atoll.yaml is checked as a project's. The exit status is 1 if anything is.`,
		Args:        needArgs(0, 1, "at most one file"),
		Annotations: anyConfig,
		RunE: func(_ *cobra.Command, args []string) error {
			err := a.configErr
			if len(args) == 0 && a.config.project != "" {
				err = errors.Join(err, checkProjectFile(a.config.project))
			}
			if len(args) == 1 {
				if _, serr := os.Stat(args[0]); errors.Is(serr, fs.ErrNotExist) {
					return fmt.Errorf("%w: %s", atoll.ErrNotFound, args[0])
				}
				project := filepath.Base(args[0]) == projectfile.Name
				_, err = readConfig(args[0], project)
				if project {
					err = errors.Join(err, checkProjectFile(args[0]))
				}
			}
			problems := problemTexts(err)
			if a.json {
				if err := a.print(problems); err != nil {
					return err
				}
			}
			if err == nil {
				if !a.json {
					_, err = fmt.Fprintln(a.out, "ok")
				}
				return err
			}
			if !a.json {
				a.complain(err)
			}
			return status(1)
		},
	}
}

// checkProjectFile reports what is wrong with a project's file where it is of
// its sandbox. What can't be read was told by others.
func checkProjectFile(name string) error {
	b, err := readSmall(name)
	if err != nil {
		return nil //nolint:nilerror // likewise
	}
	if root, err := parseYAML(name, b); err != nil || root == nil {
		return nil //nolint:nilerror // likewise
	}
	return projectfile.CheckKnown(name, b)
}

// problemTexts are the single problems of an error.
func problemTexts(err error) []string {
	if err == nil {
		return []string{}
	}
	return strings.Split(err.Error(), "\n")
}
