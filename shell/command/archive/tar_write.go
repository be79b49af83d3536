package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const (
	tarBlock  = 512
	tarRecord = 20 * tarBlock // archives are padded to a multiple of it
)

// tarWriter writes one archive.
type tarWriter struct {
	*tarJob
	out   *stream.CountingWriter
	tw    *tar.Writer
	self  uint64            // inode of the archive, if it is a file
	links map[uint64]string // names of files with several links, by inode
	names io.Writer         // output of -v
}

func (j *tarJob) create() error {
	w := &tarWriter{tarJob: j, links: map[uint64]string{}, names: j.p.Out()}
	switch {
	case j.action == 'r':
		return w.appendMembers()
	case j.program != "":
		return w.filter()
	}
	if j.file == "-" {
		w.names = j.p.Stderr
		w.out = &stream.CountingWriter{Writer: j.p.Out()}
		return w.writeAll()
	}
	h, err := j.p.Create(j.file)
	if err != nil {
		return j.reportFatal("%s: Cannot open: %s", tarName(j.file), program.Reason(err))
	}
	if info, err := j.p.Stat(j.file); err == nil {
		w.self = info.Ino()
	}
	w.out = &stream.CountingWriter{Writer: h}
	err = w.writeAll()
	if cerr := h.Close(); err == nil && cerr != nil {
		err = j.reportFatal("%s: Cannot close: %s", tarName(j.file), program.Reason(cerr))
	}
	return err
}

// filter writes the archive through the program of -I.
func (w *tarWriter) filter() error {
	if w.file == "-" {
		w.names = w.p.Stderr
	}
	f, err := w.startFilter(true)
	if err != nil {
		return err
	}
	if info, err := w.p.Stat(w.file); err == nil && w.file != "-" {
		w.self = info.Ino()
	}
	w.out = &stream.CountingWriter{Writer: f}
	return f.finish(w.writeMembers(w.out), true)
}

// writeAll writes every member and pads the last record.
func (w *tarWriter) writeAll() error {
	z, err := w.newCompressor()
	if err != nil {
		return w.failWrite(err)
	}
	if z == nil {
		return w.writeMembers(w.out)
	}
	inner := &stream.CountingWriter{Writer: z}
	w.out = inner
	err = w.writeMembers(inner)
	if cerr := z.Close(); err == nil && cerr != nil {
		err = w.failWrite(cerr)
	}
	return err
}

// newCompressor returns the compressor of the archive, or nil.
func (w *tarWriter) newCompressor() (io.WriteCloser, error) {
	switch w.pack {
	case 'z':
		w.p.Alloc(deflateMemory)
		return gzip.NewWriter(w.out), nil
	case 'J':
		return xzCodec.newWriter(w.p, w.out, xzCodec.level)
	case 'Y':
		return zstdCodec.newWriter(w.p, w.out, zstdCodec.level)
	}
	return nil, nil
}

func (w *tarWriter) writeMembers(out *stream.CountingWriter) error {
	w.tw = tar.NewWriter(out)
	for i := range w.tarJob.members {
		m := &w.tarJob.members[i]
		if m.dir != "" {
			if info, err := w.p.Stat(m.dir); err != nil || !info.IsDir() {
				if err == nil {
					err = vfs.ENOTDIR
				}
				return w.reportFatal("%s: Cannot open: %s", tarName(m.dir), program.Reason(err))
			}
		}
		if err := w.add(m.dir, m.name); err != nil {
			return err
		}
	}
	if err := w.tw.Close(); err != nil {
		return w.failWrite(err)
	}
	if rest := out.Count % tarRecord; rest > 0 {
		if _, err := out.Write(make([]byte, tarRecord-rest)); err != nil {
			return w.failWrite(err)
		}
	}
	return nil
}

func (w *tarWriter) failWrite(err error) error {
	return w.reportFatal("%s: Cannot write: %s", tarName(w.file), program.Reason(err))
}

// appendMembers adds members to an existing archive.
func (w *tarWriter) appendMembers() error {
	h, err := w.p.OpenFile(w.file, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return w.reportFatal("%s: Cannot open: %s", tarName(w.file), program.Reason(err))
	}
	defer stream.Close(h)
	if info, err := w.p.Stat(w.file); err == nil {
		w.self = info.Ino()
	}
	end, err := w.endOf(h)
	if err != nil {
		return err
	}
	if _, err := h.Seek(end, io.SeekStart); err != nil {
		return w.failWrite(err)
	}
	w.out = &stream.CountingWriter{Writer: h, Count: end}
	if err := w.writeMembers(w.out); err != nil {
		return err
	}
	if err := h.Truncate(w.out.Count); err != nil {
		return w.failWrite(err)
	}
	return nil
}

