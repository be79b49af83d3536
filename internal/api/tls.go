package api

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

// TLSFiles are the files of a server's certificate. They are read again when they change; if that
// fails, the earlier certificate stays in use.
type TLSFiles struct {
	Cert     string       // PEM, the server's own first
	Key      string       // PEM
	ClientCA string       // PEM; not empty: clients need a certificate of one of these
	Log      *slog.Logger // nil: no log

	ClientOptional bool // clients may come without a certificate; one that they show must be of ClientCA
}

// wrapListener wraps l with TLS, if the files are valid.
func (f *TLSFiles) wrapListener(l net.Listener) (net.Listener, error) {
	k, err := f.newReloader()
	if err != nil {
		return nil, err
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.currentConfig(), nil },
	}), nil
}

// Config returns a TLS configuration that follows the files, with HTTP/2, for other servers.
func (f *TLSFiles) Config() (*tls.Config, error) {
	k, err := f.newReloader()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := k.currentConfig().Clone()
		c.NextProtos = []string{"h2", "http/1.1"}
		return c, nil
	}}, nil
}

// newReloader returns a reloader of the files, if they are valid.
func (f *TLSFiles) newReloader() (*certReloader, error) {
	k := &certReloader{files: *f, now: time.Now}
	if k.files.Log == nil {
		k.files.Log = slog.New(slog.DiscardHandler)
	}
	return k, k.read()
}

// certReloader holds a TLS configuration and reloads it when its files change.
type certReloader struct {
	files TLSFiles
	now   func() time.Time

	mu     sync.Mutex
	config *tls.Config // guarded by mu
	seen   []fileStat  // when the files were last read; guarded by mu
	looked time.Time   // guarded by mu
}

// fileStat identifies a version of a file.
type fileStat struct {
	size int64
	time time.Time
	info fs.FileInfo
}

func (s fileStat) equal(o fileStat) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return s.size == o.size && s.time.Equal(o.time) && os.SameFile(s.info, o.info)
}

// reloadInterval is the minimum time between two checks of the files.
const reloadInterval = time.Second

// currentConfig returns the present configuration, reloaded if necessary.
func (k *certReloader) currentConfig() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now().Sub(k.looked) < reloadInterval {
		return k.config
	}
	k.looked = k.now()
	now := k.statFiles()
	for i := range now {
		if !now[i].equal(k.seen[i]) {
			k.seen = now
			config, err := k.files.loadConfig()
			if err != nil {
				k.files.Log.Error("the changed certificate is invalid and not used", "err", err)
				break
			}
			k.config = config
			k.files.Log.Info("certificate reloaded", "file", k.files.Cert)
			break
		}
	}
	return k.config
}

// read reads the files for the first time.
func (k *certReloader) read() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen, k.looked = k.statFiles(), k.now()
	var err error
	k.config, err = k.files.loadConfig()
	return err
}

func (k *certReloader) statFiles() []fileStat {
	list := make([]fileStat, 3)
	for i, name := range []string{k.files.Cert, k.files.Key, k.files.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			list[i] = fileStat{info.Size(), info.ModTime(), info}
		}
	}
	return list
}

// loadConfig reads the files.
func (f *TLSFiles) loadConfig() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, tlsError("certificate "+f.Cert+" with key "+f.Key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	if f.ClientCA == "" {
		return c, nil
	}
	pem, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, tlsError("client certificates", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, tlsError("client certificates "+f.ClientCA, errors.New("the file holds no certificate"))
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if f.ClientOptional {
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	return c, nil
}

func tlsError(what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("TLS: %s: %w", what, err)
	}
	return fmt.Errorf("%w: TLS: %s: %w", atoll.ErrInvalid, what, err)
}
