package command

// fileCommands returns the commands that work on files and directories.
func fileCommands() []Command {
	return []Command{}
}
