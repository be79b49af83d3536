package turns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/agents/assistant"
	"github.com/atoll-sandbox/atoll/internal/model/modeltest"
)

// TestTenantsCannotAccessAssistantSandbox checks that a tenant cannot read a directory
// and a secret of the operator through the sandbox of an assistant that uses them.
func TestTenantsCannotAccessAssistantSandbox(t *testing.T) {
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}})
	host := t.TempDir()
	s.must(os.Chmod(host, 0o755)) //nolint:gosec // the sandbox's user reads it
	s.must(os.WriteFile(filepath.Join(host, "op.txt"), []byte("operators-file"), 0o600))
	const secret = "operator-secret-123456"
	cfg := atoll.Config{Secrets: map[string]string{"OPKEY": secret}}
	cfg.Mounts = []atoll.Mount{{Source: host, Target: "/op"}}
	s.app.Assistants["coder"] = &assistant.Assistant{ID: "coder", Sandbox: &assistant.Sandbox{
		Command: "command", Program: []string{"sh", "-c", `printf 'said %s' "${OPKEY%-*}"; sleep 0.2; echo "-${OPKEY##*-}"; echo "err $OPKEY" >&2; sleep 3`}, Config: cfg,
	}}
	rec, err := s.client.StartTurn(t.Context(), agent.Request{Assistant: "coder", Turn: agent.Turn{Prompt: agent.Text("x")}})
	s.must(err)
	s.waitForEvent(rec.ID, agent.TextDelta)
	list, err := s.client.List(t.Context())
	s.must(err)
	if len(list) != 1 {
		t.Fatalf("%d sandboxes", len(list))
	}
	sb, err := s.client.Open(t.Context(), list[0].ID)
	s.must(err)
	_, err = sb.Exec(t.Context(), atoll.Cmd{Shell: "cat /op/op.txt; printenv OPKEY | rev"})
	_, xerr := sb.Export(t.Context(), "/op")
	errs := []error{err, xerr}
	if f, ok := atoll.As[atoll.Forker](sb); ok {
		_, err := f.Fork(t.Context(), "", atoll.Spec{Name: "mine"})
		errs = append(errs, err)
	}
	for _, err := range errs {
		if !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("a tenant has access: %v", err)
		}
	}
	s.waitForEvent(rec.ID, agent.Finished)
	rec, err = s.client.Turn(t.Context(), rec.ID)
	s.must(err)
	if !strings.Contains(rec.Result.Text, "said ***") || rec.Result.Outcome != agent.OK {
		t.Errorf("%+v", rec.Result)
	}
	for _, dir := range []string{"turns", "chats"} {
		for try := 0; ; try++ {
			err := findSecrets(t, filepath.Join(s.home, dir), secret, "123456")
			if err == nil {
				break
			}
			if !errors.Is(err, fs.ErrNotExist) || try == 100 { // a file was replaced during the search
				t.Fatal(err)
			}
		}
	}
}

// findSecrets reports the files below a directory that contain one of the secrets.
func findSecrets(t *testing.T, dir string, secrets ...string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		for _, secret := range secrets {
			if strings.Contains(string(b), secret) {
				t.Errorf("the secret or its end is in %s:\n%s", strings.TrimPrefix(name, dir), b)
			}
		}
		return err
	})
}

// TestTenantsCanAccessAgentSandbox checks that a tenant can access the sandbox of its
// own agent, which has nothing of the operator but the agent's program.
func TestTenantsCanAccessAgentSandbox(t *testing.T) {
	s := newTestServer(t, serverOptions{script: modeltest.Script{Turns: []modeltest.Turn{{Text: "x"}}}})
	rec, err := s.client.StartTurn(t.Context(), agent.Request{Agent: "command", Turn: agent.Turn{Command: []string{"sh", "-c", "echo hi; sleep 1"}, Prompt: agent.Text("x")}})
	s.must(err)
	s.waitForEvent(rec.ID, agent.TextDelta)
	list, err := s.client.List(t.Context())
	s.must(err)
	sb, err := s.client.Open(t.Context(), list[0].ID)
	s.must(err)
	if x, err := sb.Exec(t.Context(), atoll.Cmd{Shell: "echo in"}); err != nil || string(x.Stdout) != "in\n" {
		t.Errorf("%q %v", x.Stdout, err)
	}
	s.waitForEvent(rec.ID, agent.Finished)
}
