package identity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// claims are the claims of a verified token.
type claims map[string]json.RawMessage

// texts returns the values of a claim as texts: one for a text, number or truth value, all of a list. Objects have none.
func (c claims) texts(name string) []string {
	var list []json.RawMessage
	if json.Unmarshal(c[name], &list) != nil {
		list = []json.RawMessage{c[name]}
	}
	var texts []string
	for _, raw := range list {
		var text string
		switch {
		case json.Unmarshal(raw, &text) == nil && string(raw) != "null":
			texts = append(texts, text)
		case len(raw) > 0 && strings.IndexByte("-0123456789tf", raw[0]) >= 0:
			texts = append(texts, string(raw))
		}
	}
	return texts
}

// text returns a claim that is one text and not empty.
func (c claims) text(name string) (string, error) {
	var text string
	if err := json.Unmarshal(c[name], &text); err != nil || text == "" {
		return "", fmt.Errorf("%w: the token has no claim %q that is a text", atoll.ErrDenied, name)
	}
	return text, nil
}

// ownClaims are the claims that decide whether a token is valid.
var ownClaims = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "nonce", "azp"}

// checkNames refuses tokens with a second claim that parsers of JSON, which ignore case, take for one of ownClaims, and
// tokens of events (RFC 8417), such as a logout, which are no logins.
func (c claims) checkNames() error {
	for name := range c {
		for _, own := range ownClaims {
			if name != own && strings.EqualFold(name, own) {
				return fmt.Errorf("%w: the token has the claim %q, which is almost %q", atoll.ErrDenied, shorten(name), own)
			}
		}
	}
	if c["events"] != nil {
		return fmt.Errorf("%w: the token is a notice of the provider (events), not one to log in by", atoll.ErrDenied)
	}
	return nil
}

// matches reports whether a rule is for the bearer of claims.
func (r *Rule) matches(c claims, groupsClaim string) bool {
	if r.Group != "" && !slices.Contains(c.texts(groupsClaim), r.Group) {
		return false
	}
	for name, values := range r.Claims {
		if !slices.ContainsFunc(c.texts(name), func(text string) bool { return slices.Contains(values, text) }) {
			return false
		}
	}
	return r.Group != "" || len(r.Claims) > 0
}

// usesEmail reports whether a rule trusts the email of a token.
func (r *Rule) usesEmail(groupsClaim string) bool {
	_, claimed := r.Claims["email"]
	return claimed || r.Group != "" && groupsClaim == "email" || strings.Contains(r.Owner, "{email}")
}

// ownerOf returns the owner of the bearer of claims. A claim can only be in the user: it never chooses the app.
func (g *Grant) ownerOf(c claims) (atoll.Owner, error) {
	app, template, _ := strings.Cut(g.Owner, "/")
	var failed error
	user := placeholder.ReplaceAllStringFunc(template, func(mark string) string {
		text, err := c.text(mark[1 : len(mark)-1])
		if err != nil {
			failed = err
		}
		return text
	})
	if failed != nil {
		return atoll.Owner{}, failed
	}
	o := atoll.Owner{App: app, User: user}
	if err := o.Check(); err != nil {
		return o, fmt.Errorf("%w: the claims of the token make no valid owner: %s", atoll.ErrDenied, strings.TrimPrefix(err.Error(), atoll.ErrInvalid.Error()+": "))
	}
	return o, nil
}

// decide returns what the first rule that matches gives.
func (p *Provider) decide(name string, c claims) (atoll.Owner, []atoll.Scope, error) {
	groupsClaim := p.GroupsClaim
	if groupsClaim == "" {
		groupsClaim = "groups"
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if !r.matches(c, groupsClaim) {
			continue
		}
		if r.usesEmail(groupsClaim) && !slices.Equal(c.texts("email_verified"), []string{"true"}) {
			return atoll.Owner{}, nil, fmt.Errorf("%w: the provider %s has not verified the email of the token", atoll.ErrDenied, name)
		}
		o, err := r.ownerOf(c)
		return o, r.scopes(), err
	}
	return atoll.Owner{}, nil, fmt.Errorf("%w: no rule of the provider %s is for this token", atoll.ErrDenied, name)
}
