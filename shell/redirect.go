package shell

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/syntax"
	"github.com/atoll-sandbox/atoll/vfs"
)

// redir is a compiled redirection.
type redir struct {
	op     syntax.RedirOp
	fd     int // -1: the operator's default
	fdVar  string
	raw    string
	target func(in *interp) (string, bool)
	text   func(in *interp) string // here-documents and here-strings
}

func (c *compiler) redirs(list []*syntax.Redir) []redir {
	if len(list) == 0 {
		return nil
	}
	out := make([]redir, len(list))
	for i, r := range list {
		d := redir{op: r.Op, fd: r.Fd, fdVar: r.FdVar}
		switch r.Op {
		case syntax.RedirHere, syntax.RedirHereStrip:
			d.text = c.hereDocument(r.Doc)
		case syntax.RedirString:
			w := c.scalar(r.Target)
			d.text = func(in *interp) string {
				text := w(in)
				in.chargeScratch(len(text) + 1)
				return text + "\n"
			}
		default:
			d.raw = r.Target.Raw
			d.target = c.redirTarget(r.Target)
		}
		out[i] = d
	}
	return out
}

// hereDocument compiles a here-document. One without its delimiter gets the
// missing newline, and a warning.
func (c *compiler) hereDocument(d *syntax.Heredoc) func(in *interp) string {
	text := c.heredoc(d)
	if !d.EOF {
		return text
	}
	c.open = append(c.open, d)
	return func(in *interp) string {
		s := text(in)
		if s != "" && !strings.HasSuffix(s, "\n") {
			s += "\n"
		}
		return s
	}
}

// undo records the descriptors that redirections replaced, in order.
type undo []savedFD

type savedFD struct {
	fd   int
	open *kernel.FileDescription // nil: it was closed
}

// undoRedirs undoes redirections.
func (in *interp) undoRedirs(u *undo) {
	for i := len(*u) - 1; i >= 0; i-- {
		s := (*u)[i]
		_ = in.p.SetFD(s.fd, s.open) // the descriptor was valid before
	}
	*u = nil
}

// makePermanent makes redirections permanent: they can't be undone any more.
func (u *undo) makePermanent() {
	for _, s := range *u {
		if s.open != nil {
			s.open.Release()
		}
	}
	*u = nil
}

// replaceFD assigns o to fd and records the previous descriptor in u. It takes
// ownership of o.
func (in *interp) replaceFD(fd int, o *kernel.FileDescription, u *undo) bool {
	*u = append(*u, savedFD{fd, in.p.TakeFD(fd)})
	if err := in.p.SetFD(fd, o); err != nil {
		*u = (*u)[:len(*u)-1]
		if o != nil {
			o.Release()
		}
		in.errorf("%d: %v", fd, err)
		return false
	}
	return true
}

// applyRedirs performs redirections in order, until one fails, which it
// reports.
func (in *interp) applyRedirs(list []redir, u *undo) bool {
	stash := in.preparedTargets
	in.preparedTargets = nil
	for i := range list {
		r := &list[i]
		if stash != nil && r.text == nil {
			c := *r
			c.target = func(*interp) (string, bool) { return stash[i].name, stash[i].ok }
			r = &c
		}
		if !in.applyRedir(r, u) {
			return false
		}
	}
	return true
}

func (in *interp) applyRedir(r *redir, u *undo) bool {
	if r.text != nil {
		text := r.text(in)
		return in.assignFD(r, in.p.OpenMemory([]byte(text)), u)
	}
	name, ok := r.target(in)
	if !ok {
		in.errorf("%s: ambiguous redirect", r.raw)
		return false
	}
	if r.op == syntax.RedirDupIn || r.op == syntax.RedirDupOut {
		if r.op == syntax.RedirDupOut && r.fd < 0 && r.fdVar == "" && !isDup(name) {
			return in.openBoth(syntax.RedirBoth, name, u)
		}
		return in.duplicateFD(r, name, u)
	}
	if r.op == syntax.RedirBoth || r.op == syntax.RedirBothApp {
		return in.openBoth(r.op, name, u)
	}
	o, ok := in.openTarget(r.op, name)
	return ok && in.assignFD(r, o, u)
}

