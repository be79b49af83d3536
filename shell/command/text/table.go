// Package text holds the commands that read, edit and print lines of text: cat, sort, sed, awk and
// the like.
package text

import "github.com/atoll-sandbox/atoll/shell/command/program"

// Commands returns the commands that read, edit and print lines of text.
func Commands() []program.Command {
	list := program.AddVersion([]program.Command{
		{Name: "less", Aliases: []string{"more", "pager"}, Short: "print files, without waiting for keys", Usage: lessUsage, Run: program.FlushOutput(runLess, 1)},
		{Name: "ed", Short: "edit a file by commands", Usage: edUsage, Run: program.FlushOutput(runEd, 1)},
		{Name: "cat", Short: "print files one after the other", Usage: catUsage, Run: program.FlushOutput(runCat, 1)},
		{Name: "head", Short: "print the first lines of files", Usage: headUsage, Run: program.FlushOutput(runHead, 1)},
		{Name: "tail", Short: "print the last lines of files", Usage: tailUsage, Run: program.FlushOutput(runTail, 1)},
		{Name: "wc", Short: "count lines, words and bytes", Usage: wcUsage, Run: program.FlushOutput(runWc, 1)},
		{Name: "sort", Short: "sort lines", Usage: sortUsage, Run: program.FlushOutput(runSort, 2)},
		{Name: "uniq", Short: "drop or report repeated lines", Usage: uniqUsage, Run: program.FlushOutput(runUniq, 1)},
		{Name: "cut", Short: "print parts of lines", Usage: cutUsage, Run: program.FlushOutput(runCut, 1)},
		{Name: "tr", Short: "translate or delete characters", Usage: trUsage, Run: program.FlushOutput(runTr, 1)},
		{Name: "paste", Short: "join files line by line", Usage: pasteUsage, Run: program.FlushOutput(runPaste, 1)},
		{Name: "join", Short: "join lines of two files on a field", Usage: joinUsage, Run: program.FlushOutput(runJoin, 1)},
	}, "GNU coreutils) 9.1")
	return append(list, []program.Command{
		{Name: "nl", Short: "number lines", Usage: nlUsage, Run: program.FlushOutput(runNl, 1)},
		{Name: "tac", Short: "print files, last line first", Usage: tacUsage, Run: program.FlushOutput(runTac, 1)},
		{Name: "rev", Short: "reverse lines", Usage: revUsage, Run: program.FlushOutput(runRev, 1)},
		{Name: "fold", Short: "wrap lines to a width", Usage: foldUsage, Run: program.FlushOutput(runFold, 1)},
		{Name: "fmt", Short: "fill paragraphs", Usage: fmtUsage, Run: program.FlushOutput(runFmt, 1)},
		{Name: "expand", Short: "turn tabs into spaces", Usage: expandUsage, Run: program.FlushOutput(runExpand, 1)},
		{Name: "unexpand", Short: "turn spaces into tabs", Usage: unexpandUsage, Run: program.FlushOutput(runUnexpand, 1)},
		{Name: "split", Short: "split a file into pieces", Usage: splitUsage, Run: program.FlushOutput(runSplit, 1)},
		{Name: "csplit", Short: "split a file at lines that match", Usage: csplitUsage, Run: program.FlushOutput(runCsplit, 1)},
		{Name: "pr", Short: "paginate files or put them into columns", Usage: prUsage, Run: program.FlushOutput(runPr, 1)},
		{Name: "column", Short: "arrange lines in columns", Usage: columnUsage, Run: program.FlushOutput(runColumn, 1)},
		{Name: "tsort", Short: "sort topologically", Usage: tsortUsage, Run: program.FlushOutput(runTsort, 1)},
		{Name: "shuf", Short: "shuffle lines", Usage: shufUsage, Run: program.FlushOutput(runShuf, 1)},
		{Name: "envsubst", Short: "substitute environment variables in text", Usage: envsubstUsage, Run: program.FlushOutput(runEnvsubst, 1)},
		{Name: "iconv", Short: "convert between encodings", Usage: iconvUsage, Run: program.FlushOutput(runIconv, 1)},
		{Name: "dos2unix", Short: "convert line ends to Unix", Usage: dosUsage, Run: program.FlushOutput(runDos2unix, 1)},
		{Name: "unix2dos", Short: "convert line ends to DOS", Usage: dosUsage, Run: program.FlushOutput(runDos2unix, 1)},
		{Name: "sed", Short: "edit text line by line", Usage: sedUsage, Run: program.FlushOutput(runSed, sedPanic)},
		{Name: "awk", Aliases: []string{"gawk", "mawk", "nawk"}, Short: "process lines and fields of text", Usage: awkUsage, Run: runAwk},
	}...)
}
