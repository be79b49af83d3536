package fleet

import (
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// The prefixes of a token's secret in the forms that the SDKs of other vendors use. Hexadecimal digits
// follow, which the SDKs of E2B check.
const (
	e2bKeyPrefix     = "e2b_"
	daytonaKeyPrefix = "dtn_"
)

// tokenEncoding is the encoding of the random bits of a secret.
var tokenEncoding = base32.NewEncoding(tokenDigits).WithPadding(base32.NoPadding)

// E2BKey returns the secret of a token in the form of an API key of E2B. Both forms are the same
// secret: [Fleet.Authenticate] accepts either.
func E2BKey(secret string) (string, error) { return vendorKey(e2bKeyPrefix, secret) }

// DaytonaKey returns the secret of a token in the form of an API key of Daytona, as [E2BKey] does.
func DaytonaKey(secret string) (string, error) { return vendorKey(daytonaKeyPrefix, secret) }

// vendorKey returns the secret of a token in the form with a prefix.
func vendorKey(prefix, secret string) (string, error) {
	digits, ok := strings.CutPrefix(secret, tokenPrefix)
	b, err := tokenEncoding.DecodeString(digits)
	if !ok || err != nil || len(digits) != tokenRandom {
		return "", fmt.Errorf("%w: it is not the secret of a token", atoll.ErrInvalid)
	}
	return prefix + hex.EncodeToString(b), nil
}

// secretOfKey returns the secret of an API key in the form of another vendor; empty if the digits have
// another form. A key of no vendor is returned unchanged.
func secretOfKey(key string) string {
	for _, prefix := range []string{e2bKeyPrefix, daytonaKeyPrefix} {
		digits, ok := strings.CutPrefix(key, prefix)
		if !ok {
			continue
		}
		b, err := hex.DecodeString(digits)
		if err != nil || strings.ToLower(digits) != digits {
			return ""
		}
		return tokenPrefix + tokenEncoding.EncodeToString(b)
	}
	return key
}
