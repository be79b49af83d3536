package projectfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
)

// tree makes a working tree of files.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const whole = `
image: node:22
driver: namespace
memory: 4g
cpus: 2
disk: 10 GiB
network:
  mode: nat
  allow: [registry.npmjs.org]
  deny: ["*.example.com"]
env: {NODE_ENV: development, TOKEN: null}
env_files: [".env*"]
prepare:
  - npm ci
  - [make, all]
start:
  - {name: dev, run: npm run dev}
agent: claude
ports: {web: 3000, api: 3001}
main_port: 3000
sync: {mode: auto-commit, artifacts: [dist]}
terminal: {shell: bash, provider: zellij}
defaults: {memory: 1g}
`

func TestOwnFile(t *testing.T) {
	got, err := Read(tree(t, map[string]string{Name: whole}))
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Sources: []string{Name}, Image: "node:22", Driver: "namespace", Memory: 4 << 30, Disk: 10 << 30, CPUs: 2,
		Network:  Network{Mode: atoll.NetworkNAT, Allow: []string{"registry.npmjs.org"}, Deny: []string{"*.example.com"}},
		Env:      []Variable{{Name: "NODE_ENV", Value: "development"}, {Name: "TOKEN", Host: true, From: "TOKEN"}},
		EnvFiles: []string{".env*"}, Prepare: []Command{{Shell: "npm ci"}, {Args: []string{"make", "all"}}},
		Start: []Command{{Name: "dev", Shell: "npm run dev"}}, Agent: "claude", Ports: []Port{{3000, "web"}, {3001, "api"}}, MainPort: 3000,
		Sync:     Sync{Mode: atoll.SyncAutoCommit, Artifacts: []string{"dist"}},
		Terminal: Terminal{Shell: "bash", Provider: Zellij},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	grants := strings.Join(got.Grants(), "\n")
	for _, part := range []string{"the whole internet", "registry.npmjs.org", "namespace", `.env*`, "TOKEN", "claude", "auto-commit"} {
		if !strings.Contains(grants, part) {
			t.Errorf("nobody is told of %s:\n%s", part, grants)
		}
	}
	if strings.Contains(grants, "npm ci") {
		t.Errorf("what runs inside needs nobody's word:\n%s", grants)
	}
}

func TestContainerFile(t *testing.T) {
	dir := tree(t, map[string]string{
		".devcontainer/devcontainer.json": `// as editors write it
{
	"image": "mcr.example/base",
	"containerEnv": {"A": "1", "B": "${localEnv:HOME}", "C": "x${localEnv:HOME}"}, /* a comment */
	"remoteEnv": {"A": "2"},
	"forwardPorts": [3000, "localhost:3001", "db:5432"],
	"onCreateCommand": "one",
	"postCreateCommand": {"x": "three", "y": ["four", "4"]},
	"updateContentCommand": ["two", "2"],
	"postStartCommand": "five",
	"workspaceFolder": "/workspaces/it",
	"remoteUser": "node",
	"hostRequirements": {"cpus": 2, "memory": "8gb", "storage": "32gb"},
	"build": {"dockerfile": "Dockerfile"},
	"features": {"ghcr.io/x/y:1": {}, "./tool": {"my-option": "it's"}},
	"portsAttributes": {"3000": {"label": "Web App"}, "3001": {"label": "web app"}, "4000-5000": {"label": "range"}},
	"customizations": {"vscode": {}},
}`, Name: "image: mine\n", ".devcontainer/tool/install.sh": "#!/bin/sh\n",
		".devcontainer/tool/devcontainer-feature.json": `{"id": "tool", "options": {"version": {"type": "string", "default": "latest"}, "fast": {"type": "boolean", "default": true}}}`,
	})
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	install := got.Prepare[0]
	got.Prepare = got.Prepare[1:]
	if part := `FAST='true' MY_OPTION='it'\''s' VERSION='latest' ./install.sh`; install.Name != "./tool" || !strings.Contains(install.Shell, part) || !strings.Contains(install.Shell, "cp -R /workspace/.devcontainer/tool/. ") {
		t.Errorf("the feature is installed with %q", install)
	}
	warned := strings.Join(got.Warnings, "\n")
	for _, part := range []string{"build (", "features ghcr.io/x/y:1 (", "db:5432", "workspaceFolder", "containerEnv.C"} {
		if !strings.Contains(warned, part) {
			t.Errorf("no warning of %s:\n%s", part, warned)
		}
	}
	if strings.Contains(warned, "customizations") {
		t.Error("a warning of what only editors read")
	}
	got.Warnings = nil
	want := &File{
		Sources: []string{".devcontainer/devcontainer.json", Name}, Image: "mine", User: "node", Memory: 8 << 30, Disk: 32 << 30, CPUs: 2,
		Env:     []Variable{{Name: "B", Host: true, From: "HOME"}, {Name: "A", Value: "2"}},
		Prepare: []Command{{Shell: "one"}, {Args: []string{"two", "2"}}, {Name: "x", Shell: "three"}, {Name: "y", Args: []string{"four", "4"}}},
		Start:   []Command{{Shell: "five", Wait: true}}, Ports: []Port{{Port: 3000, Name: "web-app"}, {Port: 3001}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	_, err := Read(tree(t, map[string]string{Name: `
imge: x
memory: much
network: {mode: opem}
ports: [0, 3000, 3000]
env_files: ["../secret"]
prepare: [{run: {run: x}}, []]
env: ["=x"]
agent: "no name"
agent: twice
`}))
	if !errors.Is(err, atoll.ErrInvalid) {
		t.Fatal(err)
	}
	for _, part := range []string{
		`.atoll.yaml:2:1: unknown key "imge" (did you mean "image"?)`, "must be a size above 0", `did you mean "open"?`, "must be a port", "port 3000 is listed twice",
		"working tree", "must be a line for the shell", "a command without arguments", "NAME=VALUE", `agent "no name"`, "agent is set already in line 9",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("not said: %s\n%v", part, err)
		}
	}
}

