package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent/skill"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/exitcode"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

func (a commands) skillCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "skill",
		Example: `  atoll skill add ./skills/review
  atoll skill validate ./skills/review`,
		Short: "Manage skills of agents",
		Long: `Manage skills: directories with a SKILL.md in the open Agent Skills format that
teach agents a kind of task. Skills of the app directory are for assistants
that name them and for agents without an assistant; skills in the directory of
an assistant are for that one only.`,
		Args: app.UnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.skillLs(), a.skillValidate(), a.skillAdd())
	return cmd
}

// skillPlace is where skills lie.
type skillPlace struct {
	assistant string
	create    bool // the app directory need not exist
}

func (p *skillPlace) add(cmd *cobra.Command) {
	cmd.Flags().String("app", "", "`DIRECTORY` of assistants, connectors, mcps and skills (default ~/.config/atoll)")
	cmd.Flags().StringVar(&p.assistant, "assistant", "", "the skills of this `ASSISTANT`'s own directory")
}

// directory returns the directory of skills, which need not be there.
func (p *skillPlace) directory(a commands) (string, error) {
	appDir := a.AppDir
	if p.create {
		appDir = a.NewAppDir
	}
	dir, err := appDir()
	if err != nil {
		return "", err
	}
	if p.assistant == "" {
		return filepath.Join(dir, "skills"), nil
	}
	found, err := assistant.Find(filepath.Join(dir, "assistants"))
	if at, ok := found[p.assistant]; ok {
		return filepath.Join(at, "skills"), nil
	}
	if err != nil {
		return "", err
	}
	var names []string
	for name := range output.SortedPairs(found) {
		names = append(names, name)
	}
	return "", fmt.Errorf("%w: assistant %q%s; there is: %s", atoll.ErrNotFound, p.assistant, suggest.Hint(p.assistant, names), cmp.Or(strings.Join(names, ", "), "none"))
}

// shownSkill is a skill for people and programs.
type shownSkill struct {
	Name          string            `json:"name"`
	Description   string            `json:"description"`
	License       string            `json:"license,omitempty"`
	Compatibility string            `json:"compatibility,omitempty"`
	Metadata      map[string]string `json:"metadata,omitempty"`
	AllowedTools  []string          `json:"allowed_tools,omitempty"`
	Dir           string            `json:"dir"`
}

func (a commands) skillLs() *cobra.Command {
	var p skillPlace
	cmd := &cobra.Command{
		Use:     "ls",
		Example: "  atoll skill ls",
		Short:   "List skills",
		Args:    app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			dir, err := p.directory(a)
			if err != nil {
				return err
			}
			list, problems, err := skill.Load(skill.DirFS(dir))
			if err != nil {
				return err
			}
			for _, pr := range problems {
				pr.File = filepath.Join(dir, pr.File)
				a.Progress("%s", pr)
			}
			shown := []shownSkill{}
			rows := [][]string{{"NAME", "DESCRIPTION"}}
			for _, s := range list {
				shown = append(shown, shownSkill{s.Name, s.Description, s.License, s.Compatibility, s.Metadata, s.AllowedTools, filepath.Join(dir, s.Dir)})
				rows = append(rows, []string{s.Name, abbreviate(s.Description, 100)})
			}
			if a.JSON {
				return a.PrintJSON(shown)
			}
			if len(list) == 0 {
				a.Progress("no skills in %s; 'atoll skill add' brings one there", dir)
				return nil
			}
			return a.PrintTable(rows)
		},
	}
	p.add(cmd)
	return cmd
}

// abbreviate is the first line of a text, cut to n characters.
func abbreviate(s string, n int) string {
	line, _, more := strings.Cut(s, "\n")
	if r := []rune(line); len(r) > n {
		return string(r[:n]) + "…"
	}
	if more {
		line += "…"
	}
	return line
}

