package command

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

// unzipJob is one run of unzip or zipinfo.
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

func unzip(p *kernel.Proc) int {
	u := &unzipJob{p: p}
	if p.Name() == "zipinfo" {
		u.mode = 'Z'
	}
	if !u.options(p.Args[1:]) {
		return 10
	}
	if u.archive == "" {
		usage := unzipUsage
		if u.mode == 'Z' {
			usage = zipinfoUsage
		}
		_, _ = p.Out().WriteString(usage) // errors of Out show at its flush
		return 0
	}
	h, r, ok := u.open()
	if !ok {
		return 9
	}
	defer closeInput(h)
	u.hit = make([]bool, len(u.names))
	u.run(h, r)
	for i, ok := range u.hit {
		if !ok {
			u.complain(11, "caution: filename not matched:  %s", u.names[i])
		}
	}
	return u.code
}

func (u *unzipJob) options(args []string) bool {
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
						_, _ = io.WriteString(u.p.Stderr, unzipUsage) // nobody to tell
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

// complain writes to standard error; the worst code counts.
func (u *unzipJob) complain(code int, format string, args ...any) {
	_ = u.p.Out().Flush()                                // a lost stdout is the next write's business
	_, _ = fmt.Fprintf(u.p.Stderr, format+"\n", args...) // nobody to tell
	u.code = max(u.code, code)
}

func (u *unzipJob) say(format string, args ...any) {
	_, _ = fmt.Fprintf(u.p.Out(), format, args...) // errors of Out show at its flush
}

// open opens the archive by its name, or with .zip behind it.
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
		u.complain(9, "%s:  cannot find or open %s, %s.zip or %s.ZIP.", tool, u.archive, u.archive, u.archive)
	default:
		if u.quiet < 2 && u.mode != 'p' {
			u.say("Archive:  %s\n", u.archive)
		}
		u.complain(9, "  End-of-central-directory signature not found.  Either this file is not\n  a zipfile, or it constitutes one disk of a multi-part archive.  In the\n"+
			"  latter case the central directory and zipfile comment will be found on\n  the last disk(s) of this archive.\n"+
			"%s:  cannot find zipfile directory in one of %s or\n        %s.zip, and cannot find %s.ZIP, period.", tool, u.archive, u.archive, u.archive)
	}
	return nil, nil, false
}

// wanted lists the members that are asked for.
func (u *unzipJob) wanted(r *zip.Reader) []*zip.File {
	var list []*zip.File
	for _, f := range r.File {
		u.p.Tick(2)
		if (len(u.names) == 0 || u.matches(u.names, f.Name, u.hit)) && !u.matches(u.exclude, f.Name, nil) {
			list = append(list, f)
		}
	}
	return list
}

func (u *unzipJob) matches(patterns []string, name string, hit []bool) bool {
	found := false
	for i, pattern := range patterns {
		if u.fold {
			pattern, name = strings.ToLower(pattern), strings.ToLower(name)
		}
		if wildcard(u.p, pattern, name) {
			found = true
			if hit != nil {
				hit[i] = true
			}
		}
	}
	return found
}

