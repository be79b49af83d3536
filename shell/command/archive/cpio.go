package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const cpioUsage = `Usage: cpio -o [OPTION...] < name-list > archive
  or:  cpio -i [OPTION...] [PATTERN...] < archive
  or:  cpio -t [OPTION...] [PATTERN...] < archive
Copy files to and from archives in the formats newc and odc (reading).

  -o, --create               create an archive of the files named on stdin
  -i, --extract              extract files from an archive
  -t, --list                 print a table of contents of the archive
  -d, --make-directories     create leading directories where needed
  -u, --unconditional        replace all files unconditionally
  -m, --preserve-modification-time  retain file modification times
  -v, --verbose              verbosely list the files processed
  -0, --null                 names are delimited by null characters
  -H, --format=FORMAT        newc (the default here) or odc
  -F, --file=ARCHIVE         use this file instead of standard input or output
  -D, --directory=DIR        change to directory DIR
      --quiet                do not print the number of blocks
`

var cpioOptions = option.Parser{Options: []option.Option{
	{Short: 'o', Long: "create"},
	{Short: 'i', Long: "extract"},
	{Short: 't', Long: "list"},
	{Short: 'd', Long: "make-directories"},
	{Short: 'u', Long: "unconditional"},
	{Short: 'm', Long: "preserve-modification-time"},
	{Short: 'v', Long: "verbose"},
	{Short: '0', Long: "null"},
	{Short: 'H', Long: "format", Arg: option.Required},
	{Short: 'F', Long: "file", Arg: option.Required},
	{Short: 'D', Long: "directory", Arg: option.Required},
	{Long: "quiet", ID: 'q'},
	{Short: 'c'},
	{Short: 'a'},
	{Short: 'B'},
	{Long: "no-absolute-filenames", ID: 'n'},
	{Short: 'L', Long: "dereference"},
}}

// cpioJob is the state of one run of cpio.
type cpioJob struct {
	p                                                 *kernel.Proc
	mode                                              rune
	dirs, always, times, verbose, null, quiet, follow bool
	file, dir                                         string
	patterns                                          []string
	later                                             []tarLink
	bytes                                             int64
	code                                              int
}

// cpioHeader is the header of a file in an archive.
type cpioHeader struct {
	ino, mode, uid, gid, nlink uint64
	mtime, size, nameSize      uint64
	name                       string
	pad                        int // names and files are padded to a multiple of it
}

const (
	cpioMagic   = "070701"
	cpioTrailer = "TRAILER!!!"
	cpioMost    = 1 << 16 // longest name
)

func runCpio(p *kernel.Proc) int {
	j := &cpioJob{p: p}
	opts, names, ok := cpioOptions.Parse(p)
	if !ok {
		return 2
	}
	for _, o := range opts {
		switch o.Key {
		case 'o', 'i':
			j.mode = o.Key
		case 't':
			j.mode = 't'
		case 'd':
			j.dirs = true
		case 'u':
			j.always = true
		case 'm':
			j.times = true
		case 'v':
			j.verbose = true
		case '0':
			j.null = true
		case 'q':
			j.quiet = true
		case 'L':
			j.follow = true
		case 'F':
			j.file = o.Value
		case 'D':
			j.dir = o.Value
		case 'H':
			if o.Value != "newc" && o.Value != "odc" && o.Value != "crc" {
				p.Errorf("invalid archive format `%s'; valid formats are:\nnewc odc", o.Value)
				return 2
			}
		}
	}
	j.patterns = names
	var err error
	switch j.mode {
	case 'o':
		err = j.create()
	case 'i', 't':
		err = j.read()
	default:
		p.Errorf("You must specify one of -oipt options.\nTry 'cpio --help' or 'cpio --usage' for more information.")
		return 2
	}
	if err != nil {
		p.Errorf("%s", cpioReason(err))
		return 2
	}
	if !j.quiet {
		_ = p.Out().Flush()                                                             // the next write reports the error
		_, _ = fmt.Fprintf(p.Stderr, "%s\n", cpioBlocks((j.bytes+tarBlock-1)/tarBlock)) // best effort
	}
	return j.code
}

func cpioBlocks(n int64) string {
	if n == 1 {
		return "1 block"
	}
	return fmt.Sprintf("%d blocks", n)
}

var errCpio = errors.New("premature end of archive")

func cpioReason(err error) string {
	if errors.Is(err, errCpio) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errCpio.Error()
	}
	return program.Reason(err)
}

func (j *cpioJob) reportError(format string, args ...any) {
	j.p.Errorf(format, args...)
	j.code = 2
}

