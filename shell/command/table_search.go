package command

// searchCommands returns the commands that look for text and compare it.
func searchCommands() []Command {
	return []Command{
		{Name: "grep", Aliases: []string{"egrep", "fgrep"}, Short: "print lines that match patterns", Usage: grepUsage, Run: flushed(grep, 2)},
		{Name: "sed", Short: "edit a stream of lines", Usage: sedUsage, Run: flushed(sed, sedPanic)},
		{Name: "diff", Short: "compare files line by line", Usage: diffUsage, Run: flushed(diff, diffTrouble)},
		{Name: "cmp", Short: "compare two files byte by byte", Usage: cmpUsage, Run: flushed(cmpMain, diffTrouble)},
		{Name: "comm", Short: "compare two sorted files line by line", Usage: commUsage, Run: flushed(comm, 1)},
		{Name: "patch", Short: "apply a diff to files", Usage: patchUsage, Run: flushed(patch, diffTrouble)},
		{Name: "rg", Short: "search a tree for a pattern", Usage: rgUsage, Run: flushed(rg, 2)},
	}
}
