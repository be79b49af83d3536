package data

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

// digest is a checksum algorithm.
type digest struct {
	word string // as an argument of cksum -a
	name string // in tagged lines
	bits int
	new  func() hash.Hash // nil for blake2b and the plain sums
}

var digests = []digest{
	{"bsd", "", 0, nil},
	{"sysv", "", 0, nil},
	{"crc", "", 0, nil},
	{"md5", "MD5", 128, md5.New},
	{"sha1", "SHA1", 160, sha1.New},
	{"sha224", "SHA224", 224, sha256.New224},
	{"sha256", "SHA256", 256, sha256.New},
	{"sha384", "SHA384", 384, sha512.New384},
	{"sha512", "SHA512", 512, sha512.New},
	{"blake2b", "BLAKE2b", 512, nil},
}

func findDigest(word string) digest {
	for _, d := range digests {
		if d.word == word {
			return d
		}
	}
	return digest{}
}

// sumUsage returns the usage of the command for one digest.
func sumUsage(tool, name string) string {
	length := ""
	if tool == "b2sum" {
		length = "  -l, --length=BITS   digest length in bits, a multiple of 8\n"
	}
	return "Usage: " + tool + ` [OPTION]... [FILE]...
Print or check ` + name + ` checksums.

With no FILE, or when FILE is -, read standard input.

  -b, --binary        read in binary mode
  -c, --check         read checksums from the FILEs and check them
` + length + `      --tag           create a BSD-style checksum
  -t, --text          read in text mode (default)
  -z, --zero          end each output line with NUL, not newline,
                        and disable file name escaping

The following five options are useful only when verifying checksums:
      --ignore-missing  don't fail or report status for missing files
      --quiet         don't print OK for each successfully verified file
      --status        don't output anything, status code shows success
      --strict        exit non-zero for improperly formatted checksum lines
  -w, --warn          warn about improperly formatted checksum lines

      --help          display this help and exit
`
}

// sumJob is the state of one run of a checksum command.
type sumJob struct {
	p       *kernel.Proc
	d       digest
	bits    int
	cksum   bool // cksum's options and output
	chosen  bool // cksum -a was given
	binary  bool
	tag     bool
	untag   bool
	zero    bool
	check   bool
	missing bool
	quiet   bool
	status  bool
	strict  bool
	warn    bool
}

var sumOptions = []option.Option{
	{Short: 'b', Long: "binary"},
	{Short: 'c', Long: "check"},
	{Short: 't', Long: "text"},
	{Short: 'z', Long: "zero"},
	{Long: "tag", ID: 'T'},
	{Long: "ignore-missing", ID: 'm'},
	{Long: "quiet", ID: 'q'},
	{Long: "status", ID: 's'},
	{Long: "strict", ID: 'S'},
	{Short: 'w', Long: "warn"},
}

// newDigestProgram returns the program of the command for a digest.
func newDigestProgram(word string) kernel.Program {
	return func(p *kernel.Proc) int {
		job := &sumJob{p: p, d: findDigest(word)}
		opts := sumOptions
		if word == "blake2b" {
			opts = append(opts[:len(opts):len(opts)], option.Option{Short: 'l', Long: "length", Arg: option.Required})
		}
		return job.runWith(option.Parser{Options: opts})
	}
}

func runCksum(p *kernel.Proc) int {
	job := &sumJob{p: p, d: findDigest("crc"), cksum: true}
	return job.runWith(option.Parser{Options: append([]option.Option{
		{Short: 'a', Long: "algorithm", Arg: option.Required}, {Short: 'l', Long: "length", Arg: option.Required}, {Long: "untagged", ID: 'u'}, {Long: "debug", ID: 'd'},
	}, sumOptions...)})
}

func (job *sumJob) runWith(s option.Parser) int {
	p := job.p
	opts, names, ok := s.Parse(p)
	if !ok {
		return 1
	}
	onlyCheck := ""
	for _, o := range opts {
		if !job.applyOption(o) {
			return 1
		}
		if strings.ContainsRune("mqsSw", o.Key) {
			onlyCheck = strings.TrimPrefix(o.Name, "--")
			if o.Key == 'w' {
				onlyCheck = "warn"
			}
		}
	}
	if job.bits == 0 {
		job.bits = job.d.bits
	}
	switch {
	case job.tag && job.check:
		return job.rejectUsage("the --tag option is meaningless when verifying checksums")
	case job.zero && job.check:
		return job.rejectUsage("the --zero option is not supported when verifying checksums")
	case job.binary && job.check:
		return job.rejectUsage("the --binary and --text options are meaningless when verifying checksums")
	case onlyCheck != "" && !job.check:
		return job.rejectUsage("the --" + onlyCheck + " option is meaningful only when verifying checksums")
	}
	code := 0
	for _, n := range stream.OperandsOrStdin(names) {
		if job.check && !job.verifyList(n) || !job.check && !job.print(n, len(names) > 0) {
			code = 1
		}
	}
	return code
}

func (job *sumJob) rejectUsage(msg string) int {
	job.p.Errorf("%s", msg)
	option.SuggestHelp(job.p)
	return 1
}

