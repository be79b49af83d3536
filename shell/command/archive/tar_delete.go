package archive

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// tarSpan is a range of an archive, in bytes.
type tarSpan struct{ from, to int64 }

// deleteMembers removes members from an archive, in place.
func (j *tarJob) deleteMembers() error {
	if j.file == "-" {
		return j.reportFatal("--delete needs the file of an archive (-f): standard input can't be rewritten")
	}
	in, err := j.p.OpenFile(j.file, os.O_RDONLY, 0)
	if err != nil {
		return j.reportFatal("%s: Cannot open: %s", tarName(j.file), program.Reason(err))
	}
	defer stream.Close(in)
	r := &tarReader{tarJob: j}
	kept, err := r.spansToKeep(in)
	if err != nil {
		return err
	}
	for i := range j.members {
		if m := &j.members[i]; !m.found {
			r.reportMissing(m.name)
		}
	}
	return j.keepSpans(in, kept)
}

// spansToKeep returns the ranges of the members that are not deleted, each with the headers before it.
func (r *tarReader) spansToKeep(in *kernel.Handle) ([]tarSpan, error) {
	head := make([]byte, 6)
	if n, _ := io.ReadFull(in, head); n >= 3 && (head[0] == 0x1f && head[1] == 0x8b || string(head[:3]) == "BZh" || string(head) == xzCodec.magic || n >= 4 && string(head[:4]) == zstdCodec.magic) {
		return nil, r.reportFatal("Cannot update compressed archives")
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, r.reportFatal("%s: Cannot seek: %s", tarName(r.file), program.Reason(err))
	}
	var kept []tarSpan
	counted := &countedReader{r: in}
	tr := tar.NewReader(counted)
	for end := int64(0); ; {
		r.p.Tick(16)
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			return kept, nil
		case err != nil && !errors.Is(err, tar.ErrInsecurePath):
			return nil, r.reportFatal("This does not look like a tar archive")
		}
		if err := stream.CopyCharged(r.p, io.Discard, tr); err != nil {
			return nil, r.reportFatal("Unexpected EOF in archive")
		}
		from := end
		end = (counted.n + tarBlock - 1) / tarBlock * tarBlock
		if len(r.tarJob.members) > 0 && r.isWanted(h.Name) {
			continue
		}
		if n := len(kept); n > 0 && kept[n-1].to == from {
			kept[n-1].to = end
			continue
		}
		r.p.Alloc(2 * 16) // the slice may grow to twice the size that it needs
		kept = append(kept, tarSpan{from, end})
	}
}

// keepSpans moves the ranges of the archive to its beginning, and ends it after them.
func (j *tarJob) keepSpans(in *kernel.Handle, kept []tarSpan) error {
	fail := func(err error) error {
		return j.reportFatal("%s: Cannot write: %s", tarName(j.file), program.Reason(err))
	}
	h, err := j.p.OpenFile(j.file, os.O_WRONLY, 0)
	if err != nil {
		return j.reportFatal("%s: Cannot open: %s", tarName(j.file), program.Reason(err))
	}
	defer stream.Close(h)
	out := &stream.CountingWriter{Writer: h}
	for _, s := range kept {
		if s.from == out.Count {
			if _, err := h.Seek(s.to, io.SeekStart); err != nil {
				return fail(err)
			}
			out.Count = s.to
			continue
		}
		if _, err := in.Seek(s.from, io.SeekStart); err != nil {
			return fail(err)
		}
		if err := stream.CopyCharged(j.p, out, io.LimitReader(in, s.to-s.from)); err != nil {
			return fail(err)
		}
	}
	end := (out.Count + 2*tarBlock + tarRecord - 1) / tarRecord * tarRecord
	if _, err := io.WriteString(out, strings.Repeat("\x00", int(end-out.Count))); err != nil {
		return fail(err)
	}
	if err := h.Truncate(end); err != nil {
		return fail(err)
	}
	return nil
}
