package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/project/projectfile"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

func (a commands) initCommand() *cobra.Command {
	var force, show bool
	cmd := &cobra.Command{
		Use:   "init [PATH]",
		Short: "Write an .atoll.yaml for this repository",
		Long: `Write an .atoll.yaml for this repository: commands that prepare and start it,
the registries of its packages, and its files with secrets. Review and commit
it; 'atoll up' reads it. An existing file is not changed.`,
		Example: "  atoll init\n  atoll init --print",
		Args:    app.CheckArgCount(0, 1, "at most a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			repo, err := project.Open(cmd.Context(), dir)
			if errors.Is(err, project.ErrNoRepository) {
				err = fmt.Errorf("%w\n'git init' makes it one", err)
			}
			if err != nil {
				return err
			}
			text := inspectTree(repo.Dir).formatFile()
			if show {
				_, err := fmt.Fprint(a.Out, text)
				return err
			}
			return a.writeProjectFile(repo, text, force)
		},
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "in place of the one that is there")
	cmd.Flags().BoolVar(&show, "print", false, "only print it")
	return cmd
}

// writeProjectFile writes the file, and notes that who has it written allows what
// is in it.
func (a commands) writeProjectFile(repo *project.Repo, text string, force bool) error {
	name := filepath.Join(repo.Dir, projectfile.Name)
	if _, err := os.Lstat(name); err == nil && !force {
		return fmt.Errorf("%s: %w; --force writes another in its place, --print shows what that would be", name, atoll.ErrExists)
	}
	write := atomicfile.Create
	if force {
		write = atomicfile.Replace
	}
	if err := write(name, []byte(text), 0o644); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w: another process has just written it", name, atoll.ErrExists)
	} else if err != nil {
		return err
	}
	f, err := projectfile.Read(repo.Dir)
	if err != nil {
		return err
	}
	if slices.Equal(f.Sources, []string{projectfile.Name}) { // what a devcontainer.json asks for, nobody has read yet
		if err := a.saveRecord(repo, agreedFile, agreed{repo.Dir, f.Grants()}); err != nil {
			return err
		}
	}
	if a.JSON {
		return a.PrintJSON(map[string]string{"file": name})
	}
	_, err = fmt.Fprintln(a.Out, name)
	a.Progress("look at it; 'atoll up' does what it says")
	return err
}

// traits are the detected properties of a repository.
type traits struct {
	found     []string // files that told
	prepare   []string
	start     [][2]string // name, line
	ports     [][2]string // name, port
	hosts     []string
	env       bool // there are .env files
	container bool // there is a devcontainer.json
	make      bool
}

// inspectTree looks at well-known files at the top of a working tree; it runs
// nothing.
func inspectTree(dir string) *traits {
	t := &traits{}
	has := func(name string) bool {
		info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		return err == nil && info.Mode().IsRegular()
	}
	if has("package.json") {
		t.detectNode(filepath.Join(dir, "package.json"), has)
	}
	if has("go.mod") {
		t.add("go.mod", "go mod download", "proxy.golang.org", "sum.golang.org", "storage.googleapis.com")
	}
	python := []string{"pypi.org", "files.pythonhosted.org"}
	switch {
	case has("uv.lock"):
		t.add("uv.lock", "uv sync", python...)
	case has("requirements.txt"):
		t.add("requirements.txt", "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt", python...)
	case has("pyproject.toml"):
		t.add("pyproject.toml", "python3 -m venv .venv && .venv/bin/pip install -e .", python...)
	}
	if has("Cargo.toml") {
		t.add("Cargo.toml", "cargo fetch", "index.crates.io", "static.crates.io")
	}
	t.make = has("Makefile")
	t.container = has(".devcontainer/devcontainer.json") || has(".devcontainer.json")
	for _, name := range []string{".env", ".env.local", ".env.development", ".env.production"} {
		t.env = t.env || has(name)
	}
	return t
}

func (t *traits) add(file, prepare string, hosts ...string) {
	t.found = append(t.found, file)
	t.prepare = append(t.prepare, prepare)
	t.hosts = append(t.hosts, hosts...)
}

