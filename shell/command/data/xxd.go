package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const xxdUsage = `Usage:
       xxd [options] [infile [outfile]]
    or
       xxd -r [-s [-]offset] [-c cols] [-ps] [infile [outfile]]
Options:
    -a          toggle autoskip: A single '*' replaces nul-lines. Default off.
    -b          binary digit dump (incompatible with -ps,-i,-r). Default hex.
    -C          capitalize variable names in C include file style (-i).
    -c cols     format <cols> octets per line. Default 16 (-i: 12, -ps: 30).
    -E          show characters in EBCDIC. Default ASCII.
    -e          little-endian dump (incompatible with -ps,-i,-r).
    -g bytes    number of octets per group in normal output. Default 2 (-e: 4).
    -h          print this summary.
    -i          output in C include file style.
    -l len      stop after <len> octets.
    -n name     set the variable name used in C include output (-i).
    -o off      add <off> to the displayed file position.
    -ps         output in postscript plain hexdump style.
    -r          reverse operation: convert (or patch) hexdump into binary.
    -r -s off   revert with <off> added to file positions found in hexdump.
    -d          show offset in decimal instead of hex.
    -s [+][-]seek  start at <seek> bytes abs. (or +: rel.) infile offset.
    -u          use upper case hex letters.
`

// xxdJob is the state of one run of xxd.
type xxdJob struct {
	p    *kernel.Proc
	out  *bufio.Writer
	kind byte // 0, b, i, p, e, r

	plain, upper, capital, decimal, skipNul bool
	cols, group                             int
	limit                                   int64
	seek                                    int64
	offset                                  int64
	name                                    string
}

func runXxd(p *kernel.Proc) int {
	j := &xxdJob{p: p, out: p.Out(), group: -1, limit: -1}
	names, code, done := j.parseOptions(p.Args[1:])
	if done {
		return code
	}
	if !j.setDefaults() {
		return 1
	}
	in := p.Stdin
	if len(names) > 0 && names[0] != "-" {
		h, err := stream.Open(p, names[0])
		if err != nil {
			p.Errorf("%s: %s", names[0], program.Reason(err))
			return 2
		}
		defer stream.Close(h)
		in = h
	}
	if len(names) > 1 && names[1] != "-" {
		flag := os.O_WRONLY | os.O_CREATE
		if j.kind != 'r' {
			flag |= os.O_TRUNC
		}
		h, err := p.OpenFile(names[1], flag, 0o666)
		if err != nil {
			p.Errorf("%s: %s", names[1], program.Reason(err))
			return 3
		}
		defer stream.Close(h)
		j.out = bufio.NewWriter(h)
	}
	if j.name == "" && len(names) > 0 && names[0] != "-" {
		j.name = names[0]
	}
	code = j.run(in)
	if err := j.out.Flush(); err != nil {
		p.Errorf("%s", program.Reason(err))
		return 3
	}
	return code
}

func (j *xxdJob) printUsage() ([]string, int, bool) {
	_, _ = io.WriteString(j.p.Stderr, xxdUsage) // best effort
	return nil, 1, true
}

// parseOptions parses the options in xxd's own syntax: -c8, -c 8 or -cols 8, never bundled.
func (j *xxdJob) parseOptions(args []string) (names []string, code int, done bool) {
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if len(a) < 2 || a[0] != '-' {
			names = append(names, a)
			continue
		}
		if a == "--" {
			return append(names, args...), 0, false
		}
		a = strings.TrimPrefix(a, "-")
		a = "-" + strings.TrimPrefix(a, "-")
		if j.applyFlag(a) {
			continue
		}
		if a == "-v" || a == "-version" {
			_, _ = io.WriteString(j.p.Stderr, "xxd 2022-01-14 by Juergen Weigert et al.\n") // best effort
			return nil, 0, true
		}
		key, value, ok := splitArgument(a, &args)
		if !ok || !j.applyArgument(key, value) {
			return j.printUsage()
		}
	}
	return names, 0, false
}

// applyFlag applies an option without argument.
func (j *xxdJob) applyFlag(a string) bool {
	switch {
	case a == "-a" || a == "-autoskip":
		j.skipNul = !j.skipNul
	case a == "-b" || a == "-bits":
		j.kind = 'b'
	case a == "-i" || a == "-include":
		j.kind = 'i'
	case a == "-e":
		j.kind = 'e'
	case a == "-C" || a == "-capitalize":
		j.capital = true
	case a == "-p" || a == "-ps" || a == "-plain" || a == "-postscript":
		j.plain = true
	case a == "-r" || a == "-revert":
		j.kind = 'r'
	case a == "-u" || a == "-uppercase":
		j.upper = true
	case a == "-d":
		j.decimal = true
	default:
		return false
	}
	return true
}

