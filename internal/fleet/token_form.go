package fleet

import (
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// e2bKeyPrefix is the prefix of a token's secret in the form that the SDKs of E2B accept: hexadecimal
// digits follow.
const e2bKeyPrefix = "e2b_"

// tokenEncoding is the encoding of the random bits of a secret.
var tokenEncoding = base32.NewEncoding(tokenDigits).WithPadding(base32.NoPadding)

// E2BKey returns the secret of a token in the form of an API key of E2B. Both forms are the same
// secret: [Fleet.Authenticate] accepts either.
func E2BKey(secret string) (string, error) {
	digits, ok := strings.CutPrefix(secret, tokenPrefix)
	b, err := tokenEncoding.DecodeString(digits)
	if !ok || err != nil || len(digits) != tokenRandom {
		return "", fmt.Errorf("%w: it is not the secret of a token", atoll.ErrInvalid)
	}
	return e2bKeyPrefix + hex.EncodeToString(b), nil
}

// secretOfE2BKey returns the secret of an API key in the form of E2B; empty if it has another form.
func secretOfE2BKey(key string) string {
	digits := strings.TrimPrefix(key, e2bKeyPrefix)
	b, err := hex.DecodeString(digits)
	if err != nil || strings.ToLower(digits) != digits {
		return ""
	}
	return tokenPrefix + tokenEncoding.EncodeToString(b)
}
