package main

import (
	"errors"
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
	for i := range keys {
		k := &keys[i]
		if seen[k.name] || seen[k.env()] {
			t.Errorf("%s is there twice", k.name)
		}
		seen[k.name], seen[k.env()] = true, true
		if k.project && (k.shell || k.secret || !strings.HasPrefix(k.name, "defaults.")) {
			t.Errorf("%s: a project's file may set it", k.name)
		}
		if k.help == "" {
			t.Errorf("%s has no help", k.name)
		}
	}
	for _, name := range []string{"home", "driver", "host", "token", "context", "defaults.network", "defaults.allow", "defaults.workspaces"} {
		if findKey(name).project {
			t.Errorf("a project's file may set %s, which opens a wall or names a place", name)
		}
	}
	if _, err := defaultLayer(); err != nil {
		t.Error(err)
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "1h30m": 90 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "500ms": 500 * time.Millisecond, "never": -1,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "30", "0", "0s", "-1h", "d", "0d", "-1d", "1d2d", "1.5d", "99999999d", "soon", "1h-2h"} {
		if got, err := parseDuration(text); err == nil {
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
		got, err := parseHost(text)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
		if again, err := parseHost(got); err != nil || again != got {
			t.Errorf("%q: %q, %v: what is kept is read as another", got, again, err)
		}
	}
	for _, text := range []string{"", " ", "http://", "ftp://x", "https://u:p@x", "https://x?y", "https://x#y", "unix://", "unix:///", "a b", "http://x y", "https:x"} {
		if got, err := parseHost(text); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
}

func TestTokensStayOnEncryptedWires(t *testing.T) {
	for host, ok := range map[string]bool{
		"https://x": true, "http://127.0.0.1:1": true, "http://[::1]:1": true, "http://localhost": true, "http://a.localhost": true, "unix:///x": true,
		"http://x": false, "http://192.168.1.1": false, "http://127.0.0.1.evil.example": false, "http://localhost.evil.example": false,
	} {
		for _, e := range []endpoint{{Host: host, Token: "t"}, {Host: host, TokenFile: "/t"}} {
			if err := e.check(); (err == nil) != ok || err != nil && !errors.Is(err, atoll.ErrDenied) {
				t.Errorf("%s: %v", host, err)
			}
		}
		if err := (endpoint{Host: host}).check(); err != nil {
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
		for _, d := range climb(filepath.Join(root, dir)) {
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

func TestMountTexts(t *testing.T) {
	for text, want := range map[string]atoll.WorkspaceMount{
		"data":          {Workspace: "data"},
		"data:ro":       {Workspace: "data", ReadOnly: true},
		"data:/x":       {Workspace: "data", Target: "/x"},
		"data:/x:ro":    {Workspace: "data", Target: "/x", ReadOnly: true},
		"data:/x:rw":    {Workspace: "data", Target: "/x"},
		"data:/work/ro": {Workspace: "data", Target: "/work/ro"},
	} {
		if got, err := parseWorkspace(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":", "data:x", "data:/proc", "data:/x:/y", "Data", "data:/x:rx", "../x"} {
		if got, err := parseWorkspace(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
	if m, err := parseMount("/src:/dst:ro"); err != nil || m != (atoll.Mount{Source: "/src", Target: "/dst", ReadOnly: true}) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestContextNames(t *testing.T) {
	for host, want := range map[string]string{
		"https://Atoll.Example.com:8484/x": "atoll.example.com-8484-x", "unix:///run/atoll.sock": "run-atoll.sock",
		"https://[::1]": "1", "http://local": "server", "https://" + strings.Repeat("a", 100): strings.Repeat("a", 63),
	} {
		got := contextName(host)
		if got != want || atoll.CheckName(got) != nil {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

// Keys that leave a process are theirs alone, all others go through.
func TestLeaving(t *testing.T) {
	for in, want := range map[string]string{
		"abc": "abc", "a\x10b": "a\x10b", "a\x10\x10b": "a\x10\x10b", "a\x10\x11": "a!", "\x11a": "\x11a", "x\x10\x10\x11": "x\x10!",
	} {
		left := false
		l := &leaving{r: strings.NewReader(in), leave: func() { left = true }}
		var got strings.Builder
		b := make([]byte, 4)
		for {
			n, err := l.Read(b)
			got.Write(b[:n])
			if err != nil {
				break
			}
		}
		text := got.String()
		if left {
			text += "!"
		}
		if text != want {
			t.Errorf("%q: %q, want %q", in, text, want)
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
			s, err := readConfig(name, project)
			if err != nil && (!errors.Is(err, atoll.ErrInvalid) || !strings.Contains(err.Error(), name)) {
				t.Errorf("%v: it does not say where", err)
			}
			for key, set := range s.settings {
				if project && !set.key.project || len(set.texts) != len(set.values) {
					t.Errorf("%s is set: %+v", key, set)
				}
			}
			if project && len(s.contexts) > 0 {
				t.Error("a project's file has contexts")
			}
		}
	})
}
