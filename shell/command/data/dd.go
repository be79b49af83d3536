package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const ddUsage = `Usage: dd [OPERAND]...
  or:  dd OPTION
Copy a file, converting and formatting according to the operands.

  bs=BYTES        read and write up to BYTES bytes at a time (default: 512)
  cbs=BYTES       convert BYTES bytes at a time
  conv=CONVS      convert the file as per the comma separated symbol list
  count=N         copy only N input blocks
  ibs=BYTES       read up to BYTES bytes at a time (default: 512)
  if=FILE         read from FILE instead of stdin
  iflag=FLAGS     read as per the comma separated symbol list
  obs=BYTES       write BYTES bytes at a time (default: 512)
  of=FILE         write to FILE instead of stdout
  oflag=FLAGS     write as per the comma separated symbol list
  seek=N          (or oseek=N) skip N obs-sized output blocks
  skip=N          (or iskip=N) skip N ibs-sized input blocks
  status=LEVEL    none, noxfer or progress: what is printed to stderr

CONVS: block unblock lcase ucase swab sync excl nocreat notrunc noerror
fdatasync fsync sparse. FLAGS: append fullblock count_bytes skip_bytes
seek_bytes and those without effect here.
`

// ddJob is the state of one run of dd.
type ddJob struct {
	p                    *kernel.Proc
	from, to             string
	ibs, obs, cbs        int64
	count, skip, seek    int64
	countB, skipB, seekB bool
	conv                 map[string]bool
	full, append         bool
	status               string
	hasBS                bool // bs was given
	inFull, inPart       int64
	outFull, outPart     int64
	written              int64
	pending              []byte
	code                 int
}

var (
	ddConvs = strings.Fields("block unblock lcase ucase swab sync excl nocreat notrunc noerror fdatasync fsync sparse ascii ebcdic ibm")
	ddFlags = strings.Fields("append direct directory dsync sync nocache nonblock noatime noctty nofollow nolinks binary text fullblock count_bytes skip_bytes seek_bytes")
)

// ddMemory is the size of the largest block.
const ddMemory = 1 << 30

func runDd(p *kernel.Proc) int {
	j := &ddJob{p: p, ibs: 512, obs: 512, count: -1, conv: map[string]bool{}}
	for _, a := range p.Args[1:] {
		if a == "--" {
			continue
		}
		if !j.applyOperand(a) {
			return 1
		}
	}
	begin := p.Now()
	if !j.run() {
		return 1
	}
	j.printStatistics(p.Now().Sub(begin))
	return j.code
}

func (j *ddJob) rejectOperand(format string, args ...any) bool {
	j.p.Errorf(format, args...)
	option.SuggestHelp(j.p)
	return false
}

func (j *ddJob) applyOperand(a string) bool {
	key, value, ok := strings.Cut(a, "=")
	if !ok {
		return j.rejectOperand("unrecognized operand %s", quoting.QuoteWord(a))
	}
	switch key {
	case "if":
		j.from = value
	case "of":
		j.to = value
	case "status":
		if !slices.Contains([]string{"none", "noxfer", "progress"}, value) {
			return j.rejectOperand("invalid status level: %s", quoting.QuoteWord(value))
		}
		j.status = value
	case "conv":
		for _, c := range strings.Split(value, ",") {
			if !slices.Contains(ddConvs, c) {
				return j.rejectOperand("invalid conversion: %s", quoting.QuoteWord(c))
			}
			j.conv[c] = true
		}
	case "iflag", "oflag":
		return j.applyFlags(key, value)
	default:
		return j.applyAmount(key, value, a)
	}
	return true
}

func (j *ddJob) applyFlags(key, value string) bool {
	for _, f := range strings.Split(value, ",") {
		if !slices.Contains(ddFlags, f) {
			return j.rejectOperand("invalid %s flag: %s", map[string]string{"iflag": "input", "oflag": "output"}[key], quoting.QuoteWord(f))
		}
		switch f {
		case "append":
			j.append = true
		case "fullblock":
			j.full = true
		case "count_bytes":
			j.countB = true
		case "skip_bytes":
			j.skipB = true
		case "seek_bytes":
			j.seekB = true
		}
	}
	return true
}

