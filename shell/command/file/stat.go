package file

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/account"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const statUsage = `Usage: stat [OPTION]... FILE...
Display file or file system status.

  -L, --dereference     follow links
  -f, --file-system     display file system status instead of file status
      --cached=MODE     (ignored)
  -c  --format=FORMAT   use the specified FORMAT instead of the default;
                          output a newline after each use of FORMAT
      --printf=FORMAT   like --format, but interpret backslash escapes,
                          and do not output a mandatory trailing newline
  -t, --terse           print the information in terse form
      --help            display this help and exit

The valid format sequences for files (without --file-system):

  %a   permission bits in octal         %A   permission bits and file type
  %b   number of blocks allocated       %B   size in bytes of a block of %b
  %d   device number in decimal         %D   device number in hex
  %Hd  major device number              %Ld  minor device number
  %f   raw mode in hex                  %F   file type
  %g   group ID of owner                %G   group name of owner
  %h   number of hard links             %i   inode number
  %m   mount point                      %n   file name
  %N   quoted file name with dereference if symbolic link
  %o   optimal I/O transfer size hint   %s   total size, in bytes
  %r   device type in decimal           %R   device type in hex
  %t   major device type in hex         %T   minor device type in hex
  %u   user ID of owner                 %U   user name of owner
  %w   time of file birth               %W   time of birth, seconds since Epoch
  %x   time of last access              %X   the same, seconds since Epoch
  %y   time of last data modification   %Y   the same, seconds since Epoch
  %z   time of last status change       %Z   the same, seconds since Epoch

Valid format sequences for file systems:

  %a   free blocks for users   %b   total blocks    %c   total file nodes
  %d   free file nodes         %f   free blocks     %i   file system ID in hex
  %l   maximum length of names %n   file name       %s   block size
  %S   fundamental block size  %t   type in hex     %T   type
