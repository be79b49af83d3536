package text

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const dosUsage = `Usage: dos2unix [options] [file ...] [-n infile outfile ...]
       unix2dos [options] [file ...] [-n infile outfile ...]
Convert the line ends of text files between DOS and Unix, in place. With no
file, convert standard input to standard output.

  -f, --force        force conversion of binary files
  -k, --keepdate     keep output file date
  -n, --newfile      write to new file
  -o, --oldfile      write to old file (default)
  -O, --to-stdout    write to standard output
  -q, --quiet        quiet mode
  -e, --add-eol      add a line end to the last line if there isn't one
  -h, --help         display this help text
`

var dosOptions = option.Parser{Options: []option.Option{
	{Short: 'f', Long: "force"},
	{Short: 'k', Long: "keepdate"},
	{Short: 'n', Long: "newfile"},
	{Short: 'o', Long: "oldfile"},
	{Short: 'O', Long: "to-stdout"},
	{Short: 'q', Long: "quiet"},
	{Short: 'e', Long: "add-eol"},
	{Short: 'h', Long: "help"},
	{Short: 's', Long: "safe"},
	{Short: 'F', Long: "follow-symlink"},
}}

// dosJob is the state of one run of dos2unix or unix2dos.
type dosJob struct {
	p                                  *kernel.Proc
	dos                                bool // convert to DOS
	force, keep, paired, stdout, quiet bool
	addEnd                             bool
	code                               int
}

func runDos2unix(p *kernel.Proc) int {
	j := &dosJob{p: p, dos: p.Name() == "unix2dos"}
	opts, names, ok := dosOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.Key {
		case 'f':
			j.force = true
		case 'k':
			j.keep = true
		case 'n':
			j.paired = true
		case 'O':
			j.stdout = true
		case 'q':
			j.quiet = true
		case 'e':
			j.addEnd = true
		case 'h':
			_, _ = p.Out().WriteString(dosUsage) // Flush reports the error
			return 0
		}
	}
	switch {
	case len(names) == 0:
		j.convertStdin()
	case j.paired && len(names)%2 == 1:
		p.Errorf("target of file %s not specified in new-file mode", names[len(names)-1])
		return 1
	case j.paired:
		for i := 0; i < len(names); i += 2 {
			j.convertFile(names[i], names[i+1])
		}
	default:
		for _, name := range names {
			j.convertFile(name, name)
		}
	}
	return j.code
}

func (j *dosJob) convertStdin() {
	data, err := j.p.ReadAll(j.p.Stdin)
	if err != nil {
		j.reportError("standard input: %s", program.Reason(err))
		return
	}
	_, _ = j.p.Out().Write(j.convertLineEnds(data)) // Flush reports the error
}

func (j *dosJob) reportError(format string, args ...any) {
	j.p.Errorf(format, args...)
	j.code = 2
}

func (j *dosJob) printNote(text string) {
	if !j.quiet {
		_, _ = io.WriteString(j.p.Stderr, j.p.Name()+": "+text+"\n") // best effort
	}
}

// convertFile converts a file and writes the result to another, or in place.
func (j *dosJob) convertFile(name, to string) {
	info, err := j.p.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.printNote(name + ": No such file or directory")
		j.printNote("Skipping " + name + ", not a regular file.")
		j.code = 2
		return
	case err != nil:
		j.reportError("%s: %s", name, program.Reason(err))
		return
	case !info.Mode().IsRegular():
		j.printNote("Skipping " + name + ", not a regular file.")
		return
	}
	data, err := j.p.ReadFile(name)
	if err != nil {
		j.reportError("%s: %s", name, program.Reason(err))
		return
	}
	j.p.Alloc(int64(len(data)))
	defer j.p.Free(int64(len(data)))
	if !j.force && bytes.IndexByte(data, 0) >= 0 {
		j.printNote("Skipping binary file " + name)
		return
	}
	converted := j.convertLineEnds(data)
	if j.stdout {
		_, _ = j.p.Out().Write(converted) // Flush reports the error
		return
	}
	kind := "Unix"
	if j.dos {
		kind = "DOS"
	}
	if name == to {
		j.printNote("converting file " + name + " to " + kind + " format...")
	} else {
		j.printNote("converting file " + name + " to file " + to + " in " + kind + " format...")
	}
	err = j.p.WriteFile(to, converted, info.Mode().Perm())
	if err == nil && j.keep {
		err = j.p.Chtimes(to, info.Atime(), info.ModTime())
	}
	if err != nil {
		j.reportError("%s: %s", to, program.Reason(err))
	}
}

// convertLineEnds converts the line ends; towards Unix it also removes a UTF-8 byte order mark.
func (j *dosJob) convertLineEnds(data []byte) []byte {
	j.p.Alloc(2 * int64(len(data)))
	j.p.Tick(len(data) / 4)
	out := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !j.dos {
		out = bytes.TrimPrefix(out, []byte("\xef\xbb\xbf"))
	}
	if j.addEnd && len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	if j.dos {
		out = bytes.ReplaceAll(out, []byte("\n"), []byte("\r\n"))
	}
	return out
}
