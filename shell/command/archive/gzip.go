package archive

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const gzipUsage = `Usage: gzip [OPTION]... [FILE]...
Compress or uncompress FILEs (by default, compress FILES in-place).

Mandatory arguments to long options are mandatory for short options too.

  -c, --stdout      write on standard output, keep original files unchanged
  -d, --decompress  decompress
  -f, --force       force overwrite of output file and compress links
  -h, --help        give this help
  -k, --keep        keep (don't delete) input files
  -l, --list        list compressed file contents
  -n, --no-name     do not save or restore the original name and timestamp
  -N, --name        save or restore the original name and timestamp
  -q, --quiet       suppress all warnings
  -r, --recursive   operate recursively on directories
  -S, --suffix=SUF  use suffix SUF on compressed files
  -t, --test        test compressed file integrity
  -v, --verbose     verbose mode
  -1, --fast        compress faster
  -9, --best        compress better

With no FILE, or when FILE is -, read standard input.
`

const (
	gunzipUsage = `Usage: gunzip [OPTION]... [FILE]...
Uncompress FILEs (by default, in-place). The options are those of gzip.
`
	zcatUsage = `Usage: zcat [OPTION]... [FILE]...
Uncompress FILEs to standard output. The options are those of gzip.
`
)

var gzipOptions = option.Parser{Options: []option.Option{
	{Short: 'c', Long: "stdout"},
	{Short: 'c', Long: "to-stdout"},
	{Short: 'd', Long: "decompress"},
	{Short: 'd', Long: "uncompress"},
	{Short: 'f', Long: "force"},
	{Short: 'h', Long: "help"},
	{Short: 'k', Long: "keep"},
	{Short: 'l', Long: "list"},
	{Short: 'n', Long: "no-name"},
	{Short: 'N', Long: "name"},
	{Short: 'q', Long: "quiet"},
	{Short: 'r', Long: "recursive"},
	{Short: 'S', Long: "suffix", Arg: option.Required},
	{Short: 't', Long: "test"},
	{Short: 'v', Long: "verbose"},
	{Short: 'a', Long: "ascii"},
	{Long: "rsyncable", ID: 'a'},
	{Long: "synchronous", ID: 'a'},
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

// deflateMemory is the memory charged for a compressor or decompressor of deflate.
const deflateMemory = 1 << 20

// gzipJob is the state of one run of gzip.
type gzipJob struct {
	p       *kernel.Proc
	expand  bool
	stdout  bool
	force   bool
	keep    bool
	list    bool
	test    bool
	quiet   bool
	verbose bool
	deep    bool
	noName  bool
	name    bool
	suffix  string
	level   int
	code    int
	listed  []zipListing
}

type zipListing struct {
	name         string
	packed, size int64
	crc          uint32
	at           time.Time
}

func runGzip(p *kernel.Proc) int {
	j := &gzipJob{p: p, level: 6, suffix: ".gz"}
	switch p.Name() {
	case "gunzip", "uncompress":
		j.expand = true
	case "zcat", "gzcat":
		j.expand, j.stdout = true, true
	}
	opts, names, ok := gzipOptions.Parse(p)
	if !ok {
		return 1
	}
	if done := j.applyOptions(opts); done {
		return 0
	}
	p.Alloc(deflateMemory)
	for _, name := range stream.OperandsOrStdin(names) {
		if name == "-" {
			j.convertStdin()
			continue
		}
		j.convertFile(name, j.deep)
	}
	j.printList()
	return j.code
}

func (j *gzipJob) applyOptions(opts []option.Setting) (done bool) {
	for _, o := range opts {
		switch o.Key {
		case 'c':
			j.stdout = true
		case 'd':
			j.expand = true
		case 'f':
			j.force = true
		case 'h':
			_, _ = j.p.Out().WriteString(gzipUsage) // Flush reports the error
			return true
		case 'k':
			j.keep = true
		case 'l':
			j.list, j.expand = true, true
		case 't':
			j.test, j.expand = true, true
		case 'n':
			j.noName = true
		case 'N':
			j.name = true
		case 'q':
			j.quiet = true
		case 'r':
			j.deep = true
		case 'S':
			j.suffix = o.Value
		case 'v':
			j.verbose = true
		case '1', '2', '3', '4', '5', '6', '7', '8', '9':
			j.level = int(o.Key - '0')
		}
	}
	return false
}

// printWarning prints a warning; the exit status is then 2.
func (j *gzipJob) printWarning(format string, args ...any) {
	if !j.quiet {
		j.printMessage("gzip: "+format+"\n", args...)
	}
	if j.code == 0 {
		j.code = 2
	}
}

func (j *gzipJob) reportError(format string, args ...any) {
	j.printMessage("gzip: "+format+"\n", args...)
	j.code = 1
}

func (j *gzipJob) printMessage(format string, args ...any) {
	_ = j.p.Out().Flush()                           // the next write reports the error
	_, _ = fmt.Fprintf(j.p.Stderr, format, args...) // best effort
}

// convertStdin compresses or decompresses standard input to standard output.
func (j *gzipJob) convertStdin() {
	if !j.expand {
		w := &stream.CountingWriter{Writer: j.p.Out()}
		if err := j.packStream(w, j.p.Stdin, "", time.Time{}); err != nil {
			j.reportError("stdin: %s", program.Reason(err))
		}
		return
	}
	j.unpackStream(j.p.Stdin, j.chooseOutput(), "stdin")
}

// chooseOutput returns standard output, or a discarding writer for -t and -l.
func (j *gzipJob) chooseOutput() io.Writer {
	if j.test || j.list {
		return io.Discard
	}
	return j.p.Out()
}

func (j *gzipJob) convertFile(name string, deep bool) {
	j.p.Tick(1)
	info, err := j.p.Lstat(name)
	if err != nil && j.expand && errors.Is(err, fs.ErrNotExist) && path.Ext(name) != j.suffix {
		name += j.suffix
		info, err = j.p.Lstat(name)
	}
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if !j.stdout && !j.force && !j.test && !j.list {
			err = vfs.ELOOP
		} else {
			info, err = j.p.Stat(name)
		}
	}
	switch {
	case err != nil:
		j.reportError("%s: %s", name, program.Reason(err))
	case info.IsDir() && deep:
		j.convertTree(name)
	case info.IsDir():
		j.printWarning("%s is a directory -- ignored", name)
	case !info.Mode().IsRegular():
		j.printWarning("%s is not a directory or a regular file - ignored", name)
	case j.expand:
		j.expandFile(name, info)
	default:
		j.packFile(name, info)
	}
}

func (j *gzipJob) convertTree(dir string) {
	list, err := j.p.ReadDir(dir)
	if err != nil {
		j.reportError("%s: %s", dir, program.Reason(err))
		return
	}
	if !j.p.Enter() {
		j.reportError("%s: %s", dir, vfs.ELOOP)
		return
	}
	defer j.p.Leave()
	for _, e := range list {
		j.convertFile(path.Join(dir, e.Name()), true)
	}
}

func (j *gzipJob) packFile(name string, info vfs.Info) {
	if strings.HasSuffix(name, j.suffix) && !j.stdout && !j.force {
		if j.verbose || !j.deep {
			j.printMessage("gzip: %s already has %s suffix -- unchanged\n", name, j.suffix)
		}
		return
	}
	in, err := j.p.Open(name)
	if err != nil {
		j.reportError("%s: %s", name, program.Reason(err))
		return
	}
	defer stream.Close(in)
	stored := ""
	if !j.noName {
		stored = path.Base(name)
	}
	if j.stdout {
		if err := j.packStream(&stream.CountingWriter{Writer: j.p.Out()}, in, stored, info.ModTime()); err != nil {
			j.reportError("%s: %s", name, program.Reason(err))
		}
		return
	}
	out := j.create(name+j.suffix, info)
	if out == nil {
		return
	}
	w := &stream.CountingWriter{Writer: out}
	err = j.packStream(w, in, stored, info.ModTime())
	if !j.finishFile(out, name, name+j.suffix, info, err) {
		return
	}
	if j.verbose {
		j.printMessage("%s:\t%s -- %s %s\n", name, formatRatio(info.Size(), w.Count-packHeader(stored)), j.replaceVerb(), name+j.suffix)
	}
}

// packHeader returns the size of the header and trailer around the compressed data.
func packHeader(stored string) int64 {
	n := int64(18)
	if stored != "" {
		n += int64(len(stored)) + 1
	}
	return n
}

func (j *gzipJob) replaceVerb() string {
	if j.keep {
		return "created"
	}
	return "replaced with"
}

// formatRatio returns the compression ratio in the column width of gzip.
func formatRatio(size, packed int64) string {
	if size == 0 {
		return "  0.0%"
	}
	return fmt.Sprintf("%5.1f%%", 100*float64(size-packed)/float64(size))
}

// create creates an output file. It reports an error and returns nil if the file exists, except with -f.
func (j *gzipJob) create(name string, info vfs.Info) *kernel.Handle {
	flag := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if j.force {
		_ = j.p.Unlink(name) // the next call reports the error
	}
	out, err := j.p.OpenFile(name, flag, info.Mode().Perm())
	switch {
	case errors.Is(err, fs.ErrExist):
		j.printWarning("%s already exists;\tnot overwritten", name)
		return nil
	case err != nil:
		j.reportError("%s: %s", name, program.Reason(err))
		return nil
	}
	return out
}

// finishFile closes a complete output and removes the input, or removes an incomplete output.
func (j *gzipJob) finishFile(out *kernel.Handle, name, made string, info vfs.Info, err error) bool {
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = j.p.Unlink(made) // the first error is reported
		if !errors.Is(err, errReported) {
			j.reportError("%s: %s", name, program.Reason(err))
		}
		return false
	}
	err = errors.Join(j.p.Chmod(made, info.Mode().Perm()), j.p.Chtimes(made, info.Atime(), info.ModTime()))
	if err == nil && !j.keep {
		err = j.p.Unlink(name)
	}
	if err != nil {
		j.reportError("%s: %s", name, program.Reason(err))
	}
	return err == nil
}

