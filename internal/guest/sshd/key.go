package sshd

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"golang.org/x/crypto/ssh"
)

// Domain is the suffix of the SSH host names of sandboxes: "box.atoll".
const Domain = ".atoll"

// unusedAge is the time after which unused keys are removed. If the sandbox still
// exists, new keys are created.
const unusedAge = 90 * 24 * time.Hour

const (
	hostFile   = "host"        // private key of the server
	clientFile = "key"         // private key of the client
	knownFile  = "known_hosts" // the server's public key, for the client
	recentFile = "used"        // its modification time is that of the last use
)

// Keys is a directory with the SSH keys of sandboxes: for each a host key and
// a client key. Only its owner may read it. Several processes may use it
// concurrently.
type Keys struct{ Dir string }

// Identity holds the keys of one sandbox.
type Identity struct {
	Host   ssh.Signer
	Client ssh.PublicKey

	KeyFile    string // of the client's private key
	KnownHosts string // file with the server's public key
}

// Ensure returns the keys of a sandbox and creates them if they are missing. It
// links them to a host name, given with or without Domain: the files are then
// also found in the directory of that name.
func (k Keys) Ensure(host, id string) (Identity, error) {
	name := strings.TrimSuffix(host, Domain)
	if err := errors.Join(atoll.CheckName(name), atoll.CheckID(id)); err != nil {
		return Identity{}, err
	}
	if err := k.ensureDir(); err != nil {
		return Identity{}, fmt.Errorf("SSH keys: %w", err)
	}
	k.removeStale(time.Now().Add(-unusedAge))
	i, err := k.loadIdentity(id)
	if errors.Is(err, fs.ErrNotExist) {
		if err = k.createKeys(id); err == nil {
			i, err = k.loadIdentity(id)
		}
	}
	if err == nil {
		err = k.linkHost(name+Domain, id)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("SSH keys of %s: %w", name, err)
	}
	return i, nil
}

// Path returns the directory of a host's files, for an SSH configuration: "%h" is any host.
func (k Keys) Path(host string) string { return filepath.Join(k.Dir, host) }

// ensureDir creates the directory and makes it private to this user.
func (k Keys) ensureDir() error {
	if err := os.MkdirAll(k.Dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(k.Dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is not a directory", atoll.ErrInvalid, k.Dir)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(k.Dir, 0o700) // fails if another user owns it
	}
	return nil
}

// loadIdentity reads the keys of a sandbox and marks them as used.
func (k Keys) loadIdentity(id string) (Identity, error) {
	dir := filepath.Join(k.Dir, id)
	i := Identity{KeyFile: filepath.Join(dir, clientFile), KnownHosts: filepath.Join(dir, knownFile)}
	var err error
	if i.Host, err = readSigner(filepath.Join(dir, hostFile)); err != nil {
		return i, err
	}
	client, err := readSigner(i.KeyFile)
	if err != nil {
		return i, err
	}
	i.Client = client.PublicKey()
	now := time.Now()
	return i, os.Chtimes(filepath.Join(dir, recentFile), now, now)
}

func readSigner(file string) (ssh.Signer, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it to create new keys", filepath.Dir(file), err)
	}
	return s, nil
}

// createKeys creates the keys of a sandbox atomically. If another process was first, its keys stay.
func (k Keys) createKeys(id string) error {
	tmp, err := os.MkdirTemp(k.Dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	host, hostPub, err := newKey("sandbox " + id)
	if err != nil {
		return err
	}
	client, _, err := newKey("atoll, for sandbox " + id)
	if err != nil {
		return err
	}
	// The file belongs to one sandbox, so its key is valid for any host name.
	known := append([]byte("* "), ssh.MarshalAuthorizedKey(hostPub)...)
	for name, data := range map[string][]byte{hostFile: host, clientFile: client, knownFile: known, recentFile: nil} {
		if err := os.WriteFile(filepath.Join(tmp, name), data, 0o600); err != nil {
			return err
		}
	}
	err = os.Rename(tmp, filepath.Join(k.Dir, id))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// newKey returns a private key in OpenSSH format and its public key.
func newKey(comment string) ([]byte, ssh.PublicKey, error) {
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return nil, nil, err
	}
	p, err := ssh.NewPublicKey(pub)
	return pem.EncodeToMemory(block), p, err
}

// linkHost links a host name to a sandbox's keys.
func (k Keys) linkHost(host, id string) error {
	link := filepath.Join(k.Dir, host)
	if to, err := os.Readlink(link); err == nil && to == id {
		return nil
	}
	tmp, err := os.MkdirTemp(k.Dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := os.Symlink(id, filepath.Join(tmp, "link")); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "link"), link)
}

// Remove removes the keys of a sandbox. Missing keys are not an error.
func (k Keys) Remove(id string) error {
	if err := atoll.CheckID(id); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(k.Dir, id)); err != nil {
		return fmt.Errorf("SSH keys of %s: %w", id, err)
	}
	k.removeStale(time.Time{})
	return nil
}

// removeStale removes keys that were last used before a time, and dangling host
// links. It ignores errors: the next call tries again.
func (k Keys) removeStale(before time.Time) {
	entries, err := os.ReadDir(k.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(k.Dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), ".new-"):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > time.Hour {
				_ = os.RemoveAll(path) // of a process that died
			}
		case e.Type()&fs.ModeSymlink != 0:
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				_ = os.Remove(path)
			}
		case e.IsDir() && atoll.CheckID(e.Name()) == nil:
			if info, err := os.Stat(filepath.Join(path, recentFile)); err == nil && info.ModTime().Before(before) {
				_ = os.RemoveAll(path)
			}
		}
	}
}
