package kubernetes

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/state/atomicfile"
)

// keyName is the name of the file of the host's key in the driver's directory, in PEM as openssl and
// Helm write it.
const keyName = "host.key"

// baseDir returns the directory of this driver on this host.
func (d *Driver) baseDir() string {
	if d.Dir != "" {
		return d.Dir
	}
	if home := os.Getenv("ATOLL_HOME"); home != "" {
		return filepath.Join(home, "kubernetes")
	}
	if home, err := os.UserHomeDir(); err == nil && os.Getuid() != 0 {
		return filepath.Join(home, ".local", "share", "atoll", "kubernetes")
	}
	return "/var/lib/atoll/kubernetes"
}

// hostKey returns the key by which guests authenticate this host. It is created at its first use.
func (d *Driver) hostKey() (ed25519.PrivateKey, error) {
	path := d.Key
	if path == "" {
		path = filepath.Join(d.baseDir(), keyName)
	}
	b, err := os.ReadFile(path)
	if d.Key == "" && errors.Is(err, fs.ErrNotExist) {
		b, err = newKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("the host's key: %w", err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%w: the host's key: %s is no PEM", atoll.ErrInvalid, path)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: the host's key: %s: %w", atoll.ErrInvalid, path, err)
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%w: the host's key: %s is %T: must be Ed25519", atoll.ErrInvalid, path, k)
	}
	return key, nil
}

// newKey creates the key. Of several processes at once, the first wins.
func newKey(path string) (_ []byte, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err := atomicfile.Create(path, text, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}
