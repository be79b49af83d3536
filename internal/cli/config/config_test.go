package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// Every key is reached by its environment variable, its default is good, and
// what the code asks of it has its type.
func TestKeys(t *testing.T) {
	seen := make(map[string]bool)
	for i := range Keys {
		k := &Keys[i]
		if seen[k.Name] || seen[k.envName()] {
			t.Errorf("%s is there twice", k.Name)
		}
		seen[k.Name], seen[k.envName()] = true, true
		if k.Project && (k.shell || k.Secret || !strings.HasPrefix(k.Name, "defaults.")) {
			t.Errorf("%s: a project's file may set it", k.Name)
		}
		if k.Help == "" {
			t.Errorf("%s has no help", k.Name)
		}
	}
	for _, name := range []string{"home", "driver", "host", "token", "context", "defaults.network", "defaults.allow", "defaults.workspaces"} {
		if FindKey(name).Project {
			t.Errorf("a project's file may set %s, which opens a wall or names a place", name)
		}
	}
	if _, err := defaultLayer(); err != nil {
		t.Error(err)
	}
}

func TestRetentionAndLogLevel(t *testing.T) {
	for text, want := range map[string]time.Duration{"1h": time.Hour, "90d": 90 * 24 * time.Hour, "never": -1, "59m": 0, "0s": 0, "": 0, "x": 0} {
		if got, err := parseRetention(text); (err == nil) != (want != 0) || err == nil && got != want {
			t.Errorf("retention %q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError} {
		if got, err := parseLogLevel(text); err != nil || got != want {
			t.Errorf("log level %q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "INFO", "info+1", "trace"} {
		if _, err := parseLogLevel(text); err == nil {
			t.Errorf("log level %q is accepted", text)
		}
	}
}

func TestMisspelledVariables(t *testing.T) {
	for name, hint := range map[string]string{
		"ATOLL_DEFAULT_MEMORY": `"ATOLL_DEFAULTS_MEMORY"`, "ATOLL_DRVIER": `"ATOLL_DRIVER"`, "ATOLL_QUOTA_SANDBOX": `"ATOLL_QUOTA_SANDBOXES"`, "ATOLL_SERVE_LISTN": `"ATOLL_SERVE_LISTEN"`,
		"ATOLL_DRIVER": "", "ATOLL_PORT": "", "ATOLL_TEST": "", "ATOLL_MUST": "", "ATOLL_ID": "", "ATOLL_HOME": "", "ATOLL_MACHINE_KERNEL": "", "atoll_drvier": "", "DRVIER": "",
	} {
		err := CheckVariables([]string{"PATH=/bin", name + "=x"})
		switch {
		case hint == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case hint != "" && (!errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), hint)):
			t.Errorf("%s: %v, want the hint %s", name, err, hint)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "500ms": 500 * time.Millisecond, "never": -1,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "30", "0", "0s", "-1h", "d", "0d", "-1d", "1d2d", "1.5d", "99999999d", "soon", "1h-2h"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestWaits(t *testing.T) {
	for text, want := range map[string]time.Duration{"0s": 0, "0": 0, "5m": 5 * time.Minute} {
		if got, err := parseWait(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "never", "-1s", "5", "soon"} {
		if got, err := parseWait(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestHosts(t *testing.T) {
	for text, want := range map[string]string{
		"atoll.example.com":              "https://atoll.example.com",
		"atoll.example.com:8484":         "https://atoll.example.com:8484",
		"localhost:8484":                 "http://localhost:8484",
		"127.0.0.1:8484":                 "http://127.0.0.1:8484",
		"[::1]:8484":                     "http://[::1]:8484",
		"http://10.0.0.1/prefix/":        "http://10.0.0.1/prefix",
		"unix:///run/atoll.sock":         "unix:///run/atoll.sock",
		"unix:/run/atoll.sock":           "unix:///run/atoll.sock",
		"/run/atoll.sock":                "unix:///run/atoll.sock",
		"https://atoll.example.com:443/": "https://atoll.example.com:443",
	} {
		got, err := ParseHost(text)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
		if again, err := ParseHost(got); err != nil || again != got {
			t.Errorf("%q: %q, %v: what is kept is read as another", got, again, err)
		}
	}
	for _, text := range []string{"", " ", "http://", "ftp://x", "https://u:p@x", "https://x?y", "https://x#y", "unix://", "unix:///", "a b", "http://x y", "https:x"} {
		if got, err := ParseHost(text); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
}

func TestTokensStayOnEncryptedWires(t *testing.T) {
	for host, ok := range map[string]bool{
		"https://x": true, "http://127.0.0.1:1": true, "http://[::1]:1": true, "http://localhost": true, "http://a.localhost": true, "unix:///x": true,
		"http://x": false, "http://192.168.1.1": false, "http://127.0.0.1.evil.example": false, "http://localhost.evil.example": false,
	} {
		for _, e := range []Endpoint{{Host: host, Token: "t"}, {Host: host, TokenFile: "/t"}} {
			if err := e.Check(); (err == nil) != ok || err != nil && !errors.Is(err, atoll.ErrDenied) {
				t.Errorf("%s: %v", host, err)
			}
		}
		if err := (Endpoint{Host: host}).Check(); err != nil {
			t.Errorf("%s without a token: %v", host, err)
		}
	}
}

func TestWhereProjectsAreLookedFor(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"repository/.git", "repository/a/b", "loose/a", "home/project/a"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", filepath.Join(root, "home"))
	for dir, want := range map[string][]string{
		"repository/a/b": {"repository/a/b", "repository/a", "repository"},
		"repository":     {"repository"},
		"loose/a":        {"loose/a"},
		"home/project/a": {"home/project/a", "home/project", "home"},
		"home":           {"home"},
	} {
		var got []string
		for _, d := range listParents(filepath.Join(root, dir)) {
			rel, err := filepath.Rel(root, d)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, filepath.ToSlash(rel))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("from %s: %v, want %v", dir, got, want)
		}
	}
}

// FuzzConfig: whatever a file holds, it is read or refused with its place, in
// no time, and what a project's may not set is not set.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"", "driver: virtual\n", "defaults: {memory: 64m, allow: [a, b]}\n", "contexts: {a: {host: b, token: c}}\n", "a: &a [*a]\n", "- 1\n",
		"defaults: &d {lifecycle: *d}\n", "defaults:\n  lifecycle: {idle: never}\n", "? [a]\n: b\n", "context: !!binary aGk=\n", "<<: {driver: x}\n", "\"\\0\": 1\n", "home: ~\n",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		name := filepath.Join(dir, "fuzz.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, project := range []bool{false, true} {
			s, err := ReadFile(name, project)
			if err != nil && (!errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), name)) {
				t.Errorf("%v: it does not say where", err)
			}
			for key, set := range s.Settings {
				if project && !set.Key.Project || len(set.Texts) != len(set.values) {
					t.Errorf("%s is set: %+v", key, set)
				}
			}
			if project && len(s.contexts) > 0 {
				t.Error("a project's file has contexts")
			}
		}
	})
}
