// Command release builds everything that a release of atoll consists of: release -version v1.2.3.
//
// The same commit, version and Go give the same bytes: paths, times and the order of files do not
// depend on the machine. docs/install.md describes the files, docs/release.md the build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is one release that is being built.
type release struct {
	version  string // with its v
	commit   string
	time     time.Time // of the commit
	out      string    // directory of what is published
	work     string    // directory of programs and parts
	url      string    // where what is published can be fetched from
	key      string    // SSH key that signs; empty: unsigned
	identity string    // name of the signer
	allDirty bool      // uncommitted changes are allowed
	targets  []target
	files    []string // published so far, names in out
}

// target is a system that a release has programs for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// hasHelpers reports whether a target has the server and real sandboxes. The others have the client, and
// virtual sandboxes.
func (t target) hasHelpers() bool { return t.os == "linux" }

// allTargets are the systems of a release.
var allTargets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// versionPattern matches semantic versions as Go's modules have them.
var versionPattern = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	r := release{}
	var targets string
	fl := flag.NewFlagSet("release", flag.ContinueOnError)
	fl.StringVar(&r.version, "version", "", "version, like v1.2.3")
	fl.StringVar(&r.out, "out", "dist", "directory of the release; it must not exist")
	fl.StringVar(&r.url, "url", "", "URL of the directory that the release is published in (default: that of GitHub)")
	fl.StringVar(&r.key, "key", "", "SSH key that signs, or its .pub if ssh-agent has it; empty: unsigned")
	fl.StringVar(&r.identity, "identity", "release@atoll-sandbox", "name of the signer")
	fl.StringVar(&targets, "targets", "", "systems, like linux/amd64,darwin/arm64 (default: all)")
	fl.BoolVar(&r.allDirty, "dirty", false, "allow changes that are not committed, for a trial")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if err := r.prepareDirectory(ctx, targets, fl.NArg()); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	for _, step := range []func(context.Context) error{
		r.buildPrograms, r.writeManual, r.writeArchives, r.buildPackages, r.buildImage, r.writeSBOM, r.writeInstallers, r.writeChecksums, r.signChecksums,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for _, name := range r.files {
		fmt.Fprintln(os.Stdout, filepath.Join(r.out, name))
	}
	if r.key == "" {
		fmt.Fprintln(os.Stderr, "release: not signed: give -key (make release KEY=…)")
	}
	return nil
}

// prepareDirectory checks the arguments and the working tree.
func (r *release) prepareDirectory(ctx context.Context, targets string, args int) error {
	if args > 0 || !versionPattern.MatchString(r.version) {
		return fmt.Errorf("the version is %q; want one like v1.2.3: make release VERSION=v1.2.3", r.version)
	}
	r.targets = allTargets
	if targets != "" {
		r.targets = nil
		for name := range strings.SplitSeq(targets, ",") {
			i := slices.IndexFunc(allTargets, func(t target) bool { return t.String() == name })
			if i < 0 {
				return fmt.Errorf("there is no target %q; there are %v", name, allTargets)
			}
			r.targets = append(r.targets, allTargets[i])
		}
	}
	if r.url == "" {
		r.url = "https://github.com/atoll-sandbox/atoll/releases/download/" + r.version
	}
	dirty, err := runCommand(ctx, "", nil, "git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" && !r.allDirty {
		return fmt.Errorf("there are changes that are not committed:\n%s", dirty)
	}
	commit, err := runCommand(ctx, "", nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return err
	}
	hash, seconds, _ := strings.Cut(strings.TrimSpace(commit), " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.time = hash, time.Unix(unix, 0).UTC()
	if err := os.Mkdir(r.out, 0o755); err != nil {
		return err
	}
	r.work, err = os.MkdirTemp("", "atoll-release-")
	return err
}

// runCommand runs a program and returns what it prints. Its errors go to standard error.
func runCommand(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return string(out), nil
}

// writeArtifact writes a file of the release.
func (r *release) writeArtifact(name string, content []byte, mode os.FileMode) error {
	r.files = append(r.files, name)
	path := filepath.Join(r.out, name)
	return errors.Join(os.WriteFile(path, content, mode), os.Chmod(path, mode))
}
