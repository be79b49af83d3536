package awk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/atoll-sandbox/atoll/vfs"
)

// hostConfig returns an environment with the host's files and commands, to compare with other awks.
func hostConfig(dir string, stdin io.Reader, stdout, stderr io.Writer) *Config {
	at := func(p string) string {
		if p != "" && p[0] != '/' {
			return dir + "/" + p
		}
		return p
	}
	run := func(line string) *exec.Cmd {
		c := exec.Command("sh", "-c", line)
		c.Dir, c.Stderr = dir, stderr
		return c
	}
	return &Config{
		Name: "awk", Stdin: stdin, Stdout: stdout, Stderr: stderr, Environ: os.Environ(),
		OpenRead: func(p string) (io.ReadCloser, error) {
			f, err := os.Open(at(p))
			return f, gnuError(err)
		},
		OpenWrite: func(p string, app bool) (io.WriteCloser, error) {
			flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
			if app {
				flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
			}
			f, err := os.OpenFile(at(p), flag, 0o644)
			return f, gnuError(err)
		},
		IsDir: func(p string) bool { i, err := os.Stat(at(p)); return err == nil && i.IsDir() },
		System: func(line string) int {
			c := run(line)
			c.Stdin, c.Stdout = stdin, stdout
			return exitCode(c.Run())
		},
		Command: func(line string, m Mode) (*Stream, error) {
			return startCommand(run(line), m, stdout)
		},
		Now: time.Now, Zone: time.Local,
	}
}

// startCommand starts a command whose streams the program reads or writes.
func startCommand(c *exec.Cmd, m Mode, stdout io.Writer) (*Stream, error) {
	s := &Stream{}
	var in io.WriteCloser
	if m != ReadFrom {
		w, err := c.StdinPipe()
		if err != nil {
			return nil, err
		}
		s.W, in = w, w
		s.CloseWrite = w.Close
	}
	if m != WriteTo {
		r, err := c.StdoutPipe()
		if err != nil {
			return nil, err
		}
		s.R = r
	} else {
		c.Stdout = stdout
	}
	s.Close = func() (int, error) {
		if in != nil {
			_ = in.Close()
		}
		return exitCode(c.Wait()), nil
	}
	return s, c.Start()
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// gnuError returns the most common error with the C library's wording.
func gnuError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return vfs.ENOENT
	}
	return err
}
