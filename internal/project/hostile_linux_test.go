package project_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// trap is a file that a program makes that must not run, and the command for it.
func trap(t *testing.T) (command string, sprung func() bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sprung")
	return "touch " + file, func() bool {
		_, err := os.Stat(file)
		_ = os.Remove(file)
		return err == nil
	}
}

// out copies the sandbox's repository to the host, as a shared directory would
// have it there, for the naive to work with.
func out(t *testing.T, sb atoll.Sandbox) string {
	t.Helper()
	rc, err := sb.Export(t.Context(), "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "tar"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, rc); err != nil {
		t.Fatal(err)
	}
	if err := rc.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "tar", "-xf", "tar", "--no-same-owner")
	return filepath.Join(dir, "workspace")
}

// twin copies a repository of the host, for the naive.
func twin(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "twin")
	run(t, "/", "cp", "-a", dir, to)
	return to
}

// TestFsmonitorOfTheSandbox: its settings are not the host's.
func TestFsmonitorOfTheSandbox(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	command, sprung := trap(t)
	sh(t, sb, "git config core.fsmonitor '"+command+"; false'; "+commitThird)
	git(t, out(t, sb), "status")
	if !sprung() {
		t.Fatal("the naive way does not show the hole")
	}
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "status")
	if sprung() {
		t.Error("the sandbox's fsmonitor ran on the host")
	}
}

