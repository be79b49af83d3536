// Package file holds the commands that list, find, copy, move, remove and change files and directories:
// ls, cp, find, chmod and the like.
package file

import "github.com/atoll-sandbox/atoll/shell/command/program"

// Commands returns the commands that work on files and directories.
func Commands() []program.Command {
	list := program.AddVersion([]program.Command{
		{Name: "ls", Aliases: []string{"dir", "vdir"}, Short: "list directories", Usage: lsUsage, Run: program.FlushOutput(runLs, 2)},
		{Name: "cp", Short: "copy files and directories", Usage: cpUsage, Run: program.FlushOutput(runCp, 1)},
		{Name: "mv", Short: "move and rename files", Usage: mvUsage, Run: program.FlushOutput(runMv, 1)},
		{Name: "install", Short: "copy files and set their modes", Usage: installUsage, Run: program.FlushOutput(runInstall, 1)},
		{Name: "touch", Short: "set the times of files, create empty files", Usage: touchUsage, Run: program.FlushOutput(runTouch, 1)},
		{Name: "stat", Short: "print the attributes of files", Usage: statUsage, Run: program.FlushOutput(runStat, 1)},
		{Name: "du", Short: "sum up the sizes of directories", Usage: duUsage, Run: program.FlushOutput(runDu, 1)},
		{Name: "df", Short: "print the free space of file systems", Usage: dfUsage, Run: program.FlushOutput(runDf, 1)},
		{Name: "rm", Short: "remove files and directories", Usage: rmUsage, Run: program.FlushOutput(runRm, 1)},
		{Name: "mkdir", Short: "make directories", Usage: mkdirUsage, Run: program.FlushOutput(runMkdir, 1)},
		{Name: "rmdir", Short: "remove empty directories", Usage: rmdirUsage, Run: program.FlushOutput(runRmdir, 1)},
		{Name: "ln", Short: "make links", Usage: lnUsage, Run: program.FlushOutput(runLn, 1)},
		{Name: "link", Short: "make a hard link", Usage: linkUsage, Run: program.FlushOutput(runLink, 1)},
		{Name: "unlink", Short: "remove a file", Usage: unlinkUsage, Run: program.FlushOutput(runUnlink, 1)},
		{Name: "readlink", Short: "print the target of a link", Usage: readlinkUsage, Run: program.FlushOutput(runReadlink, 1)},
		{Name: "realpath", Short: "print a file's absolute name", Usage: realpathUsage, Run: program.FlushOutput(runRealpath, 1)},
		{Name: "basename", Short: "strip directories and a suffix from a name", Usage: basenameUsage, Run: program.FlushOutput(runBasename, 1)},
		{Name: "dirname", Short: "strip the last part of a name", Usage: dirnameUsage, Run: program.FlushOutput(runDirname, 1)},
		{Name: "pathchk", Short: "check whether names are valid", Usage: pathchkUsage, Run: program.FlushOutput(runPathchk, 1)},
		{Name: "mktemp", Short: "make a temporary file or directory", Usage: mktempUsage, Run: program.FlushOutput(runMktemp, 1)},
		{Name: "truncate", Short: "set the size of files", Usage: truncateUsage, Run: program.FlushOutput(runTruncate, 1)},
		{Name: "mkfifo", Short: "make named pipes", Usage: mkfifoUsage, Run: program.FlushOutput(runMkfifo, 1)},
		{Name: "mknod", Short: "make special files", Usage: mknodUsage, Run: program.FlushOutput(runMknod, 1)},
		{Name: "chmod", Short: "change permissions", Usage: chmodUsage, Run: program.FlushOutput(runChmod, 1)},
		{Name: "chown", Short: "change owners", Usage: chownUsage, Run: program.FlushOutput(runChown, 1)},
		{Name: "chgrp", Short: "change groups", Usage: chgrpUsage, Run: program.FlushOutput(runChown, 1)},
	}, "GNU coreutils) 9.1")
	list = append(list, program.AddVersion([]program.Command{
		{Name: "find", Short: "find files and run actions on them", Usage: findUsage, Run: program.FlushOutput(runFind, 1)},
	}, "GNU findutils) 4.9.0")...)
	return append(list, program.AddVersion([]program.Command{
		{Name: "tree", Short: "print directories as a tree", Usage: treeUsage, Run: program.FlushOutput(runTree, 1)},
	}, "tree) 2.1.0")...)
}
