package command

// systemCommands returns the commands that deal with processes, time,
// numbers and what the machine is, and awk.
func systemCommands() []Command {
	return append(awkCommands(), processCommands()...)
}

func awkCommands() []Command {
	return []Command{
		{Name: "awk", Aliases: []string{"gawk", "mawk", "nawk"}, Short: "run a program over the lines and fields of files", Usage: awkUsage, Run: runAwk},
	}
}

func processCommands() []Command {
	return []Command{
		{Name: "env", Short: "run a program in a changed environment", Usage: envUsage, Run: env},
		{Name: "printenv", Short: "print the environment", Usage: printenvUsage, Run: flushed(printenv, 2)},
		{Name: "id", Short: "print user and group numbers", Usage: idUsage, Run: flushed(id, 1)},
		{Name: "whoami", Short: "print the user's name", Usage: whoamiUsage, Run: flushed(whoami, 1)},
		{Name: "groups", Short: "print the groups of a user", Usage: groupsUsage, Run: flushed(groups, 1)},
		{Name: "logname", Short: "print the login name", Usage: lognameUsage, Run: flushed(logname, 1)},
		{Name: "users", Short: "print who is logged in", Usage: usersUsage, Run: users},
		{Name: "uname", Short: "print what system this is", Usage: unameUsage, Run: flushed(uname, 1)},
		{Name: "arch", Short: "print the machine's architecture", Usage: archUsage, Run: flushed(arch, 1)},
		{Name: "nproc", Short: "print the number of processors", Usage: nprocUsage, Run: flushed(nproc, 1)},
		{Name: "hostname", Short: "print the machine's name", Usage: hostnameUsage, Run: flushed(hostname, 1)},
		{Name: "seq", Short: "print a row of numbers", Usage: seqUsage, Run: flushed(seq, 1)},
		{Name: "sleep", Short: "wait", Usage: sleepUsage, Run: sleep},
		{Name: "timeout", Short: "run a program for a limited time", Usage: timeoutUsage, Run: timeout},
		{Name: "nohup", Short: "run a program that hangups don't end", Usage: nohupUsage, Run: nohup},
		{Name: "nice", Short: "run a program with another priority", Usage: niceUsage, Run: nice},
		{Name: "setsid", Short: "run a program in a group of its own", Usage: setsidUsage, Run: setsid},
		{Name: "stdbuf", Short: "run a program with other buffering", Usage: stdbufUsage, Run: stdbuf},
		{Name: "time", Short: "report how long a program takes", Usage: timeUsage, Run: timeCommand},
		{Name: "xargs", Short: "run a program with arguments read from input", Usage: xargsUsage, Run: xargs},
		{Name: "tee", Short: "copy input to files and output", Usage: teeUsage, Run: tee},
		{Name: "yes", Short: "print a line without end", Usage: yesUsage, Run: yes},
		{Name: "date", Short: "print or compute a date", Usage: dateUsage, Run: flushed(date, 1)},
	}
}
