package git_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestEditorsOfOthers checks that a repository among the files of another one chooses no editor, and that a log of a
// bisection writes nothing outside of its refs.
func TestEditorsOfOthers(t *testing.T) {
	s := commandtest.NewWithShell(t, "/w")
	s.Env = append(s.Env, identity...)
	s.WriteFile("a", "one\n")
	for _, line := range []string{"git init -q", "git add a", "git commit -qm a", "git clone -q --bare . inner.git", "git -C inner.git config core.editor 'touch /w/ran; true'"} {
		runGit(t, s, line)
	}
	for _, line := range []string{"git -C inner.git tag -a v1", "git --git-dir inner.git tag -a v1"} {
		if o := s.Exec("", commandtest.SplitWords(line)...); o.Code == 0 {
			t.Errorf("%s: %+v", line, o)
		}
	}
	s.WriteFile("log", "git bisect start\ngit bisect ../../../evil HEAD\ngit bisect run touch ran\n")
	for _, line := range []string{"git bisect replay log", "git bisect start --term-new ../../x --term-old y HEAD", "git bisect reset"} {
		s.Exec("", commandtest.SplitWords(line)...)
	}
	list, err := s.FS.ReadDir("/w")
	s.Must(err)
	for _, e := range list {
		if name := e.Name(); name == "ran" || strings.HasPrefix(name, "evil") {
			t.Errorf("git made %s", name)
		}
	}
}

// TestEditorThatStartsGit checks that an editor which starts itself ends.
func TestEditorThatStartsGit(t *testing.T) {
	s := commandtest.NewWithShell(t, "/w")
	s.Env = append(s.Env, append(identity, "GIT_EDITOR=git commit --allow-empty #")...)
	runGit(t, s, "git init -q")
	if o := s.Exec("", "git", "commit", "--allow-empty"); o.Code != 1 {
		t.Errorf("commit: %d %.300q", o.Code, o.Stderr)
	}
	checkEnded(t, s, "commit")
}
