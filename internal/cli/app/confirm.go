package app

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// Confirm asks a person on the terminal; only y or yes is one.
func (a *App) Confirm(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(a.Err, "%s [y/N] ", output.Clean(question))
	type answer struct {
		text string
		err  error
	}
	said := make(chan answer, 1)
	go func() { // a terminal is not waited for with a context: it ends with the process
		text, err := bufio.NewReader(a.In).ReadString('\n')
		said <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return false, context.Cause(ctx)
	case s := <-said:
		text := strings.ToLower(strings.TrimSpace(s.text))
		return s.err == nil && (text == "y" || text == "yes"), nil
	}
}
