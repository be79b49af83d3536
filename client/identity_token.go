package client

import (
	"context"

	"github.com/atoll-sandbox/atoll"
)

// IdentityToken creates a token that proves to a service, the audience, who the running sandbox is. A server that issues
// none gives ErrUnsupported.
func (s *Sandbox) IdentityToken(ctx context.Context, audience string) (atoll.IdentityToken, error) {
	var t atoll.IdentityToken
	err := s.c.postJSON(ctx, s.newCall("identity token", "", "/identity-token"), map[string]string{"audience": audience}, &t)
	return t, err
}
