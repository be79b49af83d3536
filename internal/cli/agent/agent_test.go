package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestTurnErrorsNameTheServer: the error of an unknown assistant names a server of this machine, which may have
// another app directory.
func TestTurnErrorsNameTheServer(t *testing.T) {
	missing := fmt.Errorf("assistant %q: %w", "coder", atoll.ErrNotFound)
	for law, k := range map[string]struct {
		host string
		err  error
		want bool
	}{
		"Assistant":     {"unix:///run/atoll.sock", missing, true},
		"OtherError":    {"unix:///run/atoll.sock", fmt.Errorf("%w: a tool", atoll.ErrInvalid), false},
		"InThisProcess": {"", missing, false},
		"OtherMachine":  {"https://atoll.example.com", missing, false},
	} {
		got := explainTurnError(k.host, k.err)
		if !errors.Is(got, k.err) || strings.Contains(got.Error(), "atoll serve --stop") != k.want {
			t.Errorf("%s: %v", law, got)
		}
	}
}
