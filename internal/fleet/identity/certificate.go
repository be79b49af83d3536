package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet"
)

// VerifyCertificate returns the identity of a client certificate that TLS has verified: ErrDenied if no entry of the
// configuration names it, or two do.
func (v *Verifier) VerifyCertificate(cert *x509.Certificate) (fleet.Identity, error) {
	if v == nil {
		return fleet.Identity{}, fmt.Errorf("%w: the server gives nothing to client certificates", atoll.ErrDenied)
	}
	names := map[string][]string{"common_name": {cert.Subject.CommonName}, "dns": cert.DNSNames, "email": cert.EmailAddresses}
	for _, u := range cert.URIs {
		names["uri"] = append(names["uri"], u.String())
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(v.opts.Certificates)) {
		for kind, value := range v.opts.Certificates[name].names() {
			if slices.Contains(names[kind], value) {
				found = append(found, name)
			}
		}
	}
	switch len(found) {
	case 0:
		return fleet.Identity{}, fmt.Errorf("%w: no entry of login.certificates names the client certificate %q", atoll.ErrDenied, shorten(cert.Subject.String()))
	case 1:
	default:
		return fleet.Identity{}, fmt.Errorf("%w: the client certificate is named by more than one of login.certificates: %s", atoll.ErrDenied, strings.Join(found, ", "))
	}
	c := v.opts.Certificates[found[0]]
	owner, err := c.ownerOf(nil)
	return fleet.Identity{
		Provider: found[0], Subject: shorten(cert.Subject.String()), Owner: owner, Scopes: c.scopes(), Expires: cert.NotAfter,
		Source: sourceOfCertificate(cert), Certificate: true,
	}, err
}

// sourceOfCertificate identifies a certificate. The signature is left out, as in sourceOf: from a signature of
// ECDSA anyone can make another that is valid.
func sourceOfCertificate(cert *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(append([]byte("certificate:"), cert.RawTBSCertificate...))
}
