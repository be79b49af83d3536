// Package identity verifies callers by tokens of OpenID Connect providers and by client certificates, and decides by
// rules of the configuration which owner and scopes they get. What no rule names gets nothing.
package identity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Provider configures an issuer of tokens.
type Provider struct {
	Issuer   string `json:"issuer"`              // its URL, as tokens and its discovery document name it
	Audience string `json:"audience,omitempty"`  // of tokens of workloads
	CA       string `json:"ca,omitempty"`        // PEM file of certificates to trust besides the system's
	KeysFile string `json:"keys_file,omitempty"` // JSON Web Key Set of the issuer; empty: discovery finds it

	ClientID         string   `json:"client_id,omitempty"`          // of atoll, for logins of people; also an audience
	ClientSecretFile string   `json:"client_secret_file,omitempty"` // empty: a public client
	CLIClientID      string   `json:"cli_client_id,omitempty"`      // of 'atoll login', a public client; empty: ClientID, if that has no secret
	Scopes           []string `json:"scopes,omitempty"`             // that a login asks for; empty: openid, profile, email and groups

	GroupsClaim string   `json:"groups_claim,omitempty"` // empty: groups
	Lifetime    Duration `json:"lifetime,omitempty"`     // of atoll's tokens; 0: 12 hours for a provider with ClientID, else 15 minutes
	Rules       []Rule   `json:"rules"`                  // the first that matches decides
}

// Rule gives an owner and scopes to the callers that it matches.
type Rule struct {
	Group  string            `json:"group,omitempty"`  // a value of the groups claim
	Claims map[string]Values `json:"claims,omitempty"` // each must have one of its values
	Grant
}

// Grant is what a rule gives.
type Grant struct {
	Owner  string        `json:"owner"`            // APP/USER; in USER, {NAME} is the claim NAME of the token
	Role   atoll.Role    `json:"role,omitempty"`   // either
	Scopes []atoll.Scope `json:"scopes,omitempty"` // or
}

// Certificate gives an owner and scopes to a client certificate, found by exactly one of its names.
type Certificate struct {
	CommonName string `json:"common_name,omitempty"`
	DNS        string `json:"dns,omitempty"`
	Email      string `json:"email,omitempty"`
	URI        string `json:"uri,omitempty"` // like spiffe://example.com/ci
	Grant
}

// Values are the values of a claim that a rule accepts: in JSON one text, or a list of them.
type Values []string

// UnmarshalJSON reads a text or a list of texts.
func (v *Values) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*v = Values{one}
		return nil
	}
	if json.Unmarshal(b, (*[]string)(v)) != nil || len(*v) == 0 {
		return errors.New("the value of a claim must be a text, or a list of texts")
	}
	return nil
}

// Duration is a time.Duration whose JSON is a text such as "8h".
type Duration time.Duration

// UnmarshalJSON reads a duration above 0.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	_ = json.Unmarshal(b, &text) // what is no text is no duration either
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return fmt.Errorf("lifetime %s: must be a duration above 0, like \"8h\" or \"15m\"", b)
	}
	*d = Duration(v)
	return nil
}

// maxLifetime limits the tokens that a login gives: whether a user still may is asked only at the next login.
const maxLifetime = 7 * 24 * time.Hour

// ParseProviders reads {NAME: {issuer: URL, …}} as JSON, and reports every mistake.
func ParseProviders(text string) (map[string]*Provider, error) {
	return parseEntries(text, func(name string, p *Provider) error {
		if p == nil {
			return errors.New("must hold keys, like issuer")
		}
		return p.check()
	})
}

// ParseCertificates reads {NAME: {common_name: …, owner: …, role: …}} as JSON, and reports every mistake.
func ParseCertificates(text string) (map[string]*Certificate, error) {
	return parseEntries(text, func(name string, c *Certificate) error {
		if c == nil {
			return errors.New("must hold keys, like common_name")
		}
		return c.check()
	})
}

func parseEntries[T any](text string, check func(name string, entry *T) error) (map[string]*T, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, errors.New("must be {NAME: {…}}, as docs/login.md shows")
	}
	entries := make(map[string]*T)
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		entry, err := decodeEntry[T](raw[name])
		if err == nil {
			err = errors.Join(atoll.CheckName(name), check(name, entry))
		}
		if err != nil {
			texts = append(texts, name+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		entries[name] = entry
	}
	if len(texts) > 0 {
		return nil, errors.New(strings.Join(texts, "; "))
	}
	return entries, nil
}

func decodeEntry[T any](raw json.RawMessage) (*T, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var entry *T
	if err := d.Decode(&entry); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	return entry, nil
}