// errReported stands for an error that has been printed.
var errReported = errors.New("reported")

func (j *gzipJob) packStream(w io.Writer, r io.Reader, name string, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, j.level)
	if err != nil {
		return err
	}
	z.Name, z.OS = name, 3
	if name != "" {
		z.ModTime = at
	}
	return errors.Join(stream.CopyCharged(j.p, z, r), z.Close())
}

// plainName returns the name of the uncompressed file, or "".
func (j *gzipJob) plainName(name string) string {
	for _, s := range [][2]string{{j.suffix, ""}, {".tgz", ".tar"}, {".taz", ".tar"}, {".gz", ""}, {".z", ""}, {"-gz", ""}, {"-z", ""}, {"_z", ""}, {".Z", ""}} {
		if base, ok := strings.CutSuffix(name, s[0]); ok && path.Base(base) != "." && base != "" {
			return base + s[1]
		}
	}
	return ""
}

func (j *gzipJob) expandFile(name string, info vfs.Info) {
	made := j.plainName(name)
	if made == "" && !j.stdout && !j.test && !j.list {
		j.printWarning("%s: unknown suffix -- ignored", name)
		return
	}
	in, err := j.p.Open(name)
	if err != nil {
		j.reportError("%s: %s", name, program.Reason(err))
		return
	}
	defer stream.Close(in)
	if j.stdout || j.test || j.list {
		j.unpackStream(in, j.chooseOutput(), name)
		return
	}
	out := j.create(made, info)
	if out == nil {
		return
	}
	w := &stream.CountingWriter{Writer: out}
	err = nil
	if !j.unpackStream(in, w, name) {
		err = errReported
	}
	if j.finishFile(out, name, made, info, err) && j.verbose {
		j.printMessage("%s:\t%s -- %s %s\n", name, formatRatio(w.Count, info.Size()-packHeader(path.Base(made))), j.replaceVerb(), made)
	}
}

