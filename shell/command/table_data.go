package command

// dataCommands returns the commands of this family.
func dataCommands() []Command { return nil }