// splitArgument splits an option from its argument, which may be the next word.
func splitArgument(a string, args *[]string) (byte, string, bool) {
	for _, long := range []string{"-cols", "-groupsize", "-len", "-seek", "-skip", "-name", "-offset"} {
		if rest, ok := strings.CutPrefix(a, long); ok {
			a = long[:2] + rest
			break
		}
	}
	if !strings.Contains("cglsno", a[1:2]) {
		return 0, "", false
	}
	if len(a) > 2 {
		return a[1], a[2:], true
	}
	if len(*args) == 0 {
		return 0, "", false
	}
	value := (*args)[0]
	*args = (*args)[1:]
	return a[1], value, true
}

func (j *xxdJob) applyArgument(key byte, value string) bool {
	if key == 'n' {
		j.name = value
		return true
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(value, "+"), 0, 48)
	if err != nil {
		n = 0
	}
	switch key {
	case 'c':
		j.cols = int(n)
		if n == 0 {
			j.cols = -1
		}
	case 'g':
		j.group = int(min(max(n, 0), 1<<16))
	case 'l':
		j.limit = n
	case 's':
		j.seek = n
	case 'o':
		j.offset = n
	}
	return true
}

// setDefaults sets the defaults that depend on the kind of dump.
func (j *xxdJob) setDefaults() bool {
	if j.plain && j.kind != 'r' {
		j.kind = 'p'
	}
	cols, group := 16, 2
	switch j.kind {
	case 'b':
		cols, group = 6, 1
	case 'i':
		cols = 12
	case 'p':
		cols = 30
	case 'e':
		group = 4
	}
	if j.cols == 0 || j.cols < 0 && j.kind != 'p' {
		j.cols = cols
	}
	if j.group < 0 {
		j.group = group
	}
	if j.cols > 256 && j.kind != 'p' && j.kind != 'i' && j.kind != 'r' {
		j.p.Errorf("invalid number of columns (max. 256).")
		return false
	}
	if j.group == 0 || j.group > j.cols {
		j.group = max(j.cols, 1)
	}
	if j.kind == 'e' && j.group&(j.group-1) != 0 {
		j.p.Errorf("number of octets per group must be a power of 2 with -e.")
		return false
	}
	return true
}

// run dumps or reverts the input and returns the exit status.
func (j *xxdJob) run(in *kernel.Handle) int {
	if j.kind == 'r' {
		return j.revertDump(in)
	}
	if !j.seekTo(in) {
		j.p.Errorf("Sorry, cannot seek.")
		return 4
	}
	var r io.Reader = bufio.NewReader(in)
	if j.limit >= 0 {
		r = io.LimitReader(r, j.limit)
	}
	switch j.kind {
	case 'p':
		return j.dumpPlain(r)
	case 'i':
		return j.dumpAsC(r)
	}
	return j.dumpInput(r)
}

// seekTo skips to the start of the dump, counted from the end if the seek is negative.
func (j *xxdJob) seekTo(in *kernel.Handle) bool {
	if j.seek == 0 {
		return true
	}
	whence := io.SeekStart
	if j.seek < 0 {
		whence = io.SeekEnd
	}
	at, err := in.Seek(j.seek, whence)
	if err == nil {
		j.seek = at
		return true
	}
	if j.seek < 0 {
		return false
	}
	skipped := &stream.CountingWriter{Writer: io.Discard}
	err = stream.CopyCharged(j.p, skipped, io.LimitReader(in, j.seek))
	return err == nil && skipped.Count == j.seek
}

// dumpInput prints a dump in columns and returns the exit status.
func (j *xxdJob) dumpInput(r io.Reader) int {
	b := make([]byte, j.cols)
	zeros, at := 0, j.seek
	for {
		n, err := io.ReadFull(r, b)
		if n == 0 {
			return j.reportEnd(err)
		}
		j.p.Tick(n)
		line := j.formatLine(b[:n], at+j.offset)
		at += int64(n)
		if j.skipNul && n == j.cols && len(bytes.Trim(b[:n], "\x00")) == 0 {
			zeros++
			if zeros == 2 {
				line = "*\n"
			} else if zeros > 2 {
				continue
			}
		} else {
			zeros = 0
		}
		_, _ = j.out.WriteString(line) // Flush reports the error
		if n < j.cols {
			return j.reportEnd(err)
		}
	}
}

func (j *xxdJob) reportEnd(err error) int {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0
	}
	j.p.Errorf("%s", program.Reason(err))
	return 2
}

func (j *xxdJob) formatLine(b []byte, at int64) string {
	var s strings.Builder
	layout := "%08x:"
	if j.decimal {
		layout = "%08d:"
	}
	fmt.Fprintf(&s, layout, at)
	for i := 0; i < j.cols; i += j.group {
		s.WriteByte(' ')
		for k := range min(j.group, j.cols-i) {
			at := i + k
			if j.kind == 'e' {
				at = i + j.group - 1 - k
			}
			s.WriteString(j.formatOctet(b, at))
		}
	}
	s.WriteString("  ")
	s.Write(replaceUnprintable(b))
	s.WriteByte('\n')
	return s.String()
}