func (j *ddJob) applyAmount(key, value, a string) bool {
	fields := map[string]*int64{
		"bs": nil, "ibs": &j.ibs, "obs": &j.obs, "cbs": &j.cbs, "count": &j.count, "skip": &j.skip, "iskip": &j.skip, "seek": &j.seek, "oseek": &j.seek,
	}
	field, ok := fields[key]
	if !ok {
		return j.rejectOperand("unrecognized operand %s", quoting.QuoteWord(a))
	}
	digits, isBytes := strings.CutSuffix(value, "B")
	if !isBytes || strings.Trim(digits, "0123456789") != "" {
		digits, isBytes = value, false
	}
	n, ok := parseDdNumber(digits)
	least := number.FromBool(strings.HasSuffix(key, "bs"))
	switch {
	case !ok || n < least:
		j.p.Errorf("invalid number: %s", quoting.QuoteWord(value))
		return false
	case least == 1 && n > ddMemory:
		j.p.Errorf("memory exhausted by input buffer of size %d bytes", n)
		return false
	}
	if field == nil {
		j.ibs, j.obs, j.hasBS = n, n, true
		return true
	}
	*field = n
	j.countB = j.countB || isBytes && key == "count"
	j.skipB = j.skipB || isBytes && field == &j.skip
	j.seekB = j.seekB || isBytes && field == &j.seek
	return true
}

// parseDdNumber parses a size, or several multiplied with x.
func parseDdNumber(s string) (int64, bool) {
	total := int64(1)
	for _, part := range strings.Split(s, "x") {
		n, fault := number.ParseSize(part, "bcEGkKMPTwYZ0")
		if fault == number.Invalid || part == "" || part[0] < '0' || part[0] > '9' || n != 0 && total > (1<<62)/n {
			return 0, false
		}
		total *= n
	}
	return total, true
}

// run opens the files and copies, and reports whether all went well.
func (j *ddJob) run() bool {
	in, out := j.p.Stdin, j.p.Stdout
	if j.from != "" {
		h, err := j.p.Open(j.from)
		if err != nil {
			j.p.Errorf("failed to open %s: %s", quoting.QuoteName(j.from), program.Reason(err))
			return false
		}
		defer stream.Close(h)
		in = h
	}
	if j.to != "" {
		h, err := j.create()
		if err != nil {
			j.p.Errorf("failed to open %s: %s", quoting.QuoteName(j.to), program.Reason(err))
			return false
		}
		defer stream.Close(h)
		out = h
	}
	if !j.seekOutput(out) {
		return false
	}
	j.p.Alloc(j.ibs + j.obs)
	j.skipInput(in)
	if j.copy(in, out) {
		return true
	}
	j.code = 1
	return true
}

// create opens or creates the output file.
func (j *ddJob) create() (*kernel.Handle, error) {
	flag := os.O_WRONLY | os.O_CREATE
	if !j.conv["notrunc"] && j.seek == 0 {
		flag |= os.O_TRUNC
	}
	if j.conv["excl"] {
		flag |= os.O_EXCL
	}
	if j.conv["nocreat"] {
		flag &^= os.O_CREATE
	}
	if j.append {
		flag |= os.O_APPEND
	}
	return j.p.OpenFile(j.to, flag, 0o666)
}

// seekOutput moves the output to where writing begins.
func (j *ddJob) seekOutput(out *kernel.Handle) bool {
	if j.seek == 0 {
		return true
	}
	at := j.seek * j.obs
	if j.seekB {
		at = j.seek
	}
	if j.to != "" && !j.conv["notrunc"] {
		if err := out.Truncate(at); err != nil {
			j.p.Errorf("failed to truncate to %d bytes in output file %s: %s", at, quoting.QuoteName(j.to), program.Reason(err))
			return false
		}
	}
	if _, err := out.Seek(at, io.SeekStart); err != nil {
		j.p.Errorf("%s: cannot seek: %s", quoting.QuoteName(j.to), program.Reason(err))
		return false
	}
	return true
}