`

// The single device of a sandbox's files.
const (
	deviceMajor = 0
	deviceMinor = 37
	deviceID    = deviceMajor<<8 | deviceMinor
	ioBlock     = 4096
)

type statJob struct {
	p       *kernel.Proc
	owners  *account.Database
	zone    *time.Location
	follow  bool
	system  bool
	escapes bool
	format  string
	newline string
	failed  bool
	stop    bool // the format is invalid
	given   bool // a format is given

	name string // of the current file
	info vfs.Info
}

var statOptions = option.Parser{Options: []option.Option{
	{Short: 'L', Long: "dereference"},
	{Short: 'f', Long: "file-system"},
	{Short: 'c', Long: "format", Arg: option.Required},
	{Long: "printf", Arg: option.Required, ID: 'p'},
	{Short: 't', Long: "terse"},
	{Long: "cached", Arg: option.Required, ID: 'C'},
}}

const (
	statLong = "  File: %N\n  Size: %-10s\tBlocks: %-10b IO Block: %-6o %F\n" +
		"Device: %Hd,%Ld\tInode: %-10i  Links: %-5h DEVICE\n" +
		"Access: (%04a/%10.10A)  Uid: (%5u/%8U)   Gid: (%5g/%8G)\n" +
		"Access: %x\nModify: %y\nChange: %z\n Birth: %w\n"
	statTerse       = "%n %s %b %f %u %g %D %i %h %t %T %X %Y %Z %W %o\n"
	statSystem      = "  File: \"%n\"\n    ID: %-8i Namelen: %-7l Type: %T\nBlock size: %-10s Fundamental block size: %S\nBlocks: Total: %-10b Free: %-10f Available: %a\nInodes: Total: %-10c Free: %d\n"
	statTerseSystem = "%n %i %l %t %s %S %b %f %a %c %d\n"
)

func runStat(p *kernel.Proc) int {
	opts, names, ok := statOptions.Parse(p)
	if !ok || option.ReportMissing(p, names, 1) {
		return 1
	}
	j := statJob{p: p, owners: account.NewDatabase(p), zone: datetime.LocalZone(p)}
	terse := false
	for _, o := range opts {
		switch o.Key {
		case 'L':
			j.follow = true
		case 'f':
			j.system = true
		case 't':
			terse = true
		case 'c':
			j.format, j.newline, j.escapes, j.given = o.Value, "\n", false, true
		case 'p':
			j.format, j.newline, j.escapes, j.given = o.Value, "", true, true
		}
	}
	for _, name := range names {
		if !j.stop && j.statFile(name) {
			j.printFile(terse)
		}
	}
	return int(number.FromBool(j.failed))
}

// statFile looks up the file to print.
func (j *statJob) statFile(name string) bool {
	j.name = name
	var err error
	if name == "-" && !j.system {
		j.name = "-"
		if f := j.p.Stdin.File(); f != nil {
			j.info, err = f.Stat()
			return err == nil
		}
		j.info = vfs.Info{}
		return true
	}
	if j.follow || j.system {
		j.info, err = j.p.Stat(name)
	} else {
		j.info, err = j.p.Lstat(name)
	}
	if err == nil {
		return true
	}
	j.failed = true
	if j.system {
		j.p.Errorf("cannot read file system information for %s: %s", quoting.QuoteName(name), program.Reason(err))
	} else {
		j.p.Errorf("cannot statx %s: %s", quoting.QuoteName(name), program.Reason(err))
	}
	return false
}

func (j *statJob) printFile(terse bool) {
	format := j.format
	switch {
	case j.given:
	case j.system && terse:
		format = statTerseSystem
	case j.system:
		format = statSystem
	case terse:
		format = statTerse
	default:
		device := ""
		if j.info.Mode()&fs.ModeDevice != 0 {
			device = "Device type: %Hr,%Lr"
		}
		format = strings.Replace(statLong, " DEVICE", strings.TrimRight(" "+device, " "), 1)
		if device == "" {
			format = strings.Replace(format, "Links: %-5h", "Links: %h", 1)
		}
	}
	if text := j.expandFormat(format); !j.stop {
		_, _ = j.p.Out().WriteString(text) // Flush reports the error, here and below
		_, _ = j.p.Out().WriteString(j.newline)
	}
}

// expandFormat expands the sequences of a format.
func (j *statJob) expandFormat(f string) string {
	var b strings.Builder
	charged := int64(0)
	for i := 0; i < len(f); i++ {
		j.p.Tick(1)
		if b.Cap()-b.Len() < statTextSize && len(f) > statTextSize { // it grows to twice its size
			n := 2*int64(b.Cap()) + 2*statTextSize
			j.p.Alloc(n)
			b.Grow(int(n) / 2)
			j.p.Free(charged)
			charged = n
		}
		switch {
		case f[i] == '\\' && j.escapes:
			text, used := j.parseEscape(f[i:])
			b.WriteString(text)
			i += used - 1
		case f[i] != '%':
			b.WriteByte(f[i])
		default:
			text, used := j.expandSequence(f[i:])
			b.WriteString(text)
			i += used - 1
		}
	}
	j.p.Free(charged) // the caller writes the text at once
	return b.String()
}

// statTextSize is the size of the text of most sequences, in bytes.
const statTextSize = 4 << 10

// parseEscape parses a backslash sequence of --printf.
func (j *statJob) parseEscape(s string) (text string, used int) {
	if len(s) == 1 {
		j.p.Errorf("warning: backslash at end of format")
		return `\`, 1
	}
	c := s[1]
	if i := strings.IndexByte(`abefnrtv"\`, c); i >= 0 {
		return "\a\b\x1b\f\n\r\t\v\"\\"[i : i+1], 2
	}
	if n := character.PrefixLen(s[1:min(len(s), 4)], "01234567"); n > 0 {
		v, _ := strconv.ParseUint(s[1:1+n], 8, 16) // digits only
		return string([]byte{byte(v)}), 1 + n
	}
	if c == 'x' {
		if n := character.PrefixLen(s[2:min(len(s), 4)], "0123456789abcdefABCDEF"); n > 0 {
			v, _ := strconv.ParseUint(s[2:2+n], 16, 16) // digits only
			return string([]byte{byte(v)}), 2 + n
		}
	}
	j.p.Errorf("warning: unrecognized escape '\\%c'", c)
	return string([]byte{c}), 2
}

