package atoll_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestModulesOfTestsHaveOurVersions checks that the modules below test/ require what they share with this
// module in the same version: then a package, above all those of Kubernetes, is compiled once for all of
// them. `go work sync` in a workspace of the modules makes them equal; docs/testing.md has the commands.
func TestModulesOfTestsHaveOurVersions(t *testing.T) {
	ours := readRequirements(t, "go.mod")
	modules := 0
	err := filepath.WalkDir("test", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		modules++
		for name, version := range readRequirements(t, path) {
			if want, ok := ours[name]; ok && version != want {
				t.Errorf("%s requires %s %s: want %s, as go.mod does", path, name, version, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if modules < 5 || len(ours) < 50 {
		t.Errorf("there are %d modules below test/, and %d requirements in go.mod: too few, the pattern is wrong", modules, len(ours))
	}
}

// readRequirements returns the versions of the modules that a go.mod file requires.
func readRequirements(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	versions := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^(?:require )?\t?([\w./~-]+\.[\w./~-]+) (v[^\s]+)(?: // indirect)?$`).FindAllStringSubmatch(string(text), -1) {
		versions[m[1]] = m[2]
	}
	return versions
}