// skipInput skips input, by seeking if possible.
func (j *ddJob) skipInput(in *kernel.Handle) {
	n := j.skip * j.ibs
	if j.skipB {
		n = j.skip
	}
	if n == 0 {
		return
	}
	name := j.from
	if name == "" {
		name = "standard input"
	}
	if info, err := j.p.Stat(j.from); j.from != "" && err == nil && info.Mode().IsRegular() {
		if _, err := in.Seek(n, io.SeekStart); err == nil {
			if n > info.Size() {
				j.p.Errorf("%s: cannot skip to specified offset", quoting.QuoteNameIfNeeded(name))
			}
			return
		}
	}
	skipped := &stream.CountingWriter{Writer: io.Discard}
	if err := stream.CopyCharged(j.p, skipped, io.LimitReader(in, n)); err != nil || skipped.Count < n {
		j.p.Errorf("%s: cannot skip to specified offset", quoting.QuoteNameIfNeeded(name))
	}
}

// copy copies the blocks and reports whether all went well.
func (j *ddJob) copy(in io.Reader, out io.Writer) bool {
	block := make([]byte, j.ibs)
	left := j.count
	for left != 0 {
		want := j.ibs
		if j.countB && left > 0 {
			want = min(want, left)
		}
		n, err := j.read(in, block[:want])
		j.p.Tick(1 + n>>6)
		if n > 0 {
			if n == len(block) {
				j.inFull++
			} else {
				j.inPart++
			}
			if werr := j.put(out, j.padBlock(block, n)); werr != nil {
				return j.reportWriteError(werr)
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			left = 0
			continue
		case err != nil:
			j.p.Errorf("error reading %s: %s", quoting.QuoteName(j.from), program.Reason(err))
			_ = j.flush(out) // the read error is reported instead
			return false
		}
		switch {
		case left > 0 && j.countB:
			left -= int64(n)
		case left > 0:
			left--
		}
	}
	if err := j.flush(out); err != nil {
		return j.reportWriteError(err)
	}
	return true
}

func (j *ddJob) reportWriteError(err error) bool {
	name := j.to
	if name == "" {
		name = "standard output"
	}
	j.p.Errorf("error writing %s: %s", quoting.QuoteName(name), program.Reason(err))
	return false
}

// read reads one block: with one call, or with iflag=fullblock until it is full.
func (j *ddJob) read(in io.Reader, b []byte) (int, error) {
	if j.full {
		n, err := io.ReadFull(in, b)
		if n > 0 && err != nil {
			err = nil // the next read returns the end
		}
		return n, err
	}
	return in.Read(b)
}

// padBlock pads a short block if conv=sync is set.
func (j *ddJob) padBlock(block []byte, n int) []byte {
	if !j.conv["sync"] || n == len(block) {
		return block[:n]
	}
	pad := byte(0)
	if j.conv["block"] || j.conv["unblock"] {
		pad = ' '
	}
	for i := n; i < len(block); i++ {
		block[i] = pad
	}
	return block
}

// put converts a block and writes it in output blocks.
func (j *ddJob) put(out io.Writer, b []byte) error {
	b = j.convertBytes(b)
	switch {
	case j.cbs != 0 && j.conv["block"]:
		return j.putBlocks(out, b)
	case j.cbs != 0 && j.conv["unblock"]:
		return j.putLines(out, b)
	case j.hasBS && !j.conv["block"] && !j.conv["unblock"]:
		return j.write(out, b)
	}
	return j.queue(out, b)
}

// queue writes bytes in output blocks. Those that don't fill a block wait for more.
func (j *ddJob) queue(out io.Writer, b []byte) error {
	for len(b) > 0 {
		if len(j.pending) == 0 && int64(len(b)) >= j.obs {
			if err := j.write(out, b[:j.obs]); err != nil {
				return err
			}
			b = b[j.obs:]
			continue
		}
		if j.pending == nil {
			j.pending = make([]byte, 0, j.obs)
		}
		n := min(int64(len(b)), j.obs-int64(len(j.pending)))
		j.pending, b = append(j.pending, b[:n]...), b[n:]
		if int64(len(j.pending)) < j.obs {
			break
		}
		if err := j.write(out, j.pending); err != nil {
			return err
		}
		j.pending = j.pending[:0]
	}
	return nil
}

func (j *ddJob) flush(out io.Writer) error {
	if len(j.pending) == 0 {
		return nil
	}
	b := j.pending
	j.pending = nil
	return j.write(out, b)
}

func (j *ddJob) write(out io.Writer, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := out.Write(b)
	j.written += int64(n)
	switch {
	case int64(n) == j.obs:
		j.outFull++
	case n > 0:
		j.outPart++
	}
	return err
}

// convertBytes applies the conversions of single bytes to a block.
func (j *ddJob) convertBytes(b []byte) []byte {
	switch {
	case j.conv["ucase"]:
		b = bytes.ToUpper(b)
	case j.conv["lcase"]:
		b = bytes.ToLower(b)
	}
	if j.conv["swab"] {
		for i := 0; i+1 < len(b); i += 2 {
			b[i], b[i+1] = b[i+1], b[i]
		}
	}
	return b
}

// putBlocks writes each line, padded with spaces to cbs bytes.
func (j *ddJob) putBlocks(out io.Writer, b []byte) error {
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte("\n"))
		b = rest
		line = line[:min(int64(len(line)), j.cbs)]
		if err := j.queue(out, line); err != nil {
			return err
		}
		for left := j.cbs - int64(len(line)); left > 0; {
			n := min(left, int64(len(spaces)))
			j.p.Tick(1 + int(n)>>6)
			if err := j.queue(out, []byte(spaces[:n])); err != nil {
				return err
			}
			left -= n
		}
	}
	return nil
}

