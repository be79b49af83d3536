package archive

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	xzread "github.com/therootcompany/xz"
	xzwrite "github.com/ulikunitz/xz"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// codec is a format of compressed streams: xz or zstd.
type codec struct {
	name     string
	magic    string
	suffix   string
	suffixes [][2]string // of compressed files, with what replaces each
	keeps    bool        // the input file stays unless --rm is given
	level    int         // default of -0…-19

	// newReader and newWriter charge the process before they allocate.
	newReader func(p *kernel.Proc, src *bufio.Reader) (io.Reader, error)
	newWriter func(p *kernel.Proc, w io.Writer, level int) (io.WriteCloser, error)
}

var xzCodec = codec{
	name: "xz", magic: "\xfd7zXZ\x00", suffix: ".xz", suffixes: [][2]string{{".xz", ""}, {".txz", ".tar"}}, level: 6,
	newReader: newXzReader, newWriter: newXzWriter,
}

var zstdCodec = codec{
	name: "zstd", magic: "\x28\xb5\x2f\xfd", suffix: ".zst", suffixes: [][2]string{{".zst", ""}, {".tzst", ".tar"}}, keeps: true, level: 3,
	newReader: newZstdReader, newWriter: newZstdWriter,
}

const (
	// maxWindow is the largest dictionary or window of a compressed stream that is read: that of xz -9
	// and of zstd --ultra -22 --long=26.
	maxWindow = 64 << 20
	// codecMemory is the memory of a compressor or decompressor besides its window.
	codecMemory = 2 << 20
)

// errWindow is the error for a stream whose window exceeds maxWindow.
var errWindow = fmt.Errorf("the stream needs a window of more than %d MiB", maxWindow>>20)

// newXzReader charges the dictionary that the first block of the stream names. Later blocks with larger
// ones are refused.
func newXzReader(p *kernel.Proc, src *bufio.Reader) (io.Reader, error) {
	size := uint32(1 << 16)
	if head, err := src.Peek(64); len(head) > 18 || err == nil {
		if n, ok := xzDictionary(head); ok {
			if n > maxWindow {
				return nil, errWindow
			}
			size = max(size, uint32(n))
		}
	}
	p.Alloc(int64(size) + codecMemory)
	return xzread.NewReader(src, size)
}

// xzDictionary returns the size of the dictionary in the header of the first block: flags follow 12 bytes of
// stream header and the size of the block header; optional sizes and filters before LZMA2 are passed.
func xzDictionary(head []byte) (uint64, bool) {
	if len(head) < 18 || head[12] == 0 {
		return 0, false
	}
	flags, at := head[13], 14
	for _, present := range []bool{flags&0x40 != 0, flags&0x80 != 0} {
		for more := present; more && at < len(head); at++ {
			more = head[at]&0x80 != 0
		}
	}
	for range int(flags&3) + 1 {
		if at+2 > len(head) {
			return 0, false
		}
		id, n := head[at], int(head[at+1])
		at += 2
		if at+n > len(head) {
			return 0, false
		}
		if id == 0x21 && n == 1 {
			bits := uint(head[at] & 0x3f)
			if bits >= 40 {
				return 1<<32 - 1, true
			}
			return (2 | uint64(bits&1)) << (bits/2 + 11), true
		}
		at += n
	}
	return 0, false
}

// newXzWriter returns a compressor whose dictionary grows with the level, from 64 KiB to 4 MiB.
func newXzWriter(p *kernel.Proc, w io.Writer, level int) (io.WriteCloser, error) {
	size := 1 << (16 + min(level, 6))
	p.Alloc(int64(9*size) + codecMemory)
	return xzwrite.WriterConfig{DictCap: size}.NewWriter(w)
}

// newZstdReader charges the window that the first frame names.
func newZstdReader(p *kernel.Proc, src *bufio.Reader) (io.Reader, error) {
	window := uint64(8 << 20)               // after a frame to skip
	head, _ := src.Peek(zstd.HeaderMaxSize) // a short stream has less
	var h zstd.Header
	if err := h.Decode(head); err != nil {
		return nil, err
	}
	if !h.Skippable {
		if window = h.WindowSize; h.SingleSegment {
			window = h.FrameContentSize
		}
		if window > maxWindow {
			return nil, errWindow
		}
		window = max(window, zstd.MinWindowSize)
	}
	p.Alloc(2*int64(window) + codecMemory)
	r, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window), zstd.WithDecoderMaxMemory(window))
	if err != nil {
		return nil, err
	}
	return struct{ io.Reader }{r}, nil // without WriteTo, which would not be charged
}

