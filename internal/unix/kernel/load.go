package kernel

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/vfs"
)

// stub is the beginning of an executable's content that stands for a [Program]; the program's name
// and a newline follow.
const stub = "\x7fATOLL "

// StubFile returns the content of a file that runs the program of that name, at any path.
func StubFile(program string) []byte { return []byte(stub + program + "\n") }

// DefaultPath is the search path for programs if $PATH is not set.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// LookPath returns the file that a command name runs: the name itself if it contains a slash,
// otherwise the first executable of that name in $PATH.
func (p *Proc) LookPath(name string) (string, error) {
	list, ok := p.LookupEnv("PATH")
	if !ok {
		list = DefaultPath
	}
	return p.LookIn(list, name)
}

// LookIn is LookPath with given directories, separated by colons.
func (p *Proc) LookIn(list, name string) (string, error) {
	if strings.Contains(name, "/") {
		if no := p.checkRunnable(p.Path(name)); no != 0 {
			code := 126
			if no == vfs.ENOENT || no == vfs.ENOTDIR {
				code = 127
			}
			return "", &CommandError{Name: name, Code: code, Err: no}
		}
		return name, nil
	}
	fail := &CommandError{Name: name, Code: 127, Err: vfs.ENOENT}
	if name == "" {
		return "", fail
	}
	for list != "" {
		var dir string
		dir, list, _ = strings.Cut(list, ":")
		if dir == "" {
			dir = "."
		}
		file := dir + "/" + name
		switch no := p.checkRunnable(p.Path(file)); no {
		case 0:
			return file, nil
		case vfs.EACCES:
			fail = &CommandError{Name: name, Code: 126, Err: no}
		}
	}
	return "", fail
}

// checkRunnable returns the reason why a file can't be executed; 0 if it can.
func (p *Proc) checkRunnable(abs string) vfs.Errno {
	info, err := p.k.fs.Stat(abs)
	if err != nil {
		var no vfs.Errno
		if errors.As(err, &no) {
			return no
		}
		return vfs.EIO
	}
	switch {
	case info.IsDir():
		return vfs.EACCES
	case !info.Mode().IsRegular(), info.Mode()&0o111 == 0:
		return vfs.EACCES
	}
	return 0
}

// isText reports whether a file looks like text to a shell.
func (p *Proc) isText(abs string) bool {
	head, err := p.readHead(abs)
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	return err == nil && !bytes.Contains(line, []byte{0}) && !bytes.HasPrefix(head, []byte(stub))
}

// load reads the beginning of an executable: a stub of a virtual program, or a script with its
// interpreter.
func (p *Proc) load(file string, args []string, depth int) (Spawn, error) {
	abs := p.Path(file)
	name := args[0]
	if no := p.checkRunnable(abs); no != 0 {
		code := 126
		if no == vfs.ENOENT || no == vfs.ENOTDIR {
			code = 127
		}
		return Spawn{}, &CommandError{Name: name, Code: code, Err: no}
	}
	head, err := p.readHead(abs)
	if err != nil {
		return Spawn{}, &CommandError{Name: name, Code: 126, Err: vfs.EIO}
	}
	if rest, ok := bytes.CutPrefix(head, []byte(stub)); ok {
		prog, _, _ := bytes.Cut(rest, []byte{'\n'})
		if main := p.k.programs[string(prog)]; main != nil {
			return Spawn{Args: args, Path: abs, Main: main}, nil
		}
		return Spawn{}, &CommandError{Name: name, Code: 126, Err: vfs.ENOEXEC}
	}
	if line, ok := bytes.CutPrefix(head, []byte("#!")); ok && depth < 4 {
		text, _, _ := strings.Cut(string(line), "\n")
		interp, arg, _ := strings.Cut(strings.Trim(text, " \t\r"), " ")
		if interp == "" {
			return Spawn{}, &CommandError{Name: name, Code: 126, Err: vfs.ENOEXEC}
		}
		next := []string{interp}
		if arg = strings.TrimLeft(arg, " \t"); arg != "" {
			next = append(next, arg)
		}
		next = append(append(next, file), args[1:]...)
		s, err := p.load(interp, next, depth+1)
		if err != nil {
			return Spawn{}, &CommandError{Name: name, Code: 126, Err: vfs.ENOENT}
		}
		return s, nil
	}
	return Spawn{}, &CommandError{Name: name, Code: 126, Err: vfs.ENOEXEC}
}

func (p *Proc) readHead(abs string) ([]byte, error) {
	f, err := p.k.fs.OpenFile(abs, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, 256)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// Path returns name as an absolute path, relative to the process's directory. It is not cleaned,
// since ".." applies after links are resolved.
func (p *Proc) Path(name string) string {
	p.chargeLinks()
	if strings.HasPrefix(name, "/") {
		return name
	}
	if p.dir == "/" {
		return "/" + name
	}
	return p.dir + "/" + name
}

// chargeLinks charges following symbolic links since the last call as work. Those that other processes follow meanwhile count,
// too: there is one counter for the file system.
func (p *Proc) chargeLinks() {
	n := p.k.fs.LinkBytes()
	if more := n - p.linkBytes; more >= 64 {
		p.Tick(int(more >> 4))
	}
	p.linkBytes = n
}

// Dir returns the process's working directory.
func (p *Proc) Dir() string { return p.dir }

// Chdir changes the process's working directory. Dir then returns dir as given, made absolute and
// clean.
func (p *Proc) Chdir(dir string) error {
	abs := p.Path(dir)
	info, err := p.Stat(abs)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "chdir", Path: dir, Err: vfs.ENOTDIR}
	}
	p.dir = path.Clean(abs)
	return nil
}

// Umask returns the file mode creation mask.
func (p *Proc) Umask() uint32 { return p.umask }

// SetUmask changes the file mode creation mask.
func (p *Proc) SetUmask(m uint32) { p.umask = m & 0o777 }

// IsText reports whether a file looks like text. A shell checks this before it runs a file that
// names no interpreter.
func (p *Proc) IsText(name string) bool { return p.isText(p.Path(name)) }

// Load prepares to run a file: a virtual program, or a script with its interpreter. A text without
// an interpreter is [vfs.ENOEXEC]; a shell runs that itself. Load asks the policy first.
func (p *Proc) Load(file string, args []string) (Spawn, error) {
	if p.k.policy != nil {
		c := Call{Name: args[0], Args: args, Path: p.Path(file), Dir: p.dir, Kind: KindProgram}
		if err := p.CheckPolicy(c); err != nil {
			return Spawn{}, err
		}
	}
	return p.load(file, args, 0)
}

// LoadVetted is Load for a caller that has asked the policy itself.
func (p *Proc) LoadVetted(file string, args []string) (Spawn, error) { return p.load(file, args, 0) }
