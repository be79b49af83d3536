package command

// textCommands returns the commands that work on lines of text.
func textCommands() []Command {
	return []Command{
		{Name: "cat", Short: "join files", Usage: catUsage, Run: flushed(cat, 1)},
	}
}
