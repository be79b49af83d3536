package command

// searchCommands returns the commands of this family.
func searchCommands() []Command { return nil }
