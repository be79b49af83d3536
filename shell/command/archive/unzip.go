package archive

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/glob"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const (
	unzipUsage = `Usage: unzip [-Z] [-opts[modifiers]] file[.zip] [list] [-x xlist] [-d exdir]
  Default action is to extract files in list, except those in xlist, to exdir;
  file[.zip] may be a wildcard.

  -p  extract files to pipe, no messages     -l  list files (short format)
  -c  extract files to stdout, with names    -t  test compressed archive data
  -v  list verbosely                         -Z  as zipinfo
  -x  exclude files that follow (in xlist)   -d  extract files into exdir
modifiers:
  -n  never overwrite existing files         -q  quiet mode (-qq => quieter)
  -o  overwrite files WITHOUT prompting      -j  junk paths
  -C  match filenames case-insensitively
`
	zipinfoUsage = `Usage: zipinfo [-1] file[.zip] [list]
List the contents of a zip archive.

  -1  list filenames ONLY, one per line
`
)

// unzipJob is the state of one run of unzip or zipinfo.
type unzipJob struct {
	p                         *kernel.Proc
	archive, dir              string
	names, exclude            []string
	hit                       []bool
	mode                      rune // l v t p c Z 1, or 0
	quiet                     int
	never, always, junk, fold bool
	code                      int
	later                     []tarLink
}

func runUnzip(p *kernel.Proc) int {
	u := &unzipJob{p: p}
	if p.Name() == "zipinfo" {
		u.mode = 'Z'
	}
	if !u.parseOptions(p.Args[1:]) {
		return 10
	}
	if u.archive == "" {
		usage := unzipUsage
		if u.mode == 'Z' {
			usage = zipinfoUsage
		}
		_, _ = p.Out().WriteString(usage) // Flush reports the error
		return 0
	}
	h, r, ok := u.open()
	if !ok {
		return 9
	}
	defer stream.Close(h)
	u.hit = make([]bool, len(u.names))
	u.run(h, r)
	for i, ok := range u.hit {
		if !ok {
			u.reportError(11, "caution: filename not matched:  %s", u.names[i])
		}
	}
	return u.code
}

func (u *unzipJob) parseOptions(args []string) bool {
	excluding := false
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case len(a) > 1 && a[0] == '-':
			excluding = false
			for i, c := range a[1:] {
				switch c {
				case 'd':
					dir := a[i+2:]
					if dir == "" && len(args) > 0 {
						dir, args = args[0], args[1:]
					}
					u.dir = dir
				case 'x':
					excluding = true
				default:
					if !u.set(c) {
						_, _ = io.WriteString(u.p.Stderr, unzipUsage) // best effort
						return false
					}
				}
				if c == 'd' {
					break
				}
			}
		case excluding:
			u.exclude = append(u.exclude, a)
		case u.archive == "":
			u.archive = a
		default:
			u.names = append(u.names, a)
		}
	}
	return true
}

func (u *unzipJob) set(c rune) bool {
	switch c {
	case 'l', 'v', 't', 'p', 'c', 'Z', '1':
		if u.mode == 'Z' && c != '1' {
			return true
		}
		u.mode = c
	case 'q':
		u.quiet++
	case 'n':
		u.never = true
	case 'o':
		u.always = true
	case 'j':
		u.junk = true
	case 'C':
		u.fold = true
	case 'a', 'b', 'L', 'X', 'K', 'U', 's', 'm', 'h', 'T', 'z':
	default:
		return false
	}
	return true
}

// reportError prints an error; the highest code becomes the exit status.
func (u *unzipJob) reportError(code int, format string, args ...any) {
	_ = u.p.Out().Flush()                                // the next write reports the error
	_, _ = fmt.Fprintf(u.p.Stderr, format+"\n", args...) // best effort
	u.code = max(u.code, code)
}

func (u *unzipJob) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(u.p.Out(), format, args...) // Flush reports the error
}

// open opens the archive by its name, or by its name with .zip appended.
func (u *unzipJob) open() (*kernel.Handle, *zip.Reader, bool) {
	name := u.archive
	h, r, err := openZip(u.p, name)
	if errors.Is(err, fs.ErrNotExist) {
		name += ".zip"
		h, r, err = openZip(u.p, name)
	}
	tool := u.p.Name()
	switch {
	case err == nil:
		u.archive = name
		return h, r, true
	case errors.Is(err, fs.ErrNotExist):
		u.reportError(9, "%s:  cannot find or open %s, %s.zip or %s.ZIP.", tool, u.archive, u.archive, u.archive)
	default:
		if u.quiet < 2 && u.mode != 'p' {
			u.printf("Archive:  %s\n", u.archive)
		}
		u.reportError(9, "  End-of-central-directory signature not found.  Either this file is not\n  a zipfile, or it constitutes one disk of a multi-part archive.  In the\n"+
			"  latter case the central directory and zipfile comment will be found on\n  the last disk(s) of this archive.\n"+
			"%s:  cannot find zipfile directory in one of %s or\n        %s.zip, and cannot find %s.ZIP, period.", tool, u.archive, u.archive, u.archive)
	}
	return nil, nil, false
}

