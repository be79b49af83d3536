package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/testing/issuertest"
)

// bench is a verifier of one provider, with a clock.
type bench struct {
	*Verifier

	issuer *issuertest.Issuer
	now    atomic.Int64 // ahead of the host's clock
}

func newBench(t *testing.T, change func(p *Provider)) *bench {
	t.Helper()
	b := &bench{issuer: issuertest.New(t)}
	p := &Provider{Issuer: b.issuer.URL, ClientID: issuertest.ClientID, Rules: []Rule{
		{Group: "admins", Grant: Grant{Owner: "company/{sub}", Role: atoll.RoleAdmin}},
		{Group: "developers", Grant: Grant{Owner: "company/{email}", Role: atoll.RoleUser}},
		{Claims: map[string]Values{"repository": {"acme/web", "acme/api"}, "ref": {"refs/heads/main"}}, Grant: Grant{Owner: "ci/web", Scopes: []atoll.Scope{atoll.ScopeRun}}},
	}}
	if change != nil {
		change(p)
	}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return time.Now().Add(time.Duration(b.now.Load())) }
	b.issuer.Now = clock
	b.Verifier = New(Options{Providers: map[string]*Provider{"company": p}, Now: clock})
	return b
}

func (b *bench) advance(d time.Duration) { b.now.Add(int64(d)) }

// admin are the claims of somebody whom a rule names.
func admin(more map[string]any) map[string]any {
	c := map[string]any{"groups": []string{"staff", "admins"}}
	maps.Copy(c, more)
	return c
}