func (job *sumJob) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'a':
		var list []option.Choice
		for i, d := range digests {
			list = append(list, option.Choice{Word: d.word, Value: i})
		}
		i, ok := option.Choose(job.p, "--algorithm", o.Value, list)
		job.d, job.chosen = digests[i], true
		return ok
	case 'l':
		n, err := strconv.ParseUint(o.Value, 10, 32)
		switch {
		case err != nil || n%8 != 0:
			job.p.Errorf("invalid length: %s", quoting.QuoteWord(o.Value))
			if err == nil {
				job.p.Errorf("length is not a multiple of 8")
			}
			return false
		case n > 512:
			job.p.Errorf("invalid length: %s", quoting.QuoteWord(o.Value))
			job.p.Errorf("maximum digest length for %s is 512 bits", quoting.QuoteWord("BLAKE2b"))
			return false
		}
		job.bits = int(n)
	case 'b':
		job.binary = true
	case 't':
		job.binary = false
	case 'c':
		job.check = true
	case 'z':
		job.zero = true
	case 'T':
		job.tag = true
	case 'u':
		job.untag = true
	case 'm':
		job.missing = true
	case 'q':
		job.quiet = true
	case 's':
		job.status = true
	case 'S':
		job.strict = true
	case 'w':
		job.warn = true
	}
	return true
}

// sum computes the checksum of a file. For the plain sums it also returns the number and the size.
func (job *sumJob) sum(name string, d digest, bits int) (hexSum string, plain uint32, size int64, err error) {
	in, err := stream.Open(job.p, name)
	if err != nil {
		return "", 0, 0, err
	}
	defer stream.Close(in)
	switch {
	case d.new != nil:
		h := d.new()
		if err := job.hashInput(h, in, 16); err != nil {
			return "", 0, 0, err
		}
		return hex.EncodeToString(h.Sum(nil)), 0, 0, nil
	case d.word == "blake2b":
		h := newBlake2b(bits / 8)
		if err := job.hashInput(h, in, 16); err != nil {
			return "", 0, 0, err
		}
		return hex.EncodeToString(h.Sum()), 0, 0, nil
	}
	s := &plainSum{kind: d.word}
	if err := job.hashInput(s, in, 64); err != nil {
		return "", 0, 0, err
	}
	return "", s.finalSum(), s.size, nil
}

// hashInput copies a file to a hash; per is the number of bytes charged as one unit of work.
func (job *sumJob) hashInput(w io.Writer, in io.Reader, per int) error {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
	for {
		n, err := in.Read(b[:])
		job.p.Tick(1 + n/per)
		_, _ = w.Write(b[:n]) // a hash never fails
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// print prints the checksum line of one file.
func (job *sumJob) print(name string, named bool) bool {
	sum, plain, size, err := job.sum(name, job.d, job.bits)
	if err != nil {
		job.p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return false
	}
	end := "\n"
	if job.zero {
		end = "\x00"
	}
	var line string
	switch job.d.word {
	case "crc":
		line = fmt.Sprintf("%d %d", plain, size)
	case "sysv":
		line = fmt.Sprintf("%d %d", plain, number.DivideUp(size, 512))
	case "bsd":
		line = fmt.Sprintf("%05d %5d", plain, number.DivideUp(size, 1024))
	default:
		_, _ = job.p.Out().WriteString(job.formatLine(sum, name) + end) // Flush reports the error
		return true
	}
	if named {
		line += " " + name
	}
	_, _ = job.p.Out().WriteString(line + end)
	return true
}

// formatLine returns the checksum line of a digest.
func (job *sumJob) formatLine(sum, name string) string {
	lead := ""
	if !job.zero && strings.ContainsAny(name, "\\\n\r") {
		lead = `\`
		name = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(name)
	}
	if job.tag || job.cksum && !job.untag {
		return lead + job.formatTagName(job.bits) + " (" + name + ") = " + sum
	}
	if job.binary {
		return lead + sum + " *" + name
	}
	return lead + sum + "  " + name
}

func (job *sumJob) formatTagName(bits int) string {
	if job.d.word == "blake2b" && bits != 512 {
		return job.d.name + "-" + strconv.Itoa(bits)
	}
	return job.d.name
}

// plainSum computes the sums that are not digests.
type plainSum struct {
	kind string
	v    uint32
	size int64
}

var crcTable = func() (t [256]uint32) {
	for i := range t {
		c := uint32(i) << 24
		for range 8 {
			if c&0x80000000 != 0 {
				c = c<<1 ^ 0x04c11db7
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()

func (s *plainSum) Write(b []byte) (int, error) {
	s.size += int64(len(b))
	v := s.v
	switch s.kind {
	case "crc":
		for _, c := range b {
			v = v<<8 ^ crcTable[byte(v>>24)^c]
		}
	case "sysv":
		for _, c := range b {
			v += uint32(c)
		}
	default:
		for _, c := range b {
			v = (v>>1 + v&1<<15 + uint32(c)) & 0xffff
		}
	}
	s.v = v
	return len(b), nil
}

// finalSum returns the sum of the written bytes.
func (s *plainSum) finalSum() uint32 {
	v := s.v
	switch s.kind {
	case "crc":
		for n := s.size; n > 0; n >>= 8 {
			v = v<<8 ^ crcTable[byte(v>>24)^byte(n)]
		}
		return ^v
	case "sysv":
		r := v&0xffff + v>>16
		return r&0xffff + r>>16
	}
	return v
}

const sumToolUsage = `Usage: sum [OPTION]... [FILE]...
Print or check BSD (16-bit) checksums.

With no FILE, or when FILE is -, read standard input.

  -r              use BSD sum algorithm (the default), use 1K blocks
  -s, --sysv      use System V sum algorithm, use 512 bytes blocks
      --help      display this help and exit
`

func runSum(p *kernel.Proc) int {
	opts, names, ok := option.Parser{Options: []option.Option{{Short: 'r'}, {Short: 's', Long: "sysv"}}}.Parse(p)
	if !ok {
		return 1
	}
	job := &sumJob{p: p, d: findDigest("bsd")}
	for _, o := range opts {
		job.d = findDigest(map[rune]string{'r': "bsd", 's': "sysv"}[o.Key])
	}
	code := 0
	for _, n := range stream.OperandsOrStdin(names) {
		if !job.print(n, len(names) > 0) {
			code = 1
		}
	}
	return code
}
