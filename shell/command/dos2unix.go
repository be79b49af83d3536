package command

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var dosOptions = parsing{options: []option{
	{short: 'f', long: "force"},
	{short: 'k', long: "keepdate"},
	{short: 'n', long: "newfile"},
	{short: 'o', long: "oldfile"},
	{short: 'O', long: "to-stdout"},
	{short: 'q', long: "quiet"},
	{short: 'e', long: "add-eol"},
	{short: 'h', long: "help"},
	{short: 's', long: "safe"},
	{short: 'F', long: "follow-symlink"},
}}

// dosJob is one run of dos2unix or unix2dos.
type dosJob struct {
	p                                  *kernel.Proc
	dos                                bool // to DOS
	force, keep, paired, stdout, quiet bool
	addEnd                             bool
	code                               int
}

func dos2unix(p *kernel.Proc) int {
	j := &dosJob{p: p, dos: p.Name() == "unix2dos"}
	opts, names, ok := dosOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.key {
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
			_, _ = p.Out().WriteString(dosUsage) // errors of Out show at its flush
			return 0
		}
	}
	switch {
	case len(names) == 0:
		j.stream()
	case j.paired && len(names)%2 == 1:
		p.Errorf("target of file %s not specified in new-file mode", names[len(names)-1])
		return 1
	case j.paired:
		for i := 0; i < len(names); i += 2 {
			j.file(names[i], names[i+1])
		}
	default:
		for _, name := range names {
			j.file(name, name)
		}
	}
	return j.code
}

func (j *dosJob) stream() {
	data, err := j.p.ReadAll(j.p.Stdin)
	if err != nil {
		j.fail("standard input: %s", why(err))
		return
	}
	_, _ = j.p.Out().Write(j.convert(data)) // errors of Out show at its flush
}

func (j *dosJob) fail(format string, args ...any) {
	j.p.Errorf(format, args...)
	j.code = 2
}

func (j *dosJob) note(text string) {
	if !j.quiet {
		_, _ = io.WriteString(j.p.Stderr, j.p.Name()+": "+text+"\n") // nobody to tell
	}
}

func (j *dosJob) file(name, to string) {
	info, err := j.p.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.note(name + ": No such file or directory")
		j.note("Skipping " + name + ", not a regular file.")
		j.code = 2
		return
	case err != nil:
		j.fail("%s: %s", name, why(err))
		return
	case !info.Mode().IsRegular():
		j.note("Skipping " + name + ", not a regular file.")
		return
	}
	data, err := j.p.ReadFile(name)
	if err != nil {
		j.fail("%s: %s", name, why(err))
		return
	}
	j.p.Alloc(int64(len(data)))
	defer j.p.Free(int64(len(data)))
	if !j.force && bytes.IndexByte(data, 0) >= 0 {
		j.note("Skipping binary file " + name)
		return
	}
	converted := j.convert(data)
	if j.stdout {
		_, _ = j.p.Out().Write(converted) // errors of Out show at its flush
		return
	}
	kind := "Unix"
	if j.dos {
		kind = "DOS"
	}
	if name == to {
		j.note("converting file " + name + " to " + kind + " format...")
	} else {
		j.note("converting file " + name + " to file " + to + " in " + kind + " format...")
	}
	err = j.p.WriteFile(to, converted, info.Mode().Perm())
	if err == nil && j.keep {
		err = j.p.Chtimes(to, info.Atime(), info.ModTime())
	}
	if err != nil {
		j.fail("%s: %s", to, why(err))
	}
}

// convert changes the line ends; a mark of UTF-8 goes on the way to Unix.
func (j *dosJob) convert(data []byte) []byte {
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