func TestVerifyToken(t *testing.T) {
	b := newBench(t, nil)
	now := time.Now()
	for _, k := range []struct {
		law    string
		claims map[string]any
		owner  string // empty: denied
		reason string
	}{
		{"Group", admin(nil), "company/alice", ""},
		{"GroupAsText", map[string]any{"groups": "admins"}, "company/alice", ""},
		{"UnknownGroup", map[string]any{"groups": []string{"staff"}}, "", "no rule"},
		{"NoGroup", map[string]any{}, "", "no rule"},
		{"GroupIsNoPrefix", map[string]any{"groups": []string{"admins2", "Admins", "admin"}}, "", "no rule"},
		{"GroupsAsObject", map[string]any{"groups": map[string]any{"admins": true}}, "", "no rule"},
		{"NestedGroups", map[string]any{"groups": []any{[]string{"admins"}}}, "", "no rule"},
		{"VerifiedEmail", map[string]any{"groups": "developers", "email": "a@acme.test", "email_verified": true}, "company/a@acme.test", ""},
		{"UnverifiedEmail", map[string]any{"groups": "developers", "email": "a@acme.test", "email_verified": false}, "", "not verified the email"},
		{"EmailWithoutWord", map[string]any{"groups": "developers", "email": "a@acme.test"}, "", "not verified the email"},
		{"OwnerOfAnotherApp", map[string]any{"groups": "developers", "email": "local/local", "email_verified": true}, "", "no valid owner"},
		{"OwnerWithControl", map[string]any{"groups": "admins", "sub": "a\nb"}, "", "no valid owner"},
		{"AllClaims", map[string]any{"repository": "acme/api", "ref": "refs/heads/main"}, "ci/web", ""},
		{"OneClaimMissing", map[string]any{"repository": "acme/api"}, "", "no rule"},
		{"OneClaimWrong", map[string]any{"repository": "acme/api", "ref": "refs/heads/main2"}, "", "no rule"},
		{"ForkOfRepository", map[string]any{"repository": "mallory/web", "ref": "refs/heads/main"}, "", "no rule"},
		{"WrongAudience", admin(map[string]any{"aud": "another"}), "", "audience"},
		{"NoAudience", admin(map[string]any{"aud": nil}), "", "audience"},
		{"AudienceOfMany", admin(map[string]any{"aud": []string{"x", "atoll"}}), "company/alice", ""},
		{"IssuedToAnother", admin(map[string]any{"aud": []string{"x", "atoll"}, "azp": "x"}), "", "issued to the client"},
		{"IssuedToAList", admin(map[string]any{"aud": []string{"x", "atoll"}, "azp": []string{"atoll", "x"}}), "", "issued to the client"},
		{"IssuedToAnObject", admin(map[string]any{"aud": []string{"x", "atoll"}, "azp": map[string]any{"x": 1}}), "", "issued to the client"},
		{"AudienceInCapitals", admin(map[string]any{"aud": nil, "AUD": "atoll"}), "", "almost"},
		{"SubjectInCapitals", admin(map[string]any{"SUB": "root"}), "", "almost"},
		{"SubjectWithLongS", admin(map[string]any{"\u017fub": "root"}), "", "almost"},
		{"NoticeOfLogout", admin(map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}), "", "notice"},
		{"WrongIssuer", admin(map[string]any{"iss": "https://evil.test"}), "", "issuer"},
		{"IssuerWithSlash", admin(map[string]any{"iss": b.issuer.URL + "/"}), "", "issuer"},
		{"Expired", admin(map[string]any{"exp": now.Add(-time.Minute).Unix()}), "", "expired"},
		{"ExpiredBySkew", admin(map[string]any{"exp": now.Add(-10 * time.Second).Unix()}), "company/alice", ""},
		{"NoExpiry", admin(map[string]any{"exp": nil}), "", "expired"},
		{"TooLong", admin(map[string]any{"exp": now.Add(60 * 24 * time.Hour).Unix()}), "", "valid for more than"},
		{"IssuedInTheFuture", admin(map[string]any{"iat": now.Add(time.Hour).Unix()}), "", "future"},
		{"IssuedBySkew", admin(map[string]any{"iat": now.Add(10 * time.Second).Unix()}), "company/alice", ""},
		{"NotYet", admin(map[string]any{"nbf": now.Add(time.Hour).Unix()}), "", "nbf"},
		{"NoSubject", map[string]any{"groups": "admins", "sub": nil}, "", "no subject"},
	} {
		id, err := b.VerifyToken(t.Context(), b.issuer.Sign(k.claims))
		switch {
		case k.owner != "" && (err != nil || id.Owner.String() != k.owner):
			t.Errorf("%s: %v %v, want %s", k.law, id.Owner, err, k.owner)
		case k.owner == "" && (!errors.Is(err, atoll.ErrDenied) || !strings.Contains(err.Error(), k.reason)):
			t.Errorf("%s: %v %v, want denied: %s", k.law, id.Owner, err, k.reason)
		}
	}
	id, err := b.VerifyToken(t.Context(), b.issuer.Sign(admin(nil)))
	if want, _ := atoll.RoleAdmin.Scopes(); err != nil || !slices.Equal(id.Scopes, want) || id.Provider != "company" || id.Lifetime != 12*time.Hour {
		t.Errorf("%+v %v", id, err)
	}
}

