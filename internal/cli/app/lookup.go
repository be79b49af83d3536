package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/suggest"
)

// ListSandboxes returns the caller's sandboxes, oldest first.
func (a *App) ListSandboxes(ctx context.Context, filter client.Filter) ([]atoll.Info, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	return c.Sandboxes(ctx, filter)
}

// OpenSandbox returns the sandbox of a name, an id, or a prefix of one.
func (a *App) OpenSandbox(ctx context.Context, key string) (*client.Sandbox, error) {
	c, err := a.Client(ctx)
	if err != nil {
		return nil, err
	}
	sb, err := c.Sandbox(ctx, key)
	if err == nil {
		a.asked.Store(sb.ID(), key)
	}
	if !errors.Is(err, atoll.ErrNotFound) {
		return sb, err
	}
	all, lerr := c.Sandboxes(ctx, client.Filter{})
	if lerr != nil {
		return nil, errors.Join(err, lerr)
	}
	var begins, names []string
	id := ""
	for _, i := range all {
		if key != "" && (strings.HasPrefix(i.ID, key) || strings.HasPrefix(i.Name, key)) {
			begins, id = append(begins, output.SandboxName(i.Status)), i.ID
		}
		names = append(names, output.SandboxName(i.Status))
	}
	switch len(begins) {
	case 1:
		return c.Sandbox(ctx, id)
	case 0:
		hint := "; 'atoll ls' shows what there is"
		if len(all) == 0 {
			hint = ": there are no sandboxes; 'atoll create' makes one"
		}
		return nil, fmt.Errorf("sandbox %q: %w%s%s", key, atoll.ErrNotFound, suggest.Hint(key, names), hint)
	}
	return nil, fmt.Errorf("%w: %q is the beginning of %d sandboxes: %s", atoll.ErrInvalid, key, len(begins), strings.Join(begins, ", "))
}
