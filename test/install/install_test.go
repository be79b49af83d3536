// Package install tests a release by installing it: packages, the install script and the image, from
// nothing to a sandbox, and back to nothing.
package install

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, "root", (*testing.M).Run)) }

// program returns the path of a program, or skips the test.
func program(t *testing.T, name, requirement string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testenv.Skip(t, requirement, "%s is missing: %v", name, err)
	}
	return path
}

// run runs a program and returns its output; the test fails if the program fails.
func run(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	out, err := try(t, dir, env, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func try(t *testing.T, dir string, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute) // the programs of a release from nothing
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// release returns the directory of a release: that of $ATOLL_RELEASE, or one that is built here, for the
// systems of $ATOLL_RELEASE_TARGETS or else those that can be tried here, arm64 on some days only.
func release(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("ATOLL_RELEASE"); dir != "" {
		return dir
	}
	program(t, "go", "root")
	dir := t.TempDir()
	key, out := filepath.Join(dir, "key"), filepath.Join(dir, "dist")
	run(t, "", nil, program(t, "ssh-keygen", "root"), "-q", "-t", "ed25519", "-N", "", "-f", key)
	targets := "linux/amd64"
	if testenv.Random(t, "ATOLL_RELEASE_SEED").IntN(3) == 0 { // on one day in three: everything is compiled once more
		targets += ",linux/arm64"
	}
	if s := os.Getenv("ATOLL_RELEASE_TARGETS"); s == "all" {
		targets = ""
	} else if s != "" {
		targets = s
	}
	run(t, "../..", []string{"GOFLAGS=-trimpath"}, "go", "run", "./cmd/internal/release", "-version", "v0.9.0", "-dirty", "-key", key, "-out", out, "-targets", targets)
	return out
}

// one returns the file of a release that has a suffix.
func one(t *testing.T, dir, suffix string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %s: %q, %v; want one", suffix, files, err)
	}
	return files[0]
}

// TestRelease builds a release and installs it in each way.
func TestRelease(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "root", "only root installs packages")
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		testenv.Skip(t, "amd64", "the root file system of this test is of linux/amd64")
	}
	dir := release(t)
	t.Run("Signature", func(t *testing.T) {
		sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		verify := func(text []byte) error {
			cmd := exec.CommandContext(t.Context(), program(t, "ssh-keygen", "root"), "-Y", "verify", "-f", "allowed_signers", "-I", "release@atoll-sandbox",
				"-n", "atoll-release", "-s", "SHA256SUMS.sig")
			cmd.Dir, cmd.Stdin = dir, bytes.NewReader(text)
			return cmd.Run()
		}
		if err := verify(sums); err != nil {
			t.Errorf("the signature: %v", err)
		}
		if err := verify(append([]byte("x"), sums...)); err == nil {
			t.Error("the signature holds for another text, too")
		}
		run(t, dir, nil, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	})
	t.Run("Script", func(t *testing.T) { testScript(t, dir) })
	t.Run("Image", func(t *testing.T) { testImage(t, dir) })
	t.Run("ARM64", func(t *testing.T) { testARM64(t, dir) })
	t.Run("Packages", func(t *testing.T) { testPackages(t, dir) })
}

// testPackages installs and removes .deb and .rpm in a fresh Debian.
func testPackages(t *testing.T, dir string) {
	root := filepath.Join(t.TempDir(), "root")
	run(t, "", nil, program(t, "debootstrap", "debootstrap"), "--variant=minbase", "bookworm", root)
	install := func(from, name string) {
		copyFile(t, from, filepath.Join(root, "tmp", name))
	}
	install(one(t, dir, "_amd64.deb"), "atoll.deb")
	install("testdata/deb.sh", "deb.sh")
	t.Log(run(t, "", nil, "testdata/root", root, "sh", "/tmp/deb.sh"))

	rpm := []string{program(t, "rpm", "rpm"), "--root", root, "--dbpath", "/tmp/rpm", "--nodeps"}
	before := listFiles(t, root)
	run(t, "", nil, append(rpm, "--install", one(t, dir, "_amd64.rpm"))...)
	out := run(t, "", nil, "testdata/root", root, "atoll", "run", "--driver", "namespace", "--", "echo", "works")
	if !strings.HasSuffix(out, "works\n") {
		t.Errorf("a sandbox of the .rpm printed %q", out)
	}
	run(t, "", nil, append(rpm, "--erase", "atoll")...)
	if after := listFiles(t, root); after != before {
		t.Errorf("the .rpm left something:\n%s", run(t, "", nil, "diff", writeText(t, before), writeText(t, after)))
	}
}

