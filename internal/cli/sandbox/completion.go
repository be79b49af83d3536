package sandbox

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// nameCompleter completes words by the files of a sandbox that can't do it itself, such
// as one behind a network: the first word of a command by programs, the others
// by files.
type nameCompleter struct{ sb atoll.Sandbox }

const completeTime = 2 * time.Second // that a person waits for the Tab key

// Complete returns what the word that ends at byte pos of a line could become.
// Candidates replace line[start:pos].
func (n nameCompleter) Complete(ctx context.Context, line string, pos int) (start int, list []string) {
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	start = strings.LastIndexAny(line[:pos], " \t;|&()<>='\"`") + 1
	word := line[start:pos]
	before := strings.TrimRight(line[:start], " \t")
	if !strings.Contains(word, "/") && (before == "" || strings.ContainsRune(";|&(`", rune(before[len(before)-1]))) {
		return start, n.listPrograms(ctx, word)
	}
	return start, n.listFiles(ctx, word)
}

// listPrograms lists the programs whose names begin with a word.
func (n nameCompleter) listPrograms(ctx context.Context, word string) []string {
	var list []string
	for _, dir := range []string{"/bin", "/usr/bin", "/usr/local/bin"} {
		entries, err := atoll.ReadDir(ctx, n.sb, dir)
		if err != nil {
			continue // there is no such directory
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), word) && !e.IsDir() {
				list = append(list, e.Name())
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// listFiles lists the files whose names begin with a word, directories with a slash.
func (n nameCompleter) listFiles(ctx context.Context, word string) []string {
	dir, prefix := path.Split(word)
	at := dir
	if !path.IsAbs(at) {
		here := "/"
		if st, err := atoll.StatsOf(ctx, n.sb); err == nil && st.Dir != "" {
			here = st.Dir
		}
		at = path.Join(here, dir)
	}
	entries, err := atoll.ReadDir(ctx, n.sb, path.Clean(at))
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(name, ".") && prefix == "" {
			continue
		}
		if e.IsDir() {
			name += "/"
		}
		list = append(list, dir+name)
	}
	return list
}
