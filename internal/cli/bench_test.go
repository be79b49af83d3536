package cli

import (
	"io"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

func BenchmarkVersion(b *testing.B) {
	for b.Loop() {
		Run(b.Context(), []string{"version"}, tty.Streams{Out: io.Discard, Err: io.Discard}, app.Wiring{})
	}
}
