package command

import "slices"

// systemCommands returns the commands that deal with processes, time,
// numbers and what the machine is, and awk.
func systemCommands() []Command {
	return slices.Concat(awkCommands(), processCommands(), numberCommands(), checksumCommands(), machineCommands())
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

func numberCommands() []Command {
	return []Command{
		{Name: "expr", Short: "evaluate an expression", Usage: exprUsage, Run: flushed(expr, 3)},
		{Name: "bc", Short: "calculate with any precision", Usage: bcUsage, Run: flushed(bc, 1)},
		{Name: "dc", Short: "calculate in reverse Polish notation", Usage: dcUsage, Run: flushed(dc, 1)},
		{Name: "factor", Short: "print prime factors", Usage: factorUsage, Run: flushed(factor, 1)},
		{Name: "tsort", Short: "sort a partial order", Usage: tsortUsage, Run: flushed(tsort, 1)},
		{Name: "shuf", Short: "shuffle lines", Usage: shufUsage, Run: flushed(shuf, 1)},
		{Name: "numfmt", Short: "write numbers with units or without", Usage: numfmtUsage, Run: flushed(numfmt, 1)},
		{Name: "getopt", Short: "parse the options of a script", Usage: getoptUsage, Run: flushed(getopt, 1)},
		{Name: "envsubst", Short: "put the environment into a text", Usage: envsubstUsage, Run: flushed(envsubst, 1)},
	}
}

func checksumCommands() []Command {
	list := []Command{
		{Name: "cksum", Short: "print checksums of any kind", Usage: sumUsage("cksum", "any of cksum -a's"), Run: flushed(cksum, 1)},
		{Name: "sum", Short: "print old checksums", Usage: sumToolUsage, Run: flushed(sum, 1)},
		{Name: "base64", Short: "encode bytes as letters and digits", Usage: baseUsage("base64"), Run: flushed(baser('6'), 1)},
		{Name: "base32", Short: "encode bytes as capitals and digits", Usage: baseUsage("base32"), Run: flushed(baser('3'), 1)},
		{Name: "basenc", Short: "encode bytes in many ways", Usage: basencUsage, Run: flushed(basenc, 1)},
	}
	for _, d := range digests {
		if d.bits > 0 {
			tool := map[string]string{"blake2b": "b2sum"}[d.word]
			if tool == "" {
				tool = d.word + "sum"
			}
			list = append(list, Command{Name: tool, Short: "print or check " + d.name + " checksums", Usage: sumUsage(tool, d.name), Run: flushed(summer(d.word), 1)})
		}
	}
	return list
}

// machineCommands are those that ask what runs and where.
func machineCommands() []Command {
	return []Command{
		{Name: "ps", Short: "list processes", Usage: psUsage, Run: flushed(ps, 1)},
		{Name: "pgrep", Short: "find processes by name", Usage: pgrepUsage, Run: flushed(pgrep, 3)},
		{Name: "pkill", Short: "send signals to processes by pattern", Usage: pkillUsage, Run: flushed(pkill, 3)},
		{Name: "pidof", Short: "find processes by exact name", Usage: pidofUsage, Run: flushed(pidof, 1)},
		{Name: "killall", Short: "send signals to processes by name", Usage: killallUsage, Run: flushed(killall, 1)},
		{Name: "uptime", Short: "print how long this has been running", Usage: uptimeUsage, Run: flushed(uptime, 1)},
		{Name: "who", Short: "print who is logged in", Usage: whoUsage, Run: flushed(who, 1)},
		{Name: "w", Short: "print who is logged in and does what", Usage: wUsage, Run: flushed(w, 1)},
		{Name: "free", Short: "print how much memory is used", Usage: freeUsage, Run: flushed(free, 1)},
		{Name: "cal", Aliases: []string{"ncal"}, Short: "print a calendar", Usage: calUsage, Run: flushed(cal, 1)},
		{Name: "which", Short: "print the path of a command", Usage: whichUsage, Run: flushed(which, 1)},
		{Name: "clear", Short: "clear the screen", Usage: clearUsage, Run: flushed(clearScreen, 1)},
		{Name: "reset", Short: "reset the terminal", Usage: resetUsage, Run: flushed(resetTerminal, 1)},
		{Name: "tput", Short: "print what a terminal needs", Usage: tputUsage, Run: flushed(tput, 1)},
		{Name: "stty", Short: "print the terminal's settings", Usage: sttyUsage, Run: flushed(stty, 1)},
		{Name: "tty", Short: "print the terminal's name", Usage: ttyUsage, Run: flushed(tty, 3)},
		{Name: "getconf", Short: "print limits of the system", Usage: getconfUsage, Run: flushed(getconf, 1)},
		{Name: "locale", Short: "print the locale", Usage: localeUsage, Run: flushed(locale, 1)},
		{Name: "man", Short: "print what --help of a command prints", Usage: manUsage, Run: flushed(man, 1)},
		{Name: "sync", Short: "write what is cached", Usage: syncUsage, Run: syncFiles},
		{Name: "uuidgen", Short: "make a unique identifier", Usage: uuidgenUsage, Run: flushed(uuidgen, 1)},
		{Name: "mcookie", Short: "make a random cookie", Usage: mcookieUsage, Run: flushed(mcookie, 1)},
	}
}
