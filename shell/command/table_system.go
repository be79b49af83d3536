package command

// systemCommands returns the commands of this family.
func systemCommands() []Command { return nil }
