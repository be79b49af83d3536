package virtual_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/internal/helper"
	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"github.com/atoll-sandbox/atoll/shell/command/python"
)

// newPython returns a sandbox with python3, sealed or not.
func newPython(t *testing.T, spec atoll.Spec) atoll.Sandbox {
	t.Helper()
	testenv.Real(t, "sealed")
	if _, err := (helper.Finder{}).FindPython(); err != nil {
		testenv.Skip(t, "python", "%v", err)
	}
	d := &virtual.Driver{Commands: python.Commands()}
	t.Cleanup(func() { _ = d.Close() })
	box, err := d.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Destroy(context.Background()) })
	return box
}

// runScript runs a script of bash.
func runScript(t *testing.T, box atoll.Sandbox, script string) atoll.Exit {
	t.Helper()
	exit, err := box.Exec(t.Context(), atoll.Cmd{Args: []string{"bash", "-c", script}})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return exit
}

// TestPythonAgreesWithCPython runs the scripts of testdata, whose output was recorded with the python3 of a host.
func TestPythonAgreesWithCPython(t *testing.T) {
	scripts, err := filepath.Glob("testdata/python/*.py")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts: %v", err)
	}
	for _, sealed := range []string{"", virtual.Sealed} {
		box := newPython(t, atoll.Spec{Runtime: sealed})
		for _, file := range scripts {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".py")+sealed, func(t *testing.T) {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				want, err := os.ReadFile(strings.TrimSuffix(file, ".py") + ".out")
				if err != nil {
					t.Fatal(err)
				}
				name := "/tmp/" + filepath.Base(file)
				if err := atoll.WriteFile(t.Context(), box, name, text, 0o644); err != nil {
					t.Fatal(err)
				}
				exit, err := box.Exec(t.Context(), atoll.Cmd{Args: []string{"python3", filepath.Base(file), "a", "b c"}, Dir: "/tmp", Stdin: strings.NewReader("in\n")})
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(string(want), string(exit.Stdout)); d != "" || len(exit.Stderr) > 0 {
					t.Errorf("(-recorded +here)\n%s\n%s", d, exit.Stderr)
				}
			})
		}
	}
}

// TestRecordedPythonIsReal runs the scripts with the python3 of this host.
func TestRecordedPythonIsReal(t *testing.T) {
	real, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3: this host has none")
	}
	scripts, _ := filepath.Glob("testdata/python/*.py") // the pattern is well-formed
	for _, file := range scripts {
		cmd := exec.CommandContext(t.Context(), real, filepath.Base(file), "a", "b c")
		cmd.Dir, cmd.Stdin = filepath.Dir(file), strings.NewReader("in\n")
		out, _ := cmd.Output() // the status is that of the script
		want, err := os.ReadFile(strings.TrimSuffix(file, ".py") + ".out")
		if err != nil || !bytes.Equal(out, want) {
			t.Errorf("%s: %v\n%s", file, err, cmp.Diff(string(want), string(out)))
		}
	}
}