func (j *cpioJob) create() error {
	out := &stream.CountingWriter{Writer: j.p.Out()}
	if j.file != "" {
		h, err := j.p.Create(j.file)
		if err != nil {
			return err
		}
		defer stream.Close(h)
		out.Writer = h
	}
	delim := byte('\n')
	if j.null {
		delim = 0
	}
	list := stream.NewLineReader(j.p, j.p.Stdin, delim)
	defer list.Close()
	for line := list.Next(); line != nil; line = list.Next() {
		name := string(stream.TrimDelimiter(line, delim))
		if name == "" {
			continue
		}
		if err := j.add(out, name); err != nil {
			return err
		}
	}
	err := j.put(out, cpioHeader{nlink: 1, name: cpioTrailer}, nil)
	if rest := out.Count % tarBlock; rest > 0 && err == nil {
		_, err = out.Write(make([]byte, tarBlock-rest))
	}
	j.bytes = out.Count
	return err
}

func (j *cpioJob) add(out io.Writer, name string) error {
	full := joinTarPath(j.dir, name)
	stat := j.p.Lstat
	if j.follow {
		stat = j.p.Stat
	}
	info, err := stat(full)
	if err != nil {
		j.reportError("%s: Cannot stat: %s", name, program.Reason(err))
		return nil
	}
	h := cpioHeader{
		ino: info.Ino(), mode: uint64(cpioMode(info.Mode())), uid: uint64(info.Uid()), gid: uint64(info.Gid()), nlink: uint64(info.Nlink()),
		mtime: uint64(info.ModTime().Unix()), name: strings.TrimPrefix(name, "./"),
	}
	var body io.Reader
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := j.p.Readlink(full)
		if err != nil {
			j.reportError("%s: %s", name, program.Reason(err))
			return nil
		}
		h.size, body = uint64(len(target)), strings.NewReader(target)
	case info.Mode().IsRegular():
		in, err := j.p.Open(full)
		if err != nil {
			j.reportError("%s: Cannot open: %s", name, program.Reason(err))
			return nil
		}
		defer stream.Close(in)
		h.size, body = uint64(info.Size()), io.MultiReader(in, stream.ZeroReader{})
	}
	if j.verbose {
		_, _ = io.WriteString(j.p.Stderr, name+"\n") // best effort
	}
	return j.put(out, h, body)
}

// cpioMode returns a mode as stat has it, with the type of the file.
func cpioMode(m fs.FileMode) uint32 {
	kinds := uint32(0o100000)
	switch {
	case m.IsDir():
		kinds = 0o040000
	case m&fs.ModeSymlink != 0:
		kinds = 0o120000
	case m&fs.ModeNamedPipe != 0:
		kinds = 0o010000
	case m&fs.ModeCharDevice != 0:
		kinds = 0o020000
	case m&fs.ModeDevice != 0:
		kinds = 0o060000
	}
	return kinds | filemode.ToUnix(m)&0o7777
}

func (j *cpioJob) put(out io.Writer, h cpioHeader, body io.Reader) error {
	head := fmt.Sprintf("%s%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", cpioMagic, h.ino&0xffffffff, h.mode, h.uid, h.gid, h.nlink, h.mtime&0xffffffff, h.size, 0, 0, 0, 0, len(h.name)+1, 0)
	head += h.name + "\x00"
	head += strings.Repeat("\x00", paddingTo(len(head), 4))
	if _, err := io.WriteString(out, head); err != nil {
		return err
	}
	if body == nil {
		return nil
	}
	if err := stream.CopyCharged(j.p, out, io.LimitReader(body, int64(h.size))); err != nil {
		return err
	}
	_, err := out.Write(make([]byte, paddingTo(int(h.size), 4)))
	return err
}

func paddingTo(n, to int) int { return (to - n%to) % to }

func (j *cpioJob) read() error {
	var in io.Reader = j.p.Stdin
	if j.file != "" {
		h, err := stream.Open(j.p, j.file)
		if err != nil {
			return err
		}
		defer stream.Close(h)
		in = h
	}
	src := &measured{r: bufio.NewReaderSize(in, 32<<10)}
	for {
		j.p.Tick(8)
		h, err := cpioNext(src)
		if err != nil {
			return err
		}
		if h.name == cpioTrailer {
			break
		}
		if err := j.readMember(h, io.LimitReader(src, int64(h.size))); err != nil {
			return err
		}
		if err := stream.CopyCharged(j.p, io.Discard, io.LimitReader(src, int64(paddingTo(int(h.size), h.pad)))); err != nil {
			return err
		}
	}
	j.makeLinks()
	j.bytes = (src.n + tarBlock - 1) / tarBlock * tarBlock
	return nil
}

