package atoll

import (
	"fmt"
	"strings"
	"time"
)

// Owner is whom sandboxes, workspaces and tokens belong to: a user of an app.
type Owner struct {
	App  string `json:"app"`
	User string `json:"user"`
}

// Local is the owner of what is made on a machine by its own people, without
// a token.
var Local = Owner{App: "local", User: "local"}

// String returns "app/user".
func (o Owner) String() string { return o.App + "/" + o.User }

// ParseOwner reads "app/user", or "user" of the app "local".
func ParseOwner(text string) (Owner, error) {
	app, user, ok := strings.Cut(text, "/")
	if !ok {
		app, user = Local.App, text
	}
	o := Owner{app, user}
	return o, o.Check()
}

// Check reports every mistake in an owner: both names are 1 to 128 letters,
// digits, '.', '_', '-', '@' and '+', and begin with a letter or digit.
func (o Owner) Check() error {
	var errs []error
	for _, n := range []struct{ what, name string }{{"app", o.App}, {"user", o.User}} {
		if !ownerName(n.name) {
			errs = append(errs, mistake(n.what, "%s %q: must be 1 to 128 of a-z, A-Z, 0-9, '.', '_', '-', '@', '+' and begin with a letter or digit", n.what, n.name))
		}
	}
	return invalid(errs)
}

func ownerName(s string) bool {
	if s == "" || len(s) > 128 || strings.IndexByte("._-@+", s[0]) >= 0 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("._-@+", c) < 0 {
			return false
		}
	}
	return true
}

// Scope is something that a token allows.
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"  // see what the owner has: list, status, files, history, events
	ScopeRun   Scope = "run"   // create, run, change and destroy the owner's own
	ScopeHost  Scope = "host"  // name directories of the host in mounts and projects
	ScopeAdmin Scope = "admin" // tokens, quotas, pools, images, audit and sandboxes of all owners
)

// scopes lists every one there is.
var scopes = []Scope{ScopeRead, ScopeRun, ScopeHost, ScopeAdmin}

// CheckScopes reports scopes that don't exist, and a list that allows nothing.
func CheckScopes(list []Scope) error {
	var errs []error
	if len(list) == 0 {
		errs = append(errs, mistake("scopes", "scopes: name at least one of read, run, host, admin"))
	}
next:
	for i, s := range list {
		for _, known := range scopes {
			if s == known {
				continue next
			}
		}
		errs = append(errs, mistake(fmt.Sprintf("scopes[%d]", i), "scopes[%d] %q: must be read, run, host or admin", i, s))
	}
	return invalid(errs)
}

// Token lets its bearer act for an owner.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"` // for people
	Owner   Owner     `json:"owner"`
	Scopes  []Scope   `json:"scopes"`
	Link    *Link     `json:"link,omitempty"` // what it is good for, and nothing else; nil: all that its scopes allow
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Used    time.Time `json:"used,omitzero"`    // last; exact to a minute
	Secret  string    `json:"secret,omitempty"` // what the bearer shows; known only when it is made
}

// Link is what a token is good for that is given away with a link to a page: the
// terminals of one sandbox, or one of them. With [ScopeRead] its bearer only
// looks, with [ScopeRun] he types, and opens and closes terminals if the link is
// not to one.
type Link struct {
	Sandbox  string `json:"sandbox"`            // its id; whoever makes the token may give the name
	Name     string `json:"name,omitempty"`     // of the sandbox, in answers
	Terminal string `json:"terminal,omitempty"` // empty: all of them
}

// Quota limits what an owner has at once. 0 means the fleet's default,
// negative means no limit.
type Quota struct {
	Sandboxes  int     `json:"sandboxes,omitempty"`
	CPU        float64 `json:"cpu,omitempty"`    // cores of the limits of all running sandboxes
	Memory     int64   `json:"memory,omitempty"` // bytes, likewise
	Disk       int64   `json:"disk,omitempty"`   // bytes of the limits of all sandboxes, and of what workspaces hold
	Workspaces int     `json:"workspaces,omitempty"`
	Processes  int     `json:"processes,omitempty"` // commands under way
	Tokens     int64   `json:"tokens,omitempty"`    // that models read and wrote, in a month of UTC
	Cost       float64 `json:"cost,omitempty"`      // US dollars for them, likewise
}

// Allowance is an owner's quota and what of it is used.
type Allowance struct {
	Owner Owner `json:"owner"`
	Limit Quota `json:"limit"` // negative: no limit
	Used  Quota `json:"used"`
}