func (a commands) skillValidate() *cobra.Command {
	var p skillPlace
	cmd := &cobra.Command{
		Use:   "validate [PATH...]",
		Short: "Check skills for errors",
		Long: `Check skills strictly and print each problem with file, line and field. PATH is
the directory of a skill, its SKILL.md, or a directory of skills; the default
is the app directory. The exit status is 1 if there are problems. Agents use a
skill also with minor problems.`,
		Example: "  atoll skill validate skills/code-review\n  atoll skill validate --assistant coder",
		Args:    app.CheckArgCount(0, -1, "[PATH...]"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				dir, err := p.directory(a)
				if err != nil {
					return err
				}
				args = []string{dir}
			}
			problems := []skill.Problem{}
			checked := 0
			for _, path := range args {
				dirs, err := skillDirs(path)
				if err != nil {
					return err
				}
				for _, dir := range dirs {
					checked++
					problems = append(problems, validateSkill(dir)...)
				}
			}
			return a.tellProblems(problems, checked)
		},
	}
	p.add(cmd)
	return cmd
}

// tellProblems prints problems; if there is one, that is the exit status.
func (a commands) tellProblems(problems []skill.Problem, checked int) error {
	if a.JSON {
		if err := a.PrintJSON(problems); err != nil {
			return err
		}
	}
	for _, p := range problems {
		if !a.JSON {
			if _, err := fmt.Fprintln(a.Out, output.CleanLines(p.String(), "  ")); err != nil {
				return err
			}
		}
	}
	if len(problems) > 0 {
		return exitcode.Silent(exitcode.Problems)
	}
	a.Progress("%d skills are as they should be", checked)
	return nil
}

// skillDirs returns the directories of skills that a path means.
func skillDirs(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: skill %s: %w", atoll.ErrNotFound, path, err)
	}
	if !info.IsDir() {
		if strings.EqualFold(filepath.Base(path), "SKILL.md") {
			return []string{filepath.Dir(path)}, nil
		}
		return nil, fmt.Errorf("%w: %s is neither a directory nor a SKILL.md", atoll.ErrInvalid, path)
	}
	if isSkill(path) {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if dir := filepath.Join(path, e.Name()); !strings.HasPrefix(e.Name(), ".") && isSkill(dir) {
			dirs = append(dirs, dir)
		}
	}
	if dirs == nil {
		dirs = []string{path} // which has no SKILL.md
	}
	return dirs, nil
}

// isSkill reports whether a directory has a main file.
func isSkill(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.EqualFold(e.Name(), "SKILL.md") })
}

// validateSkill checks a skill's directory; the files that it tells are as they were
// named.
func validateSkill(dir string) []skill.Problem {
	name := filepath.Base(dir)
	if full, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(full) // of "." too
	}
	problems := skill.Validate(skill.DirFS(dir), name)
	for i, p := range problems {
		problems[i].File = filepath.Join(dir, strings.TrimPrefix(strings.TrimPrefix(p.File, name), "/"))
	}
	return problems
}

func (a commands) skillAdd() *cobra.Command {
	p := skillPlace{create: true}
	var force bool
	cmd := &cobra.Command{
		Use:   "add SOURCE",
		Short: "Add a skill to the app directory or an assistant",
		Long: `Copy a skill, from a directory or an archive (.zip, .skill, .tar, .tar.gz), to
the skills of the app directory or of an assistant. It is checked first, as by
'atoll skill validate'. Links out of it, devices and set-uid bits are not
copied.`,
		Example: "  atoll skill add ./code-review\n  atoll skill add pdf.zip --assistant coder",
		Args:    app.CheckArgCount(1, 1, "SOURCE"),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := p.directory(a)
			if err != nil {
				return err
			}
			s := &skillCopy{app: a, source: args[0], dest: dir, force: force}
			return s.run()
		},
	}
	p.add(cmd)
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace one that is there, and take one that is not to the letter of the format")
	return cmd
}

// skillCopy brings a skill to a directory of skills, whole or not at all.
type skillCopy struct {
	app          commands
	source, dest string
	force        bool
}