// Attacks on the signature: nothing that the provider's key has not signed is accepted.
func TestForgedTokens(t *testing.T) {
	b := newBench(t, nil)
	good := b.issuer.Sign(admin(nil))
	parts := strings.Split(good, ".")
	public, keyID := b.issuer.PublicKey()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(v any) string {
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(j)
	}
	hmacOf := func(secret []byte) string {
		text := encode(map[string]string{"alg": "HS256", "kid": keyID}) + "." + parts[1]
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(text))
		return text + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	}
	stranger := issuertest.New(t)
	changed, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	jwk := func() string { // the attacker's key in the header
		key, _ := stranger.PublicKey()
		return encode(map[string]any{"alg": "ES256", "jwk": jose.JSONWebKey{Key: key}})
	}
	forged := stranger.Sign(admin(map[string]any{"iss": b.issuer.URL}))
	for law, token := range map[string]string{
		"AlgNone":           encode(map[string]string{"alg": "none"}) + "." + parts[1] + ".",
		"AlgNoneCapital":    encode(map[string]string{"alg": "None", "kid": keyID}) + "." + parts[1] + ".",
		"AlgNoneKeptSig":    encode(map[string]string{"alg": "none", "kid": keyID}) + "." + parts[1] + "." + parts[2],
		"HMACOfPublicDER":   hmacOf(der),
		"HMACOfPublicPEM":   hmacOf(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		"HMACOfNothing":     hmacOf(nil),
		"OtherKey":          forged,
		"OtherKeySameID":    encode(map[string]string{"alg": "ES256", "kid": keyID}) + "." + strings.SplitN(forged, ".", 2)[1],
		"KeyInHeader":       jwk() + "." + strings.SplitN(forged, ".", 2)[1],
		"ChangedClaims":     parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(changed), "alice", "root!", 1))) + "." + parts[2],
		"NoSignature":       parts[0] + "." + parts[1] + ".",
		"JSONSerialization": `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`,
		"TwoSignatures":     good + "." + parts[2],
		"Giant":             good + strings.Repeat("A", 1<<20),
		"Empty":             "",
		"Dots":              "eyJ..",
	} {
		if id, err := b.VerifyToken(t.Context(), token); !errors.Is(err, atoll.ErrDenied) {
			t.Errorf("%s: %v %v", law, id.Owner, err)
		}
	}
	if _, err := b.VerifyToken(t.Context(), good); err != nil {
		t.Errorf("the token that was attacked: %v", err)
	}
}

// A valid signature in another form is the same token: its bearer can't escape the revocation of the first.
func TestSourceIgnoresSignature(t *testing.T) {
	b := newBench(t, nil)
	token := b.issuer.Sign(admin(nil))
	head, _ := base64.RawURLEncoding.DecodeString(token[strings.LastIndexByte(token, '.')+1:])
	other := append(slices.Clone(head[:32]), head[32:]...)
	other[40] ^= 1
	if sourceOf(token) != sourceOf(token[:strings.LastIndexByte(token, '.')+1]+base64.RawURLEncoding.EncodeToString(other)) {
		t.Error("the source depends on the signature")
	}
	if sourceOf(token) == sourceOf(b.issuer.Sign(admin(map[string]any{"jti": "2"}))) {
		t.Error("two tokens have one source")
	}
}

func TestKeyRotation(t *testing.T) {
	b := newBench(t, nil)
	old := b.issuer.Sign(admin(nil))
	if _, err := b.VerifyToken(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	b.issuer.RotateKey()
	fresh := b.issuer.Sign(admin(nil))
	if _, err := b.VerifyToken(t.Context(), fresh); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("within the interval the keys are not read again: %v", err)
	}
	b.advance(keyInterval)
	if _, err := b.VerifyToken(t.Context(), fresh); err != nil {
		t.Errorf("a new key: %v", err)
	}
	if _, err := b.VerifyToken(t.Context(), old); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a withdrawn key: %v", err)
	}
	reads := b.issuer.KeyReads()
	for range 50 {
		_, _ = b.VerifyToken(t.Context(), old)
	}
	if n := b.issuer.KeyReads(); n > reads+1 {
		t.Errorf("50 tokens with an unknown key made the server read the keys %d times", n-reads)
	}
}

// A key that the provider withdraws is not used for longer than keyAge, even if no other key is asked for.
func TestWithdrawnKeyExpires(t *testing.T) {
	b := newBench(t, nil)
	old := b.issuer.Sign(admin(nil))
	if _, err := b.VerifyToken(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	b.issuer.RotateKey()
	b.advance(keyAge)
	if _, err := b.VerifyToken(t.Context(), old); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("a withdrawn key: %v", err)
	}
}