// printComment prints the comment of an archive, without control characters.
func (u *unzipJob) printComment(text string) {
	if text == "" {
		return
	}
	u.printf("%s\n", strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f {
			return -1
		}
		return c
	}, strings.TrimSuffix(text, "\n")))
}

// selectMembers returns the members that the operands select.
func (u *unzipJob) selectMembers(r *zip.Reader) []*zip.File {
	var list []*zip.File
	for _, f := range r.File {
		u.p.Tick(2)
		if (len(u.names) == 0 || u.matchesAny(u.names, f.Name, u.hit)) && !u.matchesAny(u.exclude, f.Name, nil) {
			list = append(list, f)
		}
	}
	return list
}

func (u *unzipJob) matchesAny(patterns []string, name string, hit []bool) bool {
	found := false
	for i, pattern := range patterns {
		if u.fold {
			pattern, name = strings.ToLower(pattern), strings.ToLower(name)
		}
		if glob.Match(u.p, pattern, name) {
			found = true
			if hit != nil {
				hit[i] = true
			}
		}
	}
	return found
}

func (u *unzipJob) run(h *kernel.Handle, r *zip.Reader) {
	list := u.selectMembers(r)
	switch u.mode {
	case '1':
		for _, f := range list {
			u.printf("%s\n", f.Name)
		}
		return
	case 'Z':
		u.listAsZipinfo(h, list)
		return
	}
	if u.quiet == 0 && u.mode != 'p' || u.quiet < 2 && u.mode == 't' {
		u.printf("Archive:  %s\n", u.archive)
		u.printComment(r.Comment)
	}
	switch u.mode {
	case 'l':
		u.list(list)
	case 'v':
		u.listVerbosely(list)
	case 't':
		u.testMembers(list)
	default:
		if u.dir != "" && len(list) > 0 && u.mode == 0 {
			if err := u.p.MkdirAll(u.dir, 0o777); err != nil {
				u.reportError(2, "checkdir:  cannot create extraction directory: %s\n           %s", u.dir, program.Reason(err))
				return
			}
		}
		for _, f := range list {
			u.extractMember(f)
		}
		u.makeLinks()
	}
}