// TestHooksInTheTree: a host whose hooks are in the repository, as husky has it.
func TestHooksInTheTree(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	git(t, dir, "config", "core.hooksPath", ".husky")
	command, sprung := trap(t)
	sh(t, sb, "mkdir .husky; for h in post-merge post-checkout reference-transaction post-index-change; do printf '#!/bin/sh\\n"+command+"\\n' >.husky/$h; chmod +x .husky/$h; done; "+commitThird)
	git(t, twin(t, dir), "pull", "-q", out(t, sb), "main")
	if !sprung() {
		t.Fatal("the naive way does not show the hole")
	}
	res, err := r.Sync(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	if sprung() {
		t.Error("a hook ran")
	}
	if len(res.Risks) < 4 {
		t.Errorf("risks %v", res.Risks)
	}
}

// TestProgramsOfTheHost: nothing that the host's repository or the environment
// names is run.
func TestProgramsOfTheHost(t *testing.T) {
	testenv.Logic(t)
	dir, _, sb := there(t)
	command, sprung := trap(t)
	program := filepath.Join(t.TempDir(), "program")
	write(t, filepath.Dir(program), "program", "#!/bin/sh\n"+command+"\nexit 1\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, hook := range []string{"post-checkout", "post-merge", "pre-merge-commit", "reference-transaction", "post-index-change", "pre-applypatch", "prepare-commit-msg", "commit-msg", "pre-auto-gc", "fsmonitor-watchman"} {
		run(t, dir, "cp", program, ".git/hooks/"+hook)
	}
	for _, key := range []string{"core.fsmonitor", "core.editor", "core.pager", "core.sshCommand", "core.askPass", "gpg.program", "diff.external", "credential.helper", "core.alternateRefsCommand", "diff.x.textconv", "diff.x.command", "merge.x.driver", "uploadpack.packObjectsHook"} {
		git(t, dir, "config", key, program)
	}
	git(t, dir, "config", "commit.gpgSign", "true")
	git(t, dir, "config", "merge.verifySignatures", "true")
	git(t, dir, "config", "pager.diff", program)
	write(t, dir, ".git/info/attributes", "* diff=x merge=x\n")
	for _, e := range []string{"GIT_EXTERNAL_DIFF", "GIT_EDITOR", "GIT_SSH", "GIT_PAGER", "EDITOR", "VISUAL", "PAGER", "SSH_ASKPASS", "GIT_ASKPASS"} {
		t.Setenv(e, program)
	}
	if _, err := naive(t, twin(t, dir), "status"); err != nil || !sprung() {
		t.Fatal("the naive way does not show the hole")
	}
	t.Setenv("GIT_DIR", "/nowhere")
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
	t.Setenv("GIT_CONFIG_VALUE_0", program)

	ctx := t.Context()
	write(t, dir, "mine", "mine\n")
	r := open(t, dir)
	carry(t, r, newSandbox(t), project.ImportOptions{Env: []string{".env*"}})
	sh(t, sb, commitThird+"echo dirty >>a.txt")
	if _, err := r.Sync(ctx, sb, box); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(ctx, project.MergeOptions{Name: "box", Branch: "wip/main"}); err != nil {
		t.Fatal(err)
	}
	sh(t, sb, "git checkout -q -b other HEAD^; echo o >o; git add o; git commit -q -m o")
	if _, err := r.Fetch(ctx, sb, box); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Merge(ctx, project.MergeOptions{Name: "box", Branch: "other"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Rescue(ctx, sb, box); err != nil {
		t.Fatal(err)
	}
	if sprung() {
		t.Error("a program of the host ran")
	}
}

// TestFiltersAndDrivers: the sandbox's .gitattributes chooses among the programs
// that the user has for other repositories.
func TestFiltersAndDrivers(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	command, sprung := trap(t)
	git(t, dir, "config", "--global", "filter.x.smudge", command+"; cat")
	git(t, dir, "config", "--global", "filter.x.clean", command+"; cat")
	git(t, dir, "config", "--global", "filter.x.required", "true")
	git(t, dir, "config", "--global", "filter.y.process", command)
	git(t, dir, "config", "--global", "merge.x.driver", command)
	git(t, dir, "config", "--global", "diff.x.textconv", command+"; cat")
	git(t, dir, "config", "--global", "diff.x.command", command+"; cat")

	sh(t, sb, "printf '* filter=x diff=x merge=x\n*.y filter=y\n' >.gitattributes; echo y >y.y; "+commitThird)
	if said, _ := naive(t, twin(t, dir), "pull", "-q", out(t, sb), "main"); !sprung() {
		t.Fatalf("the naive way does not show the hole: %s", said)
	}
	res, err := r.Sync(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	if sprung() {
		t.Error("a filter ran")
	}
	if len(res.Risks) != 1 || res.Risks[0].Path != ".gitattributes" {
		t.Errorf("risks %v", res.Risks)
	}

	// Both sides change a file for which the sandbox has chosen the driver.
	write(t, dir, "a.txt", "mine\n")
	git(t, dir, "-c", "filter.x.clean=cat", "-c", "filter.y.process=", "commit", "-qam", "mine")
	sh(t, sb, "echo theirs >a.txt; git commit -qam theirs")
	if _, err := r.Fetch(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	sprung()
	if _, err := naive(t, twin(t, dir), "merge", "refs/sandbox/box/main"); err == nil || !sprung() {
		t.Fatalf("the naive way does not show the hole: %v", err)
	}
	_, err = r.Merge(t.Context(), project.MergeOptions{Name: "box", Branch: "main"})
	is(t, err, project.ErrConflict)
	if sprung() {
		t.Error("a merge driver ran")
	}
}

// plant makes a commit inside of a tree that git itself would not make, and moves
// main to it. The entries are "MODE NAME", each with the shell text that
// prints its object's id.
func plant(t *testing.T, sb atoll.Sandbox, entries ...[2]string) {
	t.Helper()
	text := "{ "
	for _, e := range entries {
		text += "printf '" + e[0] + "\\0'; " + e[1] + " | sed 's/../\\\\x&/g' | xargs -0 printf; "
	}
	text += ":; } >/tmp/tree; t=$(git hash-object -t tree -w --literally /tmp/tree); git update-ref refs/heads/main $(git commit-tree $t -p HEAD -m planted)"
	sh(t, sb, text)
}

// TestTreesThatGitDoesNotMake: each is taken by a plain fetch.
func TestTreesThatGitDoesNotMake(t *testing.T) {
	testenv.Logic(t)
	blob := func(text string) string { return "printf '" + text + "' | git hash-object -w --stdin | tr -d '\\n'" }
	tree := "git mktree </dev/null | tr -d '\\n'"
	config := "printf '100644 blob %s\\tconfig\\n' $(" + blob("[core]") + ") | git mktree | tr -d '\\n'"
	for name, entries := range map[string][][2]string{
		"DotGit":            {{"40000 .git", config}},
		"DotGitInCapitals":  {{"40000 .GIT", config}},
		"DotGitOfWindows":   {{"40000 git~1", config}},
		"DotGitOfMac":       {{"40000 .g\\342\\200\\214it", config}},
		"DotDot":            {{"40000 ..", config}},
		"Slash":             {{"100644 ../../up", blob("x")}},
		"LinkAndDirectory":  {{"120000 a", blob("/tmp")}, {"40000 a", config}},
		"SubmoduleOption":   {{"100644 .gitmodules", blob("[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./payload\\n")}, {"40000 x", tree}},
		"SubmoduleNameUp":   {{"100644 .gitmodules", blob("[submodule \"../../x\"]\\n\\tpath = x\\n\\turl = https://example.com\\n")}},
		"SubmoduleUpdate":   {{"100644 .gitmodules", blob("[submodule \"x\"]\\n\\tpath = x\\n\\turl = https://example.com\\n\\tupdate = !touch /tmp/x\\n")}},
		"LinkForGitmodules": {{"120000 .gitmodules", blob("elsewhere")}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r, sb := there(t)
			plant(t, sb, entries...)
			if said, err := naive(t, twin(t, dir), "fetch", "-q", out(t, sb), "main"); err != nil {
				t.Fatalf("the naive way does not show the hole: %s", said)
			}
			refused(t, dir, r, sb, project.ErrUnsafe)
		})
	}
}

// refused expects that neither sync nor rescue take what is inside, and that
// nothing of it is left.
func refused(t *testing.T, dir string, r *project.Repo, sb atoll.Sandbox, want error) {
	t.Helper()
	before := hostState(t, dir)
	f := box
	if errors.Is(want, project.ErrTooLarge) {
		f.Limits = project.Limits{Pack: 1 << 20, Files: 1000, Bytes: 1 << 20}
	}
	_, err := r.Sync(t.Context(), sb, f)
	is(t, err, want)
	if strings.ContainsFunc(err.Error(), func(c rune) bool { return !unicode.IsPrint(c) }) {
		t.Errorf("the error is %q", err)
	}
	same(t, "the host", hostState(t, dir), before)
	if left := glob(t, dir+"/.git/objects/tmp*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if errors.Is(want, project.ErrUnsafe) {
		_, err = r.Rescue(t.Context(), sb, f)
		is(t, err, want)
		same(t, "refs", git(t, dir, "for-each-ref", "refs/sandbox"), "")
	}
}

// TestModulesFileInTwoSteps sends what no .gitmodules may hold first as another
// file, and then a tree that calls that .gitmodules.
func TestModulesFileInTwoSteps(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./payload\\n' >innocent; git add innocent; git commit -qm innocent")
	if _, err := r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	sh(t, sb, "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:innocent),.gitmodules; git commit -qm modules")
	before := git(t, dir, "rev-parse", "HEAD")
	_, err := r.Sync(t.Context(), sb, box)
	is(t, err, project.ErrUnsafe)
	same(t, "HEAD", git(t, dir, "rev-parse", "HEAD"), before)
}

func TestMoreThanIsTaken(t *testing.T) {
	testenv.Logic(t)
	for name, inside := range map[string]string{
		"Pack":     "head -c 3000000 /dev/urandom >big; git add big; git commit -qm big",
		"Zeros":    "head -c 30000000 /dev/zero >big; git add big; git commit -qm big",
		"TreeBomb": `h=$(echo x | git hash-object -w --stdin); m="100644 blob $h"; for i in 1 2 3 4 5 6 7 8 9; do t=$(for j in 0 1 2 3 4 5 6 7 8 9; do printf '%s\t%s\n' "$m" "$j"; done | git mktree); m="040000 tree $t"; done; git update-ref refs/heads/main $(git commit-tree $t -p HEAD -m bomb)`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, r, sb := there(t)
			sh(t, sb, inside)
			refused(t, dir, r, sb, project.ErrTooLarge)
		})
	}
}

// liar is a sandbox whose git answers as a test wants.
type liar struct {
	atoll.Sandbox
	answer func(ctx context.Context, cmd *atoll.Cmd) (said string, code int, lie bool)
}

func (l liar) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if said, code, lie := l.answer(ctx, &cmd); lie {
		if cmd.Stdout != nil {
			if _, err := io.WriteString(cmd.Stdout, said); err != nil {
				return atoll.Exit{}, err
			}
		}
		if code != 0 && cmd.Stderr != nil {
			_, _ = io.WriteString(cmd.Stderr, said)
		}
		return atoll.Exit{Code: code}, ctx.Err()
	}
	return l.Sandbox.Exec(ctx, cmd)
}

func (l liar) Unwrap() atoll.Sandbox { return l.Sandbox }

func has(cmd *atoll.Cmd, word string) bool {
	return strings.Contains(" "+strings.Join(cmd.Args, " ")+" ", " "+word+" ")
}

func TestLies(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, commitThird)
	tip := sh(t, sb, "git rev-parse HEAD")
	blob := sh(t, sb, "git rev-parse HEAD:c.txt")
	heads := func(line string) func(context.Context, *atoll.Cmd) (string, int, bool) {
		return func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return line + "\n", 0, has(cmd, "for-each-ref") && has(cmd, "refs/heads/")
		}
	}
	for name, c := range map[string]struct {
		answer func(context.Context, *atoll.Cmd) (string, int, bool)
		want   error
	}{
		"RefUp":         {heads(tip + " refs/heads/../../../config"), nil}, // odd
		"RefEscapes":    {heads(tip + " refs/heads/\x1b[2J\x1b]0;x\x07"), nil},
		"RefOption":     {heads(tip + " refs/heads/--exec=x"), nil},
		"RefElsewhere":  {heads(tip + " refs/remotes/x"), project.ErrUnsafe},
		"RefLock":       {heads(tip + " refs/heads/main.lock"), nil},
		"RefNewline":    {heads(tip + " refs/heads/x\r"), nil},
		"ObjectOption":  {heads("--all refs/heads/x"), project.ErrUnsafe},
		"ObjectBlob":    {heads(blob + " refs/heads/x"), project.ErrUnsafe},
		"ObjectMissing": {heads(strings.Repeat("1", 40) + " refs/heads/x"), nil},
		"Format": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return "sha\x1b256", 0, has(cmd, "--show-object-format")
		}, atoll.ErrState},
		"Said": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return "\x1b[31mfatal\u202e\n\x00", 128, has(cmd, "for-each-ref")
		}, nil},
		"TreeUp": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return "worktree relative\x00HEAD " + tip + "\x00branch refs/heads/main\x00\x00", 0, has(cmd, "list")
		}, project.ErrNoRepository},
		"BranchEscapes": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return "worktree /workspace\x00HEAD " + tip + "\x00branch refs/heads/\x1b[2J\x00\x00", 0, has(cmd, "list")
		}, project.ErrUnsafe},
		"Flood": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return strings.Repeat("x", 70<<20), 0, has(cmd, "for-each-ref")
		}, project.ErrTooLarge},
		"NotAPack": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return "PACK\x00\x00\x00\x02\xff\xff\xff\xff", 0, has(cmd, "pack-objects")
		}, project.ErrUnsafe},
		"EmptyPack": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return "", 0, has(cmd, "pack-objects")
		}, project.ErrUnsafe},
		"HalfAPack": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			if has(cmd, "pack-objects") {
				cmd.Args = []string{"git", "pack-objects", "--stdout", "-q"}
				cmd.Stdin = strings.NewReader(tip + "\n")
			}
			return "", 0, false
		}, project.ErrUnsafe},
		"Date": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return "1 +0000\x00x", 0, has(cmd, "--format=%ct")
		}, project.ErrUnsafe},
		"Nested": {func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
			return "../../etc/\x00", 0, has(cmd, "--others")
		}, project.ErrUnsafe},
	} {
		t.Run(name, func(t *testing.T) {
			home := twin(t, dir)
			repo := open(t, home)
			config := read(t, home, ".git/config")
			_, err := repo.Sync(t.Context(), liar{sb, c.answer}, box)
			if c.want != nil {
				is(t, err, c.want)
			}
			if err != nil && strings.ContainsFunc(err.Error(), func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("the error is %q", err)
			}
			refs := git(t, home, "for-each-ref", "--format=%(refname)")
			for _, ref := range strings.Split(refs, "\n") {
				if !strings.HasPrefix(ref, "refs/heads/main") && !strings.HasPrefix(ref, "refs/sandbox/box/") {
					t.Errorf("ref %q", ref)
				}
				if strings.ContainsFunc(ref, func(c rune) bool { return !unicode.IsPrint(c) }) {
					t.Errorf("ref %q", ref)
				}
			}
			if read(t, home, ".git/config") != config {
				t.Error("the host's configuration changed")
			}
			if left := glob(t, home+"/.git/objects/tmp*"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
	_ = r
}

// TestSandboxThatNeverAnswers: the caller's deadline is obeyed, and nothing
// changes.
func TestSandboxThatNeverAnswers(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, commitThird)
	for _, command := range []string{"list", "pack-objects", "add"} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		_, err := r.Sync(ctx, liar{sb, func(ctx context.Context, cmd *atoll.Cmd) (string, int, bool) {
			if has(cmd, command) {
				<-ctx.Done()
				return "", 0, true
			}
			return "", 0, false
		}}, box)
		cancel()
		is(t, err, context.DeadlineExceeded)
		same(t, "refs", git(t, dir, "for-each-ref", "refs/sandbox"), "")
	}
}

func TestRisks(t *testing.T) {
	testenv.Logic(t)
	_, r, sb := there(t)
	sh(t, sb, `mkdir -p .github/workflows sub/.vscode pkg; echo x >.github/workflows/ci.yml; echo x >sub/.vscode/tasks.json; echo x >.EnvRC
echo x >tool; chmod +x tool; ln -s ../../../etc/passwd sub/out; ln -s /etc/passwd abs; ln -s .git/config sub/ok; ln -s .git/config cfg; ln -s a.txt fine
echo '{"scripts":{"test":"x"}}' >package.json; echo '{"name":"x"}' >pkg/package.json; echo x >.env.local; echo plain >plain.txt
git add -f -A; git commit -qm risky`)
	res, err := r.Sync(t.Context(), sb, box)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, risk := range res.Risks {
		got = append(got, risk.Path+": "+risk.Reason)
	}
	same(t, "risks", strings.Join(got, "\n"), `.EnvRC: run by direnv
.env.local: read by tools as environment
.github/workflows/ci.yml: run by CI
abs: a link that leads out of the repository, to /etc/passwd
cfg: a link that leads out of the repository, to .git/config
package.json: scripts of npm: test
sub/.vscode/tasks.json: run by the editor
sub/out: a link that leads out of the repository, to ../../../etc/passwd
tool: a new program: its executable bit is set`)
	sh(t, sb, `echo '{"scripts":{"test":"x","postinstall":"y"}}' >package.json; echo more >>tool; git commit -qam more`)
	if res, err = r.Sync(t.Context(), sb, box); err != nil {
		t.Fatal(err)
	}
	if len(res.Risks) != 1 || res.Risks[0].Reason != "scripts of npm: postinstall" {
		t.Errorf("risks %v", res.Risks)
	}
}

// TestHalfOfItIsHere has the sandbox build on a commit that the host has without
// its files, as after a crash: what is not whole gets no ref.
func TestHalfOfItIsHere(t *testing.T) {
	testenv.Logic(t)
	dir, r, sb := there(t)
	sh(t, sb, "echo middle >m; git add m; GIT_COMMITTER_DATE='@1 +0000' GIT_AUTHOR_DATE='@1 +0000' git commit -qm middle; "+commitThird)
	middle, tip := sh(t, sb, "git rev-parse HEAD^"), sh(t, sb, "git rev-parse HEAD")
	raw := filepath.Join(t.TempDir(), "commit")
	write(t, filepath.Dir(raw), "commit", sh(t, sb, "git cat-file commit HEAD^")+"\n")
	same(t, "the commit", git(t, dir, "hash-object", "-t", "commit", "-w", "--literally", raw), middle)
	_, err := r.Sync(t.Context(), liar{sb, func(_ context.Context, cmd *atoll.Cmd) (string, int, bool) {
		if has(cmd, "pack-objects") {
			cmd.Stdin = strings.NewReader(tip + "\n^" + middle + "\n")
			cmd.Args = []string{"git", "pack-objects", "--revs", "--stdout", "-q"}
		}
		return "", 0, false
	}}, box)
	is(t, err, project.ErrUnsafe)
	same(t, "refs", git(t, dir, "for-each-ref", "refs/sandbox"), "")
	if _, err := r.Sync(t.Context(), sb, box); err != nil { // an honest one sends all
		t.Fatal(err)
	}
	same(t, "fsck", git(t, dir, "fsck", "--strict", "--no-progress", "--no-dangling"), "")
}