// statSpec is the part of a sequence between % and the letter.
type statSpec struct {
	flags string
	width int
	prec  int // -1: not given
	dot   bool
}

func (j *statJob) expandSequence(s string) (text string, used int) {
	i := 1
	spec := statSpec{prec: -1}
	n := character.PrefixLen(s[i:], "'-+ #0I")
	spec.flags = s[i : i+n]
	i += n
	n = character.PrefixLen(s[i:], "0123456789")
	spec.width = clampNumber(s[i : i+n])
	i += n
	if i < len(s) && s[i] == '.' {
		n = character.PrefixLen(s[i+1:], "0123456789")
		spec.prec = clampNumber(s[i+1 : i+1+n])
		spec.dot = n == 0
		i += 1 + n
	}
	if i == len(s) {
		if i > 1 {
			j.p.Errorf("%s: invalid directive", quoting.QuoteName(s))
			j.failed, j.stop = true, true
			return "", len(s)
		}
		return s, len(s)
	}
	c := s[i]
	if c == '%' {
		return "%", i + 1
	}
	part := byte(0)
	if (c == 'H' || c == 'L') && i+1 < len(s) && (s[i+1] == 'd' || s[i+1] == 'r') {
		part = c
		i++
		c = s[i]
	}
	if j.system {
		return j.systemField(spec, c), i + 1
	}
	return j.formatField(spec, c, part), i + 1
}

func clampNumber(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil && s != "" {
		return 4096
	}
	return min(n, 4096)
}

// padText pads a string to the width of a sequence.
func (s statSpec) padText(v string) string {
	if s.prec >= 0 && len(v) > s.prec {
		v = v[:s.prec]
	}
	pad := strings.Repeat(" ", max(0, s.width-len(v)))
	if strings.Contains(s.flags, "-") {
		return v + pad
	}
	return pad + v
}

// padNumber formats a number in a base, padded to the width of a sequence.
func (s statSpec) padNumber(n int64, base int) string {
	v := strconv.FormatInt(n, base)
	sign := ""
	if n < 0 {
		sign, v = "-", v[1:]
	} else if base == 10 && strings.Contains(s.flags, "+") {
		sign = "+"
	}
	if strings.Contains(s.flags, "#") && n != 0 {
		switch base {
		case 8:
			sign += "0"
		case 16:
			sign += "0x"
		}
	}
	v = strings.Repeat("0", max(0, s.prec-len(v))) + v
	gap := max(0, s.width-len(v)-len(sign))
	switch {
	case strings.Contains(s.flags, "-"):
		return sign + v + strings.Repeat(" ", gap)
	case strings.Contains(s.flags, "0") && s.prec < 0:
		return sign + strings.Repeat("0", gap) + v
	}
	return strings.Repeat(" ", gap) + sign + v
}

func (j *statJob) formatField(s statSpec, c, part byte) string {
	info, mode := j.info, filemode.ToUnix(j.info.Mode())
	switch c {
	case 'a':
		return s.padNumber(int64(mode&filemode.AllBits), 8)
	case 'A':
		return s.padText(filemode.Format(mode))
	case 'b':
		return s.padNumber(info.Blocks(), 10)
	case 'B':
		return s.padNumber(512, 10)
	case 'C':
		return s.padText("?")
	case 'd', 'D':
		return s.formatDevice(deviceID, c == 'D', part)
	case 'f':
		return s.padNumber(int64(mode), 16)
	case 'F':
		return s.padText(describeFile(info.Mode(), info.Size()))
	case 'g':
		return s.padNumber(int64(info.Gid()), 10)
	case 'G':
		return s.padText(nameOrUnknown(j.owners.GroupName(info.Gid())))
	case 'h':
		return s.padNumber(int64(info.Nlink()), 10)
	case 'i':
		return s.padNumber(int64(info.Ino()), 10)
	case 'm':
		return s.padText("/")
	case 'n':
		return s.padText(j.name)
	case 'N':
		return s.padText(j.quotedName())
	case 'o':
		return s.padNumber(ioBlock, 10)
	case 's':
		return s.padNumber(info.Size(), 10)
	case 'r', 'R':
		return s.formatDevice(info.Rdev(), c == 'R', part)
	case 't':
		return s.padNumber(int64(info.Rdev()>>8), 16)
	case 'T':
		return s.padNumber(int64(info.Rdev()&0xff), 16)
	case 'u':
		return s.padNumber(int64(info.Uid()), 10)
	case 'U':
		return s.padText(nameOrUnknown(j.owners.UserName(info.Uid())))
	}
	return j.timeField(s, c)
}

