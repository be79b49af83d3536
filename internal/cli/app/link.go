package app

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/config"
)

// LinkLife is the default lifetime of a link to the console or to a port.
const LinkLife = 12 * time.Hour

// ParseLinkLife parses the --for of a link. ErrInvalid: it is no duration, or not positive.
func ParseLinkLife(text string) (time.Duration, error) {
	life, err := config.ParseDuration(text)
	if err != nil || life <= 0 {
		return 0, fmt.Errorf("%w: --for %q: must be a time like 1h or 7d: a link has an end", atoll.ErrInvalid, text)
	}
	return life, nil
}

// ConsoleLink is a link to the console as --json prints it.
type ConsoleLink struct {
	URL     string    `json:"url"`
	Token   string    `json:"token"` // its id
	Expires time.Time `json:"expires"`
}

// CreateConsoleLink creates a token and returns the link that has it. base is that of [App.ConsoleURL]; at is
// what the page shows, and may be nil.
func (*App) CreateConsoleLink(ctx context.Context, c *Connection, base string, t atoll.Token, at url.Values) (ConsoleLink, error) {
	made, err := c.CreateToken(ctx, t)
	if err != nil {
		return ConsoleLink{}, err
	}
	values := url.Values{"token": {made.Secret}}
	for k, v := range at {
		values[k] = v
	}
	return ConsoleLink{URL: base + "/ui/#" + values.Encode(), Token: made.ID, Expires: made.Expires}, nil
}