func TestProviderDown(t *testing.T) {
	b := newBench(t, nil)
	b.issuer.SetDown(true)
	token := b.issuer.Sign(admin(map[string]any{"exp": time.Now().Add(48 * time.Hour).Unix()}))
	if _, err := b.VerifyToken(t.Context(), token); !errors.Is(err, atoll.ErrUnavailable) || !strings.Contains(err.Error(), "company") {
		t.Errorf("never reached: %v", err)
	}
	if err := b.Check(t.Context())["company"]; !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("check: %v", err)
	}
	b.issuer.SetDown(false)
	b.advance(keyInterval)
	if _, err := b.VerifyToken(t.Context(), token); err != nil {
		t.Fatalf("up again: %v", err)
	}
	b.issuer.SetDown(true)
	b.advance(keyAge + time.Second)
	if _, err := b.VerifyToken(t.Context(), token); err != nil {
		t.Errorf("keys that were read lately: %v", err)
	}
	b.advance(keyStale)
	if _, err := b.VerifyToken(t.Context(), token); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("stale keys: %v", err)
	}
}

// The discovery document can't send the server elsewhere: its issuer must be the configured one.
func TestDiscoveryOfAnotherIssuer(t *testing.T) {
	b := newBench(t, nil)
	p := *b.opts.Providers["company"]
	p.Issuer += "/tenant"
	v := New(Options{Providers: map[string]*Provider{"company": &p}})
	if _, err := v.VerifyToken(t.Context(), b.issuer.Sign(admin(map[string]any{"iss": p.Issuer}))); !errors.Is(err, atoll.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestKeysFile(t *testing.T) {
	i := issuertest.New(t)
	i.SetDown(true)
	key, id := i.PublicKey()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: id}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, set, 0o600); err != nil {
		t.Fatal(err)
	}
	v := New(Options{Providers: map[string]*Provider{"cluster": {
		Issuer: i.URL, Audience: "atoll", KeysFile: file,
		Rules: []Rule{{Claims: map[string]Values{"sub": {"system:serviceaccount:build:runner"}}, Grant: Grant{Owner: "ci/build", Role: atoll.RoleUser}}},
	}}})
	got, err := v.VerifyToken(t.Context(), i.Sign(map[string]any{"sub": "system:serviceaccount:build:runner"}))
	if err != nil || got.Owner.String() != "ci/build" || got.Lifetime != 15*time.Minute {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := v.VerifyToken(t.Context(), i.Sign(map[string]any{"sub": "system:serviceaccount:build:other"})); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("another account: %v", err)
	}
}

func TestVerifyCertificate(t *testing.T) {
	spiffe, err := url.Parse("spiffe://acme.test/ci")
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]*Certificate{
		"build": {CommonName: "build", Grant: Grant{Owner: "ci/build", Role: atoll.RoleUser}},
		"ci":    {URI: "spiffe://acme.test/ci", Grant: Grant{Owner: "ci/spiffe", Role: atoll.RoleViewer}},
	}
	v := New(Options{Certificates: list})
	end := time.Now().Add(time.Hour)
	for _, k := range []struct {
		law   string
		cert  x509.Certificate
		owner string
	}{
		{"CommonName", x509.Certificate{Subject: pkix.Name{CommonName: "build"}, NotAfter: end}, "ci/build"},
		{"URI", x509.Certificate{URIs: []*url.URL{spiffe}, NotAfter: end}, "ci/spiffe"},
		{"NameOfAnotherKind", x509.Certificate{DNSNames: []string{"build"}}, ""},
		{"Unknown", x509.Certificate{Subject: pkix.Name{CommonName: "builder"}}, ""},
		{"Nothing", x509.Certificate{}, ""},
		{"TwoEntries", x509.Certificate{Subject: pkix.Name{CommonName: "build"}, URIs: []*url.URL{spiffe}}, ""},
	} {
		id, err := v.VerifyCertificate(&k.cert)
		if k.owner == "" && !errors.Is(err, atoll.ErrDenied) || k.owner != "" && (err != nil || id.Owner.String() != k.owner || !id.Expires.Equal(end)) {
			t.Errorf("%s: %v %v", k.law, id, err)
		}
	}
	var none *Verifier
	if _, err := none.VerifyCertificate(&x509.Certificate{}); !errors.Is(err, atoll.ErrDenied) {
		t.Errorf("nil: %v", err)
	}
}

