package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// LoginProviders returns the providers by which people can log in. It needs no token.
func (c *Client) LoginProviders(ctx context.Context) ([]atoll.LoginProvider, error) {
	return getList[atoll.LoginProvider](ctx, c, call{op: "login", path: "/login"})
}

// ExchangeToken returns a token of the server for one of a login provider: an ID token of a user, or the token of a
// workload. The result has its secret, scopes and expiry. It needs no other token.
func (c *Client) ExchangeToken(ctx context.Context, token string) (atoll.Token, error) {
	k := call{
		op: "login", method: http.MethodPost, path: "/login/token", header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
		body: strings.NewReader(url.Values{"grant_type": {wire.GrantTokenExchange}, "subject_token": {token}, "subject_token_type": {wire.TokenTypeJWT}}.Encode()),
	}
	r, err := c.newRequest(ctx, k)
	if err != nil {
		return atoll.Token{}, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return atoll.Token{}, k.wrapError(c.transportError(ctx, err))
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusBadRequest:
		var refused wire.OAuthError
		b, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // the bytes read so far are used
		if json.Unmarshal(b, &refused) == nil && refused.Code != "" {
			return atoll.Token{}, k.wrapError(fmt.Errorf("%w: %s", atoll.ErrDenied, strings.TrimPrefix(strings.TrimPrefix(refused.Description, "login: "), atoll.ErrDenied.Error()+": ")))
		}
		return atoll.Token{}, k.wrapError(fmt.Errorf("%w: %s answers %s", atoll.ErrInvalid, c.host, resp.Status))
	default:
		return atoll.Token{}, c.readProblem(k, resp)
	}
	var got wire.ExchangedToken
	if err := c.decodeJSON(ctx, k, resp, &got); err != nil {
		return atoll.Token{}, err
	}
	now := time.Now().UTC()
	t := atoll.Token{Secret: got.AccessToken, Created: now, Expires: now.Add(time.Duration(got.ExpiresIn) * time.Second)}
	for word := range strings.FieldsSeq(got.Scope) {
		t.Scopes = append(t.Scopes, atoll.Scope(word))
	}
	return t, nil
}
