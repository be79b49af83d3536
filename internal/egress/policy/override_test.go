package policy

import (
	"net/http"
	"testing"

	"github.com/atoll-sandbox/atoll"
)

// TestAttackHeadersThatReplaceTheRequest sends an allowed request with headers by which some servers
// serve another one.
func TestAttackHeadersThatReplaceTheRequest(t *testing.T) {
	r, err := New(atoll.Network{Allow: []string{"GET,POST http://api.example.com/public/", "http://open.example.com/"}, Deny: []string{"http://open.example.com/admin/"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, method, path, name, value string
		allowed                         bool
	}{
		{"api.example.com", "GET", "/public/x", "Accept", "/admin", true},
		{"api.example.com", "POST", "/public/x", "X-Http-Method-Override", "GET", true},
		{"api.example.com", "POST", "/public/x", "X-Http-Method-Override", "delete", false},
		{"api.example.com", "POST", "/public/x", "X-Http-Method", " DELETE ", false},
		{"api.example.com", "POST", "/public/x", "X_Method_Override", "PUT", false},
		{"api.example.com", "GET", "/public/x", "X-Original-Url", "/public/y", true},
		{"api.example.com", "GET", "/public/x", "X-Original-Url", "/admin", false},
		{"api.example.com", "GET", "/public/x", "X-Rewrite-Url", "admin?x=/public/", false},
		{"api.example.com", "GET", "/public/x", "x_rewrite_url", "http://other.example.com/admin", false},
		{"api.example.com", "GET", "/public/x", "X-Forwarded-Uri", "/public/../admin", false},
		{"open.example.com", "GET", "/", "X-Original-Url", "/admin/x", false},
		{"open.example.com", "GET", "/", "X-Original-Url", "/ADMIN;a/x", false},
		{"open.example.com", "GET", "/", "X-Http-Method-Override", "DELETE", true},
		{"open.example.com", "GET", "/", "X-Http-Method-Override", "TRACE", false},
	} {
		v := CheckOverrides(c.method, c.path, http.Header{c.name: {c.value}}, func(method, path string) Verdict {
			return r.CheckRequest(HTTP, c.host, 80, method, path)
		})
		if v.Allowed != c.allowed {
			t.Errorf("%s %s%s with %s: %q: %+v", c.method, c.host, c.path, c.name, c.value, v)
		}
	}
	many := make([]string, 100)
	if v := CheckOverrides("GET", "/", http.Header{"X-Original-Url": many}, func(string, string) Verdict { return Verdict{Allowed: true} }); v.Allowed {
		t.Error("a hundred headers are allowed")
	}
}
