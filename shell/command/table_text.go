package command

// textCommands returns the commands that work on lines of text.
func textCommands() []Command {
	return versioned([]Command{
		{Name: "cat", Short: "print files one after the other", Usage: catUsage, Run: flushed(cat, 1)},
		{Name: "head", Short: "print the first lines of files", Usage: headUsage, Run: flushed(head, 1)},
		{Name: "tail", Short: "print the last lines of files", Usage: tailUsage, Run: flushed(tail, 1)},
		{Name: "wc", Short: "count lines, words and bytes", Usage: wcUsage, Run: flushed(wc, 1)},
		{Name: "sort", Short: "sort lines", Usage: sortUsage, Run: flushed(sortCommand, 2)},
		{Name: "uniq", Short: "drop or report repeated lines", Usage: uniqUsage, Run: flushed(uniq, 1)},
		{Name: "cut", Short: "print parts of lines", Usage: cutUsage, Run: flushed(cut, 1)},
		{Name: "tr", Short: "translate or delete characters", Usage: trUsage, Run: flushed(tr, 1)},
		{Name: "paste", Short: "join files line by line", Usage: pasteUsage, Run: flushed(paste, 1)},
		{Name: "join", Short: "join lines of two files on a field", Usage: joinUsage, Run: flushed(join, 1)},
	}, "GNU coreutils) 9.1")
}