// detectNode reads scripts and frameworks from package.json.
func (t *traits) detectNode(name string, has func(string) bool) {
	manager, install := "npm", "npm install"
	for _, m := range [][3]string{
		{"package-lock.json", "npm", "npm ci"},
		{"pnpm-lock.yaml", "pnpm", "pnpm install --frozen-lockfile"},
		{"yarn.lock", "yarn", "yarn install"},
		{"bun.lock", "bun", "bun install"},
		{"bun.lockb", "bun", "bun install"},
	} {
		if has(m[0]) {
			manager, install = m[1], m[2]
			break
		}
	}
	t.add("package.json", install, "registry.npmjs.org")
	if manager == "yarn" {
		t.hosts = append(t.hosts, "registry.yarnpkg.com")
	}
	var p struct {
		Scripts         map[string]string `json:"scripts"`
		Dependencies    map[string]string `json:"dependencies"`
		DevDependencies map[string]string `json:"devDependencies"`
	}
	b, err := config.ReadSmallFile(name)
	if err != nil || json.Unmarshal(b, &p) != nil {
		return // it is not read: nothing more is proposed
	}
	if p.Scripts["dev"] != "" {
		t.start = append(t.start, [2]string{"dev", manager + " run dev"})
	}
	for _, f := range [][2]string{{"vite", "5173"}, {"next", "3000"}, {"nuxt", "3000"}, {"astro", "4321"}, {"@angular/core", "4200"}, {"react-scripts", "3000"}} {
		if p.Dependencies[f[0]] != "" || p.DevDependencies[f[0]] != "" {
			t.ports = append(t.ports, [2]string{"web", f[1]})
			break
		}
	}
}

// formatFile is the file.
func (t *traits) formatFile() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# What 'atoll up' does in this repository. Every line can go; 'atoll config check'")
	line("# says what is wrong. Settings that weaken the isolation take effect only after you agree.")
	if t.container {
		line("# devcontainer.json is read, too; what stands here wins.")
	}
	line("")
	line("# image: node:22        # root file system, with git; without one: this machine's programs, or a common image")
	line("# memory: 4g")
	line("# cpus: 2")
	line("# disk: 20g")
	line("# agent: claude         # codex, gemini, opencode, cursor")
	line("")
	if len(t.prepare) > 0 {
		line("prepare:                # once, in a new sandbox; found: %s", strings.Join(t.found, ", "))
		for _, p := range t.prepare {
			line("  - %s", p)
		}
	} else {
		line("# prepare:              # once, in a new sandbox")
		line("#   - %s", map[bool]string{true: "make", false: "./setup.sh"}[t.make])
	}
	line("")
	if len(t.start) > 0 {
		line("start:                  # each time it starts, on a terminal of that name")
		for _, s := range t.start {
			line("  - {name: %s, run: %s}", s[0], s[1])
		}
	} else {
		line("# start:                # each time it starts, on a terminal of that name")
		line("#   - {name: dev, run: make serve}")
	}
	line("")
	if len(t.ports) > 0 {
		line("ports:                  # http://PORT-%s.localhost:7080 in a browser", "NAME")
		for _, p := range t.ports {
			line("  %s: %s", p[0], p[1])
		}
		line("main_port: %s", t.ports[0][1])
	} else {
		line("# ports: {web: 3000}    # http://3000-NAME.localhost:7080 in a browser")
	}
	line("")
	if len(t.hosts) > 0 {
		line("network:                # nothing else is reached; mode: nat is all of the internet")
		line("  allow: [%s]", strings.Join(t.hosts, ", "))
	} else {
		line("# network: {allow: [example.com]}   # nothing else is reached; mode: nat is all of the internet")
	}
	line("")
	if t.env {
		line("env_files: [\".env*\"]    # files that git ignores and that go in, readable for the sandbox's user only")
	} else {
		line("# env_files: [\".env*\"]  # files that git ignores and that go in, readable for the sandbox's user only")
	}
	line("# env: {NODE_ENV: development}")
	line("# sync: {mode: auto-commit, artifacts: [dist]}")
	return b.String()
}