// check reports every mistake in a provider.
func (p *Provider) check() error {
	errs := []error{checkURL("issuer", p.Issuer)}
	add := func(wrong bool, text string) {
		if wrong {
			errs = append(errs, errors.New(text))
		}
	}
	add(p.ClientID == "" && p.Audience == "", "must have client_id (for logins of people), audience (for workloads), or both")
	add(p.ClientID == "" && (p.ClientSecretFile != "" || p.CLIClientID != "" || len(p.Scopes) > 0), "client_secret_file, cli_client_id and scopes need client_id")
	add(p.KeysFile != "" && p.ClientID != "", "keys_file is for workloads only: logins need the provider's discovery document")
	add(len(p.Scopes) > 0 && !slices.Contains(p.Scopes, "openid"), "scopes must contain openid")
	add(time.Duration(p.Lifetime) > maxLifetime, fmt.Sprintf("lifetime must be at most %v: an owner's groups are read at each login only", maxLifetime))
	add(len(p.Rules) == 0, "must have rules: without one nobody gets anything")
	for _, f := range []struct{ key, file string }{{"ca", p.CA}, {"keys_file", p.KeysFile}, {"client_secret_file", p.ClientSecretFile}} {
		add(f.file != "" && !filepath.IsAbs(f.file), f.key+" must be an absolute path")
	}
	for i := range p.Rules {
		if err := p.Rules[i].check(); err != nil {
			errs = append(errs, fmt.Errorf("rules[%d]: %s", i, strings.ReplaceAll(err.Error(), "\n", "; ")))
		}
	}
	return errors.Join(errs...)
}

// checkURL refuses what is not https, unless it is on this machine.
func checkURL(key, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s %q: must be a URL like https://id.example.com", key, text)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return fmt.Errorf("%s %q: must be https, or a loopback address", key, text)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// check reports every mistake in a rule.
func (r *Rule) check() error {
	var errs []error
	if r.Group == "" && len(r.Claims) == 0 {
		errs = append(errs, errors.New("must have group or claims: whom it is for"))
	}
	for name, values := range r.Claims {
		if name == "" || len(values) == 0 || slices.Contains(values, "") {
			errs = append(errs, fmt.Errorf("claims: %q: a claim must have a name and a value", name))
		}
	}
	return errors.Join(append(errs, r.Grant.check(true))...)
}

// check reports every mistake in what a certificate gets.
func (c *Certificate) check() error {
	var errs []error
	if len(c.names()) != 1 {
		errs = append(errs, errors.New("must have exactly one of common_name, dns, email and uri"))
	}
	return errors.Join(append(errs, c.Grant.check(false))...)
}

// names returns the kinds and values by which a certificate is found.
func (c *Certificate) names() map[string]string {
	names := map[string]string{"common_name": c.CommonName, "dns": c.DNS, "email": c.Email, "uri": c.URI}
	for kind, name := range names {
		if name == "" {
			delete(names, kind)
		}
	}
	return names
}

// placeholder is a claim of a token in the user of an owner.
var placeholder = regexp.MustCompile(`\{[A-Za-z0-9_:./-]+\}`)

// reservedApp is the app of the fleet's own acts in the audit.
const reservedApp = "atoll"

// check reports every mistake in a grant. Without templates, its owner must be complete.
func (g *Grant) check(templates bool) error {
	var errs []error
	app, user, found := strings.Cut(g.Owner, "/")
	if templates {
		if len(placeholder.FindAllString(user, 2)) > 1 {
			errs = append(errs, fmt.Errorf("owner %q: must have one {NAME} at most: with two, one user's claims could make the name of another", g.Owner))
		}
		user = placeholder.ReplaceAllString(user, "x")
	}
	if !found {
		errs = append(errs, fmt.Errorf("owner %q: must be APP/USER", g.Owner))
	} else if err := (atoll.Owner{App: app, User: user}).Check(); err != nil {
		errs = append(errs, fmt.Errorf("owner %q: %w", g.Owner, err))
	}
	if app == reservedApp {
		errs = append(errs, fmt.Errorf("owner %q: the app %q is atoll's own", g.Owner, reservedApp))
	}
	switch {
	case (g.Role == "") == (len(g.Scopes) == 0):
		errs = append(errs, errors.New("must have either role or scopes"))
	case g.Role != "":
		_, err := g.Role.Scopes()
		errs = append(errs, err)
	default:
		errs = append(errs, atoll.CheckScopes(g.Scopes))
	}
	return errors.Join(errs...)
}

// scopes returns the scopes of a grant.
func (g *Grant) scopes() []atoll.Scope {
	if g.Role == "" {
		return g.Scopes
	}
	list, _ := g.Role.Scopes() // check has refused unknown roles
	return list
}

// audiences returns the audiences of the tokens that atoll accepts.
func (p *Provider) audiences() []string {
	return slices.DeleteFunc([]string{p.ClientID, p.CLIClientID, p.Audience}, func(a string) bool { return a == "" })
}

// deviceClientID returns the client id of 'atoll login'; empty: it can't be used.
func (p *Provider) deviceClientID() string {
	if p.ClientSecretFile != "" {
		return p.CLIClientID
	}
	return cmp.Or(p.CLIClientID, p.ClientID)
}

// loginScopes returns the scopes that a login asks for.
func (p *Provider) loginScopes() []string {
	if len(p.Scopes) > 0 {
		return p.Scopes
	}
	return []string{"openid", "profile", "email", "groups"}
}

// lifetime returns how long atoll's tokens are valid.
func (p *Provider) lifetime() time.Duration {
	switch {
	case p.Lifetime > 0:
		return time.Duration(p.Lifetime)
	case p.ClientID != "":
		return 12 * time.Hour
	}
	return 15 * time.Minute
}