// newZstdWriter returns a compressor that runs on the caller's goroutine.
func newZstdWriter(p *kernel.Proc, w io.Writer, level int) (io.WriteCloser, error) {
	speed := zstd.EncoderLevelFromZstd(level)
	p.Alloc([...]int64{zstd.SpeedFastest: 4 << 20, zstd.SpeedDefault: 6 << 20, zstd.SpeedBetterCompression: 10 << 20, zstd.SpeedBestCompression: 48 << 20}[speed])
	return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(speed), zstd.WithWindowSize(1<<20))
}

func codecUsage(c *codec) string {
	keep := "  -k, --keep            keep (don't delete) input files\n"
	if c.keeps {
		keep = "  -k, --keep            keep input files (default)\n      --rm              remove input files after success\n"
	}
	return "Usage: " + c.name + ` [OPTION]... [FILE]...
Compress or decompress FILEs in the ` + c.suffix + ` format.

  -z, --compress        force compression
  -d, --decompress      force decompression
  -t, --test            test compressed file integrity
` + keep + `  -f, --force           force overwrite of output file
  -c, --stdout          write to standard output and don't delete input files
  -o FILE               write to FILE
  -0 ... -9             compression preset
  -q, --quiet           suppress warnings
  -T, --threads=NUM, -e, -v: accepted
  -h, --help            display this help and exit

With no FILE, or when FILE is -, read standard input. Windows up to 64 MiB can be decompressed.
`
}

var codecOptions = option.Parser{Options: []option.Option{
	{Short: '0'},
	{Short: '1'},
	{Short: '2'},
	{Short: '3'},
	{Short: '4'},
	{Short: '5'},
	{Short: '6'},
	{Short: '7'},
	{Short: '8'},
	{Short: '9'},
	{Short: 'z', Long: "compress"},
	{Short: 'd', Long: "decompress"},
	{Short: 'd', Long: "uncompress"},
	{Short: 't', Long: "test"},
	{Short: 'k', Long: "keep"},
	{Long: "rm", ID: 'r'},
	{Short: 'f', Long: "force"},
	{Short: 'c', Long: "stdout"},
	{Short: 'c', Long: "to-stdout"},
	{Short: 'o', Arg: option.Required},
	{Short: 'q', Long: "quiet"},
	{Short: 'h', Long: "help"},
	{Short: 'T', Long: "threads", Arg: option.Required},
	{Short: 'e', Long: "extreme"},
	{Short: 'v', Long: "verbose"},
	{Long: "no-progress", ID: 'v'},
	{Long: "fast", Arg: option.Optional, ID: 'F'},
	{Long: "best", ID: 'B'},
}}

// codecJob is the state of one run of xz or zstd.
type codecJob struct {
	*codec
	p                                 *kernel.Proc
	expand, stdout, keep, force, test bool
	output                            string
	code                              int
}

// newCodecProgram returns the program of a codec and of its decompressors.
func newCodecProgram(c *codec) kernel.Program {
	return func(p *kernel.Proc) int {
		j := &codecJob{codec: c, p: p, keep: c.keeps}
		switch name := p.Name(); {
		case strings.HasPrefix(name, "un"):
			j.expand = true
		case strings.HasSuffix(name, "cat"):
			j.expand, j.stdout = true, true
		}
		opts, names, ok := codecOptions.Parse(p)
		if !ok {
			return 1
		}
		level, done := j.applyOptions(opts)
		if done {
			return 0
		}
		for _, name := range stream.OperandsOrStdin(names) {
			j.convert(name, level)
		}
		return j.code
	}
}

// applyOptions returns the level; done means that the help has been printed.
func (j *codecJob) applyOptions(opts []option.Setting) (level int, done bool) {
	level = j.level
	last := rune(0) // of a number of two digits, the first
	for _, o := range opts {
		switch o.Key {
		case 'z':
			j.expand = false
		case 'd':
			j.expand = true
		case 't':
			j.expand, j.test = true, true
		case 'k':
			j.keep = true
		case 'r':
			j.keep = false
		case 'f':
			j.force = true
		case 'c':
			j.stdout = true
		case 'o':
			j.output = o.Value
		case 'F':
			level = 1
		case 'B':
			level = 9
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			level = int(o.Key - '0')
			if last == '1' || last == '2' {
				level = min(10*int(last-'0')+level, 22)
			}
		case 'h':
			_, _ = j.p.Out().WriteString(codecUsage(j.codec)) // Flush reports the error
			return 0, true
		}
		last = o.Key
	}
	return level, false
}

