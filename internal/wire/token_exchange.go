package wire

// Names of the token exchange (RFC 8693).
const (
	GrantTokenExchange   = "urn:ietf:params:oauth:grant-type:token-exchange"
	TokenTypeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	TokenTypeIDToken     = "urn:ietf:params:oauth:token-type:id_token"
	TokenTypeJWT         = "urn:ietf:params:oauth:token-type:jwt"
)

// ExchangedToken is the answer to a token exchange, and to the claim of a login.
type ExchangedToken struct {
	AccessToken string `json:"access_token"`
	IssuedType  string `json:"issued_token_type"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"` // seconds
	Scope       string `json:"scope"`
}

// OAuthError is the answer to a refused token exchange (RFC 6749).
type OAuthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}
