package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/helper"
)

// packageFile is a file of a package, as nfpm's configuration has it.
type packageFile struct {
	Source   string           `json:"src,omitempty"`
	Target   string           `json:"dst"`
	Type     string           `json:"type,omitempty"`
	Packager string           `json:"packager,omitempty"`
	Info     *packageFileInfo `json:"file_info,omitempty"`
}

type packageFileInfo struct {
	Mode  int64     `json:"mode,omitempty"`
	Owner string    `json:"owner"`
	Group string    `json:"group"`
	MTime time.Time `json:"mtime"`
}

// libDir has atoll and its helpers in a package. Nothing is unpacked on the machine: what the package
// installs, it removes.
const libDir = "/usr/lib/atoll"

// nfpm writes .deb and .rpm. It is run and not called as a tool: go tool ignores -trimpath in $GOFLAGS, and would
// compile the standard library once more.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm"

// buildPackages publishes a .deb and an .rpm for each architecture of Linux.
func (r *release) buildPackages(ctx context.Context) error {
	for _, t := range r.targets {
		if !t.hasHelpers() {
			continue
		}
		config := filepath.Join(r.work, "nfpm-"+t.arch+".json")
		b, err := r.packageConfig(t)
		if err != nil {
			return err
		}
		if err := os.WriteFile(config, b, 0o600); err != nil {
			return err
		}
		for _, kind := range []string{"deb", "rpm"} {
			name := fmt.Sprintf("atoll_%s_%s.%s", strings.TrimPrefix(r.version, "v"), t.arch, kind)
			env := []string{"GOFLAGS=-trimpath", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix())}
			out, err := filepath.Abs(filepath.Join(r.out, name))
			if err != nil {
				return err
			}
			if _, err := runCommand(ctx, "deploy/release", env, "go", "run", nfpm, "package", "--config", config, "--packager", kind, "--target", out); err != nil {
				return err
			}
			r.files = append(r.files, name)
		}
	}
	return nil
}

// packageConfig returns nfpm's configuration. JSON is YAML.
func (r *release) packageConfig(t target) ([]byte, error) {
	root, err := filepath.Abs(".")
	if err != nil {
		return nil, err
	}
	files, err := r.packageFiles(t, root)
	if err != nil {
		return nil, err
	}
	scripts := filepath.Join(root, "deploy", "release", "scripts")
	return json.Marshal(map[string]any{
		"name": "atoll", "arch": t.arch, "platform": "linux", "version": r.version, "version_schema": "semver",
		"mtime": r.time, "section": "admin", "priority": "optional", "license": "Apache-2.0",
		"maintainer": "atoll <release@atoll-sandbox>", "homepage": "https://github.com/atoll-sandbox/atoll",
		"description": "sandboxes for AI agents: command line, server and helpers",
		"recommends":  []string{"git", "ca-certificates"},
		"suggests":    []string{"qemu-system-x86", "uidmap"},
		"contents":    files,
		"scripts":     map[string]string{"postinstall": scripts + "/postinstall", "preremove": scripts + "/preremove", "postremove": scripts + "/postremove"},
		"rpm":         map[string]any{"buildhost": "atoll"},
	})
}

// packageFiles lists what a package installs.
func (r *release) packageFiles(t target, root string) ([]packageFile, error) {
	info := func(mode int64) *packageFileInfo {
		return &packageFileInfo{Mode: mode, Owner: "root", Group: "root", MTime: r.time}
	}
	var list []packageFile
	add := func(source, target string, mode int64, packager string) {
		list = append(list, packageFile{Source: source, Target: target, Info: info(mode), Packager: packager})
	}
	for _, name := range append([]string{"atoll"}, helper.Names...) {
		add(filepath.Join(r.programDir(t), name), path.Join(libDir, name), 0o755, "")
	}
	list = append(list, packageFile{Source: path.Join(libDir, "atoll"), Target: "/usr/bin/atoll", Type: "symlink", Info: info(0)},
		packageFile{Source: path.Join(libDir, "atoll"), Target: "/usr/bin/git-remote-atoll", Type: "symlink", Info: info(0)})
	// RPM removes only directories that a package owns; several may own one.
	for _, dir := range []string{libDir, "/usr/share/doc/atoll", "/usr/share/fish", "/usr/share/fish/vendor_completions.d", "/usr/share/zsh", "/usr/share/zsh/site-functions"} {
		list = append(list, packageFile{Target: dir, Type: "dir", Info: info(0o755), Packager: "rpm"})
	}
	share := filepath.Join(r.work, "share")
	add(share+"/completions/atoll.bash", "/usr/share/bash-completion/completions/atoll", 0o644, "")
	add(share+"/completions/atoll.fish", "/usr/share/fish/vendor_completions.d/atoll.fish", 0o644, "")
	add(share+"/completions/_atoll", "/usr/share/zsh/vendor-completions/_atoll", 0o644, "deb")
	add(share+"/completions/_atoll", "/usr/share/zsh/site-functions/_atoll", 0o644, "rpm")
	for _, name := range []string{"atoll.service", "atoll.socket"} {
		add(filepath.Join(root, "deploy", "systemd", name), "/usr/lib/systemd/system/"+name, 0o644, "")
	}
	add(filepath.Join(root, "deploy", "systemd", "unprivileged.conf"), "/usr/share/doc/atoll/unprivileged.conf", 0o644, "")
	add(filepath.Join(root, "LICENSE"), "/usr/share/doc/atoll/copyright", 0o644, "")
	pages, err := os.ReadDir(filepath.Join(share, "man"))
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		from := filepath.Join(share, "man", p.Name())
		b, err := os.ReadFile(from)
		if err == nil {
			b, err = compressBytes(b)
		}
		to := filepath.Join(r.work, p.Name()+".gz")
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			return nil, err
		}
		add(to, "/usr/share/man/man1/"+p.Name()+".gz", 0o644, "")
	}
	return list, nil
}