func (j *codecJob) reportError(format string, args ...any) {
	j.p.Errorf(format, args...)
	j.code = 1
}

// convert compresses or decompresses one file, or standard input for "-".
func (j *codecJob) convert(name string, level int) {
	j.p.Tick(1)
	made, ok := j.outputName(name)
	if !ok {
		return
	}
	in, err := stream.Open(j.p, name)
	if errors.Is(err, vfs.EISDIR) && j.name == "xz" {
		j.reportError("%s: Is a directory, skipping", name)
		j.code = 2
		return
	}
	if err != nil {
		j.reportError("%s: %s", name, program.Reason(err))
		return
	}
	defer stream.Close(in)
	shown := name
	if name == "-" {
		shown = "(stdin)"
	}
	before := j.p.Charged()
	defer func() { j.p.Free(j.p.Charged() - before) }()
	switch {
	case j.test:
		err = j.copy(io.Discard, in, level)
	case made == "-":
		err = j.copy(j.p.Out(), in, level)
	default:
		err = j.replace(in, name, made, level)
	}
	if err != nil {
		j.reportError("%s: %s", shown, j.describe(err))
	}
}

// outputName returns the name of the output, "-" for standard output.
func (j *codecJob) outputName(name string) (string, bool) {
	switch {
	case j.stdout || j.test:
		return "-", true
	case j.output != "":
		return j.output, true
	case name == "-":
		return "-", true
	case !j.expand:
		return name + j.suffix, true
	}
	for _, s := range j.suffixes {
		if base, ok := strings.CutSuffix(name, s[0]); ok && base != "" {
			return base + s[1], true
		}
	}
	j.reportError("%s: Filename has an unknown suffix, skipping", name)
	return "", false
}

// replace writes the output file, and removes the input file or an incomplete output.
func (j *codecJob) replace(in *kernel.Handle, name, made string, level int) error {
	info, err := j.p.Stat(name)
	if name == "-" {
		info, err = vfs.NewInfo("-", 0o644, 0, 0, j.p.Now()), nil
	}
	if err != nil {
		return err
	}
	flag := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if j.force {
		flag = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	out, err := j.p.OpenFile(made, flag, info.Mode().Perm())
	if err != nil {
		return fmt.Errorf("%s: %w", made, err)
	}
	err = errors.Join(j.copy(out, in, level), out.Close())
	if err != nil {
		_ = j.p.Unlink(made) // the first error is reported
		return err
	}
	if name == "-" {
		return nil
	}
	err = errors.Join(j.p.Chmod(made, info.Mode().Perm()), j.p.Chtimes(made, info.Atime(), info.ModTime()))
	if err == nil && !j.keep && j.output == "" {
		err = j.p.Unlink(name)
	}
	return err
}

// copy compresses or decompresses a stream.
func (j *codecJob) copy(w io.Writer, r io.Reader, level int) error {
	if !j.expand {
		z, err := j.newWriter(j.p, w, level)
		if err != nil {
			return err
		}
		return errors.Join(stream.CopyCharged(j.p, z, r), z.Close())
	}
	src := bufio.NewReaderSize(r, 32<<10)
	head, _ := src.Peek(len(j.magic)) // a short stream is not in the format
	if string(head) != j.magic && !(j.name == "zstd" && len(head) == 4 && string(head[1:]) == "\x2a\x4d\x18") {
		if len(head) == 0 {
			return io.ErrUnexpectedEOF
		}
		if j.force && j.stdout {
			return stream.CopyCharged(j.p, w, src)
		}
		return errFormat
	}
	z, err := j.newReader(j.p, src)
	if err != nil {
		return err
	}
	return stream.CopyCharged(j.p, w, z)
}

// errFormat is the error for data without the magic number of the format.
var errFormat = errors.New("File format not recognized")

// describe words an error: those of files as the system does, others as xz does.
func (j *codecJob) describe(err error) string {
	var no vfs.Errno
	switch {
	case errors.As(err, &no), errors.Is(err, errFormat), errors.Is(err, errWindow), errors.Is(err, fs.ErrExist):
		return program.Reason(err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, xzread.ErrBuf):
		return "Unexpected end of input"
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, xzread.ErrMemlimit):
		return errWindow.Error()
	}
	return "Compressed data is corrupt"
}
