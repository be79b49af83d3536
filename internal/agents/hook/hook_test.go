package hook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/agents/hook"
)

// compileScript compiles one file.
func compileScript(t testing.TB, code string) *hook.Script {
	t.Helper()
	s, err := hook.Compile(fstest.MapFS{"src/index.ts": {Data: []byte(code)}}, "src/index.ts")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newSandbox is a sandbox with a workspace.
func newSandbox(t testing.TB) atoll.Sandbox {
	t.Helper()
	sb, err := (&virtual.Driver{}).Create(t.Context(), atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := atoll.Mkdir(t.Context(), sb, "/workspace", 0o755); err != nil {
		t.Fatal(err)
	}
	return sb
}

// sent keeps messages.
type sent struct {
	list []string
	n    int
}

func (s *sent) Message(_ context.Context, op, id string, m json.RawMessage) (string, error) {
	if id == "" {
		s.n++
		id = fmt.Sprintf("id%d", s.n)
	}
	s.list = append(s.list, strings.TrimSpace(op+" "+id+" "+string(m)))
	return id, nil
}

// newLogger writes to a buffer, without times.
func newLogger(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug - 4, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// fakePrograms is a sandbox in which some programs are functions of a test.
type fakePrograms struct {
	atoll.Sandbox
	answer func(args []string) (atoll.Exit, bool)
}

func (p *fakePrograms) Unwrap() atoll.Sandbox { return p.Sandbox }

func (p *fakePrograms) Exec(ctx context.Context, cmd atoll.Cmd) (atoll.Exit, error) {
	if e, ok := p.answer(cmd.Args); ok {
		return e, nil
	}
	return p.Sandbox.Exec(ctx, cmd)
}

// TestSeed runs the two example hooks of the design as they are written there.
func TestSeed(t *testing.T) {
	dir := os.DirFS("testdata")
	create, err := hook.Compile(dir, "create.ts")
	if err != nil {
		t.Fatal(err)
	}
	next, err := hook.Compile(dir, "next.ts")
	if err != nil {
		t.Fatal(err)
	}
	node := true
	var commands []string
	sb := &fakePrograms{newSandbox(t), func(args []string) (atoll.Exit, bool) {
		commands = append(commands, strings.Join(args, " "))
		switch {
		case args[0] == "node" && node:
			return atoll.Exit{Stdout: []byte("v22.1.0\n")}, true
		case args[0] == "git" && args[1] == "commit":
			return atoll.Exit{Code: 1, Stderr: []byte("nothing to commit\n")}, true
		}
		return atoll.Exit{}, args[0] == "git"
	}}
	var out sent
	var logs bytes.Buffer
	sc := &hook.Scope{Sandbox: sb, Dir: "/workspace", Output: &out, Log: newLogger(&logs), Values: map[string]any{"chat_id": "c1"}}
	messages := []map[string]string{{"role": "user", "content": "héllo \u2028 \U0001f600"}}

	t.Run("Create", func(t *testing.T) {
		got, err := create.Call(t.Context(), "Create", sc, messages, map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		if want := `{"messages":[{"content":"héllo ` + "\u2028" + ` 😀","role":"user"}]}`; string(got) != want {
			t.Errorf("returns %s, want %s", got, want)
		}
		env, err := atoll.ReadFile(t.Context(), sb, "/workspace/.env")
		if err != nil || string(env) != "DEBUG=true\nNODE_ENV=development" {
			t.Errorf(".env holds %q, %v", env, err)
		}
		if diff := cmp.Diff([]string{
			`stream id1 {"type":"loading","props":{"message":"Preparing sandbox environment..."}}`,
			`replace id1 {"type":"text","props":{"content":"Sandbox ready"}}`,
			`end id1`,
		}, out.list); diff != "" {
			t.Error(diff)
		}
		for _, want := range []string{`level=INFO msg=hook function=Create text="Node.js version: v22.1.0\n"`, `text="Workspace files: .env"`} {
			if !strings.Contains(logs.String(), want) {
				t.Errorf("log lacks %s:\n%s", want, logs.String())
			}
		}
	})
	t.Run("CreateRejects", func(t *testing.T) {
		node, out.list = false, nil
		_, err := create.Call(t.Context(), "Create", sc, messages, nil)
		var thrown *hook.ThrownError
		if !errors.As(err, &thrown) || thrown.Message != "Node.js is required" || thrown.Value != nil {
			t.Fatalf("error is %v", err)
		}
		if want := "    at Create (create.ts:28:15)\n"; !strings.HasPrefix(thrown.Stack, want) {
			t.Errorf("stack is %q, want %q", thrown.Stack, want)
		}
		if len(out.list) != 2 || out.list[1] != "end id2" {
			t.Errorf("sent %q", out.list)
		}
	})
	t.Run("CreateWithoutSandbox", func(t *testing.T) {
		got, err := create.Call(t.Context(), "Create", &hook.Scope{}, messages, nil)
		if err != nil || !bytes.HasPrefix(got, []byte(`{"messages":[`)) {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("Next", func(t *testing.T) {
		logs.Reset()
		commands = nil
		for name, text := range map[string]string{"output/result.json": `{"ok":true}`, "src/a.go": "package a\n", "tmp/x": ""} {
			if err := atoll.WriteFile(t.Context(), sb, "/workspace/"+name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		mem := &recorder{}
		sc.Memory = mem
		got, err := next.Call(t.Context(), "Next", sc, map[string]any{"completion": map[string]any{"content": "done"}, "error": nil}, nil)
		if err != nil || string(got) != "null" {
			t.Fatalf("%s, %v", got, err)
		}
		if mem.set != `context generated_result {"ok":true}` {
			t.Errorf("memory: %s", mem.set)
		}
		for _, want := range []string{`Generated: a.go (10 bytes)`, `git commit skipped: git: exit status 1: nothing to commit`} {
			if !strings.Contains(logs.String(), want) {
				t.Errorf("log lacks %s:\n%s", want, logs.String())
			}
		}
		if diff := cmp.Diff([]string{"git add .", "git commit -m auto-commit by sandbox", "rm -rf tmp/"}, commands); diff != "" {
			t.Error(diff)
		}
		if _, err := atoll.Stat(t.Context(), sb, "/workspace/tmp"); !errors.Is(err, atoll.ErrNotFound) {
			t.Errorf("tmp is still there: %v", err)
		}
	})
}

// recorder is a Memory that keeps what was set last.
type recorder struct{ set string }

func (r *recorder) Get(context.Context, string, string) (json.RawMessage, error) { return nil, nil }
func (r *recorder) Set(_ context.Context, space, key string, v json.RawMessage, _ time.Duration) error {
	r.set = space + " " + key + " " + string(v)
	return nil
}
func (r *recorder) Delete(context.Context, string, string) error   { return nil }
func (r *recorder) Keys(context.Context, string) ([]string, error) { return nil, nil }
