// Package archive holds the commands that pack, compress and unpack files: tar, zip, gzip and the
// like.
package archive

import (
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/program"
)

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
		{Name: "zgrep", Aliases: []string{"zegrep", "zfgrep", "xzgrep", "bzgrep", "zstdgrep"}, Short: "search compressed files", Usage: zgrepUsage, Run: program.FlushOutput(runZgrep, 2)},
		{Name: "zless", Aliases: []string{"zmore", "xzless", "bzless", "bzmore", "zstdless"}, Short: "print compressed files", Usage: zlessUsage, Run: program.FlushOutput(runZless, 1)},
		{Name: "zdiff", Aliases: []string{"zcmp", "xzdiff", "xzcmp", "bzdiff", "bzcmp"}, Short: "compare compressed files", Usage: zdiffUsage, Run: program.FlushOutput(runZdiff, 2)},
		{Name: "xz", Short: "compress or decompress .xz files", Usage: codecUsage(&xzCodec), Run: program.FlushOutput(newCodecProgram(&xzCodec), 1)},
		{Name: "unxz", Short: "decompress .xz files", Usage: strings.Replace(codecUsage(&xzCodec), "xz", "unxz", 1), Run: program.FlushOutput(newCodecProgram(&xzCodec), 1)},
		{Name: "xzcat", Short: "print .xz files decompressed", Usage: strings.Replace(codecUsage(&xzCodec), "xz", "xzcat", 1), Run: program.FlushOutput(newCodecProgram(&xzCodec), 1)},
		{Name: "zstd", Short: "compress or decompress .zst files", Usage: codecUsage(&zstdCodec), Run: program.FlushOutput(newCodecProgram(&zstdCodec), 1)},
		{Name: "unzstd", Short: "decompress .zst files", Usage: strings.Replace(codecUsage(&zstdCodec), "zstd", "unzstd", 1), Run: program.FlushOutput(newCodecProgram(&zstdCodec), 1)},
		{Name: "zstdcat", Short: "print .zst files decompressed", Usage: strings.Replace(codecUsage(&zstdCodec), "zstd", "zstdcat", 1), Run: program.FlushOutput(newCodecProgram(&zstdCodec), 1)},
	}
}
