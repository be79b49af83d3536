package data

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const fileUsage = `Usage: file [OPTION...] [FILE...]
Determine type of FILEs.

      --help                 display this help and exit
  -b, --brief                do not prepend filenames to output lines
  -f, --files-from FILE      read the filenames to be examined from FILE
  -F, --separator STRING     use string as separator instead of ':'
  -i, --mime                 output MIME type strings (--mime-type and
                               --mime-encoding)
      --mime-type            output the MIME type
      --mime-encoding        output the MIME encoding
  -L, --dereference          follow symlinks
  -h, --no-dereference       don't follow symlinks (default)
  -N, --no-pad               do not pad output
  -0, --print0               terminate filenames with ASCII NUL
  -s, --special-files        treat special (block/char devices) files as
                               ordinary ones
`

var fileOptions = option.Parser{Options: []option.Option{
	{Short: 'b', Long: "brief"},
	{Short: 'f', Long: "files-from", Arg: option.Required},
	{Short: 'F', Long: "separator", Arg: option.Required},
	{Short: 'i', Long: "mime"},
	{Long: "mime-type", ID: 't'},
	{Long: "mime-encoding", ID: 'e'},
	{Short: 'L', Long: "dereference"},
	{Short: 'h', Long: "no-dereference"},
	{Short: 'N', Long: "no-pad"},
	{Short: '0', Long: "print0"},
	{Short: 's', Long: "special-files"},
	{Short: 'k', Long: "keep-going"},
	{Short: 'r', Long: "raw"},
	{Short: 'n', Long: "no-buffer"},
	{Short: 'p', Long: "preserve-date"},
	{Short: 'z', Long: "uncompress"},
	{Short: 'E'},
	{Short: 'v', Long: "version"},
}}

// fileJob is the state of one run of file.
type fileJob struct {
	p                                  *kernel.Proc
	brief, follow, zero, special, flat bool
	mime, encoding                     bool
	sep                                string
	pad                                int
}

// kind is a recognized type of file.
type kind struct{ text, mime, charset string }

func runFile(p *kernel.Proc) int {
	j := &fileJob{p: p, sep: ":"}
	opts, names, ok := fileOptions.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.Key {
		case 'b':
			j.brief = true
		case 'F':
			j.sep = o.Value
		case 'i':
			j.mime, j.encoding = true, true
		case 't':
			j.mime = true
		case 'e':
			j.encoding = true
		case 'L':
			j.follow = true
		case 'h':
			j.follow = false
		case 'N':
			j.flat = true
		case '0':
			j.zero = true
		case 's':
			j.special = true
		case 'v':
			_, _ = p.Out().WriteString("file-5.44\n") // Flush reports the error
			return 0
		case 'f':
			listed, err := j.readNames(o.Value)
			if err != nil {
				p.Errorf("Cannot open `%s' (%s)", o.Value, program.Reason(err))
				return 1
			}
			names = append(listed, names...)
		}
	}
	if len(names) == 0 {
		_, _ = io.WriteString(p.Stderr, fileUsage) // best effort
		return 1
	}
	for _, name := range names {
		j.pad = max(j.pad, len(quoteFileName(name)))
	}
	for _, name := range names {
		j.print(name, j.classifyFile(name))
	}
	return 0
}

// readNames returns the names that a file lists.
func (j *fileJob) readNames(name string) ([]string, error) {
	in, err := stream.Open(j.p, name)
	if err != nil {
		return nil, err
	}
	defer stream.Close(in)
	list := stream.NewLineReader(j.p, in, '\n')
	defer list.Close()
	var names []string
	for line := list.Next(); line != nil; line = list.Next() {
		j.p.Alloc(int64(len(line)) + 16)
		names = append(names, string(stream.TrimDelimiter(line, '\n')))
	}
	return names, list.Err()
}

// quoteFileName returns a name as it is printed.
func quoteFileName(name string) string {
	if name == "-" {
		return "/dev/stdin"
	}
	return name
}

func (j *fileJob) print(name string, k kind) {
	out := j.p.Out()
	name = quoteFileName(name)
	if !j.brief {
		pad := ""
		if !j.flat {
			pad = strings.Repeat(" ", j.pad-len(name))
		}
		if j.zero {
			name += "\x00"
		}
		_, _ = out.WriteString(name + j.sep + pad + " ") // Flush reports the error
	}
	text := k.text
	switch {
	case j.mime && j.encoding:
		text = k.mime + "; charset=" + k.charset
	case j.mime:
		text = k.mime
	case j.encoding:
		text = k.charset
	}
	_, _ = out.WriteString(text + "\n")
}

