package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
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