// cpioNext reads a header in one of the two ASCII formats.
func cpioNext(r io.Reader) (cpioHeader, error) {
	var h cpioHeader
	magic := make([]byte, 6)
	if _, err := io.ReadFull(r, magic); err != nil {
		return h, err
	}
	widths, base := []int{8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}, 16
	fields := []*uint64{&h.ino, &h.mode, &h.uid, &h.gid, &h.nlink, &h.mtime, &h.size, nil, nil, nil, nil, &h.nameSize, nil}
	h.pad = 4
	switch string(magic) {
	case cpioMagic, "070702":
	case "070707":
		widths, base, h.pad = []int{6, 6, 6, 6, 6, 6, 6, 11, 6, 11}, 8, 1
		fields = []*uint64{nil, &h.ino, &h.mode, &h.uid, &h.gid, &h.nlink, nil, &h.mtime, &h.nameSize, &h.size}
	default:
		return h, errCpio
	}
	n := len(magic)
	for i, width := range widths {
		b := make([]byte, width)
		if _, err := io.ReadFull(r, b); err != nil {
			return h, err
		}
		n += width
		v, err := strconv.ParseUint(string(b), base, 64)
		if err != nil {
			return h, errCpio
		}
		if fields[i] != nil {
			*fields[i] = v
		}
	}
	if h.nameSize == 0 || h.nameSize > cpioMost || h.size > 1<<40 {
		return h, errCpio
	}
	name := make([]byte, int(h.nameSize)+paddingTo(n+int(h.nameSize), h.pad))
	if _, err := io.ReadFull(r, name); err != nil {
		return h, err
	}
	h.name, _, _ = strings.Cut(string(name[:h.nameSize]), "\x00")
	return h, nil
}

func (j *cpioJob) isWanted(name string) bool {
	for _, pattern := range j.patterns {
		if glob.Match(j.p, pattern, name) {
			return true
		}
	}
	return len(j.patterns) == 0
}

// readMember lists or extracts one file, and reads all of its content.
func (j *cpioJob) readMember(h cpioHeader, body io.Reader) error {
	if !j.isWanted(h.name) {
		return stream.CopyCharged(j.p, io.Discard, body)
	}
	if j.mode == 't' {
		_, _ = j.p.Out().WriteString(quoting.EscapeText(h.name, "") + "\n") // Flush reports the error
		return stream.CopyCharged(j.p, io.Discard, body)
	}
	src := &tarSource{r: body}
	if err := j.extractMember(h, src); err != nil {
		if src.err != nil {
			return src.err
		}
		j.reportError("%s: %s", h.name, program.Reason(err))
	}
	if j.verbose {
		_, _ = io.WriteString(j.p.Stderr, h.name+"\n") // best effort
	}
	return stream.CopyCharged(j.p, io.Discard, src)
}

// extractMember creates a file below the directory. It follows no links of the archive.
func (j *cpioJob) extractMember(h cpioHeader, body io.Reader) error {
	if hasDotDot(h.name) {
		return vfs.EACCES
	}
	full := joinTarPath(j.dir, strings.TrimLeft(h.name, "/"))
	if full == "" {
		return nil
	}
	if j.dirs {
		if err := j.p.MkdirAll(path.Dir(full), 0o777); err != nil {
			return err
		}
	}
	mode := filemode.FromUnix(uint32(h.mode) & 0o7777)
	if h.mode&0o170000 == 0o040000 {
		if info, err := j.p.Lstat(full); err != nil || !info.IsDir() {
			if err := j.p.Mkdir(full, 0o777); err != nil {
				return err
			}
		}
		return j.p.Chmod(full, mode)
	}
	if info, err := j.p.Lstat(full); err == nil {
		if !j.always && info.ModTime().Unix() >= int64(h.mtime) {
			j.p.Errorf("%s not created: newer or same age version exists", h.name)
			return nil
		}
		if err := j.p.Unlink(full); err != nil {
			return err
		}
	}
	switch h.mode & 0o170000 {
	case 0o120000, 0o100000:
		return j.extractContent(h, full, mode, body)
	case 0o010000:
		return j.p.Mkfifo(full, mode)
	}
	return vfs.EPERM
}

func (j *cpioJob) extractContent(h cpioHeader, full string, mode fs.FileMode, body io.Reader) error {
	if h.mode&0o170000 == 0o120000 {
		if h.size > 4096 {
			return vfs.ENAMETOOLONG
		}
		target, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		return j.postponeLink(full, string(target))
	}
	out, err := j.p.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(stream.CopyCharged(j.p, out, body), out.Close())
	if err == nil {
		err = j.p.Chmod(full, mode)
	}
	if err == nil && j.times {
		at := time.Unix(int64(h.mtime), 0)
		err = j.p.Chtimes(full, at, at)
	}
	return err
}

// postponeLink creates an empty file in place of a symbolic link; see makeLinks.
func (j *cpioJob) postponeLink(full, target string) error {
	out, err := j.p.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	info, err := j.p.Lstat(full)
	if err != nil {
		return err
	}
	j.p.Alloc(int64(len(full)+len(target)) + 64)
	j.later = append(j.later, tarLink{path: full, target: target, ino: info.Ino()})
	return nil
}

// makeLinks creates the symbolic links after all files, so that nothing is written through them.
func (j *cpioJob) makeLinks() {
	for _, l := range j.later {
		info, err := j.p.Lstat(l.path)
		if err != nil || info.Ino() != l.ino {
			continue
		}
		if err := errors.Join(j.p.Unlink(l.path), j.p.Symlink(l.target, l.path)); err != nil {
			j.reportError("%s: Cannot symlink to %s: %s", l.path, l.target, program.Reason(err))
		}
	}
}
