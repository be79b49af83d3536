// Package data holds the commands that work on bytes, numbers and JSON: jq, od, dd, bc, sha256sum and
// the like.
package data

import (
	"slices"

	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// Commands returns the commands that work on bytes, numbers and JSON.
func Commands() []program.Command {
	return slices.Concat(formatCommands(), numberCommands(), checksumCommands())
}

// formatCommands returns the commands that convert, print and recognize
// formats of data.
func formatCommands() []program.Command {
	return []program.Command{
		{Name: "jq", Short: "process JSON", Usage: jqUsage, Run: program.FlushOutput(runJq, 2)},
		{Name: "dd", Short: "convert and copy a file", Usage: ddUsage, Run: runDd},
		{Name: "file", Short: "determine the types of files", Usage: fileUsage, Run: program.FlushOutput(runFile, 1)},
		{Name: "od", Short: "dump files in octal and other formats", Usage: odUsage, Run: program.FlushOutput(runOd, 1)},
		{Name: "xxd", Short: "make a hex dump or reverse one", Usage: xxdUsage, Run: program.FlushOutput(runXxd, 3)},
		{Name: "hexdump", Aliases: []string{"hd"}, Short: "dump files in hexadecimal and other formats", Usage: hexdumpUsage, Run: program.FlushOutput(runHexdump, 1)},
		{Name: "strings", Short: "print the printable strings in files", Usage: stringsUsage, Run: program.FlushOutput(runStrings, 1)},
	}
}

// numberCommands returns the commands that calculate and print numbers.
func numberCommands() []program.Command {
	return []program.Command{
		{Name: "expr", Short: "evaluate an expression", Usage: exprUsage, Run: program.FlushOutput(runExpr, 3)},
		{Name: "bc", Short: "calculate with any precision", Usage: bcUsage, Run: program.FlushOutput(runBc, 1)},
		{Name: "dc", Short: "calculate in reverse Polish notation", Usage: dcUsage, Run: program.FlushOutput(runDc, 1)},
		{Name: "factor", Short: "print prime factors", Usage: factorUsage, Run: program.FlushOutput(runFactor, 1)},
		{Name: "seq", Short: "print a sequence of numbers", Usage: seqUsage, Run: program.FlushOutput(runSeq, 1)},
		{Name: "numfmt", Short: "convert numbers with units", Usage: numfmtUsage, Run: program.FlushOutput(runNumfmt, 1)},
	}
}

// checksumCommands returns the commands that print checksums and encode bytes.
func checksumCommands() []program.Command {
	list := []program.Command{
		{Name: "cksum", Short: "print checksums of any kind", Usage: sumUsage("cksum", "any of cksum -a's"), Run: program.FlushOutput(runCksum, 1)},
		{Name: "sum", Short: "print BSD and System V checksums", Usage: sumToolUsage, Run: program.FlushOutput(runSum, 1)},
		{Name: "csvcut", Short: "print columns of CSV", Usage: csvCutUsage, Run: program.FlushOutput(newCSVProgram(csvCutOptions, cutColumns), 1)},
		{Name: "csvgrep", Short: "print rows of CSV that match", Usage: csvGrepUsage, Run: program.FlushOutput(newCSVProgram(csvGrepOptions, grepRows), 1)},
		{Name: "csvsort", Short: "sort the rows of CSV", Usage: csvSortUsage, Run: program.FlushOutput(newCSVProgram(csvSortOptions, sortRows), 1)},
		{Name: "csvlook", Short: "print CSV as a table", Usage: csvLookUsage, Run: program.FlushOutput(newCSVProgram(csvLookOptions, printLook), 1)},
		{Name: "csvjson", Short: "print CSV as JSON", Usage: csvJSONUsage, Run: program.FlushOutput(newCSVProgram(csvJSONOptions, printJSON), 1)},
		{Name: "csvformat", Short: "print CSV in another form", Usage: csvFormatUsage, Run: program.FlushOutput(newCSVProgram(csvFormatOptions, formatRows), 1)},
		{Name: "csvstack", Short: "print CSV files one after another", Usage: csvStackUsage, Run: program.FlushOutput(runCSVStack, 1)},
		{Name: "openssl", Short: "digests, encryption with AES, base64 and random bytes", Usage: opensslUsage, Run: program.FlushOutput(runOpenssl, 1)},
		{Name: "base64", Short: "encode or decode base64", Usage: baseUsage("base64"), Run: program.FlushOutput(newBaseProgram('6'), 1)},
		{Name: "base32", Short: "encode or decode base32", Usage: baseUsage("base32"), Run: program.FlushOutput(newBaseProgram('3'), 1)},
		{Name: "basenc", Short: "encode or decode in several bases", Usage: basencUsage, Run: program.FlushOutput(runBasenc, 1)},
	}
	for _, d := range digests {
		if d.bits > 0 {
			tool := map[string]string{"blake2b": "b2sum"}[d.word]
			if tool == "" {
				tool = d.word + "sum"
			}
			list = append(list, program.Command{Name: tool, Short: "print or check " + d.name + " checksums", Usage: sumUsage(tool, d.name), Run: program.FlushOutput(newDigestProgram(d.word), 1)})
		}
	}
	return list
}
