package atoll

import "strings"

// Owner is the user of an app to whom sandboxes, workspaces and tokens belong.
type Owner struct {
	App  string `json:"app"`
	User string `json:"user"`
}

// Local is the owner of everything that is created on this machine without a token.
var Local = Owner{App: "local", User: "local"}

// String returns "app/user".
func (o Owner) String() string { return o.App + "/" + o.User }

// ParseOwner parses "app/user", or "user" for a user of the app "local".
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
		if !isOwnerName(n.name) {
			errs = append(errs, newFieldError(n.what, "%s %q: must be 1 to 128 of a-z, A-Z, 0-9, '.', '_', '-', '@', '+' and begin with a letter or digit", n.what, n.name))
		}
	}
	return joinInvalid(errs)
}

func isOwnerName(s string) bool {
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
