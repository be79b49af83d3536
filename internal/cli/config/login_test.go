package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/internal/fleet/identity"
)

// The configuration of docs/login.md is valid, and means what the page says.
func TestLoginPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/login.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "atoll.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ReadFile(file, false)
	if err != nil {
		t.Fatal(err)
	}
	c := &Config{Settings: s.Settings}
	providers := Get[map[string]*identity.Provider](c, "login.providers")
	if len(providers) != 3 || len(providers["company"].Rules) != 3 || providers["ci"].Rules[0].Claims["repository"][1] != "acme/api" {
		t.Errorf("%+v", providers)
	}
	if list := Get[map[string]*identity.Certificate](c, "login.certificates"); len(list) != 2 {
		t.Errorf("%+v", list)
	}
}

// A mistake below a provider names the key, the provider and what would be right.
func TestLoginMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "atoll.yaml")
	if err := os.WriteFile(file, []byte("login:\n  url: http://atoll.example.com\n  providers:\n    x: {issuer: https://id.test, client_id: a, rules: [{group: g, owner: \"a/{sub}\", role: root}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadFile(file, false)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{file + ":2:8: login.url", "must be https", file + ":4:5: login.providers: x: rules[0]: role \"root\"", "must be viewer, user, operator or admin"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	project := filepath.Join(t.TempDir(), ".atoll.yaml")
	if err := os.WriteFile(project, []byte("login: {url: https://evil.test}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(project, true); err == nil || !strings.Contains(err.Error(), "can't set login.url") {
		t.Errorf("a project's file: %v", err)
	}
}
