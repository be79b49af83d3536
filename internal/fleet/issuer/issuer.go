// Package issuer makes identity tokens of sandboxes: JSON Web Tokens that services verify with the keys of an OpenID
// Connect issuer.
package issuer

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/atoll-sandbox/atoll"
)

// Paths of the documents below the URL of an issuer.
const (
	DiscoveryPath = "/.well-known/openid-configuration"
	KeysPath      = "/.well-known/jwks.json"
)

// Scheme begins a secret of a sandbox whose value is an identity token: identity://AUDIENCE.
const Scheme = "identity://"

// IsReference reports whether the value of a secret stands for an identity token.
func IsReference(value string) bool { return strings.HasPrefix(value, Scheme) }

// Lifetimes of tokens.
const (
	DefaultLifetime = 10 * time.Minute
	MaxLifetime     = time.Hour
)

// Ages of signing keys. A new key is published before it is used, as services cache the keys.
const (
	rotateAfter  = 30 * 24 * time.Hour // from then on there is a new one
	publishAhead = time.Hour           // before it is used
	keepAfter    = MaxLifetime + publishAhead
)

const (
	rsaBits     = 3072
	maxAudience = 200 // bytes
	tokenType   = "JWT"
)

// Options configure an issuer. The zero Options issue nothing.
type Options struct {
	URL       string        // https://HOST, as services reach the documents; empty: no tokens
	Audiences []string      // that tokens may have; a * at the end stands for any rest
	Reserved  []string      // audiences that atoll itself accepts: no token has one of them
	Lifetime  time.Duration // 0: DefaultLifetime
}

// Check reports every mistake in options.
func (o Options) Check() error {
	var errs []error
	if o.URL == "" {
		if len(o.Audiences) > 0 {
			errs = append(errs, errors.New("identity.audiences needs identity.issuer"))
		}
		return errors.Join(errs...)
	}
	if len(o.Audiences) == 0 {
		errs = append(errs, errors.New("identity.issuer needs identity.audiences: the services that tokens may be for"))
	}
	for _, a := range o.Audiences {
		if strings.TrimRight(a, "*") == "" || strings.Contains(strings.TrimSuffix(a, "*"), "*") {
			errs = append(errs, fmt.Errorf("identity.audiences %q: must be an audience, or the beginning of some and *", a))
		}
	}
	if o.Lifetime < 0 || o.Lifetime > MaxLifetime {
		errs = append(errs, fmt.Errorf("identity.lifetime %v: must be at most %v: a token can't be revoked", o.Lifetime, MaxLifetime))
	}
	return errors.Join(append(errs, CheckURL(o.URL))...)
}

// CheckURL reports whether a text can be the URL of an issuer: https without a path. Loopback addresses may use http.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" {
		return fmt.Errorf("%q: must be https://HOST[:PORT], without a path or a slash at its end", text)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost") {
		return fmt.Errorf("%q: must be https, or a loopback address", text)
	}
	return nil
}

// CheckAudience refuses an audience that tokens may not have.
func (o Options) CheckAudience(audience string) error {
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	if audience == "" || len(audience) > maxAudience || strings.ContainsFunc(audience, bad) {
		return fmt.Errorf("%w: audience %.40q: must be 1 to %d printable characters without spaces", atoll.ErrInvalid, audience, maxAudience)
	}
	reserved := func(r string) bool {
		return strings.EqualFold(strings.TrimRight(r, "/"), strings.TrimRight(audience, "/"))
	}
	if reserved(o.URL) || slices.ContainsFunc(o.Reserved, reserved) {
		return fmt.Errorf("%w: audience %s: atoll itself accepts tokens for it", atoll.ErrDenied, audience)
	}
	if !slices.ContainsFunc(o.Audiences, func(allowed string) bool {
		prefix, open := strings.CutSuffix(allowed, "*")
		return audience == allowed || open && strings.HasPrefix(audience, prefix)
	}) {
		return fmt.Errorf("%w: audience %s: identity.audiences of the server does not have it", atoll.ErrDenied, audience)
	}
	return nil
}

// Key signs tokens.
type Key struct {
	ID      string
	Created time.Time

	private *rsa.PrivateKey
}

