package keyring

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/fleet/hostcommand"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// commandTimeout limits the duration of the key command.
const commandTimeout = 30 * time.Second

// Limits of a key file, and of what a key command prints.
const (
	maxFile = 64 << 10 // bytes
	maxKeys = 16
)

// noKey is the entry in place of the first key that turns encryption off.
const noKey = "none"

// Options name what holds the master keys: a file, or a command that prints them. With neither, nothing is
// encrypted.
type Options struct {
	// File has a key on each line: 32 bytes in base64. The first encrypts, all decrypt. "none" as the first
	// means that values are decrypted and stored as plain text. Lines that begin with # are comments.
	File string

	Command []string // prints what a file would hold; it is run once
}

// IsSet reports whether there are keys.
func (o Options) IsSet() bool { return o.File != "" || len(o.Command) > 0 }

// source returns the setting that names the keys and its value, for errors.
func (o Options) source() string {
	if o.File != "" {
		return "secrets.key_file " + o.File
	}
	return "secrets.key_command " + o.Command[0]
}

// check reports options that exclude each other.
func (o Options) check() error {
	if o.File != "" && len(o.Command) > 0 {
		return fmt.Errorf("%w: secrets.key_file and secrets.key_command are both set: set one of them", atoll.ErrInvalid)
	}
	if o.File != "" && !filepath.IsAbs(o.File) {
		return fmt.Errorf("%w: secrets.key_file %s: must be an absolute path", atoll.ErrInvalid, o.File)
	}
	return nil
}

// masterKey encrypts data keys.
type masterKey struct {
	id  string
	box box
}

// masterKeys are the keys that a file or command holds.
type masterKeys struct {
	keys []masterKey
	off  bool // the first entry is noKey
}

// find returns a key by id; nil: there is none.
func (m *masterKeys) find(id string) *masterKey {
	i := slices.IndexFunc(m.keys, func(k masterKey) bool { return k.id == id })
	if i < 0 {
		return nil
	}
	return &m.keys[i]
}

// ids returns the ids of the keys, for errors.
func (m *masterKeys) ids() string {
	var list []string
	for _, k := range m.keys {
		list = append(list, k.id)
	}
	return strings.Join(list, ", ")
}

// Check reads the keys and returns the id of the one that encrypts; empty: encryption is off. A missing file is
// fs.ErrNotExist. It creates nothing.
func Check(ctx context.Context, o Options) (id string, err error) {
	if err := o.check(); err != nil || !o.IsSet() {
		return "", err
	}
	m, err := readMasters(ctx, o)
	if err != nil || m.off {
		return "", err
	}
	return m.keys[0].id, nil
}

// readMasters reads the master keys.
func readMasters(ctx context.Context, o Options) (*masterKeys, error) {
	var b []byte
	var err error
	if o.File != "" {
		b, err = readKeyFile(o.File)
	} else {
		b, err = hostcommand.Run(ctx, o.Command, commandTimeout)
	}
	if err == nil {
		var m *masterKeys
		if m, err = parseMasters(string(b)); err == nil {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", o.source(), err)
}

// readKeyFile reads a regular file that other users can't read or write.
func readKeyFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: it is not a file", atoll.ErrInvalid)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%w: every user of this machine has access to it (mode %04o): chmod 600 it; in Kubernetes, set defaultMode 0440 for the secret's volume", atoll.ErrDenied, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%w: it is larger than %d bytes", atoll.ErrInvalid, maxFile)
	}
	return b, err
}

// createKeyFile writes a file with a new key, readable for this user only. An existing file is kept.
func createKeyFile(name string) error {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	text := "# Encrypts the secrets in atoll's registry. Without it they are lost: keep a copy, apart from backups of the registry.\n" +
		base64.StdEncoding.EncodeToString(key) + "\n"
	if err := atomicfile.Create(name, []byte(text), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("secrets.key_file %s: %w", name, err)
	}
	return nil
}

// parseMasters parses keys, one on a line. Errors don't show them.
func parseMasters(text string) (*masterKeys, error) {
	m := &masterKeys{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if line == noKey && len(m.keys) == 0 && !m.off {
			m.off = true
			continue
		}
		key, err := decodeKey(line)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", atoll.ErrInvalid, i+1, err)
		}
		k := masterKey{id: keyID(key), box: newBox(key)}
		if m.find(k.id) != nil {
			return nil, fmt.Errorf("%w: line %d: the key %s is there already", atoll.ErrInvalid, i+1, k.id)
		}
		if m.keys = append(m.keys, k); len(m.keys) > maxKeys {
			return nil, fmt.Errorf("%w: there are more than %d keys", atoll.ErrInvalid, maxKeys)
		}
	}
	if len(m.keys) == 0 && !m.off {
		return nil, fmt.Errorf("%w: there is no key: each line holds one, made by 'openssl rand -base64 32'", atoll.ErrInvalid)
	}
	return m, nil
}

// decodeKey decodes a key of 32 bytes from base64 with or without padding.
func decodeKey(text string) ([]byte, error) {
	enc := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		enc = base64.RawURLEncoding
	}
	key, err := enc.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("must be %d random bytes in base64, made by 'openssl rand -base64 %d'", keySize, keySize)
	}
	if key[0] == key[1] && strings.Count(string(key), string(key[:1])) == keySize {
		return nil, errors.New("must be random bytes: all of its bytes are equal")
	}
	return key, nil
}

// keyID returns the public id of a key.
func keyID(key []byte) string {
	sum := sha256.Sum256(append([]byte("atoll master key\x00"), key...))
	return hex.EncodeToString(sum[:6])
}
