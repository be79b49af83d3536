package fleet

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"

	"github.com/atoll-sandbox/atoll"
)

// A port key is this prefix and 160 bits in hexadecimal digits.
const portKeyPrefix = "ap_"

// portKeySize is the size of a port key in bytes.
const portKeySize = 20

// PortKey returns the port key of a sandbox, which is derived from its access key. It gives access to the
// ports of the sandbox, but not to commands and files.
func PortKey(accessKey string) string {
	m := hmac.New(sha256.New, []byte(accessKey))
	_, _ = m.Write([]byte("ports")) // never fails
	return portKeyPrefix + hex.EncodeToString(m.Sum(nil)[:portKeySize])
}

// PortKey returns the port key of the sandbox.
func (s *Sandbox) PortKey(ctx context.Context) (string, error) {
	key, err := s.AccessKey(ctx)
	if err != nil {
		return "", err
	}
	return PortKey(key), nil
}

// CheckPortKey reports whether a text is the port key of a sandbox that is not destroyed.
func (f *Fleet) CheckPortKey(ctx context.Context, sandbox, shown string) (bool, error) {
	if sandbox == "" || len(shown) != len(portKeyPrefix)+2*portKeySize {
		return false, nil
	}
	_, err := f.FindAccessKey(ctx, sandbox, func(key string) bool {
		return subtle.ConstantTimeCompare([]byte(shown), []byte(PortKey(key))) == 1
	})
	if errors.Is(err, atoll.ErrDenied) {
		return false, nil
	}
	return err == nil, err
}

// HasPublicPorts reports whether a sandbox exists and its ports need no link.
func (f *Fleet) HasPublicPorts(ctx context.Context, sandbox string) (bool, error) {
	r, err := f.loadKnownRow(ctx, sandbox)
	if errors.Is(err, atoll.ErrNotFound) {
		return false, nil
	}
	return err == nil && r.cfg.PublicPorts && r.pool == "" && r.state != atoll.Destroyed, err
}
