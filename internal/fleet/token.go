package fleet

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// Authenticate returns who bears a token's secret. Every secret that is not
// good, for whatever reason, is the same ErrDenied.
func (f *Fleet) Authenticate(ctx context.Context, secret string) (Caller, error) {
	return Caller{}, atoll.ErrDenied
}

// CreateToken makes a token; of t, the name, owner, scopes and expiry count. Only
// the answer holds its secret. A caller without ScopeAdmin gives only what it
// has: its own owner and scopes.
func (a *Account) CreateToken(ctx context.Context, t atoll.Token) (atoll.Token, error) {
	return atoll.Token{}, atoll.ErrUnsupported
}

// Tokens returns the tokens that can be used, the newest last.
func (a *Account) Tokens(ctx context.Context) ([]atoll.Token, error) {
	return nil, atoll.ErrUnsupported
}

// RevokeToken makes a token useless at once, by id or name.
func (a *Account) RevokeToken(ctx context.Context, key string) error { return atoll.ErrUnsupported }