// TestNothingOutsideIsRead holds that a link of the repository leads to no file
// of the host.
func TestNothingOutsideIsRead(t *testing.T) {
	dir := tree(t, nil)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("image: secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, Name)); err != nil {
		t.Fatal(err)
	}
	if f, err := Read(dir); err == nil {
		t.Errorf("it was read: %+v", f)
	}
	if f, err := Read(tree(t, map[string]string{".devcontainer": "a file"})); err != nil || len(f.Sources) != 0 {
		t.Errorf("nothing there: %+v, %v", f, err)
	}
}

func FuzzOwn(f *testing.F) {
	for _, seed := range []string{whole, "", "a: &a [*a]", "prepare: &p [{run: *p}]", "env: [A=1, B]", "network: nat", "---\n---\n", "ports: {a: 1}", "<<: {image: x}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		one := &File{}
		if err := one.readOwn(Name, b); err != nil {
			return
		}
		checkFile(t, one)
	})
}

func FuzzContainer(f *testing.F) {
	for _, seed := range []string{"{}", `{"image": "x", // y` + "\n}", `{"postCreateCommand": {"a": ["b"]}, "forwardPorts": ["a:1", 2,]}`, `{"containerEnv": {"A": "${localEnv:B:c}"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		one := &File{}
		if err := one.readContainer(containerFiles[0], b, nil); err != nil {
			return
		}
		checkFile(t, one)
	})
}

// checkFile holds what every file that was read without an error keeps.
func checkFile(t *testing.T, f *File) {
	for _, list := range [][]Command{f.Prepare, f.Start} {
		for _, c := range list {
			if (c.Shell == "") == (len(c.Args) == 0) {
				t.Errorf("command %+v", c)
			}
		}
	}
	if f.Memory < 0 || f.Disk < 0 || f.CPUs < 0 || f.MainPort < 0 || f.MainPort > 65535 {
		t.Errorf("%+v", f)
	}
	for _, p := range f.Ports {
		if p.Port < 1 || p.Port > 65535 {
			t.Errorf("port %+v", p)
		}
	}
	for _, g := range f.Grants() {
		if strings.ContainsAny(g, "\n\x1b\x00") {
			t.Errorf("what somebody is asked holds %q", g)
		}
	}
}

// TestMade holds which keys count for a new sandbox only.
func TestMade(t *testing.T) {
	read := func(text string) map[string]string {
		t.Helper()
		f, err := Read(tree(t, map[string]string{Name: text}))
		if err != nil {
			t.Fatal(err)
		}
		return f.CreationDigests()
	}
	if got := read("start: ['true']\nterminal: {shell: sh}\nsync: {artifacts: [x]}\nenv: {}\nprepare: []\n"); len(got) != 0 {
		t.Errorf("what counts each time: %v", got)
	}
	one := read("memory: 2g\nprepare: [make]\nenv: {A: '1'}\n")
	same := read("env: {A: '1'} # moved\nprepare: ['make']\nmemory: 2048m\n")
	if diff := cmp.Diff(one, same); diff != "" || len(one) != 3 {
		t.Errorf("the same in other words: %v", diff)
	}
	if other := read("memory: 2g\nprepare: [make all]\nenv: {A: '1'}\n"); other["prepare"] == one["prepare"] || other["env"] != one["env"] {
		t.Errorf("another step: %v, was %v", other, one)
	}
}