// formatOctet returns one byte of a dump, or blanks after the end of b.
func (j *xxdJob) formatOctet(b []byte, at int) string {
	switch {
	case at >= len(b) && j.kind == 'b':
		return "        "
	case at >= len(b):
		return "  "
	case j.kind == 'b':
		return fmt.Sprintf("%08b", b[at])
	}
	return j.formatHex(b[at])
}

func (j *xxdJob) formatHex(c byte) string {
	if j.upper {
		return fmt.Sprintf("%02X", c)
	}
	return fmt.Sprintf("%02x", c)
}

// dumpPlain prints a dump of hexadecimal digits only and returns the exit status.
func (j *xxdJob) dumpPlain(in io.Reader) int {
	r := bufio.NewReader(in)
	for n := 0; ; n++ {
		c, err := r.ReadByte()
		if err != nil {
			if n > 0 || j.cols < 0 {
				_ = j.out.WriteByte('\n')
			}
			return j.reportEnd(err)
		}
		j.p.Tick(1)
		if n > 0 && j.cols > 0 && n%j.cols == 0 {
			_ = j.out.WriteByte('\n')
		}
		_, _ = j.out.WriteString(j.formatHex(c))
	}
}

// dumpAsC prints the input as a C array and returns the exit status.
func (j *xxdJob) dumpAsC(in io.Reader) int {
	name := j.variableName()
	if name != "" {
		_, _ = fmt.Fprintf(j.out, "unsigned char %s[] = {\n", name)
	}
	r := bufio.NewReader(in)
	n := 0
	var err error
	for ; ; n++ {
		var c byte
		if c, err = r.ReadByte(); err != nil {
			break
		}
		j.p.Tick(1)
		switch {
		case n == 0:
			_, _ = j.out.WriteString("  ")
		case n%j.cols == 0:
			_, _ = j.out.WriteString(",\n  ")
		default:
			_, _ = j.out.WriteString(", ")
		}
		prefix := "0x"
		if j.upper {
			prefix = "0X"
		}
		_, _ = j.out.WriteString(prefix + j.formatHex(c))
	}
	if n > 0 {
		_ = j.out.WriteByte('\n')
	}
	if name != "" {
		suffix := "_len"
		if j.capital {
			suffix = "_LEN"
		}
		_, _ = fmt.Fprintf(j.out, "};\nunsigned int %s%s = %d;\n", name, suffix, n)
	}
	return j.reportEnd(err)
}

// variableName returns the name of the variable that -i declares.
func (j *xxdJob) variableName() string {
	name := []byte(j.name)
	for i, c := range name {
		if !(c >= '0' && c <= '9' || character.IsLetter(c)) {
			name[i] = '_'
		}
	}
	s := string(name)
	if s != "" && s[0] >= '0' && s[0] <= '9' {
		s = "__" + s
	}
	if j.capital {
		s = strings.ToUpper(s)
	}
	return s
}

// revertDump converts a dump back into bytes.
func (j *xxdJob) revertDump(in io.Reader) int {
	list := stream.NewLineReader(j.p, in, '\n')
	defer list.Close()
	at := int64(0)
	for line := list.Next(); line != nil; line = list.Next() {
		if j.plain {
			j.revertPlain(line)
			continue
		}
		address, data, ok := splitDumpLine(line)
		if !ok {
			continue
		}
		if address += j.seek; address < at {
			j.p.Errorf("Sorry, cannot seek backwards.")
			return 5
		}
		if address > at {
			if err := stream.CopyCharged(j.p, j.out, io.LimitReader(stream.ZeroReader{}, address-at)); err != nil {
				return 3
			}
		}
		at = address + int64(j.revertLine(data))
	}
	return j.reportEnd(list.Err())
}

// splitDumpLine splits a line of a dump into its address and the rest.
func splitDumpLine(line []byte) (int64, []byte, bool) {
	head, rest, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return 0, nil, false
	}
	address, err := strconv.ParseInt(strings.TrimSpace(string(head)), 16, 48)
	return address, rest, err == nil
}

// revertLine writes the bytes of a line, up to two blanks or a full line.
func (j *xxdJob) revertLine(data []byte) int {
	n, cols := 0, max(j.cols, 16)
	blanks := 0
	for i := 0; i < len(data) && n < cols; {
		hi := hexValue(data[i])
		if hi < 0 {
			if blanks++; blanks > 1 && n > 0 || data[i] != ' ' && data[i] != '\t' {
				break
			}
			i++
			continue
		}
		blanks = 0
		if i+1 >= len(data) || hexValue(data[i+1]) < 0 {
			break
		}
		_ = j.out.WriteByte(byte(hi<<4 | hexValue(data[i+1])))
		n++
		i += 2
	}
	return n
}

// revertPlain writes the bytes of a line of hexadecimal digits.
func (j *xxdJob) revertPlain(line []byte) {
	hi := -1
	for _, c := range line {
		v := hexValue(c)
		switch {
		case v < 0:
			hi = -1
		case hi < 0:
			hi = v
		default:
			_ = j.out.WriteByte(byte(hi<<4 | v))
			hi = -1
		}
	}
}

// hexValue returns the value of a hexadecimal digit, or -1.
func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
