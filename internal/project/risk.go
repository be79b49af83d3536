package project

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Risk is a file out of a sandbox that can make something run on the host, or
// reach out of the repository.
type Risk struct {
	Path string // as people may see it
	Why  string
}

// risky are names of files that programs of a developer's machine run, or
// follow, by themselves; a slash at the end: all below that directory, wherever
// it is.
var risky = []struct{ name, why string }{
	{".githooks/", "git hook"}, {".husky/", "git hook"}, {"hooks/", "may be a git hook"}, {"lefthook.yml", "git hook"}, {"lefthook.yaml", "git hook"},
	{".lefthook.yml", "git hook"}, {".pre-commit-config.yaml", "git hook"}, {".overcommit.yml", "git hook"},
	{".gitattributes", "chooses filters and drivers of git"}, {".gitmodules", "says where submodules come from"}, {".lfsconfig", "says where git-lfs goes"}, {".gitconfig", "settings of git"},
	{".envrc", "run by direnv"}, {".env", "read by tools as environment"}, {".tool-versions", "chooses programs"}, {"mise.toml", "run by mise"}, {".mise.toml", "run by mise"},
	{".vscode/", "run by the editor"}, {".idea/", "run by the editor"}, {".zed/", "run by the editor"}, {".vim/", "run by the editor"}, {".nvim.lua", "run by the editor"}, {".exrc", "run by the editor"}, {".dir-locals.el", "run by the editor"}, {".fleet/", "run by the editor"},
	{".devcontainer/", "run by devcontainer tools"}, {".devcontainer.json", "run by devcontainer tools"},
	{".claude/", "settings of an agent"}, {".codex/", "settings of an agent"}, {".cursor/", "settings of an agent"}, {".gemini/", "settings of an agent"}, {".opencode/", "settings of an agent"}, {"opencode.json", "settings of an agent"}, {".mcp.json", "servers of an agent"},
	{"CLAUDE.md", "followed by agents"}, {"AGENTS.md", "followed by agents"}, {"GEMINI.md", "followed by agents"}, {".cursorrules", "followed by agents"},
	{".atoll.yaml", "settings of atoll"}, {includeFile, "names files that go into sandboxes"},
	{".github/", "run by CI"}, {".gitlab-ci.yml", "run by CI"}, {".gitlab/", "run by CI"}, {".circleci/", "run by CI"}, {".buildkite/", "run by CI"}, {".forgejo/", "run by CI"}, {".gitea/", "run by CI"}, {".woodpecker/", "run by CI"}, {".woodpecker.yml", "run by CI"}, {"Jenkinsfile", "run by CI"}, {"azure-pipelines.yml", "run by CI"}, {".travis.yml", "run by CI"}, {".drone.yml", "run by CI"}, {"bitbucket-pipelines.yml", "run by CI"}, {".ci/", "run by CI"},
	{"Makefile", "run by make"}, {"makefile", "run by make"}, {"GNUmakefile", "run by make"}, {"justfile", "run by just"}, {"Justfile", "run by just"}, {"Taskfile.yml", "run by task"},
	{".npmrc", "settings of npm"}, {".yarnrc", "settings of yarn"}, {".yarnrc.yml", "settings of yarn"}, {".yarn/", "run by yarn"}, {".pnpmfile.cjs", "run by pnpm"}, {"binding.gyp", "run by npm"},
	{"setup.py", "run by pip"}, {"conftest.py", "run by pytest"}, {"sitecustomize.py", "run by python"}, {"build.rs", "run by cargo"}, {".cargo/", "settings of cargo"}, {"rust-toolchain.toml", "chooses programs"},
	{"gradlew", "run by developers"}, {"mvnw", "run by developers"}, {".mvn/", "settings of maven"}, {".bazelrc", "settings of bazel"}, {"flake.nix", "run by nix"}, {"shell.nix", "run by nix"}, {"default.nix", "run by nix"}, {"Dockerfile", "run by builds"}, {"docker-compose.yml", "run by docker"}, {"compose.yaml", "run by docker"},
}

