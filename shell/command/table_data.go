package command

// dataCommands returns the commands of this family.
func dataCommands() []Command {
	return []Command{
		{Name: "jq", Short: "process JSON", Usage: jqUsage, Run: flushed(jqMain, 2)},
	}
}