// unpackStream decompresses all members of a stream. It reports an error and returns false.
func (j *gzipJob) unpackStream(r io.Reader, w io.Writer, name string) bool {
	src := &measured{r: bufio.NewReaderSize(r, 32<<10)}
	head, _ := src.r.Peek(2) // an error remains for the reading
	if len(head) == 0 && !j.force {
		return j.reportBadInput(name, "unexpected end of file")
	}
	if len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		if j.force && j.stdout {
			return j.reportCopy(stream.CopyCharged(j.p, w, src.r), name)
		}
		return j.reportBadInput(name, "not in gzip format")
	}
	var z gzip.Reader
	if err := z.Reset(src); err != nil {
		return j.reportBadInput(name, describeFault(err))
	}
	total := &stream.CountingWriter{Writer: w}
	var last gzip.Header
	for {
		z.Multistream(false)
		last = z.Header
		if err := stream.CopyCharged(j.p, total, &z); err != nil {
			return j.badData(name, err)
		}
		err := z.Reset(src)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			j.printMessage("\n")
			j.printWarning("%s: decompression OK, trailing garbage ignored", name)
			break
		}
	}
	if j.list {
		j.listed = append(j.listed, zipListing{name, src.n, total.Count, 0, last.ModTime})
	}
	if j.test && j.verbose {
		j.printMessage("%s:\t OK\n", name)
	}
	return true
}

