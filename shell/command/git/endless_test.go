package git_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestEndlessHooks checks that hooks, aliases and includes that lead to themselves end, and leave nothing behind.
func TestEndlessHooks(t *testing.T) {
	for _, c := range []struct{ name, setting, value, hook, line string }{
		{"hook that commits", "a.b", "c", "#!/bin/sh\ngit commit --allow-empty -m x\n", "git commit --allow-empty -m x"},
		{"alias of itself", "alias.x", "!git x", "", "git x"},
		{"alias with its own arguments", "alias.x", "!git x \"$@\" a", "", "git x a"},
		{"include of itself", "include.path", "config", "", "git status"},
	} {
		s := commandtest.NewWithShell(t, "/w")
		s.Env = append(s.Env, identity...)
		runGit(t, s, "git init -q")
		s.Exec("", "git", "config", c.setting, c.value)
		if c.hook != "" {
			s.Must(s.FS.WriteFile("/w/.git/hooks/pre-commit", []byte(c.hook), 0o755))
		}
		if o := s.Exec("", commandtest.SplitWords(c.line)...); o.Code == 0 {
			t.Errorf("%s: %+v", c.name, o)
		}
		checkEnded(t, s, c.name)
	}
}

// TestHostileConfig reads configuration files that no git writes.
func TestHostileConfig(t *testing.T) {
	for name, text := range map[string]string{
		"long key":      "[a]\n" + strings.Repeat("k", 1<<20) + " = v\n",
		"long value":    "[a]\nk = " + strings.Repeat("v \t", 1<<18) + "\n",
		"many comments": strings.Repeat("# c\n", 1<<16),
		"many keys":     "[a]\n" + strings.Repeat("k = v\n", 1<<15),
		"open quote":    "[a]\nk = \"" + strings.Repeat("x", 1<<16),
		"open section":  "[" + strings.Repeat("[", 1<<16),
	} {
		s := commandtest.NewWithShell(t, "/w")
		s.WriteFile("f", text)
		for _, line := range []string{"git config -f f -l", "git config -f f a.k x", "git config -f f --unset-all a.k", "git config -f f --remove-section a"} {
			s.MustEndInTime("", commandtest.SplitWords(line)...)
		}
		checkEnded(t, s, name)
	}
}
