package virtual_test

import (
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// TestParsedTextIsGivenBack: a shell that parses many texts, one after the other, needs the memory of one. The
// charge of each stayed, and a loop over eval ended at the limit.
func TestParsedTextIsGivenBack(t *testing.T) {
	sb, err := virtual.New().Create(t.Context(), atoll.Spec{Limits: atoll.Resources{Memory: 16 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sb.Destroy(t.Context()) })
	for name, script := range map[string]string{
		"eval":     `t=$(printf ': ;%.0s' {1..1000}); for i in {1..200}; do eval "$t"; done; echo ok`,
		"source":   `printf ': ;%.0s' {1..1000} > f; for i in {1..200}; do . ./f; done; echo ok`,
		"return":   `printf ': ;%.0s' {1..1000} > f; echo 'return 0;' >> f; for i in {1..200}; do . ./f; done; echo ok`,
		"noexec":   `for ((i = 0; i < 200; i++)); do printf ': ;%.0s' {1..1000}; echo; done > f; bash -n f; echo ok`,
		"children": `t=$(printf ': ;%.0s' {1..1000}); for i in {1..100}; do eval "true & $t"; wait; done; echo ok`,
	} {
		exit, err := sb.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", script}, Timeout: time.Minute})
		if err != nil || string(exit.Stdout) != "ok\n" {
			t.Errorf("%s: %d %q %q, %v", name, exit.Code, exit.Stdout, exit.Stderr, err)
		}
	}
}
