package command

// systemCommands returns the commands of this family.
func systemCommands() []Command {
	return []Command{
		{Name: "awk", Aliases: []string{"gawk", "mawk", "nawk"}, Short: "run a program over the lines and fields of files", Usage: awkUsage, Run: runAwk},
	}
}
