// Package projectfile reads a repository's project file .atoll.yaml, and the supported part of its
// devcontainer.json. These files come with untrusted code, so they are only requests: [File.Grants] lists
// those that the user must agree to first.
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

// Name is the name of the project file at the top of a working tree.
const Name = ".atoll.yaml"

// containerFiles are the possible paths of devcontainer.json. The first that exists is read.
var containerFiles = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// maxSize is the largest size of a file in bytes.
const maxSize = 1 << 20

// File holds the settings of a repository. The zero File has none.
type File struct {
	Sources  []string // files that were read, relative to the working tree
	Warnings []string // settings that are not supported, for display

	Image  string
	Driver string
	User   string  // inside
	Dir    string  // directory inside in which terminals start; empty: the workspace
	Memory int64   // bytes; 0: not set, as for the fields below
	Disk   int64   // bytes
	CPUs   float64 // processors

	Network  Network
	Env      []Variable
	EnvFiles []string  // patterns, in the syntax of .gitignore, of ignored files to import
	Prepare  []Command // run once, after the import of the repository
	Start    []Command // run after each start of the sandbox
	Agent    string
	Ports    []Port
	MainPort int // port of the project's plain host name
	Sync     Sync
	Terminal Terminal
}

// Network holds the network rules.
type Network struct {
	Mode  atoll.NetworkMode
	Allow []string
	Deny  []string
}

// Variable is an environment variable of every command.
type Variable struct {
	Name  string
	Value string // unless Host is set
	Host  bool   // the value is that of the host's variable From; Value is used if it is unset
	From  string
}

// Command is a command to run. Either Shell or Args is set.
type Command struct {
	Name  string // display name; may be empty
	Shell string // text for sh -c
	Args  []string
	Wait  bool // in Start: wait for its end before opening terminals
}

// String returns the command as users write it.
func (c Command) String() string {
	if c.Shell != "" {
		return c.Shell
	}
	return strings.Join(c.Args, " ")
}

// Port is a port on which a program inside is going to listen.
type Port struct {
	Port int
	Name string // display name
}

// Sync holds the settings for syncing work to the host.
type Sync struct {
	Mode      atoll.SyncMode // empty: not set
	Artifacts []string       // patterns of files outside of git that are copied to the host
}

// Terminal holds the settings of terminals.
type Terminal struct {
	Shell    string // program; empty: bash, or the user's shell inside
	Provider string // one of Providers; empty: not set
}

// The providers of terminals in a browser.
const (
	Builtin = "builtin"
	Zellij  = "zellij" // zellij in the sandbox
)

// Providers returns the valid values of terminal.provider.
func Providers() []string { return []string{Builtin, Zellij} }

// Read reads the files of a working tree. Its error names every mistake with its place and matches
// atoll.ErrInvalid. It follows no link out of the tree.
func Read(dir string) (*File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only read
	f := &File{}
	var errs []error
	for _, name := range containerFiles {
		b, err := readFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = f.readContainer(name, b, func(other string) ([]byte, error) { return readFile(root, other) })
		}
		errs = append(errs, err)
		break
	}
	b, err := readFile(root, Name)
	if err == nil {
		err = f.readOwn(Name, b)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return f, errors.Join(errs...)
}

// CheckKnown reports every mistake in those keys of an .atoll.yaml that are among [Keys]. name is the name
// of the file in errors.
func CheckKnown(name string, b []byte) error {
	top, err := parseDocument(name, b)
	if err != nil || top == nil {
		return err
	}
	r := &reader{name: name, lax: true}
	r.parseAtollYAML(&File{}, top)
	return r.joinErrors()
}

// readFile reads a regular file of at most maxSize bytes.
func readFile(root *os.Root, name string) ([]byte, error) {
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // does not block on a pipe
	if err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			err = fs.ErrNotExist
		}
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %w: it is not a file", name, atoll.ErrInvalid)
	case info.Size() > maxSize:
		return nil, fmt.Errorf("%s: %w: a configuration must not have more than %d bytes", name, atoll.ErrInvalid, maxSize)
	}
	return io.ReadAll(io.LimitReader(f, maxSize))
}

// readOwn parses an .atoll.yaml over the settings of a devcontainer.json.
func (f *File) readOwn(name string, b []byte) error {
	f.Sources = append(f.Sources, name)
	top, err := parseDocument(name, b)
	if err != nil || top == nil {
		return err
	}
	r := &reader{name: name}
	r.parseAtollYAML(f, top)
	return r.joinErrors()
}

// readContainer parses a devcontainer.json. readOther reads other files of the working tree; nil: there are none.
func (f *File) readContainer(name string, b []byte, readOther func(string) ([]byte, error)) error {
	f.Sources = append(f.Sources, name)
	plain, err := hujson.Standardize(b) // keeps the position of every byte
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, atoll.ErrInvalid, err)
	}
	top, err := parseDocument(name, plain)
	if err != nil || top == nil {
		return err
	}
	r := &reader{name: name, readOther: readOther}
	r.parseDevcontainer(f, top)
	return r.joinErrors()
}

// parseDocument returns the top node of the only document in a file; nil if it is empty.
func parseDocument(name string, b []byte) (*yaml.Node, error) {
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
			return nil, fmt.Errorf("%s:%d: %w: a second document begins here: a configuration must be one document", name, more.Line, atoll.ErrInvalid)
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
