package pairing

import (
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/project"
	"github.com/atoll-sandbox/atoll/internal/wire"
)

// mostBranches limits the branches that are printed one by one.
const mostBranches = 30

// FormatLedger returns a row for each branch that differs between the sandbox and the host, or has
// uncommitted work. l may be nil.
func FormatLedger(l *project.Ledger) [][]string {
	if l == nil {
		return nil
	}
	var rows [][]string
	left, only := 0, 0
	for _, b := range l.Branches {
		text := formatBranch(b)
		switch {
		case b.Relation == project.OnlyHost:
			only++
		case text == "":
		case len(rows) == mostBranches:
			left++
		default:
			rows = append(rows, []string{"branch", text})
		}
	}
	if left > 0 {
		rows = append(rows, []string{"branch", fmt.Sprintf("… and %d more that differ; --json has all", left)})
	}
	if only > 0 {
		rows = append(rows, []string{"branch", fmt.Sprintf("only here: %d", only)})
	}
	return rows
}

// formatBranch formats the difference of a branch on both sides; empty: there is none.
func formatBranch(b project.BranchState) string {
	name := b.Name
	if b.Repository != "" {
		name = b.Repository + ": " + name
	}
	var list []string
	switch b.Relation {
	case project.Ahead, project.Behind, project.Diverged:
		if b.Ahead > 0 {
			list = append(list, fmt.Sprintf("%d ahead", b.Ahead))
		}
		if b.Behind > 0 {
			list = append(list, fmt.Sprintf("%d behind", b.Behind))
		}
		if b.Ahead > 0 && b.Home {
			list = append(list, "its commits are on another branch of yours")
		}
	case project.OnlyInside, project.RemovedHost:
		list = append(list, "only in the sandbox, "+pendingText(b))
	case project.RemovedInside:
		list = append(list, "removed in the sandbox")
	}
	if b.SandboxDirty {
		list = append(list, "uncommitted work in the sandbox")
	}
	if b.HostDirty {
		list = append(list, "uncommitted work here")
	}
	if len(list) == 0 {
		return ""
	}
	return name + ": " + strings.Join(list, ", ")
}

func pendingText(b project.BranchState) string {
	if b.Home {
		return "and you have its commits"
	}
	return fmt.Sprintf("new commits: %d", b.Ahead)
}

// FormatPending returns a line for each branch whose commits are on no branch of the host, with the command
// that brings them there. name is the sandbox's.
func FormatPending(name string, all []project.BranchState) string {
	var b strings.Builder
	for i, one := range wire.PendingBranches(all) {
		if i == mostBranches {
			b.WriteString("…\n")
			break
		}
		fmt.Fprintf(&b, "not home yet: %s, %s: 'atoll merge %s %s'\n", one.Name, output.FormatCount(one.Ahead, "commit"), name, one.Name)
	}
	return b.String()
}