func nameOrUnknown(name string) string {
	if name == "" {
		return "UNKNOWN"
	}
	return name
}

func (s statSpec) formatDevice(dev uint32, hex bool, part byte) string {
	base := 10
	if hex {
		base = 16
	}
	switch part {
	case 'H':
		return s.padNumber(int64(dev>>8), base)
	case 'L':
		return s.padNumber(int64(dev&0xff), base)
	}
	return s.padNumber(int64(dev), base)
}

func (j *statJob) quotedName() string {
	style := quoting.ShellEscapeAlways
	for _, c := range option.QuotingStyles {
		if c.Word == j.p.Getenv("QUOTING_STYLE") {
			style = quoting.Style(c.Value)
		}
	}
	name := style.Quote(j.name, "")
	if !j.given && style == quoting.ShellEscapeAlways {
		name = quoting.ShellEscape.Quote(j.name, "")
	}
	if j.info.Mode()&fs.ModeSymlink == 0 {
		return name
	}
	target, err := j.p.Readlink(j.name)
	if err != nil {
		return name
	}
	if !j.given && style == quoting.ShellEscapeAlways {
		return name + " -> " + quoting.ShellEscape.Quote(target, "")
	}
	return name + " -> " + style.Quote(target, "")
}

func (j *statJob) timeField(s statSpec, c byte) string {
	times := map[byte]func() time.Time{'w': j.info.BirthTime, 'x': j.info.Atime, 'y': j.info.ModTime, 'z': j.info.Ctime}
	lower := c | 0x20
	get, ok := times[lower]
	if !ok {
		return "?"
	}
	t := get()
	if c == lower {
		return s.padText(datetime.Format(j.p, t.In(j.zone), "%Y-%m-%d %H:%M:%S.%N %z"))
	}
	if s.prec < 0 || s.prec == 0 && !s.dot {
		return statSpec{flags: s.flags, width: s.width, prec: -1}.padNumber(t.Unix(), 10)
	}
	frac := fmt.Sprintf("%09d", t.Nanosecond())
	if s.prec == 0 {
		frac = "." + frac
	} else {
		frac = "." + (frac + strings.Repeat("0", max(0, s.prec-9)))[:s.prec]
	}
	return statSpec{flags: s.flags, width: s.width, prec: -1}.padText(strconv.FormatInt(t.Unix(), 10) + frac)
}

func (j *statJob) systemField(s statSpec, c byte) string {
	u := j.p.FS().Usage()
	total, free := number.DivideUp(u.Quota.Bytes, ioBlock), max(0, u.Quota.Bytes-u.Bytes)/ioBlock
	switch c {
	case 'a', 'f':
		return s.padNumber(free, 10)
	case 'b':
		return s.padNumber(total, 10)
	case 'c':
		return s.padNumber(int64(u.Quota.Nodes), 10)
	case 'd':
		return s.padNumber(int64(max(0, u.Quota.Nodes-u.Nodes)), 10)
	case 'i':
		return s.padNumber(deviceID, 16)
	case 'l':
		return s.padNumber(int64(u.Quota.Name), 10)
	case 'n':
		return s.padText(j.name)
	case 's', 'S':
		return s.padNumber(ioBlock, 10)
	case 't':
		return s.padText("1021994")
	case 'T':
		return s.padText("tmpfs")
	}
	return "?"
}
