package app

import (
	"log/slog"
	"os"
	"path/filepath"
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
