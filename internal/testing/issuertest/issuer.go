// Package issuertest has an OpenID Connect provider for tests: it signs any claims, and can rotate its keys and
// stop answering.
package issuertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is a provider with one user, who consents to everything. Its methods may be called concurrently.
type Issuer struct {
	URL string

	t  testing.TB
	mu sync.Mutex

	// Now is the provider's clock.
	Now func() time.Time

	key      *ecdsa.PrivateKey     // guarded by mu
	keyID    string                // guarded by mu
	claims   map[string]any        // of the user; guarded by mu
	codes    map[string]url.Values // authorization requests by code; guarded by mu
	devices  map[string]bool       // whether the user has consented, by device code; guarded by mu
	down     bool                  // guarded by mu
	keyReads int                   // guarded by mu
}

// Client of the provider.
const (
	ClientID     = "atoll"
	ClientSecret = "secret-of-the-client"
)

// New starts a provider until the test ends.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, Now: time.Now, claims: map[string]any{"sub": "alice"}, codes: make(map[string]url.Values), devices: make(map[string]bool)}
	i.RotateKey()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.serveDocument)
	mux.HandleFunc("GET /keys", i.serveKeys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /device", i.beginDevice)
	mux.HandleFunc("POST /token", i.serveToken)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.isDown() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	i.URL = s.URL
	return i
}

// RotateKey replaces the key. The old one is not published any more.
func (i *Issuer) RotateKey() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.keyID = key, rand.Text()
}

// PublicKey returns the present public key and its id.
func (i *Issuer) PublicKey() (crypto.PublicKey, string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.key.Public(), i.keyID
}

// SetUser sets the claims of the user.
func (i *Issuer) SetUser(claims map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claims = claims
}

// SetDown makes the provider stop answering, or answer again.
func (i *Issuer) SetDown(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *Issuer) isDown() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.down
}

// KeyReads returns how often the keys were read.
func (i *Issuer) KeyReads() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keyReads
}

// ApproveDevices lets the user consent to all device logins that have begun, and returns their number.
func (i *Issuer) ApproveDevices() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	for code := range i.devices {
		i.devices[code] = true
	}
	return len(i.devices)
}

// Sign returns a token with claims, besides the issuer and times, which claims replace.
func (i *Issuer) Sign(claims map[string]any) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sign(claims)
}

func (i *Issuer) sign(claims map[string]any) string {
	all := map[string]any{"iss": i.URL, "aud": ClientID, "sub": "alice", "iat": i.Now().Unix(), "exp": i.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	for name, v := range claims {
		if v == nil {
			delete(all, name)
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: i.keyID}}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(b)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

func (i *Issuer) serveDocument(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"device_authorization_endpoint": i.URL + "/device", "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
		"id_token_signing_alg_values_supported": []string{"ES256", "HS256", "none"},
	})
}

func (i *Issuer) serveKeys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keyReads++
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.keyID, Use: "sig", Algorithm: "ES256"}}})
}

func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = q
	i.mu.Unlock()
	to.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (i *Issuer) beginDevice(w http.ResponseWriter, _ *http.Request) {
	code := rand.Text()
	i.mu.Lock()
	i.devices[code] = false
	i.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{
		"device_code": code, "user_code": "ABCD-EFGH", "verification_uri": i.URL + "/activate", "expires_in": 60, "interval": 1,
	})
}

func (i *Issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	claims := maps.Clone(i.claims)
	switch r.FormValue("grant_type") {
	case "authorization_code":
		q, ok := i.codes[r.FormValue("code")]
		delete(i.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") || r.FormValue("redirect_uri") != q.Get("redirect_uri") {
			answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		if claims["nonce"] == nil {
			claims["nonce"] = q.Get("nonce")
		}
	case "urn:ietf:params:oauth:grant-type:device_code":
		approved, ok := i.devices[r.FormValue("device_code")]
		if !ok || !approved {
			answer(w, http.StatusBadRequest, map[string]any{"error": map[bool]string{true: "authorization_pending", false: "invalid_grant"}[ok]})
			return
		}
		delete(i.devices, r.FormValue("device_code"))
	default:
		answer(w, http.StatusBadRequest, map[string]any{"error": "unsupported_grant_type"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": i.sign(claims)})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // write errors mean that the client is gone
}