// listFiles lists a root file system without what package managers and users keep.
func listFiles(t *testing.T, root string) string {
	t.Helper()
	return run(t, root, nil, "find", ".", "-xdev", "!", "-path", "./tmp/*", "!", "-path", "./root/*", "!", "-path", "./var/lib/atoll*", // what it keeps is not the package's
		"!", "-path", "./var/lib/dpkg/*", "!", "-path", "./var/log/*")
}

func writeText(t *testing.T, text string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil { //nolint:gosec // a public file
		t.Fatal(err)
	}
}

// testScript installs for one user with the install script, and removes what it installed.
func testScript(t *testing.T, dir string) {
	home := t.TempDir()
	env := []string{"HOME=" + home, "ATOLL_URL=file://" + dir, "XDG_CACHE_HOME=", "XDG_CONFIG_HOME=", "ATOLL_PREFIX="}
	if err := os.MkdirAll(filepath.Join(home, ".local/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "testdata/root", filepath.Join(home, ".local/bin/others"))
	script := filepath.Join(dir, "install.sh")
	before := run(t, home, nil, "find", ".")

	// An archive that is not the released one is not installed.
	bad := t.TempDir()
	name := filepath.Base(one(t, dir, "_linux_amd64.tar.gz"))
	copyFile(t, filepath.Join(dir, name), filepath.Join(bad, name))
	f, err := os.OpenFile(filepath.Join(bad, name), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = io.WriteString(f, "x")
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := try(t, "", append(env, "ATOLL_URL=file://"+bad), "sh", script); err == nil || !strings.Contains(out, "is not what was released") {
		t.Errorf("a changed archive: %v, %s; want a refusal", err, out)
	}
	if after := run(t, home, nil, "find", "."); after != before {
		t.Errorf("a refused archive left files:\n%s", after)
	}

	for range 2 { // the second is an upgrade
		run(t, "", env, "sh", script)
	}
	if out := run(t, "", env, filepath.Join(home, ".local/bin/atoll"), "run", "--", "sh", "-c", "echo hi | tr a-z A-Z"); out != "HI\n" {
		t.Errorf("a sandbox printed %q", out)
	}
	run(t, "", env, "sh", script, "--uninstall")
	after := run(t, home, nil, "find", ".", "-not", "-path", "./.cache")
	if after != before {
		t.Errorf("it left files:\n%s", after)
	}
}

// testImage runs the server's image as its user.
func testImage(t *testing.T, dir string) {
	root := filepath.Join(t.TempDir(), "image")
	run(t, "", nil, "go", "run", "./testdata/unpack", one(t, dir, "_image.oci.tar"), root, "amd64")
	out := run(t, "", []string{"ATOLL_HOME=/tmp", "HOME=/tmp", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
		`mount -t proc proc "$0/proc" && exec chroot --userspec=65532:65532 "$0" "$@"`, root, "/atoll", "run", "--", "sh", "-c", "echo hi")
	if out != "hi\n" {
		t.Errorf("a sandbox of the image printed %q", out)
	}
	if b, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil || bytes.Count(b, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("certificates of authorities: %d bytes, %v", len(b), err)
	}
}

// testARM64 runs virtual sandboxes of the program for arm64 in QEMU's emulation of a process. Real
// sandboxes need an arm64 kernel, and are only built.
func testARM64(t *testing.T, dir string) {
	qemu := program(t, "qemu-aarch64-static", "qemu-user")
	files, _ := filepath.Glob(filepath.Join(dir, "*_arm64.deb")) // the pattern is well-formed
	if len(files) == 0 {
		testenv.Skip(t, "arm64", "this release has no arm64")
	}
	root := t.TempDir()
	run(t, "", nil, "dpkg-deb", "--extract", files[0], root)
	lib := filepath.Join(root, "usr/lib/atoll")
	env := []string{"HOME=" + t.TempDir(), "ATOLL_HOME=" + t.TempDir()}
	if out := run(t, "", env, qemu, filepath.Join(lib, "atoll-full"), "run", "--", "sh", "-c", "seq 3 | paste -sd+ | bc"); out != "6\n" {
		t.Errorf("a virtual sandbox on arm64 printed %q", out)
	}
	if out := run(t, "", env, qemu, filepath.Join(lib, "atoll"), "version"); !strings.Contains(out, "linux/arm64") {
		t.Errorf("atoll version on arm64 printed %q", out)
	}
	if err := exec.CommandContext(t.Context(), qemu, filepath.Join(lib, "atoll-guest")).Run(); err == nil {
		t.Error("atoll-guest without a command does not fail")
	}
}
