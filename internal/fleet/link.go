package fleet

import (
	"context"
	"fmt"
	"slices"

	"github.com/atoll-sandbox/atoll"
)

// linkable are the operations that a link is good for. What is not here, also
// what is yet to be made, is refused.
var linkable = []string{
	"open", "list terminals", "read terminal", "watch terminal",
	"attach terminal", "send to terminal", "open terminal", "close terminal",
}

// unlinked is the error of a caller whose token is a link to something else.
type unlinked struct{ link atoll.Link }

func (e *unlinked) Error() string {
	return fmt.Sprintf("%v: the token is a link to %s, and good for nothing else", atoll.ErrDenied, linkText(e.link))
}

func (e *unlinked) Unwrap() error { return atoll.ErrDenied }

func linkText(l atoll.Link) string {
	if l.Terminal == "" {
		return "the terminals of sandbox " + l.Sandbox
	}
	return "terminal " + l.Terminal + " of sandbox " + l.Sandbox
}

// reaches reports whether a caller's token is no link, or one to this sandbox.
func (c *Caller) reaches(sandbox string) bool { return c.Link == nil || c.Link.Sandbox == sandbox }

// shows reports whether a caller's token is no link, or one that a terminal of
// its sandbox belongs to.
func (c *Caller) shows(terminal string) bool {
	return c.Link == nil || c.Link.Terminal == "" || c.Link.Terminal == terminal
}

// mayShow refuses a terminal that the caller's token does not lead to, as if it
// were not there.
func (s *Sandbox) mayShow(op, terminal string) error {
	if s.a.caller.shows(terminal) {
		return nil
	}
	return s.fail(op, fmt.Errorf("terminal %s: %w", clip(terminal, 64), atoll.ErrNotFound))
}

// mayChoose refuses to open and close terminals to those who were shown one.
func (s *Sandbox) mayChoose(op string) error {
	if l := s.a.caller.Link; l != nil && l.Terminal != "" {
		return s.fail(op, &unlinked{*l})
	}
	return nil
}

// bind makes the link of a token that is asked for exact: its sandbox, named by
// id or name, becomes the id of one that the caller has, and the token that
// sandbox's owner's.
func (a *Account) bind(ctx context.Context, t *atoll.Token) error {
	if t.Link == nil {
		return nil
	}
	for _, s := range t.Scopes {
		if s != atoll.ScopeRead && s != atoll.ScopeRun {
			return fmt.Errorf("%w: scope %q: a link has read, and run if its bearer may type", atoll.ErrInvalid, s)
		}
	}
	if t.Expires.IsZero() {
		return fmt.Errorf("%w: expires: a link must say when it ends", atoll.ErrInvalid)
	}
	if t.Link.Terminal != "" {
		if err := atoll.CheckName(t.Link.Terminal); err != nil {
			return fmt.Errorf("link.terminal: %w", err)
		}
	}
	r, err := a.find(ctx, t.Link.Sandbox)
	if err != nil {
		return fmt.Errorf("link.sandbox %s: %w", clip(t.Link.Sandbox, 64), err)
	}
	if r.owner != t.Owner {
		return fmt.Errorf("%w: link.sandbox %s: it belongs to %s, and the token would to %s", atoll.ErrInvalid, r.id, r.owner, t.Owner)
	}
	t.Link = &atoll.Link{Sandbox: r.id, Name: r.name, Terminal: t.Link.Terminal}
	return nil
}

// mayLink refuses operations that a caller's link is not good for.
func (a *Account) mayLink(op string) error {
	l := a.caller.Link
	if l == nil || slices.Contains(linkable, op) {
		return nil
	}
	a.audited(op, "", "the token is a link")(atoll.ErrDenied)
	return &atoll.Error{Op: op, Err: &unlinked{*l}}
}

// Link returns what the caller's token is good for, with the name that its
// sandbox has now; nil: all that his scopes allow.
func (a *Account) Link(ctx context.Context) (*atoll.Link, error) {
	if a.caller.Link == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	l := *a.caller.Link
	r, err := a.find(ctx, l.Sandbox)
	if err != nil {
		return nil, failed("link", l.Sandbox, err)
	}
	l.Name = r.name
	return &l, nil
}
