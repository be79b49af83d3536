package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"github.com/atoll-sandbox/atoll"
)

// location is the address of an engine and how to connect to it.
type location struct {
	host string
	tls  string // directory of ca.pem, cert.pem and key.pem; empty: none
	env  bool   // TLS as in the environment
}

// findEngine finds the engine as Docker's own command does, and then as Podman's does.
func findEngine(host string) (location, error) {
	if host != "" {
		return location{host: host}, nil
	}
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return location{host: host, env: true}, nil
	}
	at, err := contextLocation()
	if err != nil || at.host != "" {
		return at, err
	}
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	for _, path := range []string{"/var/run/docker.sock", runtime + "/docker.sock", "/run/podman/podman.sock", runtime + "/podman/podman.sock"} {
		if _, err := os.Stat(path); err == nil {
			return location{host: "unix://" + path}, nil
		}
	}
	return location{host: client.DefaultDockerHost}, nil
}

// contextLocation returns the location of the context that `docker context use` has chosen; the zero
// location is that of the default context.
func contextLocation() (location, error) {
	dir := os.Getenv("DOCKER_CONFIG")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return location{}, nil //nolint:nilerr // without a home directory there are no contexts
		}
		dir = filepath.Join(home, ".docker")
	}
	name := os.Getenv("DOCKER_CONTEXT")
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		if err := readJSON(filepath.Join(dir, "config.json"), &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return location{}, err
		}
		name = config.CurrentContext
	}
	if name == "" || name == "default" {
		return location{}, nil
	}
	sum := sha256.Sum256([]byte(name))
	key := hex.EncodeToString(sum[:])
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := readJSON(filepath.Join(dir, "contexts", "meta", key, "meta.json"), &meta); err != nil {
		return location{}, fmt.Errorf("docker context %s: %w", name, err)
	}
	at := location{host: meta.Endpoints["docker"].Host}
	if at.host == "" {
		return location{}, fmt.Errorf("%w: docker context %s names no host", atoll.ErrInvalid, name)
	}
	certs := filepath.Join(dir, "contexts", "tls", key, "docker")
	if _, err := os.Stat(certs); err == nil {
		at.tls = certs
	}
	return at, nil
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", atoll.ErrInvalid, path, err)
	}
	return nil
}

// clientOptions returns the options of the engine's client.
func (l location) clientOptions() ([]client.Opt, error) {
	if strings.HasPrefix(l.host, "ssh://") {
		dial, err := sshDialer(l.host)
		if err != nil {
			return nil, err
		}
		return []client.Opt{client.WithHost("http://docker.invalid"), client.WithDialContext(dial)}, nil
	}
	opts := []client.Opt{client.WithHost(l.host)}
	switch {
	case l.tls != "":
		opts = append(opts, client.WithTLSClientConfig(filepath.Join(l.tls, "ca.pem"), filepath.Join(l.tls, "cert.pem"), filepath.Join(l.tls, "key.pem")))
	case l.env:
		opts = append(opts, client.WithTLSClientConfigFromEnv(), client.WithAPIVersionFromEnv())
	}
	return opts, nil
}

// sshDialer returns a dialer that connects as Docker's command does: by `docker system dial-stdio` on
// the other host.
func sshDialer(host string) (func(context.Context, string, string) (net.Conn, error), error) {
	u, err := url.Parse(host)
	if err != nil {
		return nil, err
	}
	if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-") || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("%w: must be ssh://[user@]host[:port]", atoll.ErrInvalid)
	}
	args := []string{"-o", "ConnectTimeout=30", "-T"}
	if name := u.User.Username(); name != "" {
		args = append(args, "-l", name)
	}
	if port := u.Port(); port != "" {
		args = append(args, "-p", port)
	}
	args = append(args, "--", u.Hostname(), "docker", "system", "dial-stdio")
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return startConn(ctx, "ssh", args) }, nil
}
