package about

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
)

func (a commands) configCommand() *cobra.Command {
	var b strings.Builder
	for _, k := range config.Keys {
		mark := " "
		if k.Project {
			mark = "p"
		}
		fmt.Fprintf(&b, "  %s %-28s %s\n", mark, k.Name, output.WrapHanging(k.Help, 33, 79))
	}
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show and check the configuration",
		Long: `Show and check the configuration. The value of a key is the first of these that
is set:

  1. a flag
  2. the environment: ATOLL_ and the key in capitals, with '_' for '.'
  3. .atoll.yaml, in this directory or above, up to the root of the repository
  4. your own atoll.yaml
  5. /etc/atoll/atoll.yaml, or the file that $ATOLL_SYSTEM_CONFIG names
  6. the default

` + b.String() + `
Sizes are like 64m, durations like 30s, 7d or never. A project's file can set
keys with p only. Your own file and the machine's can define contexts:

  contexts:
    team:
      host: https://atoll.example.com
      token_file: ~/.config/atoll/team.token   # or token
      ca: /etc/ssl/team.pem                    # unless the system trusts it
  context: team`,
		Example: "  atoll config show --origin\n  ATOLL_DEFAULTS_MEMORY=64m atoll config show",
		Args:    app.UnknownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configShow(), a.configPath(), a.configCheck())
	return cmd
}

// shownSetting is a setting as --json prints it.
type shownSetting struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // a list of texts where the key is one
	Origin string `json:"origin"`
}

func (a commands) configShow() *cobra.Command {
	var origin bool
	cmd := &cobra.Command{
		Use: "show",
		Example: `  atoll config show
  atoll config show --json`,
		Short: "Show the effective configuration",
		Args:  app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			list := listSettings(a.Config)
			if a.JSON {
				return a.PrintJSON(list)
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
			return a.PrintTable(rows)
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "and where each comes from: default, file and line, $NAME or --flag")
	return cmd
}

// listSettings lists the keys that are set, then the contexts. Tokens are masked.
func listSettings(c *config.Config) []shownSetting {
	var list []shownSetting
	for i := range config.Keys {
		k := &config.Keys[i]
		s, ok := c.Settings[k.Name]
		if !ok || len(s.Texts) == 0 {
			continue
		}
		var v any = s.Texts[0]
		switch {
		case k.Secret:
			v = "***"
		case k.Form.List:
			v = s.Texts
		}
		list = append(list, shownSetting{k.Name, v, s.Origin})
	}
	for _, name := range c.ContextNames() {
		e := c.Contexts[name]
		for _, f := range [][2]string{{"host", e.Host}, {"token", e.Token}, {"token_file", e.TokenFile}, {"ca", e.CA}, {"cert", e.Cert}, {"key", e.Key}} {
			if f[1] == "" {
				continue
			}
			if f[0] == "token" {
				f[1] = "***"
			}
			list = append(list, shownSetting{"contexts." + name + "." + f[0], f[1], e.Origin})
		}
	}
	return list
}

// configFileInfo is a file that configures atoll, or could.
type configFileInfo struct {
	What string `json:"what"`
	Path string `json:"path"`
	Used bool   `json:"used"` // it is there
}

func (a commands) configPath() *cobra.Command {
	return &cobra.Command{
		Use:         "path",
		Example:     "  atoll config path",
		Short:       "Show the configuration files",
		Args:        app.CheckArgCount(0, 0, "no arguments"),
		Annotations: app.AnyConfig,
		RunE: func(*cobra.Command, []string) error {
			list := []configFileInfo{}
			if a.Config.Project != "" {
				list = append(list, configFileInfo{"project", a.Config.Project, true})
			}
			for _, f := range []configFileInfo{{What: "user", Path: a.Config.File}, {What: "machine", Path: a.Config.System}} {
				if f.Path != "" {
					_, err := os.Stat(f.Path)
					f.Used = err == nil
					list = append(list, f)
				}
			}
			if a.JSON {
				return a.PrintJSON(list)
			}
			rows := [][]string{}
			for _, f := range list {
				row := []string{f.What, f.Path}
				if !f.Used {
					row = append(row, "(not there)")
				}
				rows = append(rows, row)
			}
			return a.PrintTable(rows)
		},
	}
}

func (a commands) configCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check [FILE]",
		Example: `  atoll config check
  atoll config check .atoll.yaml`,
		Short: "Check the configuration for errors",
		Long: `Check the configuration, or one file, and print every error. A file named
.atoll.yaml is checked as a project's file. The key of the registry's secrets is
read (secrets.key_file, secrets.key_command). Misspelled variables and login
providers that do not answer are reported, but are no errors. The exit status
is 1 if there are errors.`,
		Args:        app.CheckArgCount(0, 1, "at most one file"),
		Annotations: app.AnyConfig,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := a.ConfigErr
			for _, text := range problemTexts(config.CheckVariables(os.Environ())) {
				fmt.Fprintf(a.Err, "atoll: warning: %s\n", text)
			}
			if len(args) == 0 {
				err = errors.Join(err, a.checkLoginKeys(), a.checkKeys(cmd.Context()))
				a.warnOfLogins(cmd.Context())
			}
			if len(args) == 0 && a.Config.Project != "" {
				err = errors.Join(err, checkProjectFile(a.Config.Project))
			}
			if len(args) == 1 {
				if _, serr := os.Stat(args[0]); errors.Is(serr, fs.ErrNotExist) {
					return fmt.Errorf("%w: %s", atoll.ErrNotFound, args[0])
				}
				project := filepath.Base(args[0]) == projectfile.Name
				_, err = config.ReadFile(args[0], project)
				if project {
					err = errors.Join(err, checkProjectFile(args[0]))
				}
			}
			problems := problemTexts(err)
			if a.JSON {
				if err := a.PrintJSON(problems); err != nil {
					return err
				}
			}
			if err == nil {
				if !a.JSON {
					_, err = fmt.Fprintln(a.Out, "ok")
				}
				return err
			}
			if !a.JSON {
				a.PrintError(err)
			}
			return exitcode.Silent(exitcode.Problems)
		},
	}
}

// checkProjectFile reports what is wrong with a project's file where it is of
// its sandbox. What can't be read was told by others.
func checkProjectFile(name string) error {
	b, err := config.ReadSmallFile(name)
	if err != nil {
		return nil // likewise
	}
	if root, err := config.ParseYAML(name, b); err != nil || root == nil {
		return nil // likewise
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
