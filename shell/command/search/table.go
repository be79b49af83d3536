// Package search holds the commands that search text and compare files: grep, rg, diff, patch and
// the like.
package search

import "github.com/atoll-sandbox/atoll/shell/command/program"

// Commands returns the commands that search text and compare files.
func Commands() []program.Command {
	return []program.Command{
		{Name: "grep", Aliases: []string{"egrep", "fgrep"}, Short: "print lines that match patterns", Usage: grepUsage, Run: program.FlushOutput(runGrep, 2)},
		{Name: "rg", Short: "search a tree for a pattern", Usage: rgUsage, Run: program.FlushOutput(runRg, 2)},
		{Name: "fd", Aliases: []string{"fdfind"}, Short: "find files by name", Usage: fdUsage, Run: program.FlushOutput(runFd, 1)},
		{Name: "diff", Short: "compare files line by line", Usage: diffUsage, Run: program.FlushOutput(runDiff, diffTrouble)},
		{Name: "diff3", Short: "compare or merge three files", Usage: diff3Usage, Run: program.FlushOutput(runDiff3, diffTrouble)},
		{Name: "sdiff", Short: "compare two files side by side", Usage: sdiffUsage, Run: program.FlushOutput(runSdiff, diffTrouble)},
		{Name: "cmp", Short: "compare two files byte by byte", Usage: cmpUsage, Run: program.FlushOutput(runCmp, diffTrouble)},
		{Name: "comm", Short: "compare two sorted files line by line", Usage: commUsage, Run: program.FlushOutput(runComm, 1)},
		{Name: "patch", Short: "apply a diff to files", Usage: patchUsage, Run: program.FlushOutput(runPatch, diffTrouble)},
	}
}