// mostRisks is how many risks a result names; the last says that there are more.
const mostRisks = 1000

// mostSmall is how much of a file is read to judge it.
const mostSmall = 1 << 20

// risks marks changes.
func (q *quarantine) risks(ctx context.Context, changes []change) ([]Risk, error) {
	var list []Risk
	for _, c := range changes {
		why, err := q.risk(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, w := range why {
			list = append(list, Risk{shown(c.name), w})
		}
		if len(list) >= mostRisks {
			return append(list, Risk{"…", "there are more"}), nil
		}
	}
	return list, nil
}

// risk says why a change is one.
func (q *quarantine) risk(ctx context.Context, c change) ([]string, error) {
	if c.mode == "000000" {
		return nil, nil
	}
	why := riskyName(c.name)
	switch {
	case c.mode == "160000":
		why = append(why, "a repository in the repository")
	case c.mode == "120000":
		to, err := q.small(ctx, c.object)
		if err != nil {
			return nil, err
		}
		if leaves(c.name, to) {
			why = append(why, "a link that leads out of the repository, to "+shown(to))
		}
	case c.mode == "100755" && c.oldMode != "100755":
		why = append(why, "a new program: its executable bit is set")
	}
	if path.Base(c.name) == "package.json" && c.mode != "120000" {
		scripts, err := q.newScripts(ctx, c)
		if err != nil {
			return nil, err
		}
		if len(scripts) > 0 {
			why = append(why, "scripts of npm: "+shown(strings.Join(scripts, ", ")))
		}
	}
	return why, nil
}

// riskyName judges a file by its name, in any case of letters.
func riskyName(name string) []string {
	lower := strings.ToLower(name)
	for _, r := range risky {
		want := strings.ToLower(r.name)
		if dir, ok := strings.CutSuffix(want, "/"); ok && slices.Contains(strings.Split(path.Dir(lower), "/"), dir) || path.Base(lower) == want {
			return []string{r.why}
		}
	}
	if strings.HasPrefix(path.Base(lower), ".env.") {
		return []string{"read by tools as environment"}
	}
	return nil
}

// leaves reports whether a symbolic link leads out of the tree it is in, or
// into its .git.
func leaves(name, to string) bool {
	if path.IsAbs(to) || strings.ContainsAny(to, "\\\x00") {
		return true
	}
	at := path.Join(path.Dir(name), to)
	first, _, _ := strings.Cut(at, "/")
	return at == ".." || strings.HasPrefix(at, "../") || strings.EqualFold(first, ".git")
}

// newScripts are the scripts of a package.json that it has not had as they are.
// What can't be read has some.
func (q *quarantine) newScripts(ctx context.Context, c change) ([]string, error) {
	read := func(mode, object string) (scripts map[string]any, ok bool, err error) {
		if mode == "000000" {
			return nil, true, nil
		}
		text, err := q.small(ctx, object)
		var p struct{ Scripts map[string]any }
		ok = json.Unmarshal([]byte(text), &p) == nil
		return p.Scripts, ok, err
	}
	now, ok, err := read(c.mode, c.object)
	if err != nil {
		return nil, err
	}
	if !ok {
		return []string{"it can't be read"}, nil
	}
	old, _, err := read(c.oldMode, c.old)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, ok := old[name]; !ok || fmt.Sprint(was) != fmt.Sprint(now[name]) {
			list = append(list, name)
		}
	}
	return list, nil
}

// small is the beginning of a file.
func (q *quarantine) small(ctx context.Context, object string) (string, error) {
	size, err := q.output(ctx, "cat-file", "-s", object)
	if err != nil {
		return "", err
	}
	var n int64
	if _, err := fmt.Sscan(size, &n); err != nil || n > mostSmall {
		return "", err
	}
	return q.output(ctx, "cat-file", "blob", object)
}