func (j *gzipJob) reportCopy(err error, name string) bool {
	if err != nil {
		j.reportError("%s: %s", name, program.Reason(err))
	}
	return err == nil
}

func (j *gzipJob) reportBadInput(name, what string) bool {
	j.printMessage("\n")
	j.reportError("%s: %s", name, what)
	return false
}

// badData reports an error as one of the data, or as one of reading or writing.
func (j *gzipJob) badData(name string, err error) bool {
	if what := describeFault(err); what != "" {
		return j.reportBadInput(name, what)
	}
	j.reportError("%s: %s", name, program.Reason(err))
	return false
}

// describeFault returns the message for invalid compressed data, or "" for another error.
func describeFault(err error) string {
	var corrupt flate.CorruptInputError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "unexpected end of file"
	case errors.Is(err, gzip.ErrChecksum):
		return "invalid compressed data--crc error"
	case errors.Is(err, gzip.ErrHeader):
		return "not in gzip format"
	case errors.As(err, &corrupt):
		return "invalid compressed data--format violated"
	}
	return ""
}

// measured counts the bytes read.
type measured struct {
	r *bufio.Reader
	n int64
}

func (m *measured) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	m.n += int64(n)
	return n, err
}

func (m *measured) ReadByte() (byte, error) {
	c, err := m.r.ReadByte()
	if err == nil {
		m.n++
	}
	return c, err
}

func (j *gzipJob) printList() {
	if !j.list {
		return
	}
	out := j.p.Out()
	_, _ = fmt.Fprintf(out, "         compressed        uncompressed  ratio uncompressed_name\n") // Flush reports the error
	var packed, size int64
	for _, l := range j.listed {
		name := j.plainName(l.name)
		if name == "" {
			name = l.name
		}
		packed, size = packed+l.packed, size+l.size
		_, _ = fmt.Fprintf(out, "%19d %19d %s %s\n", l.packed, l.size, formatRatio(l.size, l.packed-packHeader(path.Base(name))), name)
	}
	if len(j.listed) > 1 {
		_, _ = fmt.Fprintf(out, "%19d %19d %s (totals)\n", packed, size, formatRatio(size, packed))
	}
}
