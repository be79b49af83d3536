package command

// fileCommands returns the commands that work on files and directories.
func fileCommands() []Command {
	list := versioned([]Command{
		{Name: "ls", Aliases: []string{"dir", "vdir"}, Short: "list directories", Usage: lsUsage, Run: flushed(ls, 2)},
		{Name: "cp", Short: "copy files and directories", Usage: cpUsage, Run: flushed(cp, 1)},
		{Name: "mv", Short: "move and rename files", Usage: mvUsage, Run: flushed(mv, 1)},
		{Name: "install", Short: "copy files and set their modes", Usage: installUsage, Run: flushed(install, 1)},
		{Name: "touch", Short: "set the times of files, make empty ones", Usage: touchUsage, Run: flushed(touch, 1)},
		{Name: "stat", Short: "show what is known of files", Usage: statUsage, Run: flushed(stat, 1)},
		{Name: "du", Short: "sum up the sizes of directories", Usage: duUsage, Run: flushed(du, 1)},
		{Name: "df", Short: "show the room that is left", Usage: dfUsage, Run: flushed(df, 1)},
		{Name: "rm", Short: "remove files and directories", Usage: rmUsage, Run: flushed(rm, 1)},
		{Name: "mkdir", Short: "make directories", Usage: mkdirUsage, Run: flushed(mkdir, 1)},
		{Name: "rmdir", Short: "remove empty directories", Usage: rmdirUsage, Run: flushed(rmdir, 1)},
		{Name: "ln", Short: "make links", Usage: lnUsage, Run: flushed(ln, 1)},
		{Name: "link", Short: "make a hard link", Usage: linkUsage, Run: flushed(link, 1)},
		{Name: "unlink", Short: "remove a file", Usage: unlinkUsage, Run: flushed(unlink, 1)},
		{Name: "readlink", Short: "print where a link leads", Usage: readlinkUsage, Run: flushed(readlink, 1)},
		{Name: "realpath", Short: "print a file's absolute name", Usage: realpathUsage, Run: flushed(realpath, 1)},
		{Name: "basename", Short: "strip directories and a suffix from a name", Usage: basenameUsage, Run: flushed(basename, 1)},
		{Name: "dirname", Short: "strip the last part of a name", Usage: dirnameUsage, Run: flushed(dirname, 1)},
		{Name: "pathchk", Short: "check whether names are valid", Usage: pathchkUsage, Run: flushed(pathchk, 1)},
		{Name: "mktemp", Short: "make a temporary file or directory", Usage: mktempUsage, Run: flushed(mktemp, 1)},
		{Name: "truncate", Short: "set the size of files", Usage: truncateUsage, Run: flushed(truncate, 1)},
		{Name: "mkfifo", Short: "make named pipes", Usage: mkfifoUsage, Run: flushed(mkfifo, 1)},
		{Name: "mknod", Short: "make special files", Usage: mknodUsage, Run: flushed(mknod, 1)},
		{Name: "chmod", Short: "change permissions", Usage: chmodUsage, Run: flushed(chmod, 1)},
		{Name: "chown", Short: "change owners", Usage: chownUsage, Run: flushed(chown, 1)},
		{Name: "chgrp", Short: "change groups", Usage: chgrpUsage, Run: flushed(chown, 1)},
	}, "GNU coreutils) 9.1")
	list = append(list, versioned([]Command{
		{Name: "find", Short: "look for files and act on them", Usage: findUsage, Run: flushed(find, 1)},
	}, "GNU findutils) 4.9.0")...)
	return append(list, versioned([]Command{
		{Name: "tree", Short: "draw directories as a tree", Usage: treeUsage, Run: flushed(tree, 1)},
	}, "tree) 2.1.0")...)
}
