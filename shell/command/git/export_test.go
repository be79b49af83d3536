package git

// Options returns the options of each command.
func Options() map[string]string {
	list := make(map[string]string)
	for name, sub := range subcommands() {
		list[name] = sub.options
	}
	return list
}
