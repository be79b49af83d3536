package command

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

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var gzipOptions = parsing{options: []option{
	{short: 'c', long: "stdout"},
	{short: 'c', long: "to-stdout"},
	{short: 'd', long: "decompress"},
	{short: 'd', long: "uncompress"},
	{short: 'f', long: "force"},
	{short: 'h', long: "help"},
	{short: 'k', long: "keep"},
	{short: 'l', long: "list"},
	{short: 'n', long: "no-name"},
	{short: 'N', long: "name"},
	{short: 'q', long: "quiet"},
	{short: 'r', long: "recursive"},
	{short: 'S', long: "suffix", arg: required},
	{short: 't', long: "test"},
	{short: 'v', long: "verbose"},
	{short: 'a', long: "ascii"},
	{long: "rsyncable", id: 'a'},
	{long: "synchronous", id: 'a'},
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

// packMemory is what a compressor or decompressor of deflate holds.
const packMemory = 1 << 20

// zipJob is one run of gzip.
type zipJob struct {
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

func gzipMain(p *kernel.Proc) int {
	j := &zipJob{p: p, level: 6, suffix: ".gz"}
	switch p.Name() {
	case "gunzip", "uncompress":
		j.expand = true
	case "zcat", "gzcat":
		j.expand, j.stdout = true, true
	}
	opts, names, ok := gzipOptions.parse(p)
	if !ok {
		return 1
	}
	if done := j.options(opts); done {
		return 0
	}
	p.Alloc(packMemory)
	for _, name := range operandsOr(names) {
		if name == "-" {
			j.stream()
			continue
		}
		j.file(name, j.deep)
	}
	j.printList()
	return j.code
}

func (j *zipJob) options(opts []given) (done bool) {
	for _, o := range opts {
		switch o.key {
		case 'c':
			j.stdout = true
		case 'd':
			j.expand = true
		case 'f':
			j.force = true
		case 'h':
			_, _ = j.p.Out().WriteString(gzipUsage) // errors of Out show at its flush
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
			j.suffix = o.value
		case 'v':
			j.verbose = true
		case '1', '2', '3', '4', '5', '6', '7', '8', '9':
			j.level = int(o.key - '0')
		}
	}
	return false
}

// warn reports what doesn't stop the rest; the status is then 2.
func (j *zipJob) warn(format string, args ...any) {
	if !j.quiet {
		j.say("gzip: "+format+"\n", args...)
	}
	if j.code == 0 {
		j.code = 2
	}
}

func (j *zipJob) fail(format string, args ...any) {
	j.say("gzip: "+format+"\n", args...)
	j.code = 1
}

func (j *zipJob) say(format string, args ...any) {
	_ = j.p.Out().Flush()                           // a lost stdout is the next write's business
	_, _ = fmt.Fprintf(j.p.Stderr, format, args...) // nobody to tell
}

// stream works from standard input to standard output.
func (j *zipJob) stream() {
	if !j.expand {
		w := &counted{w: j.p.Out()}
		if err := j.pack(w, j.p.Stdin, "", time.Time{}); err != nil {
			j.fail("stdin: %s", why(err))
		}
		return
	}
	j.unpack(j.p.Stdin, j.sink(), "stdin")
}

// sink is standard output, or nothing for what is only looked at.
func (j *zipJob) sink() io.Writer {
	if j.test || j.list {
		return io.Discard
	}
	return j.p.Out()
}

func (j *zipJob) file(name string, deep bool) {
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
		j.fail("%s: %s", name, why(err))
	case info.IsDir() && deep:
		j.tree(name)
	case info.IsDir():
		j.warn("%s is a directory -- ignored", name)
	case !info.Mode().IsRegular():
		j.warn("%s is not a directory or a regular file - ignored", name)
	case j.expand:
		j.expandFile(name, info)
	default:
		j.packFile(name, info)
	}
}

func (j *zipJob) tree(dir string) {
	list, err := j.p.ReadDir(dir)
	if err != nil {
		j.fail("%s: %s", dir, why(err))
		return
	}
	if !j.p.Enter() {
		j.fail("%s: %s", dir, vfs.ELOOP)
		return
	}
	defer j.p.Leave()
	for _, e := range list {
		j.file(path.Join(dir, e.Name()), true)
	}
}

func (j *zipJob) packFile(name string, info vfs.Info) {
	if strings.HasSuffix(name, j.suffix) && !j.stdout && !j.force {
		if j.verbose || !j.deep {
			j.say("gzip: %s already has %s suffix -- unchanged\n", name, j.suffix)
		}
		return
	}
	in, err := j.p.Open(name)
	if err != nil {
		j.fail("%s: %s", name, why(err))
		return
	}
	defer closeInput(in)
	stored := ""
	if !j.noName {
		stored = path.Base(name)
	}
	if j.stdout {
		if err := j.pack(&counted{w: j.p.Out()}, in, stored, info.ModTime()); err != nil {
			j.fail("%s: %s", name, why(err))
		}
		return
	}
	out := j.create(name+j.suffix, info)
	if out == nil {
		return
	}
	w := &counted{w: out}
	err = j.pack(w, in, stored, info.ModTime())
	if !j.finish(out, name, name+j.suffix, info, err) {
		return
	}
	if j.verbose {
		j.say("%s:\t%s -- %s %s\n", name, ratio(info.Size(), w.n-packHeader(stored)), j.verb(), name+j.suffix)
	}
}

// packHeader is the size of what stands around the compressed data.
func packHeader(stored string) int64 {
	n := int64(18)
	if stored != "" {
		n += int64(len(stored)) + 1
	}
	return n
}

func (j *zipJob) verb() string {
	if j.keep {
		return "created"
	}
	return "replaced with"
}

// ratio is how much smaller packed is, in the width of gzip.
func ratio(size, packed int64) string {
	if size == 0 {
		return "  0.0%"
	}
	return fmt.Sprintf("%5.1f%%", 100*float64(size-packed)/float64(size))
}

// create makes an output file where there is none yet.
func (j *zipJob) create(name string, info vfs.Info) *kernel.Handle {
	flag := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if j.force {
		_ = j.p.Unlink(name) // what can't be unlinked shows below
	}
	out, err := j.p.OpenFile(name, flag, info.Mode().Perm())
	switch {
	case errors.Is(err, fs.ErrExist):
		j.warn("%s already exists;\tnot overwritten", name)
		return nil
	case err != nil:
		j.fail("%s: %s", name, why(err))
		return nil
	}
	return out
}

// finish closes an output that is complete and removes the input, or removes
// what is not complete.
func (j *zipJob) finish(out *kernel.Handle, name, made string, info vfs.Info, err error) bool {
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = j.p.Unlink(made) // the error that is reported says more
		if !errors.Is(err, errReported) {
			j.fail("%s: %s", name, why(err))
		}
		return false
	}
	err = errors.Join(j.p.Chmod(made, info.Mode().Perm()), j.p.Chtimes(made, info.Atime(), info.ModTime()))
	if err == nil && !j.keep {
		err = j.p.Unlink(name)
	}
	if err != nil {
		j.fail("%s: %s", name, why(err))
	}
	return err == nil
}

// errReported stands for an error that the user has been told of.
var errReported = errors.New("reported")

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

func (j *zipJob) pack(w io.Writer, r io.Reader, name string, at time.Time) error {
	z, err := gzip.NewWriterLevel(w, j.level)
	if err != nil {
		return err
	}
	z.Name, z.OS = name, 3
	if name != "" {
		z.ModTime = at
	}
	return errors.Join(pump(j.p, z, r), z.Close())
}

// pump copies with a look at the budget for each piece.
func pump(p *kernel.Proc, w io.Writer, r io.Reader) error {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	for {
		n, err := r.Read(b[:])
		p.Tick(n / 8)
		if n > 0 {
			if _, werr := w.Write(b[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// plainName is the name of an uncompressed file, or "".
func (j *zipJob) plainName(name string) string {
	for _, s := range [][2]string{{j.suffix, ""}, {".tgz", ".tar"}, {".taz", ".tar"}, {".gz", ""}, {".z", ""}, {"-gz", ""}, {"-z", ""}, {"_z", ""}, {".Z", ""}} {
		if base, ok := strings.CutSuffix(name, s[0]); ok && path.Base(base) != "." && base != "" {
			return base + s[1]
		}
	}
	return ""
}

func (j *zipJob) expandFile(name string, info vfs.Info) {
	made := j.plainName(name)
	if made == "" && !j.stdout && !j.test && !j.list {
		j.warn("%s: unknown suffix -- ignored", name)
		return
	}
	in, err := j.p.Open(name)
	if err != nil {
		j.fail("%s: %s", name, why(err))
		return
	}
	defer closeInput(in)
	if j.stdout || j.test || j.list {
		j.unpack(in, j.sink(), name)
		return
	}
	out := j.create(made, info)
	if out == nil {
		return
	}
	w := &counted{w: out}
	err = nil
	if !j.unpack(in, w, name) {
		err = errReported
	}
	if j.finish(out, name, made, info, err) && j.verbose {
		j.say("%s:\t%s -- %s %s\n", name, ratio(w.n, info.Size()-packHeader(path.Base(made))), j.verb(), made)
	}
}

// unpack expands all members of a stream; it has said so when it fails.
func (j *zipJob) unpack(r io.Reader, w io.Writer, name string) bool {
	src := &measured{r: bufio.NewReaderSize(r, 32<<10)}
	head, err := src.r.Peek(2)
	if len(head) == 0 && !j.force {
		return j.refuse(name, "unexpected end of file")
	}
	if len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		if j.force && j.stdout {
			return j.copied(pump(j.p, w, src.r), name)
		}
		return j.refuse(name, "not in gzip format")
	}
	var z gzip.Reader
	if err = z.Reset(src); err != nil {
		return j.refuse(name, packFault(err))
	}
	total := &counted{w: w}
	var last gzip.Header
	for {
		z.Multistream(false)
		last = z.Header
		if err := pump(j.p, total, &z); err != nil {
			return j.badData(name, err)
		}
		err := z.Reset(src)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			j.say("\n")
			j.warn("%s: decompression OK, trailing garbage ignored", name)
			break
		}
	}
	if j.list {
		j.listed = append(j.listed, zipListing{name, src.n, total.n, 0, last.ModTime})
	}
	if j.test && j.verbose {
		j.say("%s:\t OK\n", name)
	}
	return true
}

func (j *zipJob) copied(err error, name string) bool {
	if err != nil {
		j.fail("%s: %s", name, why(err))
	}
	return err == nil
}

func (j *zipJob) refuse(name, what string) bool {
	j.say("\n")
	j.fail("%s: %s", name, what)
	return false
}

// badData tells a fault of the data from one of reading or writing.
func (j *zipJob) badData(name string, err error) bool {
	if what := packFault(err); what != "" {
		return j.refuse(name, what)
	}
	j.fail("%s: %s", name, why(err))
	return false
}

// packFault names what is wrong with compressed data, or is "".
func packFault(err error) string {
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

// measured counts what is read.
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

func (j *zipJob) printList() {
	if !j.list {
		return
	}
	out := j.p.Out()
	_, _ = fmt.Fprintf(out, "         compressed        uncompressed  ratio uncompressed_name\n") // errors of Out show at its flush
	var packed, size int64
	for _, l := range j.listed {
		name := j.plainName(l.name)
		if name == "" {
			name = l.name
		}
		packed, size = packed+l.packed, size+l.size
		_, _ = fmt.Fprintf(out, "%19d %19d %s %s\n", l.packed, l.size, ratio(l.size, l.packed-packHeader(path.Base(name))), name)
	}
	if len(j.listed) > 1 {
		_, _ = fmt.Fprintf(out, "%19d %19d %s (totals)\n", packed, size, ratio(size, packed))
	}
}
