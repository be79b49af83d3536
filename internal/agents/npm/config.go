package npm

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// ConfiguredRegistry returns the registry that npm would use for this user: the
// one in npm_config_registry, or in .npmrc of the home directory.
func ConfiguredRegistry(env func(string) (string, bool)) (*Registry, error) {
	r := &Registry{}
	file, ok := env("npm_config_userconfig")
	if !ok {
		home, ok := env("HOME")
		if !ok {
			return r.fromEnv(env), nil
		}
		file = filepath.Join(home, ".npmrc")
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r.fromEnv(env), nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := r.read(f, env); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r.fromEnv(env), nil
}

func (r *Registry) fromEnv(env func(string) (string, bool)) *Registry {
	for _, name := range []string{"NPM_CONFIG_REGISTRY", "npm_config_registry"} { // the last one wins
		if v, ok := env(name); ok && v != "" {
			r.URL = v
		}
	}
	return r
}

// maxConfig is the longest line of .npmrc, in bytes.
const maxConfig = 64 << 10

// read parses the lines of .npmrc about registries and tokens.
func (r *Registry) read(file io.Reader, env func(string) (string, bool)) error {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxConfig)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		key, value = strings.TrimSpace(key), expandVariables(strings.Trim(strings.TrimSpace(value), `"'`), env)
		scope, scoped := strings.CutSuffix(key, ":registry")
		host, secret := strings.CutSuffix(key, ":_authToken")
		switch {
		case key == "registry":
			r.URL = value
		case scoped && strings.HasPrefix(scope, "@"):
			if r.Scopes == nil {
				r.Scopes = make(map[string]string)
			}
			r.Scopes[scope] = value
		case secret && strings.HasPrefix(host, "//"):
			if r.Tokens == nil {
				r.Tokens = make(map[string]string)
			}
			r.Tokens[host] = value
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", atoll.ErrInvalid, err)
	}
	return nil
}

// expandVariables replaces ${NAME} by variables; unknown ones stay.
func expandVariables(s string, env func(string) (string, bool)) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		name, after, closed := strings.Cut(rest, "}")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		v, known := env(name)
		if !closed || !known {
			b.WriteString("${")
			s = rest
			continue
		}
		b.WriteString(v)
		s = after
	}
}