func (u *unzipJob) run(h *kernel.Handle, r *zip.Reader) {
	list := u.wanted(r)
	switch u.mode {
	case '1':
		for _, f := range list {
			u.say("%s\n", f.Name)
		}
		return
	case 'Z':
		u.info(h, list)
		return
	}
	if u.quiet == 0 && u.mode != 'p' || u.quiet < 2 && u.mode == 't' {
		u.say("Archive:  %s\n", u.archive)
	}
	switch u.mode {
	case 'l':
		u.list(list)
	case 'v':
		u.verbose(list)
	case 't':
		u.test(list)
	default:
		if u.dir != "" && len(list) > 0 && u.mode == 0 {
			if err := u.p.MkdirAll(u.dir, 0o777); err != nil {
				u.complain(2, "checkdir:  cannot create extraction directory: %s\n           %s", u.dir, why(err))
				return
			}
		}
		for _, f := range list {
			u.extract(f)
		}
		u.finish()
	}
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

func (u *unzipJob) list(list []*zip.File) {
	head := u.quiet < 2
	if head {
		u.say("  Length      Date    Time    Name\n---------  ---------- -----   ----\n")
	}
	total := uint64(0)
	for _, f := range list {
		u.say("%9d  %s   %s\n", f.UncompressedSize64, f.Modified.Format("2006-01-02 15:04"), f.Name)
		total += f.UncompressedSize64
	}
	if head {
		u.say("---------                     -------\n%9d                     %s\n", total, files(len(list)))
	}
}

func (u *unzipJob) verbose(list []*zip.File) {
	u.say(" Length   Method    Size  Cmpr    Date    Time   CRC-32   Name\n--------  ------  ------- ---- ---------- ----- --------  ----\n")
	var size, packed uint64
	for _, f := range list {
		method := "Stored"
		if f.Method == zip.Deflate {
			method = "Defl:N"
		}
		u.say("%8d  %s %8d %3d%% %s %08x  %s\n", f.UncompressedSize64, method, f.CompressedSize64, savings(int64(f.UncompressedSize64), int64(f.CompressedSize64)),
			f.Modified.Format("2006-01-02 15:04"), f.CRC32, f.Name)
		size, packed = size+f.UncompressedSize64, packed+f.CompressedSize64
	}
	u.say("--------          -------  ---                            -------\n%8d         %8d %3d%%                            %s\n", size, packed, savings(int64(size), int64(packed)), files(len(list)))
}

// info lists as zipinfo does.
func (u *unzipJob) info(h *kernel.Handle, list []*zip.File) {
	size := int64(0)
	if info, err := u.p.Stat(u.archive); err == nil {
		size = info.Size()
	}
	u.say("Archive:  %s\nZip file size: %d bytes, number of entries: %d\n", u.archive, size, len(list))
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
		u.say("%s  %d.%d unx %8d %s %s %s %s\n", modeString(unixMode(f.Mode())), f.CreatorVersion&0xff/10, f.CreatorVersion&0xff%10, f.UncompressedSize64, kind, method,
			f.Modified.Format("06-Jan-02 15:04"), f.Name)
		total, packed = total+f.UncompressedSize64, packed+f.CompressedSize64
	}
	ratio := 0.0
	if total > 0 {
		ratio = 100 * float64(total-packed) / float64(total)
	}
	u.say("%s, %d bytes uncompressed, %d bytes compressed:  %.1f%%\n", files(len(list)), total, packed, ratio)
}

func (u *unzipJob) test(list []*zip.File) {
	bad := 0
	for _, f := range list {
		what := "OK"
		if err := u.copy(io.Discard, f); err != nil {
			what = " bad CRC or data"
			bad++
			u.code = max(u.code, 2)
		}
		if u.quiet == 0 {
			u.say("    testing: %-22s   %s\n", f.Name, what)
		}
	}
	if bad > 0 {
		u.say("At least one error was detected in %s.\n", u.archive)
		return
	}
	u.say("No errors detected in compressed data of %s.\n", u.archive)
}

// copy expands a member.
func (u *unzipJob) copy(w io.Writer, f *zip.File) error {
	u.p.Alloc(packMemory)
	defer u.p.Free(packMemory)
	r, err := f.Open()
	if err != nil {
		return err
	}
	return errors.Join(pump(u.p, w, r), r.Close())
}