// maxExamined is the number of bytes of a file that are examined.
const maxExamined = 1 << 20

// classifyFile returns the type of a file, or the error of opening it.
func (j *fileJob) classifyFile(name string) kind {
	if name == "-" {
		return j.classifyContent(j.p.Stdin)
	}
	stat := j.p.Lstat
	if j.follow {
		stat = j.p.Stat
	}
	info, err := stat(name)
	if err != nil {
		text := fmt.Sprintf("cannot open `%s' (%s)", name, program.Reason(err))
		return kind{text, text, text}
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return kind{"directory", "inode/directory", "binary"}
	case mode&fs.ModeSymlink != 0:
		return j.describeLink(name)
	case mode&fs.ModeNamedPipe != 0:
		return kind{"fifo (named pipe)", "inode/fifo", "binary"}
	case mode&fs.ModeSocket != 0:
		return kind{"socket", "inode/socket", "binary"}
	case mode&fs.ModeCharDevice != 0 && !j.special:
		return kind{fmt.Sprintf("character special (%d/%d)", info.Rdev()>>8, info.Rdev()&0xff), "inode/chardevice", "binary"}
	case mode&fs.ModeDevice != 0 && !j.special:
		return kind{fmt.Sprintf("block special (%d/%d)", info.Rdev()>>8, info.Rdev()&0xff), "inode/blockdevice", "binary"}
	}
	h, err := j.p.Open(name)
	if err != nil {
		text := fmt.Sprintf("cannot open `%s' (%s)", name, program.Reason(err))
		return kind{text, text, text}
	}
	defer stream.Close(h)
	return j.classifyContent(h)
}

func (j *fileJob) describeLink(name string) kind {
	target, err := j.p.Readlink(name)
	if err != nil {
		target = program.Reason(err)
	}
	text := "symbolic link to "
	if _, err := j.p.Stat(name); err != nil {
		text = "broken symbolic link to "
	}
	return kind{text + target, "inode/symlink", "binary"}
}

// classifyContent returns the type of the content of a file.
func (j *fileJob) classifyContent(in io.Reader) kind {
	data, err := j.p.ReadAll(io.LimitReader(in, maxExamined))
	if err != nil {
		text := "ERROR: " + program.Reason(err)
		return kind{text, "application/octet-stream", "binary"}
	}
	defer j.p.Free(int64(cap(data)))
	j.p.Tick(len(data) / 2)
	return classifyData(data)
}

// classifyData returns the type of data.
func classifyData(data []byte) kind {
	if len(data) == 0 {
		return kind{"empty", "inode/x-empty", "binary"}
	}
	for _, m := range signatures {
		if len(data) >= m.at && bytes.HasPrefix(data[m.at:], []byte(m.magic)) {
			k := kind{m.text, m.mime, "binary"}
			if m.more != nil {
				k.text += m.more(data)
			}
			return k
		}
	}
	return classifyText(data)
}

// describeTraits returns the line ends and other properties of a text, as added to its description.
func describeTraits(data []byte, wide bool) string {
	crlf := bytes.Count(data, []byte("\r\n"))
	lf := bytes.Count(data, []byte("\n")) - crlf
	cr := bytes.Count(data, []byte("\r")) - crlf
	if wide {
		crlf, lf, cr = 0, bytes.Count(data, []byte("\n\x00")), 0
	}
	var s string
	longest, run := 0, 0
	for _, c := range data {
		if c == '\n' {
			run = 0
			continue
		}
		if run++; run > longest {
			longest = run
		}
	}
	if longest >= 300 {
		s += fmt.Sprintf(", with very long lines (%d)", longest)
	}
	var ends []string
	for _, e := range []struct {
		n    int
		name string
	}{{crlf, "CRLF"}, {cr, "CR"}, {lf, "LF"}} {
		if e.n > 0 {
			ends = append(ends, e.name)
		}
	}
	switch {
	case len(ends) == 0:
		s += ", with no line terminators"
	case len(ends) > 1 || lf == 0:
		s += ", with " + strings.Join(ends, ", ") + " line terminators"
	}
	if bytes.IndexByte(data, 0x1b) >= 0 {
		s += ", with escape sequences"
	}
	if bytes.IndexByte(data, '\b') >= 0 {
		s += ", with overstriking"
	}
	return s
}
