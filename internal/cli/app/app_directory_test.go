package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/agents/hook"
)

// What is changed in the app directory counts with the next request; what is
// wrong in it takes nothing else away.
func TestAppDirectoryIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ANTHROPIC_API_KEY", "")
	t.Setenv("OPENAI_API_KEY", "key of the test")
	s := &appCache{dir: dir, log: slog.New(slog.DiscardHandler), hooks: &hook.Cache{}}
	app, err := s.loadApp(t.Context())
	if err != nil || len(app.Assistants) != 0 || app.Connectors["openai"].Key != "key of the test" {
		t.Fatalf("an empty one: %+v, %v", app, err)
	}
	write("assistants/greeter/package.yao", `{"name": "Greeter", "connector": "openai"}`)
	next, err := s.loadApp(t.Context())
	if err != nil || next.Assistants["greeter"] == nil || next.Assistants["greeter"].Name != "Greeter" {
		t.Fatalf("with an assistant: %+v, %v", next, err)
	}
	if same, _ := s.loadApp(t.Context()); same != next {
		t.Error("it is read again although nothing has changed")
	}
	write("assistants/greeter/package.yao", `{"name": "Greeter II", "connector": "openai"}`)
	write("assistants/broken/package.yao", `{"name": `)
	write("assistants/greeter/src/index.ts", `function Create(ctx, messages) { return { messages }; }`)
	last, err := s.loadApp(t.Context())
	if err != nil || last.Assistants["greeter"] == nil || last.Assistants["greeter"].Name != "Greeter II" || last.Assistants["broken"] != nil {
		t.Fatalf("changed: %+v, %v", last, err)
	}
	if h := last.Assistants["greeter"].Hooks; h == nil || !h.HasFunction("Create") {
		t.Error("the hook is not there")
	}
	if next.Assistants["greeter"].Name != "Greeter" {
		t.Error("a request that is under way sees the change")
	}
}

// TestBrokenAssistantServesItsLastVersion checks that an assistant whose files are broken serves as it was, and says so; that one which was
// never valid is named with its reason; and that a broken skill takes only itself away.
func TestBrokenAssistantServesItsLastVersion(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, "assistants", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("OPENAI_API_KEY", "key of the test")
	const skillText = "---\nname: deploy\ndescription: Deploys things. Use it when asked to deploy.\n---\nDo it.\n"
	write("qa/package.yao", `{"name": "QA", "connector": "openai"}`)
	write("qa/skills/deploy/SKILL.md", skillText)
	write("new/package.yao", `{"name": "New", "connector": "openai"}`)
	write("new/skills/good/SKILL.md", strings.ReplaceAll(skillText, "deploy", "good"))
	write("new/skills/half/SKILL.md", "---\nname: half\n")
	write("never/package.yao", `{"name": `)
	s := &appCache{dir: dir, log: slog.New(slog.DiscardHandler), hooks: &hook.Cache{}}
	app, _ := s.loadApp(t.Context())
	if a := app.Assistants["qa"]; a == nil || a.Problem != "" || len(a.Skills) != 1 {
		t.Fatalf("qa is %+v", a)
	}
	if a := app.Assistants["new"]; a == nil || len(a.Skills) != 1 || !strings.Contains(a.Problem, "half") {
		t.Errorf("an assistant with a half-written skill is %+v", a)
	}
	if err := app.Faults["never"]; err == nil || app.Assistants["never"] != nil || !strings.Contains(err.Error(), "package.yao") {
		t.Errorf("an assistant that was never valid: %v", err)
	}
	for _, broken := range []struct{ file, text string }{{"qa/skills/deploy/SKILL.md", "---\nname: dep"}, {"qa/package.yao", `{"name": "QA 2`}} {
		write(broken.file, broken.text)
		app, _ = s.loadApp(t.Context())
		if a := app.Assistants["qa"]; a == nil || a.Name != "QA" || len(a.Skills) != 1 || !strings.Contains(a.Problem, broken.file) || app.Faults["qa"] == nil {
			t.Errorf("with a broken %s it is %+v", broken.file, a)
		}
	}
	write("qa/package.yao", `{"name": "QA 3", "connector": "openai"}`)
	write("qa/skills/deploy/SKILL.md", skillText)
	app, _ = s.loadApp(t.Context())
	if a := app.Assistants["qa"]; a == nil || a.Name != "QA 3" || a.Problem != "" || app.Faults["qa"] != nil {
		t.Errorf("mended, it is %+v", a)
	}
	if err := os.RemoveAll(filepath.Join(dir, "assistants", "qa")); err != nil {
		t.Fatal(err)
	}
	app, _ = s.loadApp(t.Context())
	if app.Assistants["qa"] != nil {
		t.Error("an assistant that was removed serves")
	}
}
