package archive

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const zipUsage = `Usage: zip [OPTION]... ZIPFILE [FILE]...
Add FILEs to ZIPFILE, or replace them in it. The name - stands for standard
output as the ZIPFILE and for standard input as a FILE.

  -r   recurse into directories      -j   junk (don't record) directory names
  -0   store only                    -1   compress faster ... -9 compress better
  -d   delete entries in ZIPFILE     -m   move into ZIPFILE (delete FILEs)
  -u   update: only changed or new   -f   freshen: only changed files
  -x   exclude the following names   -i   include only the following names
  -y   store symbolic links as such  -D   do not add directory entries
  -q   quiet operation               -v   verbose operation
  -@   read names from stdin         -T   test ZIPFILE afterwards
`

// zipEntry is a file to add.
type zipEntry struct {
	path, name string
	info       vfs.Info
	stdin      bool
}

// zipAdder is the state of one run of zip.
type zipAdder struct {
	p                                                           *kernel.Proc
	archive                                                     string
	names                                                       []string
	exclude, include                                            []string
	deep, junk, remove, move, update, fresh, links, bare, quiet bool
	verbose, stdinNames, test                                   bool
	level                                                       int
	entries                                                     []zipEntry
	old                                                         *zip.Reader
	oldFile                                                     *kernel.Handle
	out                                                         *zip.Writer
	seen                                                        map[string]bool
	changed                                                     bool
	totalIn, totalOut                                           int64
}

const (
	zipNothing  = 12
	zipBadOpts  = 16
	zipNoCreate = 15
)

func runZip(p *kernel.Proc) int {
	z := &zipAdder{p: p, level: 6, seen: map[string]bool{}}
	if code := z.parseOptions(p.Args[1:]); code >= 0 {
		return code
	}
	if z.archive == "" {
		_, _ = p.Out().WriteString(zipUsage) // Flush reports the error
		return 0
	}
	if z.archive != "-" && path.Ext(z.archive) == "" {
		z.archive += ".zip"
	}
	if err := z.openOld(); err != nil {
		return z.reportError(3, "Zip file structure invalid (%s)", z.archive)
	}
	if z.oldFile != nil {
		defer stream.Close(z.oldFile)
	}
	if z.remove {
		return z.write(z.deleteMembers)
	}
	z.collectFiles()
	if len(z.entries) == 0 {
		if len(z.names) > 0 && z.deep {
			return z.reportError(zipNothing, "Nothing to do! (try: zip -r %s . -i %s)", z.archive, strings.Join(z.names, " "))
		}
		return z.reportError(zipNothing, "Nothing to do! (%s)", z.archive)
	}
	code := z.write(z.addAll)
	if code == 0 && z.test {
		z.printf("test of %s OK\n", z.archive)
	}
	return code
}

func (z *zipAdder) reportError(code int, format string, args ...any) int {
	z.printf("\nzip error: "+format+"\n", args...)
	return code
}

func (z *zipAdder) printf(format string, args ...any) {
	w := io.Writer(z.p.Out())
	if z.archive == "-" {
		w = z.p.Stderr
	}
	_, _ = fmt.Fprintf(w, format, args...) // Flush reports the error
}

// parseOptions parses the arguments. A code of 0 or more ends the run.
func (z *zipAdder) parseOptions(args []string) int {
	var list *[]string // the list of -x or -i to which names are added
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if len(a) < 2 || a[0] != '-' {
			switch {
			case a == "@":
				list = nil
			case list != nil:
				*list = append(*list, a)
			case z.archive == "":
				z.archive = a
			default:
				z.names = append(z.names, a)
			}
			continue
		}
		list = nil
		letters := a[1:]
		if strings.HasPrefix(letters, "-") {
			letters = zipLong[letters[1:]]
			if letters == "" {
				return z.reportError(zipBadOpts, "Invalid command arguments (long option '%s' not supported)", a[2:])
			}
		}
		for i, c := range letters {
			if c == 'x' || c == 'i' {
				list = &z.exclude
				if c == 'i' {
					list = &z.include
				}
				if rest := letters[i+1:]; rest != "" {
					*list = append(*list, rest)
				}
				break
			}
			if !z.set(c) {
				return z.reportError(zipBadOpts, "Invalid command arguments (short option '%c' not supported)", c)
			}
		}
	}
	return -1
}