func TestParseProviders(t *testing.T) {
	rule := `"rules":[{"group":"g","owner":"a/{sub}","role":"user"}]`
	for _, k := range []struct{ law, text, want string }{
		{"People", `{"x":{"issuer":"https://id.test","client_id":"atoll",` + rule + `}}`, ""},
		{"Workloads", `{"x":{"issuer":"https://id.test","audience":"atoll","lifetime":"5m","rules":[{"claims":{"a":["b","c"],"d":"e"},"owner":"a/b","scopes":["read"]}]}}`, ""},
		{"NoMap", `[]`, "must be {NAME"},
		{"Null", `{"x":null}`, "must hold keys"},
		{"UnknownKey", `{"x":{"isuer":"https://id.test"}}`, `unknown field "isuer"`},
		{"Plain", `{"x":{"issuer":"http://id.test","client_id":"atoll",` + rule + `}}`, "must be https"},
		{"NoAudience", `{"x":{"issuer":"https://id.test",` + rule + `}}`, "client_id"},
		{"NoRules", `{"x":{"issuer":"https://id.test","audience":"a"}}`, "must have rules"},
		{"RuleForAll", `{"x":{"issuer":"https://id.test","audience":"a","rules":[{"owner":"a/b","role":"user"}]}}`, "whom it is for"},
		{"EmptyValue", `{"x":{"issuer":"https://id.test","audience":"a","rules":[{"claims":{"a":""},"owner":"a/b","role":"user"}]}}`, "must have a name and a value"},
		{"NoGrant", `{"x":{"issuer":"https://id.test","audience":"a","rules":[{"group":"g","owner":"a/b"}]}}`, "either role or scopes"},
		{"UnknownRole", `{"x":{"issuer":"https://id.test","audience":"a","rules":[{"group":"g","owner":"a/b","role":"root"}]}}`, `role "root"`},
		{"AppByClaim", `{"x":{"issuer":"https://id.test","audience":"a","rules":[{"group":"g","owner":"{org}/b","role":"user"}]}}`, "app"},
		{"AppOfAtoll", `{"x":{"issuer":"https://id.test","audience":"a","rules":[{"group":"g","owner":"atoll/b","role":"user"}]}}`, "atoll's own"},
		{"LongLife", `{"x":{"issuer":"https://id.test","client_id":"a","lifetime":"720h",` + rule + `}}`, "at most 168h"},
		{"TwoPlaceholders", `{"x":{"issuer":"https://id.test","audience":"a","rules":[{"group":"g","owner":"a/{team}-{name}","role":"user"}]}}`, "one {NAME} at most"},
		{"RelativeFile", `{"x":{"issuer":"https://id.test","client_id":"a","client_secret_file":"secret",` + rule + `}}`, "absolute"},
		{"SecretWithoutClient", `{"x":{"issuer":"https://id.test","audience":"a","client_secret_file":"/s",` + rule + `}}`, "need client_id"},
	} {
		_, err := ParseProviders(k.text)
		if k.want == "" && err != nil || k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", k.law, err, k.want)
		}
	}
	if _, err := ParseCertificates(`{"x":{"common_name":"a","dns":"b","owner":"a/b","role":"user"}}`); err == nil || !strings.Contains(err.Error(), "exactly one") {
		t.Errorf("two names: %v", err)
	}
	if _, err := ParseCertificates(`{"x":{"common_name":"a","owner":"a/{sub}","role":"user"}}`); err == nil {
		t.Error("a placeholder in the owner of a certificate is accepted")
	}
}

func FuzzVerifyToken(f *testing.F) {
	v := New(Options{Providers: map[string]*Provider{"x": {Issuer: "https://id.test", Audience: "a", KeysFile: "/nonexistent"}}})
	for _, text := range []string{"", "eyJ..", "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lkLnRlc3QifQ."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if id, err := v.VerifyToken(t.Context(), token); err == nil {
			t.Errorf("accepted: %v", fmt.Sprint(id))
		}
	})
}
