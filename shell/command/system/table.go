// Package system holds the commands that run programs and describe processes, users, time, the terminal
// and the system: env, xargs, date, ps and the like.
package system

import "github.com/atoll-sandbox/atoll/shell/command/program"

// Commands returns the commands that deal with processes, time, users
// and the system. man describes the commands that all returns.
func Commands(all func() []program.Command) []program.Command {
	return append(processCommands(), machineCommands(all)...)
}

// processCommands returns the commands that run programs and describe the
// process they run in.
func processCommands() []program.Command {
	return []program.Command{
		{Name: "env", Short: "run a program in a changed environment", Usage: envUsage, Run: runEnv},
		{Name: "printenv", Short: "print the environment", Usage: printenvUsage, Run: program.FlushOutput(runPrintenv, 2)},
		{Name: "id", Short: "print user and group numbers", Usage: idUsage, Run: program.FlushOutput(runId, 1)},
		{Name: "whoami", Short: "print the user's name", Usage: whoamiUsage, Run: program.FlushOutput(runWhoami, 1)},
		{Name: "groups", Short: "print the groups of a user", Usage: groupsUsage, Run: program.FlushOutput(runGroups, 1)},
		{Name: "logname", Short: "print the login name", Usage: lognameUsage, Run: program.FlushOutput(runLogname, 1)},
		{Name: "users", Short: "print the logged-in users", Usage: usersUsage, Run: runUsers},
		{Name: "uname", Short: "print the name of the system", Usage: unameUsage, Run: program.FlushOutput(runUname, 1)},
		{Name: "arch", Short: "print the machine's architecture", Usage: archUsage, Run: program.FlushOutput(runArch, 1)},
		{Name: "nproc", Short: "print the number of processors", Usage: nprocUsage, Run: program.FlushOutput(runNproc, 1)},
		{Name: "hostname", Short: "print the machine's name", Usage: hostnameUsage, Run: program.FlushOutput(runHostname, 1)},
		{Name: "sleep", Short: "wait for a time", Usage: sleepUsage, Run: runSleep},
		{Name: "flock", Short: "run a command with the lock of a file", Usage: flockUsage, Run: program.FlushOutput(runFlock, 1)},
		{Name: "timeout", Short: "run a program for a limited time", Usage: timeoutUsage, Run: runTimeout},
		{Name: "nohup", Short: "run a program immune to hangups", Usage: nohupUsage, Run: runNohup},
		{Name: "nice", Short: "run a program with another priority", Usage: niceUsage, Run: runNice},
		{Name: "setsid", Short: "run a program in a new process group", Usage: setsidUsage, Run: runSetsid},
		{Name: "stdbuf", Short: "run a program with other buffering", Usage: stdbufUsage, Run: runStdbuf},
		{Name: "time", Short: "report how long a program takes", Usage: timeUsage, Run: runTime},
		{Name: "xargs", Short: "run a program with arguments read from input", Usage: xargsUsage, Run: runXargs},
		{Name: "parallel", Short: "run commands at once for many arguments", Usage: parallelUsage, Run: program.FlushOutput(runParallel, 255)},
		{Name: "tee", Short: "copy input to files and output", Usage: teeUsage, Run: runTee},
		{Name: "yes", Short: "print a line repeatedly", Usage: yesUsage, Run: runYes},
		{Name: "date", Short: "print or compute a date", Usage: dateUsage, Run: program.FlushOutput(runDate, 1)},
		{Name: "getopt", Short: "parse the options of a script", Usage: getoptUsage, Run: program.FlushOutput(runGetopt, 1)},
	}
}

// machineCommands returns the commands that describe the system, its
// processes and its terminal.
func machineCommands(all func() []program.Command) []program.Command {
	return []program.Command{
		{Name: "ps", Short: "list processes", Usage: psUsage, Run: program.FlushOutput(runPs, 1)},
		{Name: "pgrep", Short: "find processes by name", Usage: pgrepUsage, Run: program.FlushOutput(runPgrep, 3)},
		{Name: "pkill", Short: "send signals to processes by pattern", Usage: pkillUsage, Run: program.FlushOutput(runPkill, 3)},
		{Name: "pidof", Short: "find processes by exact name", Usage: pidofUsage, Run: program.FlushOutput(runPidof, 1)},
		{Name: "killall", Short: "send signals to processes by name", Usage: killallUsage, Run: program.FlushOutput(runKillall, 1)},
		{Name: "uptime", Short: "print the uptime of the sandbox", Usage: uptimeUsage, Run: program.FlushOutput(runUptime, 1)},
		{Name: "who", Short: "print the logged-in users", Usage: whoUsage, Run: program.FlushOutput(runWho, 1)},
		{Name: "w", Short: "print the logged-in users and their processes", Usage: wUsage, Run: program.FlushOutput(runW, 1)},
		{Name: "free", Short: "print the memory usage", Usage: freeUsage, Run: program.FlushOutput(runFree, 1)},
		{Name: "cal", Aliases: []string{"ncal"}, Short: "print a calendar", Usage: calUsage, Run: program.FlushOutput(runCal, 1)},
		{Name: "which", Short: "print the path of a command", Usage: whichUsage, Run: program.FlushOutput(runWhich, 1)},
		{Name: "clear", Short: "clear the screen", Usage: clearUsage, Run: program.FlushOutput(runClear, 1)},
		{Name: "reset", Short: "reset the terminal", Usage: resetUsage, Run: program.FlushOutput(runReset, 1)},
		{Name: "tput", Short: "print terminal capabilities", Usage: tputUsage, Run: program.FlushOutput(runTput, 1)},
		{Name: "stty", Short: "print the terminal's settings", Usage: sttyUsage, Run: program.FlushOutput(runStty, 1)},
		{Name: "tty", Short: "print the terminal's name", Usage: ttyUsage, Run: program.FlushOutput(runTty, 3)},
		{Name: "getconf", Short: "print limits of the system", Usage: getconfUsage, Run: program.FlushOutput(runGetconf, 1)},
		{Name: "locale", Short: "print the locale", Usage: localeUsage, Run: program.FlushOutput(runLocale, 1)},
		{Name: "man", Short: "print the help of a command", Usage: manUsage, Run: program.FlushOutput(newManProgram(all), 1)},
		{Name: "sync", Short: "write cached data to storage", Usage: syncUsage, Run: runSync},
		{Name: "uuidgen", Short: "create a unique identifier", Usage: uuidgenUsage, Run: program.FlushOutput(runUuidgen, 1)},
		{Name: "mcookie", Short: "create a random cookie", Usage: mcookieUsage, Run: program.FlushOutput(runMcookie, 1)},
	}
}