var zipLong = map[string]string{
	"recurse-paths": "r", "junk-paths": "j", "delete": "d", "move": "m", "update": "u", "freshen": "f", "exclude": "x", "include": "i", "symlinks": "y",
	"no-dir-entries": "D", "quiet": "q", "verbose": "v", "names-stdin": "@", "test": "T", "no-extra": "X", "grow": "g", "help": "h",
}

func (z *zipAdder) set(c rune) bool {
	switch c {
	case 'r', 'R':
		z.deep = true
	case 'j':
		z.junk = true
	case 'd':
		z.remove = true
	case 'm':
		z.move = true
	case 'u':
		z.update = true
	case 'f':
		z.fresh, z.update = true, true
	case 'y':
		z.links = true
	case 'D':
		z.bare = true
	case 'q':
		z.quiet = true
	case 'v':
		z.verbose = true
	case '@':
		z.stdinNames = true
	case 'T':
		z.test = true
	case 'X', 'g', 'o', 'l', 'A':
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		z.level = int(c - '0')
	default:
		return false
	}
	return true
}

// directoryCost returns the memory that reading the list of members takes: its size according to the
// end of the archive.
func directoryCost(r io.ReaderAt, size int64) int64 {
	tail := make([]byte, min(size, 65557))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	i := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if i < 0 || i+16 > len(tail) {
		return 0
	}
	n := int64(binary.LittleEndian.Uint32(tail[i+12:]))
	return 8 * min(n, size)
}

// openZip opens an archive and reads its list of members.
func openZip(p *kernel.Proc, name string) (*kernel.Handle, *zip.Reader, error) {
	h, err := stream.Open(p, name)
	if err != nil {
		return nil, nil, err
	}
	info, err := p.Stat(name)
	if err == nil && h.File() == nil {
		err = zip.ErrFormat
	}
	if err != nil {
		stream.Close(h)
		return nil, nil, err
	}
	p.Alloc(directoryCost(h.File(), info.Size()))
	p.Tick(int(info.Size() >> 6))
	r, err := zip.NewReader(h.File(), info.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		stream.Close(h)
		return nil, nil, err
	}
	return h, r, nil
}

func (z *zipAdder) openOld() error {
	if z.archive == "-" {
		return nil
	}
	h, r, err := openZip(z.p, z.archive)
	if errors.Is(err, fs.ErrNotExist) {
		if z.update {
			z.printWarning("%s not found or empty", z.archive)
		}
		return nil
	}
	z.oldFile, z.old = h, r
	return err
}

func (z *zipAdder) printWarning(format string, args ...any) {
	if !z.quiet {
		z.printf("\tzip warning: "+format+"\n", args...)
	}
}

// collectFiles finds the files to add.
func (z *zipAdder) collectFiles() {
	names := z.names
	if z.stdinNames {
		list := stream.NewLineReader(z.p, z.p.Stdin, '\n')
		for line := list.Next(); line != nil; line = list.Next() {
			z.p.Alloc(int64(len(line)) + 16)
			names = append(names, string(stream.TrimDelimiter(line, '\n')))
		}
		list.Close()
	}
	for _, name := range names {
		if name == "-" {
			z.entries = append(z.entries, zipEntry{name: "-", stdin: true})
			continue
		}
		if !z.add(name) {
			z.printWarning("name not matched: %s", name)
		}
	}
}

// add adds a file and, if it is a directory, its contents.
func (z *zipAdder) add(name string) bool {
	z.p.Tick(4)
	stat := z.p.Stat
	if z.links {
		stat = z.p.Lstat
	}
	info, err := stat(name)
	if err != nil {
		return false
	}
	if !info.IsDir() {
		z.addEntry(name, z.storedName(name), info)
		return true
	}
	if stored := z.storedName(name); stored != "" && stored != "." && !z.bare && !z.junk {
		z.addEntry(name, stored+"/", info)
	}
	if !z.deep || !z.p.Enter() {
		return true
	}
	defer z.p.Leave()
	list, err := z.p.ReadDir(name)
	if err != nil {
		z.printWarning("could not open for reading: %s", name)
		return true
	}
	for _, e := range list {
		z.add(path.Join(name, e.Name()))
	}
	return true
}

