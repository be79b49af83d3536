package text

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// awkEditor replaces each input file by the output while it is read, as -i inplace of GNU awk does.
type awkEditor struct {
	p      *kernel.Proc
	suffix string // of the copies of the originals; empty: none

	name, temp string // of the file that is edited; empty: none
	path       string // of temp, from the root
	info       vfs.Info
	stdout     *kernel.FileDescription
}

// begin redirects standard output to a new file beside the input file.
func (e *awkEditor) begin(name string) {
	e.name = ""
	if name == "-" || name == "/dev/stdin" {
		reportAwkError(e.p, "warning: inplace::begin: disabling in-place editing for invalid FILENAME `"+name+"'")
		return
	}
	info, err := e.p.Stat(name)
	switch {
	case err != nil:
		reportAwkError(e.p, "warning: inplace::begin: Cannot stat `"+name+"' ("+program.Reason(err)+")")
		return
	case !info.Mode().IsRegular():
		reportAwkError(e.p, "warning: inplace::begin: `"+name+"' is not a regular file")
		return
	}
	for n := 0; ; n++ {
		e.p.Tick(1)
		e.temp = name[:strings.LastIndexByte(name, '/')+1] + "gawk." + strconv.Itoa(e.p.PID()) + "." + strconv.Itoa(n)
		f, err := e.p.OpenAt(e.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		switch {
		case err == nil:
			e.name, e.path, e.info, e.stdout = name, e.p.Path(e.temp), info, e.p.TakeFD(1)
			_ = e.p.SetFD(1, f) // 1 is a valid descriptor
			return
		case !errors.Is(err, fs.ErrExist):
			reportAwkError(e.p, "warning: inplace::begin: Cannot create a file beside `"+name+"' ("+program.Reason(err)+")")
			return
		}
	}
}

// end puts the new file in the place of the input file. After an error of the program the input file stays.
func (e *awkEditor) end(keep bool) {
	if e.name == "" {
		return
	}
	name := e.name
	e.restore()
	if !keep {
		_ = e.p.Unlink(e.temp) // it was created here
		return
	}
	if err := e.replace(name); err != nil {
		_ = e.p.Unlink(e.temp) // likewise
		reportAwkError(e.p, "warning: inplace::end: Cannot replace `"+name+"' ("+program.Reason(err)+")")
	}
}

// replace renames the new file to the name of the input file, with its mode and owner.
func (e *awkEditor) replace(name string) error {
	if err := e.p.Chmod(e.temp, e.info.Mode().Perm()); err != nil {
		return err
	}
	_ = e.p.Lchown(e.temp, e.info.Uid(), e.info.Gid()) // as GNU awk, which goes on without
	if e.suffix != "" {
		_ = e.p.Unlink(name + e.suffix) // it may not exist
		if err := e.p.Link(name, name+e.suffix); err != nil {
			return err
		}
	}
	return e.p.Rename(e.temp, name)
}

// restore redirects standard output to where it went before.
func (e *awkEditor) restore() {
	if e.stdout != nil {
		_ = e.p.SetFD(1, e.stdout) // 1 is a valid descriptor
	} else if f := e.p.TakeFD(1); f != nil {
		f.Release()
	}
	e.name, e.stdout = "", nil
}

// discard removes the new file of a program that a signal ends.
func (e *awkEditor) discard() {
	if e.name != "" {
		e.name = ""
		if e.stdout != nil {
			e.stdout.Release()
		}
		_ = e.p.FS().Unlink(e.path) // the process is ending: an error can't be reported
	}
}
