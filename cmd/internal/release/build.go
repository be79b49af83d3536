package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/cli"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/manual"
	"github.com/atoll-sandbox/atoll/internal/helper"
)

// versionPackage has the variables that hold the version of a release.
const versionPackage = "github.com/atoll-sandbox/atoll/internal/cli/version."

// programDir returns the directory with the programs of a target, as the compiler wrote them.
func (r *release) programDir(t target) string { return filepath.Join(r.work, t.os+"_"+t.arch) }

// buildPrograms compiles the programs of every target. On Linux they are atoll and its helpers. On
// other systems only the full program is built, which becomes atoll: to unpack a program and start it
// would be in the way of their signatures of programs.
func (r *release) buildPrograms(ctx context.Context) error {
	for _, t := range r.targets {
		packages := []string{"./cmd/atoll-full"}
		if t.hasHelpers() {
			packages = []string{"./cmd/atoll"}
			for _, h := range helper.Names {
				packages = append(packages, "./cmd/"+h)
			}
		}
		fmt.Fprintln(os.Stderr, "release: building", t)
		set := fmt.Sprintf("-X %[1]srelease=%[2]s -X %[1]srevision=%[3]s -X %[1]sdate=%[4]s", versionPackage, r.version, r.commit, r.time.Format(time.RFC3339))
		args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w " + set, "-o", r.programDir(t) + "/"}, packages...)
		env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0"}
		if _, err := runCommand(ctx, "", env, "go", args...); err != nil {
			return err
		}
	}
	return nil
}

// packedProgram returns the path of atoll as one file: on Linux with its helpers in it.
func (r *release) packedProgram(t target) (string, error) {
	dir := r.programDir(t)
	if !t.hasHelpers() {
		return filepath.Join(dir, helper.FullProgram+programSuffix(t)), nil
	}
	path := filepath.Join(r.work, "atoll-packed-"+t.arch)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, "atoll"))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, b, 0o755); err != nil { //nolint:gosec // a program for everybody
		return "", err
	}
	var paths []string
	for _, h := range helper.Names {
		paths = append(paths, filepath.Join(dir, h))
	}
	return path, helper.Pack(path, paths...)
}

// programSuffix returns what the name of a program ends in.
func programSuffix(t target) string {
	if t.os == "windows" {
		return ".exe"
	}
	return ""
}

// writeManual writes completions and man pages below share, as a package installs them.
func (r *release) writeManual(context.Context) error {
	root := cli.NewRootCommand(&app.App{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	share := filepath.Join(r.work, "share")
	for _, dir := range []string{"man", "completions"} {
		if err := os.MkdirAll(filepath.Join(share, dir), 0o755); err != nil {
			return err
		}
	}
	var bash, zsh, fish strings.Builder
	if err := root.GenBashCompletionV2(&bash, true); err != nil {
		return err
	}
	if err := root.GenZshCompletion(&zsh); err != nil {
		return err
	}
	if err := root.GenFishCompletion(&fish, true); err != nil {
		return err
	}
	files := map[string]string{"completions/atoll.bash": bash.String(), "completions/_atoll": zsh.String(), "completions/atoll.fish": fish.String()}
	for _, p := range manual.ManPages(root, r.version, r.time.Format("2006-01-02")) {
		files["man/"+p.Name] = p.Text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(share, name), []byte(text), 0o644); err != nil { //nolint:gosec // for everybody
			return err
		}
	}
	return nil
}