// assignFD assigns o to the descriptor of a redirection.
func (in *interp) assignFD(r *redir, o *kernel.FileDescription, u *undo) bool {
	if r.fdVar == "" {
		fd := r.fd
		if fd < 0 {
			fd = r.op.DefaultFd()
		}
		return in.replaceFD(fd, o, u)
	}
	fd, err := in.p.FreeFD(10)
	if err == nil {
		err = in.p.SetFD(fd, o)
	}
	if err != nil {
		o.Release()
		in.errorf("%s: cannot assign fd to variable", r.fdVar)
		return false
	}
	if in.shoptOn(shVarredirClose) {
		*u = append(*u, savedFD{fd, nil})
	}
	v, ok := in.parseRef(r.fdVar)
	return ok && in.assignRef(v, strconv.Itoa(fd), false)
}

func isDup(name string) bool {
	s := strings.TrimSuffix(name, "-")
	if s == "" {
		return name == "-"
	}
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// duplicateFD performs n>&m, n>&m- and n>&-.
func (in *interp) duplicateFD(r *redir, name string, u *undo) bool {
	if !isDup(name) {
		in.errorf("%s: ambiguous redirect", r.raw)
		return false
	}
	if name == "-" {
		return in.closeFD(r, u)
	}
	from, err := strconv.Atoi(strings.TrimSuffix(name, "-"))
	o := in.p.FD(from)
	if err != nil || o == nil {
		in.errorf("%s: %v", strings.TrimSuffix(r.raw, "-"), vfs.EBADF)
		return false
	}
	fd := r.fd
	if fd < 0 {
		fd = r.op.DefaultFd()
	}
	if r.fdVar != "" || fd != from {
		if !in.assignFD(r, o.Retain(), u) {
			return false
		}
		if strings.HasSuffix(name, "-") {
			*u = append(*u, savedFD{from, in.p.TakeFD(from)})
		}
	}
	return true
}

func (in *interp) closeFD(r *redir, u *undo) bool {
	fd := r.fd
	if fd < 0 {
		fd = r.op.DefaultFd()
	}
	if r.fdVar != "" {
		v, ok := in.parseRef(r.fdVar)
		text, _ := in.refValue(v)
		n, err := strconv.Atoi(text)
		if err != nil || !ok {
			in.errorf("%s: ambiguous redirect", r.fdVar)
			return false
		}
		_ = in.p.SetFD(n, nil) // closing a closed descriptor is no error
		return true
	}
	*u = append(*u, savedFD{fd, in.p.TakeFD(fd)})
	return true
}

// refValue returns the value of a variable or an array element.
func (in *interp) refValue(r ref) (string, bool) {
	v := in.fetchRef(r)
	return v.s, v.set
}

// openBoth performs &> and &>>.
func (in *interp) openBoth(op syntax.RedirOp, name string, u *undo) bool {
	o, ok := in.openTarget(op, name)
	if !ok {
		return false
	}
	return in.replaceFD(1, o, u) && in.replaceFD(2, o.Retain(), u)
}

// openFlags returns the flags with which a redirection opens its file.
func openFlags(op syntax.RedirOp) int {
	switch op {
	case syntax.RedirIn:
		return os.O_RDONLY
	case syntax.RedirInOut:
		return os.O_RDWR | os.O_CREATE
	case syntax.RedirAppend, syntax.RedirBothApp:
		return os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	return os.O_WRONLY | os.O_CREATE | os.O_TRUNC
}

// openTarget opens the file of a redirection.
func (in *interp) openTarget(op syntax.RedirOp, name string) (*kernel.FileDescription, bool) {
	flags := openFlags(op)
	if strings.HasPrefix(name, "/dev/tcp/") || strings.HasPrefix(name, "/dev/udp/") {
		in.errorf("%s: the shell opens no network connections: use curl, if the sandbox allows it", name)
		return nil, false
	}
	if in.optOn(optNoclobber) && (op == syntax.RedirOut || op == syntax.RedirBoth) {
		info, err := in.p.Stat(name)
		if err == nil && info.Mode().IsRegular() {
			in.errorf("%s: cannot overwrite existing file", name)
			return nil, false
		}
		if errors.Is(err, vfs.ENOENT) {
			flags |= os.O_EXCL
		}
	}
	o, err := in.p.OpenAt(name, flags, 0o666)
	if err != nil {
		in.errorf("%s: %v", name, kernel.Reason(err))
		return nil, false
	}
	return o, true
}

// runRedirected runs a compound command with redirections.
func (in *interp) runRedirected(list []redir, r run) flow {
	var u undo
	defer in.undoRedirs(&u)
	s := in.beginScratch()
	defer in.endScratch(s)
	if !in.checkRedirPolicy(list) || !in.applyRedirs(list, &u) {
		in.status = max(in.status, 1)
		return in.handleFailure()
	}
	return r(in)
}
