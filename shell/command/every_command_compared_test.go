package command_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command"
)

// uncompared are the commands that no case compares with a real program, with
// where they are tested instead.
var uncompared = map[string]string{
	"cpio":    "archive/cpio_test.go, and internal/vm/boot with the real one",
	"reset":   "system: what it writes is what clear writes, and more",
	"rg":      "search/rg_test.go: no host of ours has it",
	"zipinfo": "archive/zip_test.go, as unzip -Z",
}

// commandWord finds words that are where a shell has a command.
var commandWord = regexp.MustCompile("(?m)(?:^|[\"`;|&(]\\s*|\\\\n|then |do )([\\w.\\[-]+)")

// TestEveryCommandIsCompared makes sure that a new command does what the real one
// does: a command must occur in a case that runs in the real program, too. A command
// that only says that it is missing has no such case, or fails it.
func TestEveryCommandIsCompared(t *testing.T) {
	var cases strings.Builder
	for _, pattern := range []string{"*_test.go", "*/*_test.go", "../../driver/virtual/testdata/compat/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if file != "every_command_compared_test.go" && (strings.HasSuffix(file, ".txt") || strings.Contains(string(b), "commandtest.Compare(")) {
				cases.Write(b)
			}
		}
	}
	text := cases.String()
	compared := make(map[string]bool)
	for _, m := range commandWord.FindAllStringSubmatchIndex(text, -1) {
		if end := m[3]; end == len(text) || strings.ContainsRune(" \t\n\"`;|&)\\", rune(text[end])) {
			compared[text[m[2]:end]] = true
		}
	}
	for _, c := range command.All() {
		switch _, listed := uncompared[c.Name]; {
		case !compared[c.Name] && !listed:
			t.Errorf("no case compares %s with the real program: add one to a test that calls commandtest.Compare, or to driver/virtual/testdata/compat", c.Name)
		case compared[c.Name] && listed:
			t.Errorf("%s is compared: strike it from the list", c.Name)
		}
	}
}
