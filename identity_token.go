package atoll

import "time"

// IdentityToken proves to others, such as a cloud, that its bearer acts for a sandbox: a signed JSON Web Token of a server that
// is configured as an OpenID Connect issuer.
type IdentityToken struct {
	Token    string    `json:"token"`
	Audience string    `json:"audience"` // the only service that must accept it
	Expires  time.Time `json:"expires"`
}
