package archive

import (
	"io"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// tarFilter is the process of -I that compresses or decompresses the archive, and the end of its pipe.
type tarFilter struct {
	*kernel.Handle

	j    *tarJob
	proc *kernel.Proc
}

// startFilter starts the program of -I: a compressor that writes the archive, or a decompressor that reads it.
func (j *tarJob) startFilter(compress bool) (*tarFilter, error) {
	args, mode := append(strings.Fields(j.program), "-d"), os.O_RDONLY
	if compress {
		args, mode = []string{"/bin/sh", "-c", j.program}, os.O_WRONLY|os.O_CREATE|os.O_TRUNC // as GNU tar does
	}
	var archive *kernel.FileDescription
	if j.file != "-" {
		var err error
		if archive, err = j.p.OpenAt(j.file, mode, 0o666); err != nil {
			return nil, j.reportFatal("%s: Cannot open: %s", tarName(j.file), program.Reason(err))
		}
		defer archive.Release()
	}
	s, err := j.p.Command(args)
	if err != nil {
		j.p.Errorf("(child): %s: Cannot exec: %s", args[0], program.Reason(err))
		return nil, j.reportFatal("Child returned status 2")
	}
	_ = j.p.Out().Flush() // the next write reports the error
	r, w := j.p.Pipe()
	ours, theirs := r, w
	if s.Stdin, s.Stdout = archive, w; compress {
		ours, theirs = w, r
		s.Stdin, s.Stdout = r, archive
	}
	child, err := j.p.Spawn(s)
	if compress {
		j.p.SetSignal(kernel.SIGPIPE, kernel.Ignore) // a compressor that ends early is an error of the archive; after Spawn, which passes it on
	}
	theirs.Release()
	if err != nil {
		ours.Release()
		return nil, j.reportFatal("Cannot fork: %s", program.Reason(err))
	}
	n, err := j.p.FreeFD(10)
	if err == nil {
		err = j.p.SetFD(n, ours)
	}
	if err != nil {
		ours.Release()
		return nil, j.reportFatal("Cannot open: %s", program.Reason(err))
	}
	j.p.CloseOnExec(n)
	return &tarFilter{j.p.Handle(n), j, child}, nil
}

// finish closes the pipe, waits for the process, and reports its status unless err is the error of the run. A decompressor
// may have more than the archive to write.
func (f *tarFilter) finish(err error, compress bool) error {
	if !compress && err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(f, tarRecord)) // the rest of the last record
	}
	cerr := f.Close()
	st, werr := f.j.p.Wait(f.proc, false)
	switch {
	case err != nil:
		return err
	case cerr != nil:
		return f.j.reportFatal("%s: Cannot close: %s", tarName(f.j.file), program.Reason(cerr))
	case werr != nil:
		return f.j.reportFatal("Cannot wait: %s", program.Reason(werr))
	case st.Signal == kernel.SIGPIPE && !compress:
		return nil
	case st.Signal != 0:
		return f.j.reportFatal("Child died with signal %d", int(st.Signal))
	case st.Code != 0:
		return f.j.reportFatal("Child returned status %d", st.Code)
	}
	return nil
}
