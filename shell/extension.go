package shell

import (
	"context"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Extension is a command that the embedding program adds to a sandbox.
type Extension interface {
	Name() string        // name of the command
	Aliases() []string   // other names
	Description() string // one line
	Usage() string       // synopsis, with examples

	// Execute runs the command; args are the arguments after its name. The
	// output in the result is written after what Execute has written itself.
	// Execute must return soon after ctx is done.
	Execute(ctx context.Context, args []string, c Context) ExtensionResult
}

// ExtensionResult is the result of an extension.
type ExtensionResult struct {
	Stdout   string
	Stderr   string
	ExitCode int
}

// Context gives an extension access to the sandbox. It is valid until Execute
// returns, and only in the goroutine that Execute runs on.
type Context struct {
	FileSystem       *vfs.FS
	CurrentDirectory string
	Environment      map[string]string

	Stdin  io.Reader
	Stdout io.Writer // for output that should appear before the end
	Stderr io.Writer
}

// ResolvePath returns the absolute path of a name, relative to the current
// directory.
func (c Context) ResolvePath(name string) string {
	if !strings.HasPrefix(name, "/") {
		name = c.CurrentDirectory + "/" + name
	}
	return path.Clean(name)
}

// Open opens a file of the sandbox for reading.
func (c Context) Open(name string) (fs.File, error) {
	return c.FileSystem.IO().Open(strings.TrimPrefix(c.ResolvePath(name), "/"))
}

// Program returns the kernel program that runs an extension.
func Program(x Extension) kernel.Program {
	return func(p *kernel.Proc) int {
		args := p.Args[1:]
		if len(args) == 1 && args[0] == "--help" {
			_, _ = p.Out().WriteString(extensionHelp(x)) // the kernel reports flush errors
			return 0
		}
		env := make(map[string]string, len(p.Env))
		for _, e := range p.Env {
			if k, v, ok := strings.Cut(e, "="); ok {
				env[k] = v
			}
		}
		c := Context{
			FileSystem: p.FS(), CurrentDirectory: p.Dir(), Environment: env,
			Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr,
		}
		r := x.Execute(p.Context(), args, c)
		_, _ = io.WriteString(p.Stdout, r.Stdout) // a broken pipe ends the process
		_, _ = io.WriteString(p.Stderr, r.Stderr)
		return r.ExitCode
	}
}

func extensionHelp(x Extension) string {
	text := x.Name() + " - " + x.Description() + "\n"
	if u := strings.TrimSpace(x.Usage()); u != "" {
		text += "Usage: " + u + "\n"
	}
	if a := x.Aliases(); len(a) > 0 {
		text += "Aliases: " + strings.Join(a, ", ") + "\n"
	}
	return text
}