// endOf returns the end of the members of an archive.
func (w *tarWriter) endOf(h *kernel.Handle) (int64, error) {
	head := make([]byte, 3)
	if n, _ := io.ReadFull(h, head); n >= 2 && (head[0] == 0x1f && head[1] == 0x8b || string(head) == "BZh") {
		return 0, w.reportFatal("Cannot update compressed archives")
	}
	if _, err := h.Seek(0, io.SeekStart); err != nil {
		return 0, w.failWrite(err)
	}
	in := &countedReader{r: h}
	tr := tar.NewReader(in)
	end := int64(0)
	for {
		w.p.Tick(16)
		_, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return 0, w.reportFatal("This does not look like a tar archive")
		}
		if err := stream.CopyCharged(w.p, io.Discard, tr); err != nil {
			return 0, w.reportFatal("Unexpected EOF in archive")
		}
		end = (in.n + tarBlock - 1) / tarBlock * tarBlock
	}
}

type countedReader struct {
	r io.Reader
	n int64
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// add writes a file and, if it is a directory, its contents.
func (w *tarWriter) add(dir, name string) error {
	w.p.Tick(16)
	if w.isExcluded(name) {
		return nil
	}
	path := joinTarPath(dir, name)
	stat := w.p.Lstat
	if w.follow {
		stat = w.p.Stat
	}
	info, err := stat(path)
	if err != nil {
		w.reportError("%s: Cannot stat: %s", tarName(name), program.Reason(err))
		return nil
	}
	if info.Ino() == w.self && w.self != 0 && info.Mode().IsRegular() {
		w.p.Errorf("%s: file is the archive; not dumped", tarName(name))
		return nil
	}
	if err := w.writeEntry(path, name, info); err != nil || !info.IsDir() || w.shallow {
		return err
	}
	return w.writeDirectory(path, dir, name)
}

func (w *tarWriter) writeDirectory(path, dir, name string) error {
	list, err := w.p.ReadDir(path)
	if err != nil {
		w.reportError("%s: Cannot open: %s", tarName(name), program.Reason(err))
		return nil
	}
	if !w.p.Enter() {
		w.reportError("%s: %s", tarName(name), vfs.ELOOP)
		return nil
	}
	defer w.p.Leave()
	for _, e := range list {
		if err := w.add(dir, strings.TrimSuffix(name, "/")+"/"+e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// writeEntry writes one member.
func (w *tarWriter) writeEntry(path, name string, info vfs.Info) error {
	h, err := w.newHeader(path, name, info)
	if err != nil {
		w.reportError("%s: %s", tarName(name), program.Reason(err))
		return nil
	}
	if h == nil {
		return nil
	}
	var in *kernel.Handle
	if h.Typeflag == tar.TypeReg && h.Size > 0 {
		if in, err = w.p.Open(path); err != nil {
			w.reportError("%s: Cannot open: %s", tarName(name), program.Reason(err))
			return nil
		}
		defer stream.Close(in)
	}
	shown := name
	if w.transformed {
		shown = h.Name
	}
	w.listMember(w.names, h, shown)
	if err := w.tw.WriteHeader(h); err != nil {
		return w.failWrite(err)
	}
	if in == nil {
		return nil
	}
	return w.writeContent(in, name, h.Size)
}

// writeContent copies as many bytes as the header declares. If a file has shrunk, zeros follow.
func (w *tarWriter) writeContent(in io.Reader, name string, size int64) error {
	body := &stream.CountingWriter{Writer: w.tw}
	if err := stream.CopyCharged(w.p, body, io.LimitReader(in, size)); err != nil {
		return w.failWrite(err)
	}
	if short := size - body.Count; short > 0 {
		w.reportError("%s: File shrank by %d bytes; padding with zeros", tarName(name), short)
		if err := stream.CopyCharged(w.p, body, io.LimitReader(stream.ZeroReader{}, short)); err != nil {
			return w.failWrite(err)
		}
	}
	return nil
}

func (w *tarWriter) newHeader(path, name string, info vfs.Info) (*tar.Header, error) {
	stored := w.safeName(w.transform(name, transformName), "member names")
	if info.IsDir() && !strings.HasSuffix(stored, "/") {
		stored += "/"
	}
	h := &tar.Header{
		Name: stored, Mode: int64(filemode.ToUnix(info.Mode()) & 0o7777), Uid: info.Uid(), Gid: info.Gid(),
		Uname: w.owners.UserName(info.Uid()), Gname: w.owners.GroupName(info.Gid()), ModTime: info.ModTime(), Format: tar.FormatGNU,
	}
	w.overrideAttributes(h, info)
	switch mode := info.Mode(); {
	case mode.IsDir():
		h.Typeflag = tar.TypeDir
	case mode&fs.ModeSymlink != 0:
		target, err := w.p.Readlink(path)
		if err != nil {
			return nil, err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, w.transform(target, transformSymlink)
	case mode&fs.ModeNamedPipe != 0:
		h.Typeflag = tar.TypeFifo
	case mode&fs.ModeCharDevice != 0:
		h.Typeflag = tar.TypeChar
	case mode&fs.ModeDevice != 0:
		h.Typeflag = tar.TypeBlock
	case !mode.IsRegular():
		w.p.Errorf("%s: socket ignored", tarName(name))
		return nil, nil
	default:
		w.setRegular(h, name, info)
	}
	if len(h.Name) > maxTarName || len(h.Linkname) > maxTarName {
		return nil, vfs.ENAMETOOLONG
	}
	return h, nil
}

// maxTarName is the longest name of a member. No system has files with longer ones, and the library quotes names for
// errors that nobody sees.
const maxTarName = 64 << 10

func (w *tarWriter) setRegular(h *tar.Header, name string, info vfs.Info) {
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if info.Nlink() < 2 || w.follow {
		return
	}
	if first, ok := w.links[info.Ino()]; ok {
		h.Typeflag, h.Size, h.Linkname = tar.TypeLink, 0, w.safeName(w.transform(first, transformHardLink), "hard link targets")
		return
	}
	w.p.Alloc(int64(len(name)) + 64)
	w.links[info.Ino()] = name
}

// overrideAttributes applies --owner, --group, --mode and --mtime.
func (w *tarWriter) overrideAttributes(h *tar.Header, info vfs.Info) {
	if w.owner != nil {
		h.Uname, h.Uid = w.owner.name, w.owner.id
	}
	if w.group != nil {
		h.Gname, h.Gid = w.group.name, w.group.id
		if h.Gname == "" {
			h.Gname = w.owners.GroupName(w.group.id)
		}
	}
	if w.numeric {
		h.Uname, h.Gname = "", ""
	}
	if w.mode != nil {
		h.Mode = int64(w.mode.Apply(uint32(h.Mode), info.IsDir(), w.p.Umask()))
	}
	if !w.mtime.IsZero() {
		h.ModTime = w.mtime
	}
}

// listMember prints a member as -v requests.
func (j *tarJob) listMember(out io.Writer, h *tar.Header, name string) {
	switch {
	case j.verbose == 0:
		return
	case j.verbose > 1:
		_, _ = io.WriteString(out, j.formatLong(h)) // Flush reports the error
		return
	}
	if h.Typeflag == tar.TypeDir && !strings.HasSuffix(name, "/") {
		name += "/"
	}
	_, _ = io.WriteString(out, tarName(name)+"\n") // Flush reports the error
}

// tarName returns a name as lists print it.
func tarName(name string) string { return quoting.EscapeText(name, "") }

// formatLong returns the line of a member for -tv.
func (j *tarJob) formatLong(h *tar.Header) string {
	mode := tarMode(h)
	user, group := h.Uname, h.Gname
	if user == "" || j.numeric {
		user = fmt.Sprint(h.Uid)
	}
	if group == "" || j.numeric {
		group = fmt.Sprint(h.Gid)
	}
	size := fmt.Sprint(h.Size)
	if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
		size = fmt.Sprintf("%d,%d", h.Devmajor, h.Devminor)
	}
	owner := user + "/" + group
	j.width = max(j.width, len(owner)+1+len(size))
	layout := "2006-01-02 15:04"
	if j.fullTime {
		layout = "2006-01-02 15:04:05"
	}
	line := fmt.Sprintf("%s %s %*s %s %s", mode, owner, j.width-len(owner)-1, size, h.ModTime.In(j.zone).Format(layout), tarName(h.Name))
	switch h.Typeflag {
	case tar.TypeSymlink:
		line += " -> " + tarName(h.Linkname)
	case tar.TypeLink:
		line += " link to " + tarName(h.Linkname)
	}
	return line + "\n"
}

// tarMode returns the mode of a member as ls -l prints it; a hard link begins with h.
func tarMode(h *tar.Header) string {
	s := []byte(filemode.Format(uint32(h.Mode) & 0o7777))
	kinds := map[byte]byte{tar.TypeDir: 'd', tar.TypeSymlink: 'l', tar.TypeLink: 'h', tar.TypeChar: 'c', tar.TypeBlock: 'b', tar.TypeFifo: 'p'}
	s[0] = '-'
	if k, ok := kinds[h.Typeflag]; ok {
		s[0] = k
	}
	return string(s)
}
