package command

// dataCommands returns the commands of this family.
func dataCommands() []Command {
	return []Command{
		{Name: "jq", Short: "process JSON", Usage: jqUsage, Run: flushed(jqMain, 2)},
		{Name: "nl", Short: "number lines", Usage: nlUsage, Run: flushed(nl, 1)},
		{Name: "tac", Short: "print files, last line first", Usage: tacUsage, Run: flushed(tac, 1)},
		{Name: "rev", Short: "reverse lines", Usage: revUsage, Run: flushed(rev, 1)},
		{Name: "fold", Short: "wrap lines to a width", Usage: foldUsage, Run: flushed(fold, 1)},
		{Name: "fmt", Short: "fill paragraphs", Usage: fmtUsage, Run: flushed(fmtText, 1)},
		{Name: "expand", Short: "turn tabs into spaces", Usage: expandUsage, Run: flushed(expand, 1)},
		{Name: "unexpand", Short: "turn spaces into tabs", Usage: unexpandUsage, Run: flushed(unexpand, 1)},
		{Name: "split", Short: "split a file into pieces", Usage: splitUsage, Run: flushed(split, 1)},
		{Name: "csplit", Short: "split a file at lines that match", Usage: csplitUsage, Run: flushed(csplit, 1)},
		{Name: "cpio", Short: "copy files to and from archives", Usage: cpioUsage, Run: flushed(cpio, 2)},
		{Name: "pr", Short: "paginate files or put them into columns", Usage: prUsage, Run: flushed(pr, 1)},
		{Name: "dd", Short: "convert and copy a file", Usage: ddUsage, Run: dd},
		{Name: "column", Short: "make columns of lines", Usage: columnUsage, Run: flushed(columnMain, 1)},
		{Name: "file", Short: "tell what files are", Usage: fileUsage, Run: flushed(fileMain, 1)},
		{Name: "iconv", Short: "convert between encodings", Usage: iconvUsage, Run: flushed(iconv, 1)},
		{Name: "dos2unix", Short: "convert line ends to Unix", Usage: dosUsage, Run: flushed(dos2unix, 1)},
		{Name: "unix2dos", Short: "convert line ends to DOS", Usage: dosUsage, Run: flushed(dos2unix, 1)},
		{Name: "od", Short: "dump files in octal and other formats", Usage: odUsage, Run: flushed(od, 1)},
		{Name: "xxd", Short: "make a hexdump or do the reverse", Usage: xxdUsage, Run: flushed(xxd, 3)},
		{Name: "hexdump", Aliases: []string{"hd"}, Short: "dump files in hexadecimal and other formats", Usage: hexdumpUsage, Run: flushed(hexdump, 1)},
		{Name: "strings", Short: "print the printable strings in files", Usage: stringsUsage, Run: flushed(stringsMain, 1)},
		{Name: "tar", Short: "archive files", Usage: tarUsage, Run: flushed(tarMain, 2)},
		{Name: "zip", Short: "make zip archives", Usage: zipUsage, Run: flushed(zipMain, 14)},
		{Name: "unzip", Short: "expand zip archives", Usage: unzipUsage, Run: flushed(unzip, 50)},
		{Name: "zipinfo", Short: "list zip archives", Usage: zipinfoUsage, Run: flushed(unzip, 50)},
		{Name: "gzip", Short: "compress files", Usage: gzipUsage, Run: flushed(gzipMain, 1)},
		{Name: "gunzip", Aliases: []string{"uncompress"}, Short: "expand compressed files", Usage: gunzipUsage, Run: flushed(gzipMain, 1)},
		{Name: "zcat", Aliases: []string{"gzcat"}, Short: "print compressed files", Usage: zcatUsage, Run: flushed(gzipMain, 1)},
		{Name: "bzip2", Short: "expand files compressed by bzip2", Usage: bzip2Usage, Run: flushed(bzip2Main, 1)},
		{Name: "bunzip2", Short: "expand files compressed by bzip2", Usage: bzip2Usage, Run: flushed(bzip2Main, 1)},
		{Name: "bzcat", Short: "print files compressed by bzip2", Usage: bzip2Usage, Run: flushed(bzip2Main, 1)},
	}
}
