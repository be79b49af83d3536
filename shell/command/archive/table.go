// Package archive holds the commands that pack, compress and unpack files: tar, zip, gzip and the
// like.
package archive

import "github.com/atoll-sandbox/atoll/shell/command/program"

// Commands returns the commands that pack, compress and unpack files.
func Commands() []program.Command {
	return []program.Command{
		{Name: "tar", Short: "archive files", Usage: tarUsage, Run: program.FlushOutput(runTar, 2)},
		{Name: "cpio", Short: "copy files to and from archives", Usage: cpioUsage, Run: program.FlushOutput(runCpio, 2)},
		{Name: "zip", Short: "create zip archives", Usage: zipUsage, Run: program.FlushOutput(runZip, 14)},
		{Name: "unzip", Short: "extract zip archives", Usage: unzipUsage, Run: program.FlushOutput(runUnzip, 50)},
		{Name: "zipinfo", Short: "list zip archives", Usage: zipinfoUsage, Run: program.FlushOutput(runUnzip, 50)},
		{Name: "gzip", Short: "compress files", Usage: gzipUsage, Run: program.FlushOutput(runGzip, 1)},
		{Name: "gunzip", Aliases: []string{"uncompress"}, Short: "decompress files", Usage: gunzipUsage, Run: program.FlushOutput(runGzip, 1)},
		{Name: "zcat", Aliases: []string{"gzcat"}, Short: "print compressed files decompressed", Usage: zcatUsage, Run: program.FlushOutput(runGzip, 1)},
		{Name: "bzip2", Short: "decompress bzip2 files", Usage: bzip2Usage, Run: program.FlushOutput(runBzip2, 1)},
		{Name: "bunzip2", Short: "decompress bzip2 files", Usage: bzip2Usage, Run: program.FlushOutput(runBzip2, 1)},
		{Name: "bzcat", Short: "print bzip2 files decompressed", Usage: bzip2Usage, Run: program.FlushOutput(runBzip2, 1)},
	}
}
