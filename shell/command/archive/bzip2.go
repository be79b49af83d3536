package archive

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const bzip2Usage = `bzip2, a block-sorting file compressor.

   usage: bzip2 [flags and input files in any order]

   -h --help           print this message
   -d --decompress     force decompression
   -k --keep           keep (don't delete) input files
   -f --force          overwrite existing output files
   -t --test           test compressed file integrity
   -c --stdout         output to standard out
   -q --quiet          suppress noncritical error messages
   -v --verbose        be verbose (a 2nd -v gives more)

   If invoked as ` + "`bunzip2'" + `,  default action is to decompress.
              as ` + "`bzcat'" + `, default action is to decompress to stdout.

   This bzip2 decompresses only; gzip compresses.
`

var bzip2Options = option.Parser{Options: []option.Option{
	{Short: 'c', Long: "stdout"},
	{Short: 'd', Long: "decompress"},
	{Short: 'z', Long: "compress"},
	{Short: 'f', Long: "force"},
	{Short: 'h', Long: "help"},
	{Short: 'k', Long: "keep"},
	{Short: 'q', Long: "quiet"},
	{Short: 's', Long: "small"},
	{Short: 't', Long: "test"},
	{Short: 'v', Long: "verbose"},
	{Short: '1', Long: "fast"},
	{Short: '2'},
	{Short: '3'},
	{Short: '4'},
	{Short: '5'},
	{Short: '6'},
	{Short: '7'},
	{Short: '8'},
	{Short: '9', Long: "best"},
}}

// bzip2Memory is the memory charged for a decompressor of bzip2.
const bzip2Memory = 4 << 20

// bunzipJob is the state of one run of bzip2.
type bunzipJob struct {
	p                                          *kernel.Proc
	expand, stdout, keep, force, test, verbose bool
	code                                       int
}

func runBzip2(p *kernel.Proc) int {
	j := &bunzipJob{p: p}
	switch p.Name() {
	case "bunzip2":
		j.expand = true
	case "bzcat":
		j.expand, j.stdout = true, true
	}
	opts, names, ok := bzip2Options.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.Key {
		case 'c':
			j.stdout = true
		case 'd':
			j.expand = true
		case 'z':
			j.expand = false
		case 'f':
			j.force = true
		case 'k':
			j.keep = true
		case 't':
			j.expand, j.test = true, true
		case 'v':
			j.verbose = true
		case 'h':
			_, _ = p.Out().WriteString(bzip2Usage) // Flush reports the error
			return 0
		}
	}
	if !j.expand {
		p.Errorf("compressing is not supported here: use gzip")
		return 1
	}
	p.Alloc(bzip2Memory)
	for _, name := range stream.OperandsOrStdin(names) {
		j.unpackFile(name)
	}
	return j.code
}

func (j *bunzipJob) reportError(code int, format string, args ...any) {
	j.p.Errorf(format, args...)
	j.code = max(j.code, code)
}

func (j *bunzipJob) unpackFile(name string) {
	if name == "-" {
		j.unpackStream(j.p.Stdin, j.chooseOutput(), "(stdin)")
		return
	}
	info, err := j.p.Stat(name)
	switch {
	case err != nil:
		j.reportError(1, "Can't open input file %s: %s.", name, program.Reason(err))
		return
	case info.IsDir():
		j.reportError(1, "Input file %s is a directory.", name)
		return
	}
	in, err := j.p.Open(name)
	if err != nil {
		j.reportError(1, "Can't open input file %s: %s.", name, program.Reason(err))
		return
	}
	defer stream.Close(in)
	if j.stdout || j.test {
		if j.unpackStream(in, j.chooseOutput(), name) && j.test && j.verbose {
			_, _ = io.WriteString(j.p.Stderr, "  "+name+": ok\n") // best effort
		}
		return
	}
	j.replaceFile(in, name, info)
}

func (j *bunzipJob) chooseOutput() io.Writer {
	if j.test {
		return io.Discard
	}
	return j.p.Out()
}

func (j *bunzipJob) replaceFile(in io.Reader, name string, info vfs.Info) {
	made := name + ".out"
	for _, s := range [][2]string{{".bz2", ""}, {".bz", ""}, {".tbz2", ".tar"}, {".tbz", ".tar"}} {
		if base, ok := strings.CutSuffix(name, s[0]); ok {
			made = base + s[1]
			break
		}
	}
	if made == name+".out" {
		j.p.Errorf("Can't guess original name for %s -- using %s", name, made)
	}
	if j.force {
		_ = j.p.Unlink(made) // the next call reports the error
	}
	out, err := j.p.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	switch {
	case errors.Is(err, fs.ErrExist):
		j.reportError(1, "Output file %s already exists.", made)
		return
	case err != nil:
		j.reportError(1, "Can't create output file %s: %s.", made, program.Reason(err))
		return
	}
	ok := j.unpackStream(in, out, name)
	err = out.Close()
	if !ok || err != nil {
		_ = j.p.Unlink(made) // the first error is reported
		return
	}
	err = errors.Join(j.p.Chmod(made, info.Mode().Perm()), j.p.Chtimes(made, info.Atime(), info.ModTime()))
	if err == nil && !j.keep {
		err = j.p.Unlink(name)
	}
	if err != nil {
		j.reportError(1, "%s: %s", name, program.Reason(err))
	}
}

// unpackStream decompresses a stream. It reports an error and returns false.
func (j *bunzipJob) unpackStream(r io.Reader, w io.Writer, name string) bool {
	src := bufio.NewReaderSize(r, 32<<10)
	if head, _ := src.Peek(3); string(head) != "BZh" {
		if j.test {
			j.reportError(2, "%s: bad magic number (file not created by bzip2)", name)
		} else {
			j.reportError(2, "%s is not a bzip2 file.", name)
		}
		return false
	}
	err := stream.CopyCharged(j.p, w, bzip2.NewReader(src))
	var bad bzip2.StructuralError
	switch {
	case err == nil:
		return true
	case errors.As(err, &bad), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		j.reportError(2, "Data integrity error when decompressing.\n\tInput file = %s", name)
	default:
		j.reportError(1, "I/O or other error, bailing out: %s", program.Reason(err))
	}
	return false
}
