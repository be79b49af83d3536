// Package secretref resolves references to secrets that are outside of atoll: secret://PROVIDER/NAME. A provider of
// the configuration runs a command of this host, such as the client of Vault, reads a file or a variable. Only names
// that its configuration allows are asked for.
package secretref

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Scheme begins a reference.
const Scheme = "secret://"

// Limits and defaults of providers.
const (
	MaxValue       = 64 << 10 // bytes of a value
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
	defaultCache   = 5 * time.Minute
	maxCache       = 24 * time.Hour
	maxName        = 200 // bytes
)

// placeholder is replaced by the name of the secret in the arguments of a command.
const placeholder = "{name}"

// Provider configures where secrets come from: exactly one of Command, Directory and Environment is set.
type Provider struct {
	Command     []string `json:"command,omitempty"`     // prints the value; {name} in its arguments is the name
	Directory   string   `json:"directory,omitempty"`   // has a file for each name
	Environment bool     `json:"environment,omitempty"` // the names are variables of the server's environment

	Allow  []string `json:"allow"`            // patterns of names, like team/*; others are refused
	Owners []string `json:"owners,omitempty"` // APP/USER or APP/* that may use it without the scope host

	Timeout Duration `json:"timeout,omitempty"` // of a command; 0: 10 seconds
	Cache   Duration `json:"cache,omitempty"`   // how long a value is used again; 0: 5 minutes
}

// Duration is a duration that is written like 30s.
type Duration time.Duration

// UnmarshalJSON reads a text like 30s.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return errors.New("must be a duration, like 30s")
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q must be a duration, like 30s", text)
	}
	*d = Duration(v)
	return nil
}

// ParseProviders reads providers by name from JSON. It reports every mistake.
func ParseProviders(text string) (map[string]*Provider, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, errors.New("must be {NAME: {…}}, as docs/secrets.md shows")
	}
	list := make(map[string]*Provider)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		p := &Provider{}
		d := json.NewDecoder(bytes.NewReader(raw[name]))
		d.DisallowUnknownFields()
		err := d.Decode(&p)
		if err == nil && p == nil {
			err = errors.New("must have command, directory or environment")
		}
		if err == nil {
			if _, more := d.Token(); !errors.Is(more, io.EOF) {
				err = errors.New("there is more than one value")
			}
		}
		if err == nil {
			err = errors.Join(atoll.CheckName(name), p.check())
		}
		if err != nil {
			texts = append(texts, name+": "+strings.ReplaceAll(strings.TrimPrefix(err.Error(), "json: "), "\n", "; "))
		}
		list[name] = p
	}
	if len(texts) > 0 {
		return nil, errors.New(strings.Join(texts, "; "))
	}
	return list, nil
}

// check reports every mistake in a provider.
func (p *Provider) check() error {
	var errs []error
	add := func(wrong bool, text string) {
		if wrong {
			errs = append(errs, errors.New(text))
		}
	}
	kinds := 0
	for _, set := range []bool{len(p.Command) > 0, p.Directory != "", p.Environment} {
		if set {
			kinds++
		}
	}
	add(kinds != 1, "must have exactly one of command, directory and environment")
	if len(p.Command) > 0 {
		add(p.Command[0] == "" || strings.Contains(p.Command[0], placeholder), "command: the program must be fixed")
		add(!strings.Contains(strings.Join(p.Command[1:], "\x00"), placeholder), "command: an argument must contain {name}")
	}
	add(p.Directory != "" && !filepath.IsAbs(p.Directory), "directory must be an absolute path")
	add(len(p.Allow) == 0, "allow must have patterns of names, like team/*: without one nothing is allowed")
	for _, pattern := range p.Allow {
		_, err := path.Match(pattern, "x")
		add(err != nil || pattern == "", fmt.Sprintf("allow: %q must be a pattern like team/*", pattern))
	}
	for _, o := range p.Owners {
		app, user, ok := strings.Cut(o, "/")
		add(!ok || atoll.CheckName(app) != nil || user == "", fmt.Sprintf("owners: %q must be APP/USER or APP/*", o))
	}
	add(p.Timeout < 0 || time.Duration(p.Timeout) > maxTimeout, fmt.Sprintf("timeout must be at most %v", maxTimeout))
	add(p.Cache < 0 || time.Duration(p.Cache) > maxCache, fmt.Sprintf("cache must be at most %v", maxCache))
	return errors.Join(errs...)
}

// allowsOwner reports whether an owner may use the provider without the scope host.
func (p *Provider) allowsOwner(o atoll.Owner) bool {
	return slices.Contains(p.Owners, o.App+"/"+o.User) || slices.Contains(p.Owners, o.App+"/*")
}

// allowsName reports whether a name may be asked for. In a pattern * stands for all but a slash.
func (p *Provider) allowsName(name string) bool {
	return slices.ContainsFunc(p.Allow, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	})
}
