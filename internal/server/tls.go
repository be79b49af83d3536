package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// TLSFiles are where a server's certificate lies. They are read again when they
// change; what can't be read then does not replace what was read before.
type TLSFiles struct {
	Cert     string       // PEM, the server's own first
	Key      string       // PEM
	ClientCA string       // PEM; not empty: callers need a certificate of one of these too
	Log      *slog.Logger // nil: nothing is logged
}

// listener wraps l, if the files are good.
func (f *TLSFiles) listener(l net.Listener) (net.Listener, error) {
	k, err := f.keeper()
	if err != nil {
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current(), nil },
	}), nil
}

// Config returns a configuration that is always as the files are, for what else
// is served with them, HTTP/2 too, if they are good.
func (f *TLSFiles) Config() (*tls.Config, error) {
	k, err := f.keeper()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := k.current().Clone()
		c.NextProtos = []string{"h2", "http/1.1"}
		return c, nil
	}}, nil
}

// keeper returns what keeps the files' configuration, if they are good.
func (f *TLSFiles) keeper() (*keeper, error) {
	k := &keeper{files: *f, now: time.Now}
	if k.files.Log == nil {
		k.files.Log = slog.New(slog.DiscardHandler)
	}
	return k, k.read()
}

// keeper keeps a TLS configuration that is as its files are.
type keeper struct {
	files TLSFiles
	now   func() time.Time

	mu     sync.Mutex
	config *tls.Config // guarded by mu
	seen   []stat      // of the files when they were read last, guarded by mu
	looked time.Time   // guarded by mu
}

// stat is by what a file is known to be another.
type stat struct {
	size int64
	time time.Time
	info fs.FileInfo
}

func (s stat) same(o stat) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return s.size == o.size && s.time.Equal(o.time) && os.SameFile(s.info, o.info)
}

// lookEvery is how often the files are looked at, at most.
const lookEvery = time.Second

// current returns the configuration of now.
func (k *keeper) current() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now().Sub(k.looked) < lookEvery {
		return k.config
	}
	k.looked = k.now()
	now := k.stats()
	for i := range now {
		if !now[i].same(k.seen[i]) {
			k.seen = now
			config, err := k.files.config()
			if err != nil {
				k.files.Log.Error("the certificate has changed, but can't be used", "err", err)
				break
			}
			k.config = config
			k.files.Log.Info("the certificate was read again", "file", k.files.Cert)
			break
		}
	}
	return k.config
}

// read reads the files for the first time.
func (k *keeper) read() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen, k.looked = k.stats(), k.now()
	var err error
	k.config, err = k.files.config()
	return err
}

func (k *keeper) stats() []stat {
	list := make([]stat, 3)
	for i, name := range []string{k.files.Cert, k.files.Key, k.files.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			list[i] = stat{info.Size(), info.ModTime(), info}
		}
	}
	return list
}

// config reads the files.
func (f *TLSFiles) config() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, badTLS("certificate "+f.Cert+" with key "+f.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	if f.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, badTLS("certificates of callers", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, badTLS("certificates of callers "+f.ClientCA, errors.New("there is none in the file"))
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}

func badTLS(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("TLS: %s: %w", what, err)
	}
	return fmt.Errorf("%w: TLS: %s: %w", atoll.ErrInvalid, what, err)
}
