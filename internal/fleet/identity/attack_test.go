package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
	"github.com/atoll-sandbox/atoll/internal/testing/issuertest"
)

// signedCertificate is a certificate (RFC 5280, 4.1) whose signature can be exchanged.
type signedCertificate struct {
	Content   asn1.RawValue
	Algorithm pkix.AlgorithmIdentifier
	Signature asn1.BitString
}

// The signature (r, s) of ECDSA is as valid as (r, -s): the bearer of a revoked certificate can't come back with that.
func TestCertificateWithAnotherSignature(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "build"}, NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	var made [2]*x509.Certificate
	for i, c := range []*x509.Certificate{ca, leaf} {
		der, err := x509.CreateCertificate(rand.Reader, c, ca, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		if made[i], err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
	}
	var parts signedCertificate
	var pair struct{ R, S *big.Int }
	_, err = asn1.Unmarshal(made[1].Raw, &parts)
	if err == nil {
		_, err = asn1.Unmarshal(parts.Signature.Bytes, &pair)
	}
	if err != nil {
		t.Fatal(err)
	}
	pair.S.Sub(elliptic.P256().Params().N, pair.S)
	b, err := asn1.Marshal(pair)
	if err != nil {
		t.Fatal(err)
	}
	parts.Signature = asn1.BitString{Bytes: b, BitLength: 8 * len(b)}
	if b, err = asn1.Marshal(parts); err != nil {
		t.Fatal(err)
	}
	other, err := x509.ParseCertificate(b)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(made[0])
	if _, err := other.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: leaf.ExtKeyUsage}); err != nil {
		t.Fatalf("the other signature is not valid, so this is no attack: %v", err)
	}
	v := New(Options{Certificates: map[string]*Certificate{"build": {CommonName: "build", Grant: Grant{Owner: "ci/build", Role: atoll.RoleUser}}}})
	first, err := v.VerifyCertificate(made[1])
	if err != nil {
		t.Fatal(err)
	}
	if second, err := v.VerifyCertificate(other); err == nil && second.Source != first.Source {
		t.Error("a certificate with another signature is another caller: a revocation does not hold")
	}
}

// A provider that hangs holds up those only who need an answer of it: neither a stranger's token with an unknown key nor a
// login that begins makes others wait whose key is known.
func TestProviderThatHangs(t *testing.T) {
	b := newBench(t, nil)
	target, err := url.Parse(b.issuer.URL)
	if err != nil {
		t.Fatal(err)
	}
	var hangs atomic.Bool
	asked, release := make(chan string, 10), make(chan struct{})
	answer := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			asked <- r.URL.Path
			<-release
		}
		answer.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b.issuer.URL = front.URL
	p := *b.opts.Providers["company"]
	p.Issuer = front.URL
	v := New(Options{Providers: map[string]*Provider{"company": &p}, URL: "http://localhost", Now: func() time.Time { return time.Now().Add(time.Duration(b.now.Load())) }})
	known := b.issuer.Sign(admin(map[string]any{"exp": time.Now().Add(48 * time.Hour).Unix()}))
	if _, err := v.VerifyToken(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	unknown := issuertest.New(t).Sign(admin(map[string]any{"iss": front.URL}))
	hangs.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	b.advance(keyInterval)
	go func() { _, err := v.VerifyToken(ctx, unknown); ended <- err }()
	if at := <-asked; at != "/keys" {
		t.Errorf("a token with an unknown key asks for %s", at)
	}
	if _, err := v.VerifyToken(t.Context(), known); err != nil {
		t.Errorf("a token with a known key: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a stranger who has left: %v", err)
	}
	go func() { _, err := v.LoginURL(t.Context(), "company", fleet.PendingLogin{}); ended <- err }()
	if at := <-asked; at != "/.well-known/openid-configuration" {
		t.Errorf("a login asks for %s", at)
	}
	if _, err := v.VerifyToken(t.Context(), known); err != nil {
		t.Errorf("a token with a known key during a login: %v", err)
	}
	hangs.Store(false)
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("the login, once the provider answers: %v", err)
	}
}

// While a provider does not answer, its keys of before are used without waiting for it.
func TestOldKeysDoNotWait(t *testing.T) {
	key, id := issuertest.New(t).PublicKey()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key, KeyID: id}}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	answers, asked := make(chan error), make(chan struct{}, 3)
	k := &keySet{now: func() time.Time { return now }, read: func(context.Context) ([]byte, error) { asked <- struct{}{}; return set, <-answers }}
	go func() { answers <- nil; answers <- atoll.ErrUnavailable }()
	for range 2 { // the first attempt succeeds, and the second fails
		if _, err := k.currentKeys(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		now = now.Add(keyAge)
	}
	if keys, err := k.currentKeys(t.Context(), false); err != nil || len(keys) != 1 {
		t.Errorf("%v %v", keys, err)
	}
	for range 3 {
		<-asked
	}
	answers <- nil // what was asked for meanwhile ends
}

// A claim of groups that is the email counts only if it is verified, as an email elsewhere in a rule.
func TestEmailAsGroup(t *testing.T) {
	b := newBench(t, func(p *Provider) {
		p.GroupsClaim, p.Rules = "email", []Rule{{Group: "boss@acme.test", Grant: Grant{Owner: "company/boss", Role: atoll.RoleAdmin}}}
	})
	for _, verified := range []bool{true, false} {
		_, err := b.VerifyToken(t.Context(), b.issuer.Sign(map[string]any{"email": "boss@acme.test", "email_verified": verified}))
		if (err == nil) != verified {
			t.Errorf("email_verified %v: %v", verified, err)
		}
	}
}
