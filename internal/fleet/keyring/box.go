package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
)

// keySize is the size of master keys and data keys, of AES-256, in bytes.
const keySize = 32

// box encrypts and decrypts with one key: AES-256-GCM with random nonces.
type box struct{ aead cipher.AEAD }

func newBox(key []byte) box {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the size of the key is checked by all callers
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the right block size
	}
	return box{aead}
}

// seal encrypts a value. Only open with the same context decrypts it.
func (b box) seal(plain []byte, context string) string {
	return base64.RawStdEncoding.EncodeToString(b.aead.Seal(nil, nil, plain, []byte(context)))
}

var errChanged = errors.New("it was changed, or belongs to another row")

// open decrypts a value.
func (b box) open(text, context string) ([]byte, error) {
	sealed, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errChanged
	}
	plain, err := b.aead.Open(nil, nil, sealed, []byte(context))
	if err != nil {
		return nil, errChanged
	}
	return plain, nil
}

// A sealed value is this prefix, the id of the data key, a colon and the result of box.seal.
const sealedPrefix = "enc:"

// parseSealed returns the id of the data key of a sealed value, and the rest; ok is false if it is not one.
func parseSealed(text string) (id, rest string, ok bool) {
	after, ok := strings.CutPrefix(text, sealedPrefix)
	if !ok {
		return "", "", false
	}
	id, rest, ok = strings.Cut(after, ":")
	return id, rest, ok && len(id) == dataKeyIDSize
}

// IsSealed reports whether a stored value is encrypted.
func IsSealed(text string) bool {
	_, _, ok := parseSealed(text)
	return ok
}

// Place is where a value is stored: it can be decrypted there only.
type Place struct {
	Column string // "TABLE.COLUMN"
	Row    string // primary key
}

// context returns the associated data of values at the place.
func (p Place) context() string { return "atoll value\x00" + p.Column + "\x00" + p.Row }

// Key is a data key. A nil Key leaves values as they are.
type Key struct {
	id     string
	master string // id of the master key that it is encrypted with
	box    box
	digest []byte // key of Digest
}

func newKey(id, master string, secret []byte) *Key {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("atoll digest key"))
	return &Key{id: id, master: master, box: newBox(secret), digest: m.Sum(nil)}
}

// Seal encrypts a value for a place. An empty value stays empty.
func (k *Key) Seal(p Place, plain []byte) string {
	if k == nil || len(plain) == 0 {
		return string(plain)
	}
	return sealedPrefix + k.id + ":" + k.box.seal(plain, p.context())
}

// Digest returns a text that is the same for the same value and key, and shows nothing else of the value.
func (k *Key) Digest(value []byte) string {
	m := hmac.New(sha256.New, k.digest)
	m.Write(value)
	return hex.EncodeToString(m.Sum(nil))
}
