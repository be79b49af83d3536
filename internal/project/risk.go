package project

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Risk is a file from a sandbox that could make the host execute something, or that leads out of the
// repository.
type Risk struct {
	Path   string // safe to print
	Reason string
}

// riskyNames are names of files that programs on a developer's machine execute or read automatically. A
// trailing slash means everything below such a directory, wherever it is.
var riskyNames = []struct{ name, why string }{
	{".githooks/", "git hook"},
	{".husky/", "git hook"},
	{"hooks/", "may be a git hook"},
	{"lefthook.yml", "git hook"},
	{"lefthook.yaml", "git hook"},
	{".lefthook.yml", "git hook"},
	{".pre-commit-config.yaml", "git hook"},
	{".overcommit.yml", "git hook"},
	{".gitattributes", "chooses filters and drivers of git"},
	{".gitmodules", "sets the sources of submodules"},
	{".lfsconfig", "sets the server of git-lfs"},
	{".gitconfig", "settings of git"},
	{".envrc", "run by direnv"},
	{".env", "read by tools as environment"},
	{".tool-versions", "chooses programs"},
	{"mise.toml", "run by mise"},
	{".mise.toml", "run by mise"},
	{".vscode/", "run by the editor"},
	{".idea/", "run by the editor"},
	{".zed/", "run by the editor"},
	{".vim/", "run by the editor"},
	{".nvim.lua", "run by the editor"},
	{".exrc", "run by the editor"},
	{".dir-locals.el", "run by the editor"},
	{".fleet/", "run by the editor"},
	{".devcontainer/", "run by devcontainer tools"},
	{".devcontainer.json", "run by devcontainer tools"},
	{".claude/", "settings of an agent"},
	{".codex/", "settings of an agent"},
	{".cursor/", "settings of an agent"},
	{".gemini/", "settings of an agent"},
	{".opencode/", "settings of an agent"},
	{"opencode.json", "settings of an agent"},
	{".mcp.json", "servers of an agent"},
	{"CLAUDE.md", "followed by agents"},
	{"AGENTS.md", "followed by agents"},
	{"GEMINI.md", "followed by agents"},
	{".cursorrules", "followed by agents"},
	{".atoll.yaml", "settings of atoll"},
	{includeFile, "names files that go into sandboxes"},
	{".github/", "run by CI"},
	{".gitlab-ci.yml", "run by CI"},
	{".gitlab/", "run by CI"},
	{".circleci/", "run by CI"},
	{".buildkite/", "run by CI"},
	{".forgejo/", "run by CI"},
	{".gitea/", "run by CI"},
	{".woodpecker/", "run by CI"},
	{".woodpecker.yml", "run by CI"},
	{"Jenkinsfile", "run by CI"},
	{"azure-pipelines.yml", "run by CI"},
	{".travis.yml", "run by CI"},
	{".drone.yml", "run by CI"},
	{"bitbucket-pipelines.yml", "run by CI"},
	{".ci/", "run by CI"},
	{"Makefile", "run by make"},
	{"makefile", "run by make"},
	{"GNUmakefile", "run by make"},
	{"justfile", "run by just"},
	{"Justfile", "run by just"},
	{"Taskfile.yml", "run by task"},
	{".npmrc", "settings of npm"},
	{".yarnrc", "settings of yarn"},
	{".yarnrc.yml", "settings of yarn"},
	{".yarn/", "run by yarn"},
	{".pnpmfile.cjs", "run by pnpm"},
	{"binding.gyp", "run by npm"},
	{"setup.py", "run by pip"},
	{"conftest.py", "run by pytest"},
	{"sitecustomize.py", "run by python"},
	{"build.rs", "run by cargo"},
	{".cargo/", "settings of cargo"},
	{"rust-toolchain.toml", "chooses programs"},
	{"gradlew", "run by developers"},
	{"mvnw", "run by developers"},
	{".mvn/", "settings of maven"},
	{".bazelrc", "settings of bazel"},
	{"flake.nix", "run by nix"},
	{"shell.nix", "run by nix"},
	{"default.nix", "run by nix"},
	{"Dockerfile", "run by builds"},
	{"docker-compose.yml", "run by docker"},
	{"compose.yaml", "run by docker"},
}

// maxRisks limits the number of risks in a result. The last entry then reports that there are more.
const maxRisks = 1000

// Limits of the files that are read for judging them: bytes of each, and of all.
const (
	maxTextBytes  = 1 << 20
	maxTextsBytes = 64 << 20
)