// inside is the name that a member gets below the directory.
func (u *unzipJob) inside(name string) string {
	if strings.HasPrefix(name, "/") {
		u.complain(1, "warning:  stripped absolute path spec from %s", name)
	}
	if hasDotDot(name) {
		u.complain(1, "warning:  skipped \"../\" path component(s) in %s", name)
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

func (u *unzipJob) extract(f *zip.File) {
	dir := strings.HasSuffix(f.Name, "/")
	if u.mode == 'p' || u.mode == 'c' {
		u.print(f, dir)
		return
	}
	name := u.inside(f.Name)
	if name == "" || dir && u.junk {
		return
	}
	full := name
	if u.dir != "" {
		full = strings.TrimSuffix(u.dir, "/") + "/" + name
	}
	if dir {
		u.directory(full)
		return
	}
	if err := u.parents(full); err != nil {
		u.complain(2, "checkdir error:  cannot create %s\n                 %s\n                 unable to process %s.", path.Dir(full), why(err), f.Name)
		return
	}
	if !u.mayWrite(full) {
		return
	}
	u.file(f, full)
}

func (u *unzipJob) print(f *zip.File, dir bool) {
	if dir {
		return
	}
	if u.mode == 'c' && u.quiet < 2 {
		u.say("%11s: %-22s  \n", u.verb(f), f.Name)
	}
	if err := u.copy(u.p.Out(), f); err != nil {
		u.complain(2, "  error:  invalid compressed data to inflate %s", f.Name)
	}
	if u.mode == 'c' && u.quiet < 2 {
		u.say("\n")
	}
}

func (u *unzipJob) verb(f *zip.File) string {
	if f.Method == zip.Store {
		return " extracting"
	}
	return "  inflating"
}

func (u *unzipJob) directory(full string) {
	if info, err := u.p.Lstat(full); err == nil && info.IsDir() {
		return
	}
	if err := u.parents(full + "/x"); err != nil {
		u.complain(2, "checkdir error:  cannot create %s\n                 %s", full, why(err))
		return
	}
	if u.quiet == 0 {
		u.say("   creating: %s/\n", full)
	}
}

// parents makes the directories above a file, following no link.
func (u *unzipJob) parents(full string) error {
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

// mayWrite asks, without anybody to answer, whether a file may be replaced.
func (u *unzipJob) mayWrite(full string) bool {
	if _, err := u.p.Lstat(full); err != nil || u.always {
		return true
	}
	if u.never {
		return false
	}
	_ = u.p.Out().Flush() // a lost stdout is the next write's business
	for {
		_, _ = fmt.Fprintf(u.p.Stderr, "replace %s? [y]es, [n]o, [A]ll, [N]one, [r]ename: ", full) // nobody to tell
		switch answer := u.answer(); answer {
		case "":
			_, _ = io.WriteString(u.p.Stderr, " NULL\n(EOF or read error, treating as \"[N]one\" ...)\n") // nobody to tell
			u.never = true
			u.code = max(u.code, 1)
			return false
		case "y", "n":
			return answer == "y"
		case "A", "N":
			u.always, u.never = answer == "A", answer == "N"
			return u.always
		default:
			_, _ = fmt.Fprintf(u.p.Stderr, "error:  invalid response [%s]\n", answer) // nobody to tell
		}
	}
}

// answer reads a line, byte by byte as what follows belongs to others; at the
// end of the input it is "".
func (u *unzipJob) answer() string {
	var line []byte
	var b [1]byte
	for {
		n, err := u.p.Stdin.Read(b[:])
		if n > 0 && b[0] == '\n' || len(line) > 100 {
			return string(line) + strings.Repeat(" ", int(b2i(len(line) == 0)))
		}
		if err != nil {
			return string(line)
		}
		line = append(line, b[:n]...)
	}
}

func (u *unzipJob) file(f *zip.File, full string) {
	if _, err := u.p.Lstat(full); err == nil {
		_ = u.p.Unlink(full) // what can't be unlinked shows below
	}
	out, err := u.p.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		u.complain(50, "error:  cannot create %s\n        %s", full, why(err))
		return
	}
	link := f.Mode()&fs.ModeSymlink != 0
	if u.quiet == 0 && !link {
		u.say("%11s: %-22s  \n", u.verb(f), full)
	}
	err = u.copy(out, f)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		u.complain(2, "  error:  %s: %s", full, zipReason(err))
		return
	}
	if link {
		u.postpone(full)
		return
	}
	mode := f.Mode().Perm()
	if mode == 0 {
		mode = 0o644
	}
	if err := errors.Join(u.p.Chmod(full, mode), u.p.Chtimes(full, f.Modified, f.Modified)); err != nil {
		u.complain(1, "error:  cannot set the mode or time of %s: %s", full, why(err))
	}
}

// zipReason says what is wrong with a member.
func zipReason(err error) string {
	switch {
	case errors.Is(err, zip.ErrChecksum):
		return "bad CRC"
	case errors.Is(err, zip.ErrAlgorithm):
		return "unsupported compression method"
	case packFault(err) != "":
		return "invalid compressed data to inflate"
	}
	return why(err)
}

// postpone remembers a symbolic link whose target has been written as a file;
// it is made at the end, so that nothing is written through it.
func (u *unzipJob) postpone(full string) {
	info, err := u.p.Lstat(full)
	target, err2 := u.p.ReadFile(full)
	if err != nil || err2 != nil || len(target) > 4096 {
		u.complain(1, "warning:  symbolic link (%s) failed", full)
		return
	}
	if u.quiet == 0 {
		u.say("    linking: %-22s  -> %s \n", full, target)
	}
	u.p.Alloc(int64(len(full)+len(target)) + 64)
	u.later = append(u.later, tarLink{path: full, target: string(target), ino: info.Ino()})
}

func (u *unzipJob) finish() {
	if len(u.later) == 0 {
		return
	}
	if u.quiet == 0 {
		u.say("finishing deferred symbolic links:\n")
	}
	for _, l := range u.later {
		info, err := u.p.Lstat(l.path)
		if err != nil || info.Ino() != l.ino {
			continue
		}
		if u.quiet == 0 {
			u.say("  %-22s -> %s\n", l.path, l.target)
		}
		if err := errors.Join(u.p.Unlink(l.path), u.p.Symlink(l.target, l.path)); err != nil {
			u.complain(1, "warning:  symbolic link (%s) failed", l.path)
		}
	}
}