// NewKey creates a key, which takes some tenths of a second.
func NewKey(now time.Time) (Key, error) {
	private, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return Key{}, err
	}
	sum := sha256.Sum256(x509.MarshalPKCS1PublicKey(&private.PublicKey))
	return Key{ID: hex.EncodeToString(sum[:12]), Created: now, private: private}, nil
}

// Encode returns the private key as a text.
func (k Key) Encode() (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	return base64.StdEncoding.EncodeToString(der), err
}

// DecodeKey returns a key from the text of Encode.
func DecodeKey(id, text string, created time.Time) (Key, error) {
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return Key{}, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return Key{}, err
	}
	private, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return Key{}, errors.New("it is no RSA key")
	}
	return Key{ID: id, Created: created, private: private}, nil
}

// NeedsNewKey reports whether a key must be created beside those given, the newest first.
func NeedsNewKey(keys []Key, now time.Time) bool {
	return len(keys) == 0 || now.Sub(keys[0].Created) > rotateAfter
}

// SigningKey returns the key that signs now, of those given, the newest first: the newest that services know.
func SigningKey(keys []Key, now time.Time) Key {
	for _, k := range keys {
		if now.Sub(k.Created) >= publishAhead {
			return k
		}
	}
	return keys[len(keys)-1] // all are new: the first of them
}

// ExpiredKeys returns the ids of keys that have signed no token that is still valid, of those given, the newest first.
func ExpiredKeys(keys []Key, now time.Time) (ids []string) {
	for i := 1; i < len(keys); i++ {
		if now.Sub(keys[i-1].Created) > keepAfter {
			ids = append(ids, keys[i].ID)
		}
	}
	return ids
}

// Claims describe a sandbox in a token.
type Claims struct {
	Owner   atoll.Owner
	Sandbox string // its id
	Name    string
	Driver  string
	Labels  map[string]string
}

// Subject returns the subject of a sandbox: APP/USER/ID. None of them has a slash.
func (c Claims) Subject() string { return c.Owner.App + "/" + c.Owner.User + "/" + c.Sandbox }

// privateClaims are the claims of a token besides the registered ones.
type privateClaims struct {
	App     string            `json:"app"`
	User    string            `json:"user"`
	Sandbox string            `json:"sandbox"`
	Name    string            `json:"sandbox_name,omitempty"`
	Driver  string            `json:"driver,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// Sign returns a token for an audience, which the caller has checked.
func (o Options) Sign(k Key, c Claims, audience, id string, now time.Time) (atoll.IdentityToken, error) {
	lifetime := o.Lifetime
	if lifetime == 0 {
		lifetime = DefaultLifetime
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: k.private, KeyID: k.ID}}, (&jose.SignerOptions{}).WithType(tokenType))
	if err != nil {
		return atoll.IdentityToken{}, err
	}
	now = now.UTC().Truncate(time.Second)
	t := atoll.IdentityToken{Audience: audience, Expires: now.Add(lifetime)}
	t.Token, err = jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: o.URL, Subject: c.Subject(), Audience: jwt.Audience{audience}, ID: id,
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(t.Expires),
	}).Claims(privateClaims{c.Owner.App, c.Owner.User, c.Sandbox, c.Name, c.Driver, c.Labels}).Serialize()
	return t, err
}

// KeySet returns the public keys, as services read them.
func KeySet(keys []Key) jose.JSONWebKeySet {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &k.private.PublicKey, KeyID: k.ID, Algorithm: string(jose.RS256), Use: "sig"})
	}
	return set
}

// Discovery is the document by which services find the keys.
type Discovery struct {
	Issuer     string   `json:"issuer"`
	KeysURL    string   `json:"jwks_uri"`
	Responses  []string `json:"response_types_supported"`
	Subjects   []string `json:"subject_types_supported"`
	Algorithms []string `json:"id_token_signing_alg_values_supported"`
	Claims     []string `json:"claims_supported"`
}

// Discovery returns the document of the issuer.
func (o Options) Discovery() Discovery {
	return Discovery{
		Issuer: o.URL, KeysURL: o.URL + KeysPath, Responses: []string{"id_token"}, Subjects: []string{"public"}, Algorithms: []string{string(jose.RS256)},
		Claims: []string{"iss", "sub", "aud", "iat", "nbf", "exp", "jti", "app", "user", "sandbox", "sandbox_name", "driver", "labels"},
	}
}
