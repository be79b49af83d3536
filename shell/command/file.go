package command

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var fileOptions = parsing{options: []option{
	{short: 'b', long: "brief"},
	{short: 'f', long: "files-from", arg: required},
	{short: 'F', long: "separator", arg: required},
	{short: 'i', long: "mime"},
	{long: "mime-type", id: 't'},
	{long: "mime-encoding", id: 'e'},
	{short: 'L', long: "dereference"},
	{short: 'h', long: "no-dereference"},
	{short: 'N', long: "no-pad"},
	{short: '0', long: "print0"},
	{short: 's', long: "special-files"},
	{short: 'k', long: "keep-going"},
	{short: 'r', long: "raw"},
	{short: 'n', long: "no-buffer"},
	{short: 'p', long: "preserve-date"},
	{short: 'z', long: "uncompress"},
	{short: 'E'},
	{short: 'v', long: "version"},
}}

// fileJob is one run of file.
type fileJob struct {
	p                                  *kernel.Proc
	brief, follow, zero, special, flat bool
	mime, encoding                     bool
	sep                                string
	pad                                int
}

// kind is what a file is taken for.
type kind struct{ text, mime, charset string }

func fileMain(p *kernel.Proc) int {
	j := &fileJob{p: p, sep: ":"}
	opts, names, ok := fileOptions.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		switch o.key {
		case 'b':
			j.brief = true
		case 'F':
			j.sep = o.value
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
			_, _ = p.Out().WriteString("file-5.44\n") // errors of Out show at its flush
			return 0
		case 'f':
			listed, err := j.listed(o.value)
			if err != nil {
				p.Errorf("Cannot open `%s' (%s)", o.value, why(err))
				return 1
			}
			names = append(listed, names...)
		}
	}
	if len(names) == 0 {
		_, _ = io.WriteString(p.Stderr, fileUsage) // nobody to tell
		return 1
	}
	for _, name := range names {
		j.pad = max(j.pad, len(fileShown(name)))
	}
	for _, name := range names {
		j.print(name, j.examine(name))
	}
	return 0
}

func (j *fileJob) listed(name string) ([]string, error) {
	in, err := open(j.p, name)
	if err != nil {
		return nil, err
	}
	defer closeInput(in)
	list := newLines(j.p, in, '\n')
	defer list.close()
	var names []string
	for line := list.next(); line != nil; line = list.next() {
		j.p.Alloc(int64(len(line)) + 16)
		names = append(names, string(trimDelim(line, '\n')))
	}
	return names, list.failed()
}

// fileShown is how a name is printed.
func fileShown(name string) string {
	if name == "-" {
		return "/dev/stdin"
	}
	return name
}

func (j *fileJob) print(name string, k kind) {
	out := j.p.Out()
	name = fileShown(name)
	if !j.brief {
		pad := ""
		if !j.flat {
			pad = strings.Repeat(" ", j.pad-len(name))
		}
		if j.zero {
			name += "\x00"
		}
		_, _ = out.WriteString(name + j.sep + pad + " ") // errors of out show at its flush
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

// fileLook is how much of a file is looked at.
const fileLook = 1 << 20

func (j *fileJob) examine(name string) kind {
	if name == "-" {
		return j.content(j.p.Stdin)
	}
	stat := j.p.Lstat
	if j.follow {
		stat = j.p.Stat
	}
	info, err := stat(name)
	if err != nil {
		text := fmt.Sprintf("cannot open `%s' (%s)", name, why(err))
		return kind{text, text, text}
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return kind{"directory", "inode/directory", "binary"}
	case mode&fs.ModeSymlink != 0:
		return j.link(name)
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
		text := fmt.Sprintf("cannot open `%s' (%s)", name, why(err))
		return kind{text, text, text}
	}
	defer closeInput(h)
	return j.content(h)
}

func (j *fileJob) link(name string) kind {
	target, err := j.p.Readlink(name)
	if err != nil {
		target = why(err)
	}
	text := "symbolic link to "
	if _, err := j.p.Stat(name); err != nil {
		text = "broken symbolic link to "
	}
	return kind{text + target, "inode/symlink", "binary"}
}

func (j *fileJob) content(in io.Reader) kind {
	data, err := j.p.ReadAll(io.LimitReader(in, fileLook))
	if err != nil {
		text := "ERROR: " + why(err)
		return kind{text, "application/octet-stream", "binary"}
	}
	defer j.p.Free(int64(cap(data)))
	j.p.Tick(len(data) / 2)
	return classify(data)
}

// classify tells what data is.
func classify(data []byte) kind {
	if len(data) == 0 {
		return kind{"empty", "inode/x-empty", "binary"}
	}
	for _, m := range magics {
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

// lines ends and other properties of a text.
func textTraits(data []byte, wide bool) string {
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
