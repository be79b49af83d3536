package project

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// change is a file that differs between two commits.
type change struct {
	name              string
	oldMode, mode     string // "100644"; "000000": missing
	old, object       string
	inserted, deleted int // lines; 0 for binary files
}

// listChanges lists the differences between two commits. from may be empty.
func (q *quarantine) listChanges(ctx context.Context, from, to string) ([]change, error) {
	if from == "" {
		empty, err := q.repo.treeOf(ctx, "")
		if err != nil {
			return nil, err
		}
		from = empty
	}
	out, err := q.runOutput(ctx, "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", "--full-index", from, to)
	if err != nil {
		return nil, err
	}
	return parseChanges(out)
}

// parseChanges parses the output of 'diff-tree -z --raw --numstat'.
func parseChanges(out string) ([]change, error) {
	var list []change
	at := make(map[string]int)
	parts := splitTerminated(out, "\x00")
	for i := 0; i < len(parts); i++ {
		if raw, ok := strings.CutPrefix(parts[i], ":"); ok {
			f := strings.Fields(raw)
			if i++; len(f) != 5 || i == len(parts) {
				return nil, fmt.Errorf("git diff-tree printed %q", printable(raw))
			}
			at[parts[i]] = len(list)
			list = append(list, change{name: parts[i], oldMode: f[0], mode: f[1], old: f[2], object: f[3]})
			continue
		}
		f := strings.SplitN(parts[i], "\t", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("git diff-tree printed %q", printable(parts[i]))
		}
		if n, ok := at[f[2]]; ok {
			list[n].inserted, _ = strconv.Atoi(f[0]) // "-": a binary file
			list[n].deleted, _ = strconv.Atoi(f[1])
		}
	}
	return list, nil
}
