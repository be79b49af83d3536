package command

import (
	"bufio"
	"compress/bzip2"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var bzip2Options = parsing{options: []option{
	{short: 'c', long: "stdout"},
	{short: 'd', long: "decompress"},
	{short: 'z', long: "compress"},
	{short: 'f', long: "force"},
	{short: 'h', long: "help"},
	{short: 'k', long: "keep"},
	{short: 'q', long: "quiet"},
	{short: 's', long: "small"},
	{short: 't', long: "test"},
	{short: 'v', long: "verbose"},
	{short: '1', long: "fast"},
	{short: '2'},
	{short: '3'},
	{short: '4'},
	{short: '5'},
	{short: '6'},
	{short: '7'},
	{short: '8'},
	{short: '9', long: "best"},
}}

// bunzipMemory is what the decompressor of bzip2 holds.
const bunzipMemory = 4 << 20

// bunzipJob is one run of bzip2.
type bunzipJob struct {
	p                                          *kernel.Proc
	expand, stdout, keep, force, test, verbose bool
	code                                       int
}

func bzip2Main(p *kernel.Proc) int {
	j := &bunzipJob{p: p}
	switch p.Name() {
	case "bunzip2":
		j.expand = true
	case "bzcat":
		j.expand, j.stdout = true, true
	}
	opts, names, ok := bzip2Options.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.key {
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
			_, _ = p.Out().WriteString(bzip2Usage) // errors of Out show at its flush
			return 0
		}
	}
	if !j.expand {
		p.Errorf("compressing is not supported here: use gzip")
		return 1
	}
	p.Alloc(bunzipMemory)
	for _, name := range operandsOr(names) {
		j.file(name)
	}
	return j.code
}

func (j *bunzipJob) fail(code int, format string, args ...any) {
	j.p.Errorf(format, args...)
	j.code = max(j.code, code)
}

func (j *bunzipJob) file(name string) {
	if name == "-" {
		j.unpack(j.p.Stdin, j.sink(), "(stdin)")
		return
	}
	info, err := j.p.Stat(name)
	switch {
	case err != nil:
		j.fail(1, "Can't open input file %s: %s.", name, why(err))
		return
	case info.IsDir():
		j.fail(1, "Input file %s is a directory.", name)
		return
	}
	in, err := j.p.Open(name)
	if err != nil {
		j.fail(1, "Can't open input file %s: %s.", name, why(err))
		return
	}
	defer closeInput(in)
	if j.stdout || j.test {
		if j.unpack(in, j.sink(), name) && j.test && j.verbose {
			_, _ = io.WriteString(j.p.Stderr, "  "+name+": ok\n") // nobody to tell
		}
		return
	}
	j.replace(in, name, info)
}

func (j *bunzipJob) sink() io.Writer {
	if j.test {
		return io.Discard
	}
	return j.p.Out()
}

func (j *bunzipJob) replace(in io.Reader, name string, info vfs.Info) {
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
		_ = j.p.Unlink(made) // what can't be unlinked shows below
	}
	out, err := j.p.OpenFile(made, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	switch {
	case errors.Is(err, fs.ErrExist):
		j.fail(1, "Output file %s already exists.", made)
		return
	case err != nil:
		j.fail(1, "Can't create output file %s: %s.", made, why(err))
		return
	}
	ok := j.unpack(in, out, name)
	err = out.Close()
	if !ok || err != nil {
		_ = j.p.Unlink(made) // the error that is reported says more
		return
	}
	err = errors.Join(j.p.Chmod(made, info.Mode().Perm()), j.p.Chtimes(made, info.Atime(), info.ModTime()))
	if err == nil && !j.keep {
		err = j.p.Unlink(name)
	}
	if err != nil {
		j.fail(1, "%s: %s", name, why(err))
	}
}

// unpack expands a stream; it has said so when it fails.
func (j *bunzipJob) unpack(r io.Reader, w io.Writer, name string) bool {
	src := bufio.NewReaderSize(r, 32<<10)
	if head, _ := src.Peek(3); string(head) != "BZh" {
		if j.test {
			j.fail(2, "%s: bad magic number (file not created by bzip2)", name)
		} else {
			j.fail(2, "%s is not a bzip2 file.", name)
		}
		return false
	}
	err := pump(j.p, w, bzip2.NewReader(src))
	var bad bzip2.StructuralError
	switch {
	case err == nil:
		return true
	case errors.As(err, &bad), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		j.fail(2, "Data integrity error when decompressing.\n\tInput file = %s", name)
	default:
		j.fail(1, "I/O or other error, bailing out: %s", why(err))
	}
	return false
}
