package atoll

import (
	"fmt"
	"time"
)

// Scope is a permission of a token.
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"  // see the owner's objects: list, status, files, history, events
	ScopeRun   Scope = "run"   // create, run, change and destroy the owner's objects
	ScopeHost  Scope = "host"  // name directories of the host in mounts and projects
	ScopeAdmin Scope = "admin" // all that ScopeOperate allows, and the tokens, sandboxes and links of all owners

	// ScopeOperate allows to manage quotas, pools and images, and to see metrics and the lists, events and audit of all
	// owners, but not to enter or change the sandboxes of others, nor to create tokens for them.
	ScopeOperate Scope = "operate"
)

// allScopes lists every scope.
var allScopes = []Scope{ScopeRead, ScopeRun, ScopeHost, ScopeOperate, ScopeAdmin}

// CheckScopes reports unknown scopes and an empty list.
func CheckScopes(list []Scope) error {
	var errs []error
	if len(list) == 0 {
		errs = append(errs, newFieldError("scopes", "scopes: name at least one of read, run, host, operate, admin"))
	}
next:
	for i, s := range list {
		for _, known := range allScopes {
			if s == known {
				continue next
			}
		}
		errs = append(errs, newFieldError(fmt.Sprintf("scopes[%d]", i), "scopes[%d] %q: must be read, run, host, operate or admin", i, s))
	}
	return joinInvalid(errs)
}

// Includes reports whether a scope allows all that another does.
func (s Scope) Includes(other Scope) bool {
	return s == other || s == ScopeRun && other == ScopeRead || s == ScopeAdmin && other == ScopeOperate
}

// Role is a name for the scopes of a common kind of user.
type Role string

// The roles, each with all rights of those before it.
const (
	RoleViewer   Role = "viewer"   // sees the owner's objects
	RoleUser     Role = "user"     // uses them
	RoleOperator Role = "operator" // runs the server, without access to the content of other owners
	RoleAdmin    Role = "admin"    // may do everything
)

// Scopes returns the scopes of a role.
func (r Role) Scopes() ([]Scope, error) {
	switch r {
	case RoleViewer:
		return []Scope{ScopeRead}, nil
	case RoleUser:
		return []Scope{ScopeRead, ScopeRun}, nil
	case RoleOperator:
		return []Scope{ScopeRead, ScopeRun, ScopeOperate}, nil
	case RoleAdmin:
		return []Scope{ScopeRead, ScopeRun, ScopeHost, ScopeOperate, ScopeAdmin}, nil
	}
	return nil, newFieldError("role", "role %q: must be viewer, user, operator or admin", r)
}

// Token lets its bearer act for an owner.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"` // display name
	Owner   Owner     `json:"owner"`
	Scopes  []Scope   `json:"scopes"`
	Role    Role      `json:"role,omitempty"` // in a request: instead of scopes; answers have the scopes
	Link    *Link     `json:"link,omitempty"` // restricts the token to one sandbox's terminals; nil: the scopes alone decide
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Used    time.Time `json:"used,omitzero"`    // last use, to the minute
	Secret  string    `json:"secret,omitempty"` // sent by the bearer; known only when the token is created

	// Of a token that was given for a login: the login provider or client certificate of the configuration, and who
	// the bearer is to it. A request does not set them.
	Provider string `json:"provider,omitempty"`
	Subject  string `json:"subject,omitempty"`
}

// LoginProvider is an OpenID Connect provider by which people can log in to a server.
type LoginProvider struct {
	Name     string   `json:"name"`
	Issuer   string   `json:"issuer"`
	Browser  bool     `json:"browser"`             // the console offers it
	ClientID string   `json:"client_id,omitempty"` // for the device flow of 'atoll login'; empty: it can't be used
	Scopes   []string `json:"scopes"`              // to ask for
}

// Link restricts a token that is shared as a link to a web page: to the terminals of one
// sandbox, or to one of them. With [ScopeRead] the bearer can watch. With [ScopeRun] the bearer
// can type, and also open and close terminals unless the link is restricted to one.
type Link struct {
	Sandbox  string `json:"sandbox"`            // id; a request may give the name instead
	Name     string `json:"name,omitempty"`     // name of the sandbox, in responses
	Terminal string `json:"terminal,omitempty"` // empty: all of them
}
