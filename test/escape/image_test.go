//go:build linux

package escape

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/namespace"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestImage runs every attack in a namespace sandbox made of an image, whose root is
// built differently from one with the host's files.
func TestImage(t *testing.T) {
	d := &namespace.Driver{Dir: makeTempDir(t)}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		testenv.Skip(t, "namespace", "%v", err)
	}
	importImage(t, d)
	sb := testDriver{driver: d}.createSandbox(t, atoll.Spec{Image: escapeImage})
	f := newHostTargets(t)
	for _, a := range listAttacks() {
		t.Run(a.name, func(t *testing.T) { runAttack(t, sb, a, f, "") })
	}
}

// escapeImage is the name of the image that importImage imports.
const escapeImage = "escape:test"

// importImage imports an image with only a shell into a driver.
func importImage(t *testing.T, d atoll.ImageImporter) {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		testenv.Skip(t, "escape", "busybox is missing: apt-get install busybox-static")
	}
	root := t.TempDir()
	for _, dir := range []string{"bin", "etc", "tmp", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"cp", busybox, filepath.Join(root, "bin/busybox")}, {"ln", "-s", "busybox", filepath.Join(root, "bin/sh")}, {"ln", "-s", "busybox", filepath.Join(root, "bin/sleep")}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	tar, err := exec.CommandContext(t.Context(), "tar", "-c", "-C", root, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.ImportImage(t.Context(), escapeImage, bytes.NewReader(tar), nil); err != nil {
		t.Fatalf("ImportImage: %v", err)
	}
}
