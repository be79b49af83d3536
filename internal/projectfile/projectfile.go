// Package projectfile reads what a repository says of how it is worked on:
// .atoll.yaml, and what fits of devcontainer.json. It came with the code, so it is
// only a wish: [File.Grants] lists what somebody must have agreed to first.
package projectfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tailscale/hujson"
	yaml "go.yaml.in/yaml/v4"

	"github.com/atoll-sandbox/atoll"
)

// Name is that of the file at the top of a working tree.
const Name = ".atoll.yaml"

// containerFiles are where devcontainer.json may be, the first that is there
// counts.
var containerFiles = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// maxSize bounds a file, in bytes.
const maxSize = 1 << 20

// File is what a repository says. The zero File says nothing.
type File struct {
	Sources  []string // the files that were read, by their names in the working tree
	Warnings []string // what of them can't be done, for people

	Image  string
	Driver string
	User   string  // inside
	Dir    string  // inside, where terminals begin; empty: the workspace
	Memory int64   // bytes; 0: nothing is said, as below
	Disk   int64   // bytes
	CPUs   float64 // processors

	Network  Network
	Env      []Variable
	EnvFiles []string  // patterns, as .gitignore has them, of ignored files that go in
	Prepare  []Command // once, when the repository is inside
	Start    []Command // each time that the sandbox has started
	Agent    string
	Ports    []Port
	MainPort int // that the project's name leads to
	Sync     Sync
	Terminal Terminal
}

// Network is what may be reached.
type Network struct {
	Mode  atoll.NetworkMode
	Allow []string
	Deny  []string
}

// Variable is one of the environment of every command.
type Variable struct {
	Name  string
	Value string // if not Host
	Host  bool   // its value is that of the host's variable From
	From  string
}

// Command is one of Shell and Args.
type Command struct {
	Name  string // for people; empty: none was given
	Shell string // for sh -c
	Args  []string
	Wait  bool // of Start: it ends, and terminals come after it
}

// String returns the command as people write it.
func (c Command) String() string {
	if c.Shell != "" {
		return c.Shell
	}
	return strings.Join(c.Args, " ")
}

// Port is one that a program inside is going to listen on.
type Port struct {
	Port int
	Name string // for people
}

// Sync is how work comes home.
type Sync struct {
	Mode      atoll.SyncMode // empty: nothing is said
	Artifacts []string       // patterns of files that come home, which git does not track
}

// Terminal is what terminals are like.
type Terminal struct {
	Shell    string // the program; empty: bash, or the user's shell inside
	Provider string // one of Providers; empty: nothing is said
}

// Whose page shows terminals in a browser.
const (
	Builtin = "builtin"
	Zellij  = "zellij" // the one that is in the sandbox
)

// Providers are the words that terminal.provider can be.
func Providers() []string { return []string{Builtin, Zellij} }

// Read reads the files of a working tree. Every problem of them is named, with
// its place; they match atoll.ErrInvalid. Nothing that a link leads to outside of
// the tree is read.
func Read(dir string) (*File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it was only read
	f := &File{}
	var errs []error
	for _, name := range containerFiles {
		b, err := load(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.readContainer(name, b)
		}
		errs = append(errs, err)
		break
	}
	b, err := load(root, Name)
	if err == nil {
		err = f.readOwn(Name, b)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return f, errors.Join(errs...)
}

// CheckKnown reports every problem of the keys of an .atoll.yaml that are among
// [Keys]; name is what the file is called.
func CheckKnown(name string, b []byte) error {
	top, err := document(name, b)
	if err != nil || top == nil {
		return err
	}
	r := &reader{name: name, lax: true}
	r.own(&File{}, top)
	return r.err()
}

// load reads a regular file of a size that a person would write.
func load(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w: it is not a file", name, atoll.ErrInvalid)
	case info.Size() > maxSize:
		return nil, fmt.Errorf("%s: %w: more than %d bytes are too much for a configuration", name, atoll.ErrInvalid, maxSize)
	}
	return io.ReadAll(io.LimitReader(f, maxSize))
}

// readOwn reads an .atoll.yaml, which is said over what is there.
func (f *File) readOwn(name string, b []byte) error {
	f.Sources = append(f.Sources, name)
	top, err := document(name, b)
	if err != nil || top == nil {
		return err
	}
	r := &reader{name: name}
	r.own(f, top)
	return r.err()
}

// readContainer reads a devcontainer.json.
func (f *File) readContainer(name string, b []byte) error {
	f.Sources = append(f.Sources, name)
	plain, err := hujson.Standardize(b) // every byte stays where it is
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, atoll.ErrInvalid, err)
	}
	top, err := document(name, plain)
	if err != nil || top == nil {
		return err
	}
	r := &reader{name: name}
	r.container(f, top)
	return r.err()
}

// document returns the top of the one document in a file; nil for none.
func document(name string, b []byte) (*yaml.Node, error) {
	l, err := yaml.NewLoader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	var doc, more yaml.Node
	err = l.Load(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if again := l.Load(&more); again == nil {
			return nil, fmt.Errorf("%s:%d: %w: a second document begins here: a configuration is one", name, more.Line, atoll.ErrInvalid)
		} else if !errors.Is(again, io.EOF) {
			err = again
		}
	}
	var at *yaml.LoadError
	switch {
	case errors.As(err, &at):
		return nil, fmt.Errorf("%s:%d:%d: %w: %s", name, at.Mark.Line, at.Mark.Column, atoll.ErrInvalid, at.Message)
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", name, atoll.ErrInvalid, err)
	case len(doc.Content) == 0:
		return nil, nil
	}
	return doc.Content[0], nil
}
