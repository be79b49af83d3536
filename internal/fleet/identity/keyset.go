package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/atoll-sandbox/atoll"
)

// algorithms are those by which tokens may be signed: asymmetric ones only, so that no public key is taken for a
// shared secret.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA}

// Times of a provider's keys.
const (
	keyAge      = 10 * time.Minute // after which they are read again: a key that the provider has withdrawn is not used longer
	keyStale    = time.Hour        // for which they are used while the provider does not answer
	keyInterval = 10 * time.Second // between two attempts to read them: tokens with unknown keys can't make more
)

// keySet holds the keys of a provider.
type keySet struct {
	read func(ctx context.Context) ([]byte, error) // a JSON Web Key Set; it has a deadline of its own
	now  func() time.Time

	mu      sync.Mutex
	keys    []jose.JSONWebKey // guarded by mu
	got     time.Time         // when keys were read; guarded by mu
	tried   time.Time         // last attempt; guarded by mu
	err     error             // of the last attempt; guarded by mu
	reading chan struct{}     // closed at the end of an attempt in progress; nil: there is none; guarded by mu
}

// verify returns the payload of a token that one of the keys has signed: ErrDenied if none has, ErrUnavailable if
// the keys can't be read.
func (k *keySet) verify(ctx context.Context, token string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(token, algorithms)
	if err != nil {
		return nil, fmt.Errorf("%w: malformed token, or one with an algorithm that is not accepted", atoll.ErrDenied)
	}
	keys, err := k.currentKeys(ctx, false)
	if err != nil {
		return nil, err
	}
	if payload, ok := verifyWith(keys, jws); ok {
		return payload, nil
	}
	if keys, err = k.currentKeys(ctx, true); err != nil {
		return nil, err
	}
	if payload, ok := verifyWith(keys, jws); ok {
		return payload, nil
	}
	return nil, fmt.Errorf("%w: the token is signed with no key of its issuer", atoll.ErrDenied)
}

func verifyWith(keys []jose.JSONWebKey, jws *jose.JSONWebSignature) ([]byte, bool) {
	head := jws.Signatures[0].Header
	for i := range keys {
		key := &keys[i]
		if !key.IsPublic() || key.Use == "enc" || key.Algorithm != "" && key.Algorithm != head.Algorithm || head.KeyID != "" && key.KeyID != head.KeyID {
			continue
		}
		if payload, err := jws.Verify(key); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// currentKeys returns the keys, read anew if they are old or newer ones are wanted. While a provider does not answer, only
// those wait for it whom the keys of before are no help.
func (k *keySet) currentKeys(ctx context.Context, newer bool) ([]jose.JSONWebKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !newer && k.newerThan(keyAge) {
		return k.keys, nil
	}
	if k.reading == nil && (k.tried.IsZero() || k.now().Sub(k.tried) >= keyInterval) {
		k.reading = make(chan struct{})
		go k.readKeys(context.WithoutCancel(ctx)) // others wait for it, too
	}
	if reading := k.reading; reading != nil && (newer || k.err == nil || !k.newerThan(keyStale)) {
		if err := k.awaitKeys(ctx, reading); err != nil {
			return nil, err
		}
	}
	if k.err != nil && (newer || !k.newerThan(keyStale)) {
		return nil, k.err
	}
	return k.keys, nil
}

// newerThan reports whether there are keys that were read less than a time ago. The caller holds mu.
func (k *keySet) newerThan(age time.Duration) bool {
	return !k.got.IsZero() && k.now().Sub(k.got) < age
}

// awaitKeys waits for an attempt to read the keys, without mu, which the caller holds.
func (k *keySet) awaitKeys(ctx context.Context, reading <-chan struct{}) error {
	k.mu.Unlock()
	defer k.mu.Lock()
	select {
	case <-reading:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readKeys reads the keys.
func (k *keySet) readKeys(ctx context.Context) {
	b, err := k.read(ctx)
	var keys []jose.JSONWebKey
	if err == nil {
		keys, err = parseKeys(b)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried, k.err = k.now(), err
	if err == nil {
		k.keys, k.got = keys, k.tried
	}
	close(k.reading)
	k.reading = nil
}

// parseKeys parses a JSON Web Key Set. Keys of kinds that are not known are left out.
func parseKeys(b []byte) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, fmt.Errorf("%w: the keys are no JSON Web Key Set: %w", atoll.ErrUnavailable, err)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.Valid() && key.IsPublic() {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.Join(atoll.ErrUnavailable, errors.New("the JSON Web Key Set has no public key"))
	}
	return keys, nil
}
