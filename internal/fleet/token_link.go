package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// linkOps are the operations that a link allows. All others, including future ones, are refused.
var linkOps = []string{
	"open", "list terminals", "read terminal", "watch terminal",
	"attach terminal", "send to terminal", "open terminal", "close terminal",
}

// linkError refuses an operation that the caller's link does not allow.
type linkError struct{ link atoll.Link }

func (e *linkError) Error() string {
	return fmt.Sprintf("%v: the token is a link to %s, and good for nothing else", atoll.ErrDenied, describeLink(e.link))
}

func (e *linkError) Unwrap() error { return atoll.ErrDenied }

func describeLink(l atoll.Link) string {
	if l.Terminal == "" {
		return "the terminals of sandbox " + l.Sandbox
	}
	return "terminal " + l.Terminal + " of sandbox " + l.Sandbox
}

// canReach reports whether a caller may see a sandbox: its token is no link, or a link to it, and its
// access key, if it has one, is that of the sandbox.
func (c *Caller) canReach(sandbox string) bool {
	return (c.Link == nil || c.Link.Sandbox == sandbox) && (c.Sandbox == "" || c.Sandbox == sandbox)
}

// canSee reports whether a caller may see a terminal: its token is no link, or a link to it or to
// all terminals.
func (c *Caller) canSee(terminal string) bool {
	return c.Link == nil || c.Link.Terminal == "" || c.Link.Terminal == terminal
}

// checkTerminal refuses, as not found, a terminal that the caller's link does not include.
func (s *Sandbox) checkTerminal(op, terminal string) error {
	if s.a.caller.canSee(terminal) {
		return nil
	}
	return s.wrapError(op, fmt.Errorf("terminal %s: %w", truncate(terminal, 64), atoll.ErrNotFound))
}

// checkTerminalChange refuses to open and close terminals through a link to one terminal.
func (s *Sandbox) checkTerminalChange(op string) error {
	if l := s.a.caller.Link; l != nil && l.Terminal != "" {
		return s.wrapError(op, &linkError{*l})
	}
	return nil
}

// resolveLink resolves the sandbox of a requested link, given by id or name, to the id of one that
// the caller can see and whose owner the token has.
func (a *Account) resolveLink(ctx context.Context, t *atoll.Token) error {
	if t.Link == nil {
		return nil
	}
	for _, s := range t.Scopes {
		if s != atoll.ScopeRead && s != atoll.ScopeRun {
			return fmt.Errorf("%w: scope %q: a link can have read, and run to allow typing", atoll.ErrInvalid, s)
		}
	}
	if t.Expires.IsZero() {
		return fmt.Errorf("%w: expires: a link must expire", atoll.ErrInvalid)
	}
	if t.Link.Terminal != "" {
		if err := atoll.CheckName(t.Link.Terminal); err != nil {
			return fmt.Errorf("link.terminal: %w", err)
		}
	}
	r, err := a.findSandbox(ctx, t.Link.Sandbox)
	if err != nil {
		return fmt.Errorf("link.sandbox %s: %w", truncate(t.Link.Sandbox, 64), err)
	}
	if r.owner != t.Owner {
		return fmt.Errorf("%w: link.sandbox %s: it belongs to %s, the token to %s", atoll.ErrInvalid, r.id, r.owner, t.Owner)
	}
	t.Link = &atoll.Link{Sandbox: r.id, Name: r.name, Terminal: t.Link.Terminal}
	return nil
}

// checkLinkOp refuses an operation that the caller's link does not allow.
func (a *Account) checkLinkOp(op string) error {
	l := a.caller.Link
	if l == nil || slices.Contains(linkOps, op) {
		return nil
	}
	a.startAudit(op, "", "the token is a link")(atoll.ErrDenied)
	return &atoll.Error{Op: op, Err: &linkError{*l}}
}

// Link returns the link of the caller's token, with the sandbox's present name; nil: the token is
// no link.
func (a *Account) Link(ctx context.Context) (*atoll.Link, error) {
	if a.caller.Link == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	l := *a.caller.Link
	r, err := a.findSandbox(ctx, l.Sandbox)
	if err != nil {
		return nil, wrapOpError("link", l.Sandbox, err)
	}
	l.Name = r.name
	return &l, nil
}