// findRisks returns the risks of changes.
func (q *quarantine) findRisks(ctx context.Context, changes []change) ([]Risk, error) {
	texts, err := q.readTexts(ctx, changes)
	if err != nil {
		return nil, err
	}
	var list []Risk
	for _, c := range changes {
		for _, why := range explainRisks(c, texts) {
			if len(list) == maxRisks {
				return append(list, Risk{"…", "there are more"}), nil
			}
			list = append(list, Risk{printable(c.name), why})
		}
	}
	return list, nil
}

// explainRisks returns the reasons why a change is a risk. texts are the contents of small files by
// object.
func explainRisks(c change, texts map[string]string) []string {
	if c.mode == "000000" {
		return nil
	}
	why := riskyName(c.name)
	switch {
	case c.mode == "160000":
		why = append(why, "a repository in the repository")
	case c.mode == "120000":
		if to, ok := texts[c.object]; !ok || leavesTree(c.name, to) {
			why = append(why, "a link that leads out of the repository, to "+printable(to))
		}
	case c.mode == "100755" && c.oldMode != "100755":
		why = append(why, "a new program: its executable bit is set")
	}
	if isPackage(c) {
		if scripts := newScripts(c, texts); len(scripts) > 0 {
			why = append(why, "scripts of npm: "+printable(strings.Join(scripts, ", ")))
		}
	}
	return why
}

func isPackage(c change) bool {
	return path.Base(c.name) == "package.json" && strings.HasPrefix(c.mode, "100")
}

// readTexts reads symbolic links and old and new versions of package.json, as far as they are small.
func (q *quarantine) readTexts(ctx context.Context, changes []change) (map[string]string, error) {
	var ids []string
	for _, c := range changes {
		if c.mode == "120000" || isPackage(c) {
			ids = append(ids, c.object)
			if strings.HasPrefix(c.oldMode, "100") {
				ids = append(ids, c.old)
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := q.runWithInput(ctx, strings.Join(ids, "\n")+"\n", "cat-file", "--batch-check=%(objectsize)")
	if err != nil {
		return nil, err
	}
	var small strings.Builder
	left := int64(maxTextsBytes)
	for i, size := range splitLines(out) {
		if n, err := strconv.ParseInt(size, 10, 64); err == nil && n <= maxTextBytes && n <= left {
			small.WriteString(ids[i] + "\n")
			left -= n
		}
	}
	if out, err = q.runWithInput(ctx, small.String(), "cat-file", "--batch=%(objectname) %(objectsize)"); err != nil {
		return nil, err
	}
	texts := make(map[string]string)
	return texts, eachObject(out, func(id, text string) error {
		texts[id] = text
		return nil
	})
}

// eachObject parses the output of 'cat-file --batch="%(objectname) %(objectsize)"'.
func eachObject(out string, f func(id, content string) error) error {
	for out != "" {
		head, rest, _ := strings.Cut(out, "\n")
		id, size, _ := strings.Cut(head, " ")
		n, err := strconv.Atoi(size)
		if err != nil || n < 0 || n+1 > len(rest) {
			return fmt.Errorf("git cat-file printed %q", printable(head))
		}
		if err := f(id, rest[:n]); err != nil {
			return err
		}
		out = rest[n+1:]
	}
	return nil
}

// riskyName returns the risk of a file's name, regardless of case.
func riskyName(name string) []string {
	lower := strings.ToLower(name)
	for _, r := range riskyNames {
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

// leavesTree reports whether a symbolic link leads out of its tree or into .git.
func leavesTree(name, to string) bool {
	if path.IsAbs(to) || strings.ContainsAny(to, "\\\x00") {
		return true
	}
	at := path.Join(path.Dir(name), to)
	first, _, _ := strings.Cut(at, "/")
	return at == ".." || strings.HasPrefix(at, "../") || strings.EqualFold(first, ".git")
}

// newScripts returns the scripts of a package.json that are new or changed. An unreadable file counts as
// changed.
func newScripts(c change, texts map[string]string) []string {
	read := func(object string) (scripts map[string]any, ok bool) {
		var p struct{ Scripts map[string]any }
		ok = json.Unmarshal([]byte(texts[object]), &p) == nil
		return p.Scripts, ok
	}
	now, ok := read(c.object)
	if !ok {
		return []string{"it can't be read"}
	}
	old, _ := read(c.old)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was, ok := old[name]; !ok || fmt.Sprint(was) != fmt.Sprint(now[name]) {
			list = append(list, name)
		}
	}
	return list
}