// storedName returns the name of a file in the archive.
func (z *zipAdder) storedName(name string) string {
	if z.junk {
		return path.Base(name)
	}
	name = strings.TrimLeft(path.Clean("/"+name), "/")
	return name
}

func (z *zipAdder) addEntry(file, name string, info vfs.Info) {
	matches := func(list []string) bool {
		for _, pattern := range list {
			if glob.Match(z.p, pattern, name) {
				return true
			}
		}
		return false
	}
	self, err := z.p.Stat(z.archive)
	switch {
	case matches(z.exclude), len(z.include) > 0 && !matches(z.include):
		return
	case err == nil && self.Ino() == info.Ino():
		return
	case z.seen[name]:
		return
	}
	z.p.Alloc(int64(len(file)+len(name)) + 256)
	z.seen[name] = true
	z.entries = append(z.entries, zipEntry{path: file, name: name, info: info})
}

// write writes a new archive and replaces the old one by it.
func (z *zipAdder) write(fill func() error) int {
	if z.archive == "-" {
		z.out = zip.NewWriter(z.p.Out())
		if err := errors.Join(fill(), z.out.Close()); err != nil {
			return z.reportError(14, "Output file write failure (write error on zip file)")
		}
		return 0
	}
	made := z.archive + ".new"
	h, err := z.p.Create(made)
	if err != nil {
		return z.reportError(zipNoCreate, "Could not create output file (%s)", z.archive)
	}
	z.out = zip.NewWriter(h)
	err = fill()
	err = errors.Join(err, z.out.Close(), h.Close())
	if err == nil && z.changed {
		err = z.p.Rename(made, z.archive)
	} else {
		_ = z.p.Unlink(made) // the first error is reported
	}
	switch {
	case err != nil:
		return z.reportError(14, "Output file write failure (%s: %s)", z.archive, program.Reason(err))
	case !z.changed && z.remove:
		return z.reportError(zipNothing, "Nothing to do! (%s)", z.archive)
	case !z.changed:
		return zipNothing
	}
	return z.removeMoved()
}

// removeMoved prints the totals, removes the files that -m moved and returns the exit status.
func (z *zipAdder) removeMoved() int {
	if z.verbose {
		z.printf("total bytes=%d, compressed=%d -> %d%% savings\n", z.totalIn, z.totalOut, percentSaved(z.totalIn, z.totalOut))
	}
	if z.move {
		for i := len(z.entries) - 1; i >= 0; i-- {
			if e := z.entries[i]; !e.stdin {
				_ = z.p.Remove(e.path) // a directory that is not empty stays
			}
		}
	}
	return 0
}

// percentSaved returns by how many percent b is smaller than a.
func percentSaved(a, b int64) int64 {
	if a <= 0 || b > a {
		return 0
	}
	return (100*(a-b) + a/2) / a
}

func (z *zipAdder) deleteMembers() error {
	hit := make([]bool, len(z.names))
	for _, f := range z.oldFiles() {
		z.p.Tick(8)
		gone := false
		for i, pattern := range z.names {
			if glob.Match(z.p, pattern, f.Name) {
				gone, hit[i] = true, true
			}
		}
		if gone {
			z.changed = true
			if !z.quiet {
				z.printf("deleting: %s\n", f.Name)
			}
			continue
		}
		if err := z.out.Copy(f); err != nil {
			return err
		}
	}
	for i, ok := range hit {
		if !ok {
			z.printWarning("name not matched: %s", z.names[i])
		}
	}
	return nil
}

func (z *zipAdder) oldFiles() []*zip.File {
	if z.old == nil {
		return nil
	}
	return z.old.File
}

