package sshd

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/atoll-sandbox/atoll"
)

// Domain is the end of the names by which SSH knows sandboxes: "box.atoll".
const Domain = ".atoll"

// unused is after how long keys that nobody has used are removed. A sandbox that
// outlives them gets new ones.
const unused = 90 * 24 * time.Hour

const (
	hostFile   = "host"        // private key of the server
	clientFile = "key"         // private key of the client
	knownFile  = "known_hosts" // the server's public key, for the client
	recentFile = "used"        // its time is when they were used last
)

// Keys are a directory with keys of sandboxes: for each a pair of the server's
// and a pair of the client's. Only its owner may read it. Processes may use it at
// once.
type Keys struct{ Dir string }

// Identity is the keys of one sandbox.
type Identity struct {
	Host   ssh.Signer
	Client ssh.PublicKey

	KeyFile    string // of the client's private key
	KnownHosts string // file that says who the server is
}

// For returns the keys of a sandbox, which are made if they are not there, and
// makes them those of a host, its name with or without Domain: the files are then
// also found below the directory of that name.
func (k Keys) For(host, id string) (Identity, error) {
	name := strings.TrimSuffix(host, Domain)
	if err := errors.Join(atoll.CheckName(name), atoll.CheckID(id)); err != nil {
		return Identity{}, err
	}
	if err := k.closed(); err != nil {
		return Identity{}, fmt.Errorf("keys of SSH: %w", err)
	}
	k.sweep(time.Now().Add(-unused))
	i, err := k.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		if err = k.make(id); err == nil {
			i, err = k.read(id)
		}
	}
	if err == nil {
		err = k.name(name+Domain, id)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("keys of SSH of %s: %w", name, err)
	}
	return i, nil
}

// Path is the directory of a host's files, as SSH writes it: "%h" is any host.
func (k Keys) Path(host string) string { return filepath.Join(k.Dir, host) }

// closed makes the directory, and sees that only this user can look into it.
func (k Keys) closed() error {
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
		return os.Chmod(k.Dir, 0o700) // not this user's: refused
	}
	return nil
}

// read reads the keys of a sandbox, which are then in use.
func (k Keys) read(id string) (Identity, error) {
	dir := filepath.Join(k.Dir, id)
	i := Identity{KeyFile: filepath.Join(dir, clientFile), KnownHosts: filepath.Join(dir, knownFile)}
	var err error
	if i.Host, err = signer(filepath.Join(dir, hostFile)); err != nil {
		return i, err
	}
	client, err := signer(i.KeyFile)
	if err != nil {
		return i, err
	}
	i.Client = client.PublicKey()
	now := time.Now()
	return i, os.Chtimes(filepath.Join(dir, recentFile), now, now)
}

func signer(file string) (ssh.Signer, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it, and new ones are made", filepath.Dir(file), err)
	}
	return s, nil
}

// make makes the keys of a sandbox in one step. Who is second has the first one's.
func (k Keys) make(id string) error {
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
	// The file is one sandbox's: whatever it is called, it is this one.
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

// newKey returns a private key as OpenSSH writes it, and its public one.
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

// name makes a host's name lead to a sandbox's keys.
func (k Keys) name(host, id string) error {
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

// Forget removes the keys of a sandbox. There may be none.
func (k Keys) Forget(id string) error {
	if err := atoll.CheckID(id); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(k.Dir, id)); err != nil {
		return fmt.Errorf("keys of SSH of %s: %w", id, err)
	}
	k.sweep(time.Time{})
	return nil
}

// sweep removes keys that were used last before a time, and names that lead to
// none. What can't be removed now is at the next time.
func (k Keys) sweep(before time.Time) {
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

// program returns the file that serves SFTP, and its path inside, which is named
// after its content.
func (s *Server) program() (name string, data []byte, err error) {
	file, err := s.Program()
	if err != nil {
		return "", nil, err
	}
	if data, err = os.ReadFile(file); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(data)
	return "/tmp/.atoll/sftp-" + hex.EncodeToString(sum[:8]), data, nil
}
