package shell

import (
	"context"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

// Extension is a command that a user of the sandbox adds.
type Extension interface {
	Name() string        // that it is called by
	Aliases() []string   // other names
	Description() string // one line
	Usage() string       // how to call it, with examples

	// Execute runs the command; args are those after its name. What it
	// returns in Result is written after what it has written itself. It must
	// come back soon after ctx is done.
	Execute(ctx context.Context, args []string, c Context) ExtensionResult
}

// ExtensionResult is what an extension gives back.
type ExtensionResult struct {
	Stdout   string
	Stderr   string
	ExitCode int
}

// Context is what an extension sees of the sandbox. It is valid until
// Execute returns and belongs to the goroutine that Execute runs on.
type Context struct {
	FileSystem       *vfs.FS
	CurrentDirectory string
	Environment      map[string]string

	Stdin  io.Reader
	Stdout io.Writer // for output that should not wait for the end
	Stderr io.Writer
}

// ResolvePath returns the absolute path that a name means to the command.
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

// Program makes a program of an extension.
func Program(x Extension) kernel.Program {
	return func(p *kernel.Proc) int {
		args := p.Args[1:]
		if len(args) == 1 && args[0] == "--help" {
			_, _ = p.Out().WriteString(extensionHelp(x)) // the kernel reports what can't be flushed
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
		_, _ = io.WriteString(p.Stdout, r.Stdout) // a broken pipe has ended the process
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
		text += "Also called: " + strings.Join(a, ", ") + "\n"
	}
	return text
}