// addAll writes the old members, replaced by new ones of the same name, and then the other new ones.
func (z *zipAdder) addAll() error {
	fresh := map[string]zipEntry{}
	for _, e := range z.entries {
		fresh[e.name] = e
	}
	done := map[string]bool{}
	for _, f := range z.oldFiles() {
		e, ok := fresh[f.Name]
		if ok && z.update && !e.stdin && !e.info.ModTime().Truncate(time.Second).After(f.Modified) {
			ok = false
			done[f.Name] = true
		}
		if !ok {
			if err := z.out.Copy(f); err != nil {
				return err
			}
			continue
		}
		done[f.Name] = true
		if err := z.put(e, "updating"); err != nil {
			return err
		}
	}
	for _, e := range z.entries {
		if done[e.name] || z.fresh {
			continue
		}
		if err := z.put(e, "  adding"); err != nil {
			return err
		}
	}
	return nil
}

// put writes one member.
func (z *zipAdder) put(e zipEntry, verb string) error {
	z.p.Tick(16)
	data, err := z.readContent(e)
	if err != nil {
		z.printWarning("could not open for reading: %s", e.path)
		return nil
	}
	defer z.p.Free(int64(cap(data)))
	h := &zip.FileHeader{Name: e.name, Modified: z.p.Now(), CRC32: crc32.ChecksumIEEE(data), UncompressedSize64: uint64(len(data))}
	if !e.stdin {
		h.Modified = e.info.ModTime()
		h.SetMode(e.info.Mode())
	}
	setTimes(h, datetime.LocalZone(z.p))
	packed := z.deflateData(data)
	h.CompressedSize64 = uint64(len(packed))
	how := "deflated"
	if h.Method = zip.Deflate; len(packed) >= len(data) {
		h.Method, packed, how = zip.Store, data, "stored"
		h.CompressedSize64 = uint64(len(data))
	}
	w, err := z.out.CreateRaw(h)
	if err == nil {
		_, err = w.Write(packed)
	}
	if err != nil {
		return err
	}
	z.changed = true
	z.totalIn, z.totalOut = z.totalIn+int64(len(data)), z.totalOut+int64(len(packed))
	if z.quiet {
		return nil
	}
	sizes := ""
	if z.verbose {
		sizes = fmt.Sprintf("\t(in=%d) (out=%d)", len(data), len(packed))
	}
	z.printf("%s: %s%s (%s %d%%)\n", verb, e.name, sizes, how, percentSaved(int64(len(data)), int64(len(packed))))
	return nil
}

// setTimes sets both times of a member: the DOS time in the local zone, and Unix seconds.
func setTimes(h *zip.FileHeader, zone *time.Location) {
	t := h.Modified.In(zone)
	if t.Year() >= 1980 && t.Year() < 2108 {
		//nolint:staticcheck // Modified also writes an extra field
		h.ModifiedDate = uint16(t.Day() + int(t.Month())<<5 + (t.Year()-1980)<<9)
		h.ModifiedTime = uint16(t.Second()/2 + t.Minute()<<5 + t.Hour()<<11) //nolint:staticcheck // likewise
	}
	h.Extra = binary.LittleEndian.AppendUint32([]byte("UT\x05\x00\x01"), uint32(t.Unix()))
}

func (z *zipAdder) readContent(e zipEntry) ([]byte, error) {
	switch {
	case e.stdin:
		return z.p.ReadAll(z.p.Stdin)
	case e.info.IsDir():
		return nil, nil
	case e.info.Mode()&fs.ModeSymlink != 0:
		target, err := z.p.Readlink(e.path)
		return []byte(target), err
	}
	in, err := stream.Open(z.p, e.path)
	if err != nil {
		return nil, err
	}
	defer stream.Close(in)
	return z.p.ReadAll(in)
}

func (z *zipAdder) deflateData(data []byte) []byte {
	if z.level == 0 || len(data) == 0 {
		return data
	}
	z.p.Alloc(deflateMemory)
	defer z.p.Free(deflateMemory)
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, z.level)
	if err != nil {
		return data
	}
	if err := errors.Join(stream.CopyCharged(z.p, w, bytes.NewReader(data)), w.Close()); err != nil {
		return data
	}
	return b.Bytes()
}