// spaces pads blocks.
const spaces = "                                                                                                                                "

// putLines writes every cbs bytes as a line.
func (j *ddJob) putLines(out io.Writer, b []byte) error {
	for len(b) > 0 {
		n := min(int64(len(b)), j.cbs)
		if err := j.queue(out, bytes.TrimRight(b[:n], " ")); err != nil {
			return err
		}
		if err := j.queue(out, []byte{'\n'}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (j *ddJob) printStatistics(took time.Duration) {
	if j.status == "none" {
		return
	}
	text := fmt.Sprintf("%d+%d records in\n%d+%d records out\n", j.inFull, j.inPart, j.outFull, j.outPart)
	if j.status != "noxfer" {
		text += formatSpeed(j.written, took)
	}
	_, _ = io.WriteString(j.p.Stderr, text) // best effort
}

func formatSpeed(n int64, took time.Duration) string {
	size := fmt.Sprintf("%d bytes", n)
	if n == 1 {
		size = "1 byte"
	}
	if n >= 1000 {
		size += " (" + formatUnits(float64(n), 1000)
		if n >= 1024 {
			size += ", " + formatUnits(float64(n), 1024)
		}
		size += ")"
	}
	seconds := took.Seconds()
	speed := "Infinity B/s"
	if seconds > 0 {
		speed = formatUnits(float64(n)/seconds, 1000) + "/s"
	}
	return size + " copied, " + strconv.FormatFloat(seconds, 'g', 6, 64) + " s, " + speed + "\n"
}

// formatUnits returns an amount with one decimal and a unit.
func formatUnits(f, base float64) string {
	units, tail := "kMGTPE", "B"
	if base == 1024 {
		units, tail = "KMGTPE", "iB"
	}
	if f < base {
		return fmt.Sprintf("%.1f %c%s", f/base, units[0], tail)
	}
	i := -1
	for f >= base && i < len(units)-1 {
		f /= base
		i++
	}
	if f >= 10 {
		return fmt.Sprintf("%.0f %c%s", f, units[i], tail)
	}
	return fmt.Sprintf("%.1f %c%s", f, units[i], tail)
}
