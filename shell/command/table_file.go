package command

// fileCommands returns the commands that work on files and directories.
func fileCommands() []Command {
	return []Command{
		{Name: "ls", Aliases: []string{"dir", "vdir"}, Short: "list directories", Usage: lsUsage, Run: flushed(ls, 2)},
	}
}