func countOfFiles(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

func (u *unzipJob) list(list []*zip.File) {
	head := u.quiet < 2
	if head {
		u.printf("  Length      Date    Time    Name\n---------  ---------- -----   ----\n")
	}
	total := uint64(0)
	for _, f := range list {
		u.printf("%9d  %s   %s\n", f.UncompressedSize64, f.Modified.Format("2006-01-02 15:04"), f.Name)
		total += f.UncompressedSize64
	}
	if head {
		u.printf("---------                     -------\n%9d                     %s\n", total, countOfFiles(len(list)))
	}
}

func (u *unzipJob) listVerbosely(list []*zip.File) {
	u.printf(" Length   Method    Size  Cmpr    Date    Time   CRC-32   Name\n--------  ------  ------- ---- ---------- ----- --------  ----\n")
	var size, packed uint64
	for _, f := range list {
		method := "Stored"
		if f.Method == zip.Deflate {
			method = "Defl:N"
		}
		u.printf("%8d  %s %8d %3d%% %s %08x  %s\n", f.UncompressedSize64, method, f.CompressedSize64, percentSaved(int64(f.UncompressedSize64), int64(f.CompressedSize64)),
			f.Modified.Format("2006-01-02 15:04"), f.CRC32, f.Name)
		size, packed = size+f.UncompressedSize64, packed+f.CompressedSize64
	}
	u.printf("--------          -------  ---                            -------\n%8d         %8d %3d%%                            %s\n", size, packed, percentSaved(int64(size), int64(packed)), countOfFiles(len(list)))
}

// listAsZipinfo lists the members like zipinfo.
func (u *unzipJob) listAsZipinfo(h *kernel.Handle, list []*zip.File) {
	size := int64(0)
	if info, err := u.p.Stat(u.archive); err == nil {
		size = info.Size()
	}
	u.printf("Archive:  %s\nZip file size: %d bytes, number of entries: %d\n", u.archive, size, len(list))
	var total, packed uint64
	for _, f := range list {
		method := "stor"
		if f.Method == zip.Deflate {
			method = "defN"
		}
		kind := "bx"
		if f.UncompressedSize64 > 0 {
			kind = "tx"
		}
		u.printf("%s  %d.%d unx %8d %s %s %s %s\n", filemode.Format(filemode.ToUnix(f.Mode())), f.CreatorVersion&0xff/10, f.CreatorVersion&0xff%10, f.UncompressedSize64, kind, method,
			f.Modified.Format("06-Jan-02 15:04"), f.Name)
		total, packed = total+f.UncompressedSize64, packed+f.CompressedSize64
	}
	ratio := 0.0
	if total > 0 {
		ratio = 100 * float64(total-packed) / float64(total)
	}
	u.printf("%s, %d bytes uncompressed, %d bytes compressed:  %.1f%%\n", countOfFiles(len(list)), total, packed, ratio)
}

func (u *unzipJob) testMembers(list []*zip.File) {
	bad := 0
	for _, f := range list {
		what := "OK"
		if err := u.copy(io.Discard, f); err != nil {
			what = " bad CRC or data"
			bad++
			u.code = max(u.code, 2)
		}
		if u.quiet == 0 {
			u.printf("    testing: %-22s   %s\n", f.Name, what)
		}
	}
	if bad > 0 {
		u.printf("At least one error was detected in %s.\n", u.archive)
		return
	}
	u.printf("No errors detected in compressed data of %s.\n", u.archive)
}

// copy decompresses a member.
func (u *unzipJob) copy(w io.Writer, f *zip.File) error {
	u.p.Alloc(deflateMemory)
	defer u.p.Free(deflateMemory)
	r, err := f.Open()
	if err != nil {
		return err
	}
	return errors.Join(stream.CopyCharged(u.p, w, r), r.Close())
}

// safeName returns the name of a member below the directory.
func (u *unzipJob) safeName(name string) string {
	if strings.HasPrefix(name, "/") {
		u.reportError(1, "warning:  stripped absolute path spec from %s", name)
	}
	if hasDotDot(name) {
		u.reportError(1, "warning:  skipped \"../\" path component(s) in %s", name)
	}
	var parts []string
	for _, part := range strings.Split(name, "/") {
		if part != "" && part != "." && part != ".." {
			parts = append(parts, part)
		}
	}
	if u.junk && len(parts) > 0 {
		return parts[len(parts)-1]
	}
	return strings.Join(parts, "/")
}

func (u *unzipJob) extractMember(f *zip.File) {
	dir := strings.HasSuffix(f.Name, "/")
	if u.mode == 'p' || u.mode == 'c' {
		u.print(f, dir)
		return
	}
	name := u.safeName(f.Name)
	if name == "" || dir && u.junk {
		return
	}
	full := name
	if u.dir != "" {
		full = strings.TrimSuffix(u.dir, "/") + "/" + name
	}
	if dir {
		u.makeDirectory(full)
		return
	}
	if err := u.makeParents(full); err != nil {
		u.reportError(2, "checkdir error:  cannot create %s\n                 %s\n                 unable to process %s.", path.Dir(full), program.Reason(err), f.Name)
		return
	}
	if !u.mayWrite(full) {
		return
	}
	u.extractFile(f, full)
}

func (u *unzipJob) print(f *zip.File, dir bool) {
	if dir {
		return
	}
	if u.mode == 'c' && u.quiet < 2 {
		u.printf("%11s: %-22s  \n", u.extractVerb(f), f.Name)
	}
	if err := u.copy(u.p.Out(), f); err != nil {
		u.reportError(2, "  error:  invalid compressed data to inflate %s", f.Name)
	}
	if u.mode == 'c' && u.quiet < 2 {
		u.printf("\n")
	}
}

func (u *unzipJob) extractVerb(f *zip.File) string {
	if f.Method == zip.Store {
		return " extracting"
	}
	return "  inflating"
}

func (u *unzipJob) makeDirectory(full string) {
	if info, err := u.p.Lstat(full); err == nil && info.IsDir() {
		return
	}
	if err := u.makeParents(full + "/x"); err != nil {
		u.reportError(2, "checkdir error:  cannot create %s\n                 %s", full, program.Reason(err))
		return
	}
	if u.quiet == 0 {
		u.printf("   creating: %s/\n", full)
	}
}

// makeParents creates the parent directories of a file. It follows no links.
func (u *unzipJob) makeParents(full string) error {
	dir := path.Dir(full)
	if dir == "." || dir == "/" {
		return nil
	}
	below := ""
	if u.dir != "" {
		below = strings.TrimSuffix(u.dir, "/")
	}
	for i := len(below) + 1; i <= len(dir); i++ {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		info, err := u.p.Lstat(dir[:i])
		switch {
		case err == nil && !info.IsDir():
			return vfs.ENOTDIR
		case err == nil:
		case errors.Is(err, fs.ErrNotExist):
			if err := u.p.MkdirAll(dir[:i], 0o777); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// mayWrite asks on standard input whether a file may be replaced.
func (u *unzipJob) mayWrite(full string) bool {
	if _, err := u.p.Lstat(full); err != nil || u.always {
		return true
	}
	if u.never {
		return false
	}
	_ = u.p.Out().Flush() // the next write reports the error
	for {
		_, _ = fmt.Fprintf(u.p.Stderr, "replace %s? [y]es, [n]o, [A]ll, [N]one, [r]ename: ", full) // best effort
		switch answer := u.readAnswer(); answer {
		case "":
			_, _ = io.WriteString(u.p.Stderr, " NULL\n(EOF or read error, treating as \"[N]one\" ...)\n") // best effort
			u.never = true
			u.code = max(u.code, 1)
			return false
		case "y", "n":
			return answer == "y"
		case "A", "N":
			u.always, u.never = answer == "A", answer == "N"
			return u.always
		default:
			_, _ = fmt.Fprintf(u.p.Stderr, "error:  invalid response [%s]\n", answer) // best effort
		}
	}
}

// readAnswer reads a line byte by byte, since the input after it is for other readers. At the end of
// the input it returns "".
func (u *unzipJob) readAnswer() string {
	var line []byte
	var b [1]byte
	for {
		n, err := u.p.Stdin.Read(b[:])
		if n > 0 && b[0] == '\n' || len(line) > 100 {
			return string(line) + strings.Repeat(" ", int(number.FromBool(len(line) == 0)))
		}
		if err != nil {
			return string(line)
		}
		line = append(line, b[:n]...)
	}
}

func (u *unzipJob) extractFile(f *zip.File, full string) {
	if _, err := u.p.Lstat(full); err == nil {
		_ = u.p.Unlink(full) // the next call reports the error
	}
	out, err := u.p.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		u.reportError(50, "error:  cannot create %s\n        %s", full, program.Reason(err))
		return
	}
	link := f.Mode()&fs.ModeSymlink != 0
	if u.quiet == 0 && !link {
		u.printf("%11s: %-22s  \n", u.extractVerb(f), full)
	}
	err = u.copy(out, f)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		u.reportError(2, "  error:  %s: %s", full, zipReason(err))
		return
	}
	if link {
		u.postponeLink(full)
		return
	}
	mode := f.Mode().Perm()
	if mode == 0 {
		mode = 0o644
	}
	if err := errors.Join(u.p.Chmod(full, mode), u.p.Chtimes(full, f.Modified, f.Modified)); err != nil {
		u.reportError(1, "error:  cannot set the mode or time of %s: %s", full, program.Reason(err))
	}
}

// zipReason returns the message for an error of a member.
func zipReason(err error) string {
	switch {
	case errors.Is(err, zip.ErrChecksum):
		return "bad CRC"
	case errors.Is(err, zip.ErrAlgorithm):
		return "unsupported compression method"
	case describeFault(err) != "":
		return "invalid compressed data to inflate"
	}
	return program.Reason(err)
}

// postponeLink records a symbolic link whose target was written as a file. It is created at the end, so
// that nothing is written through it.
func (u *unzipJob) postponeLink(full string) {
	info, err := u.p.Lstat(full)
	target, err2 := u.p.ReadFile(full)
	if err != nil || err2 != nil || len(target) > 4096 {
		u.reportError(1, "warning:  symbolic link (%s) failed", full)
		return
	}
	if u.quiet == 0 {
		u.printf("    linking: %-22s  -> %s \n", full, target)
	}
	u.p.Alloc(int64(len(full)+len(target)) + 64)
	u.later = append(u.later, tarLink{path: full, target: string(target), ino: info.Ino()})
}

func (u *unzipJob) makeLinks() {
	if len(u.later) == 0 {
		return
	}
	if u.quiet == 0 {
		u.printf("finishing deferred symbolic links:\n")
	}
	for _, l := range u.later {
		info, err := u.p.Lstat(l.path)
		if err != nil || info.Ino() != l.ino {
			continue
		}
		if u.quiet == 0 {
			u.printf("  %-22s -> %s\n", l.path, l.target)
		}
		if err := errors.Join(u.p.Unlink(l.path), u.p.Symlink(l.target, l.path)); err != nil {
			u.reportError(1, "warning:  symbolic link (%s) failed", l.path)
		}
	}
}