func (s *skillCopy) run() (err error) {
	if err := os.MkdirAll(s.dest, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(s.dest, ".new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	top, err := s.fetchSource(work)
	if err != nil {
		return fmt.Errorf("skill %s: %w", s.source, err)
	}
	found, problems, err := skill.Load(skill.DirFS(filepath.Dir(top)))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(found, func(f skill.Skill) bool { return f.Dir == filepath.Base(top) })
	if i < 0 {
		s.printProblems(problems)
		return s.app.tellProblems(problems, 0)
	}
	// Its directory is as its name is, whatever it was in the archive.
	if named := filepath.Join(filepath.Dir(top), found[i].Name); named != top && skill.IsArchive(s.source) {
		if err := os.Rename(top, named); err != nil {
			return err
		}
		top = named
	}
	problems = skill.Validate(skill.DirFS(top), filepath.Base(top))
	s.printProblems(problems)
	if len(problems) > 0 && !s.force {
		return s.app.tellProblems(problems, 0)
	}
	for _, p := range problems {
		s.app.Progress("%s", p)
	}
	return s.installSkill(work, top, found[i].Name)
}

// printProblems names files as the user knows them.
func (s *skillCopy) printProblems(problems []skill.Problem) {
	for i, p := range problems {
		_, rest, _ := strings.Cut(p.File, "/")
		problems[i].File = filepath.Join(s.source, rest)
	}
}

// fetchSource copies the source into a directory and returns that of the skill in it.
func (s *skillCopy) fetchSource(work string) (string, error) {
	info, err := os.Stat(s.source)
	if err != nil {
		return "", err
	}
	full, err := filepath.Abs(s.source)
	if err != nil {
		return "", err
	}
	in := filepath.Join(work, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		return "", err
	}
	switch {
	case info.IsDir():
		if !isSkill(full) {
			return "", fmt.Errorf("%w: there is no SKILL.md in it", atoll.ErrInvalid)
		}
		top := filepath.Join(in, filepath.Base(full))
		if err := os.Mkdir(top, 0o755); err != nil {
			return "", err
		}
		return top, skill.Copy(top, skill.DirFS(full))
	case !skill.IsArchive(full):
		return "", fmt.Errorf("%w: it is neither a directory nor an archive (.zip, .skill, .tar, .tar.gz)", atoll.ErrInvalid)
	}
	name := filepath.Base(full)
	name = strings.TrimPrefix(name[:strings.IndexByte(name+".", '.')], ".")
	top := filepath.Join(in, cmp.Or(name, "skill"))
	if err := os.Mkdir(top, 0o755); err != nil {
		return "", err
	}
	if err := skill.Extract(top, full); err != nil {
		return "", err
	}
	if isSkill(top) {
		return top, nil
	}
	dirs, err := skillDirs(top)
	if err != nil {
		return "", err
	}
	if len(dirs) != 1 || !isSkill(dirs[0]) {
		return "", fmt.Errorf("%w: it must have one SKILL.md, at its top or in a directory there", atoll.ErrInvalid)
	}
	return dirs[0], nil
}

// installSkill moves the skill to where it is used.
func (s *skillCopy) installSkill(work, top, name string) error {
	to := filepath.Join(s.dest, name)
	if _, err := os.Lstat(to); err == nil {
		if !s.force {
			return fmt.Errorf("%w: skill %s is in %s; --force replaces it", atoll.ErrExists, name, s.dest)
		}
		old := filepath.Join(work, "old")
		if err := os.Rename(to, old); err != nil {
			return err
		}
		if err := os.Rename(top, to); err != nil {
			return errors.Join(err, os.Rename(old, to))
		}
	} else if err := os.Rename(top, to); err != nil {
		return err
	}
	if s.app.JSON {
		return s.app.PrintJSON(map[string]string{"name": name, "dir": to})
	}
	s.app.Progress("%s is in %s", name, s.dest)
	return nil
}
