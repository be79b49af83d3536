package text

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const sortUsage = `Usage: sort [OPTION]... [FILE]...
  or:  sort [OPTION]... --files0-from=F
Write sorted concatenation of all FILE(s) to standard output.

With no FILE, or when FILE is -, read standard input.

Ordering options:

  -b, --ignore-leading-blanks  ignore leading blanks
  -d, --dictionary-order      consider only blanks and alphanumeric characters
  -f, --ignore-case           fold lower case to upper case characters
  -g, --general-numeric-sort  compare according to general numerical value
  -i, --ignore-nonprinting    consider only printable characters
  -M, --month-sort            compare (unknown) < 'JAN' < ... < 'DEC'
  -h, --human-numeric-sort    compare human readable numbers (e.g., 2K 1G)
  -n, --numeric-sort          compare according to string numerical value
  -R, --random-sort           shuffle, but group identical keys
      --random-source=FILE    get random bytes from FILE
  -r, --reverse               reverse the result of comparisons
      --sort=WORD             sort according to WORD:
                                general-numeric -g, human-numeric -h, month -M,
                                numeric -n, random -R, version -V
  -V, --version-sort          natural sort of (version) numbers within text

Other options:

  -c, --check, --check=diagnose-first  check for sorted input; do not sort
  -C, --check=quiet, --check=silent  like -c, but do not report first bad line
      --files0-from=F       read input from the files specified by
                            NUL-terminated names in file F
  -k, --key=KEYDEF          sort via a key; KEYDEF gives location and type
  -m, --merge               merge already sorted files; do not sort
  -o, --output=FILE         write result to FILE instead of standard output
  -s, --stable              stabilize sort by disabling last-resort comparison
  -t, --field-separator=SEP  use SEP instead of non-blank to blank transition
  -u, --unique              with -c, check for strict ordering;
                            without -c, output only the first of an equal run
  -z, --zero-terminated     line delimiter is NUL, not newline
  -S, -T, --parallel, --batch-size, --compress-program
                            accepted and not needed
      --help                display this help and exit

KEYDEF is F[.C][OPTS][,F[.C][OPTS]] for start and stop position, where F is a
field number and C a character position in the field; both are origin 1, and
the stop position defaults to the line's end.  If neither -t nor -b is in
effect, characters in a field are counted from the beginning of the preceding
whitespace.  OPTS is one or more single-letter ordering options [bdfgiMhnRrV],
which override global ordering options for that key.  If no key is given, use
the entire line as the key.

Lines are compared byte by byte, as with LC_ALL=C.
`

// sortJob is the state of one run of sort.
type sortJob struct {
	p            *kernel.Proc
	keys         []*sortKey
	global       sortKey
	sep          int
	stable       bool
	unique       bool
	check        int // 0 no, 1 with a message, 2 quietly
	merge        bool
	output       string
	from0        string
	eol          byte
	seed         uint64
	randomSource string // file of random bytes
	simple       bool   // compare whole lines by their bytes
	writer       *bufio.Writer
	outName      string
}

var sortOptions = option.Parser{Options: []option.Option{
	{Short: 'b', Long: "ignore-leading-blanks"},
	{Short: 'd', Long: "dictionary-order"},
	{Short: 'f', Long: "ignore-case"},
	{Short: 'g', Long: "general-numeric-sort"},
	{Short: 'i', Long: "ignore-nonprinting"},
	{Short: 'M', Long: "month-sort"},
	{Short: 'h', Long: "human-numeric-sort"},
	{Short: 'n', Long: "numeric-sort"},
	{Short: 'R', Long: "random-sort"},
	{Long: "random-source", Arg: option.Required, ID: 'W'},
	{Short: 'r', Long: "reverse"},
	{Long: "sort", Arg: option.Required, ID: 'O'},
	{Short: 'V', Long: "version-sort"},
	{Short: 'c'},
	{Long: "check", Arg: option.Optional, ID: 'X'},
	{Short: 'C'},
	{Long: "files0-from", Arg: option.Required, ID: 'F'},
	{Short: 'k', Long: "key", Arg: option.Required},
	{Short: 'm', Long: "merge"},
	{Short: 'o', Long: "output", Arg: option.Required},
	{Short: 's', Long: "stable"},
	{Short: 't', Long: "field-separator", Arg: option.Required},
	{Short: 'u', Long: "unique"},
	{Short: 'z', Long: "zero-terminated"},
	{Short: 'S', Long: "buffer-size", Arg: option.Required},
	{Short: 'T', Long: "temporary-directory", Arg: option.Required},
	{Long: "parallel", Arg: option.Required, ID: 'T'},
	{Long: "batch-size", Arg: option.Required, ID: 'T'},
	{Long: "compress-program", Arg: option.Required, ID: 'T'},
	{Short: 'y', Arg: option.Optional, ID: 'T'},
}}

func runSort(p *kernel.Proc) int {
	opts, names, ok := sortOptions.Parse(p)
	if !ok {
		return 2
	}
	j := &sortJob{p: p, sep: -1, eol: '\n'}
	for _, o := range opts {
		if msg := j.applyOption(o); msg != "" {
			if msg == refused {
				return 1
			}
			p.Errorf("%s", msg)
			return 2
		}
	}
	if msg := j.completeKeys(); msg != "" {
		p.Errorf("%s", msg)
		return 2
	}
	if j.from0 != "" {
		var code int
		if names, ok = stream.ReadNames(p, j.from0, "open failed: "+quoting.QuoteNameIfNeeded(j.from0), names); !ok {
			return 2
		}
		if names, code = stream.DropInvalidNames(p, j.from0, names); code != 0 {
			return 2
		}
		if len(names) == 0 {
			p.Errorf("no input from %s", quoting.QuoteName(j.from0))
			return 2
		}
	}
	names = stream.OperandsOrStdin(names)
	switch {
	case j.check != 0 && len(names) > 1:
		p.Errorf("extra operand %s not allowed with -%c", quoting.QuoteName(names[1]), "?cC"[j.check])
		return 2
	case j.check != 0:
		return j.checkOrder(names[0])
	}
	return j.run(names)
}

// refused is the message for an option whose error has been reported already.
const refused = "\x00"

func (j *sortJob) applyOption(o option.Setting) string {
	switch o.Key {
	case 'c', 'C':
		kind := 1 + int(number.FromBool(o.Key == 'C'))
		if j.check != 0 && j.check != kind {
			return "options '-cC' are incompatible"
		}
		j.check = kind
	case 'X':
		j.check = 1
		if o.HasValue {
			v, ok := option.Choose(j.p, "--check", o.Value, []option.Choice{{Word: "quiet", Value: 2}, {Word: "silent", Value: 2}, {Word: "diagnose-first", Value: 1}})
			if !ok {
				return refused
			}
			j.check = v
		}
	case 'O':
		v, ok := option.Choose(j.p, "--sort", o.Value, []option.Choice{{Word: "general-numeric", Value: 'g'}, {Word: "human-numeric", Value: 'h'}, {Word: "month", Value: 'M'}, {Word: "numeric", Value: 'n'}, {Word: "random", Value: 'R'}, {Word: "version", Value: 'V'}})
		if !ok {
			return refused
		}
		j.global.parseOrdering(string(rune(v)), 0)
	case 'k':
		k, msg := parseSortKey(o.Value)
		if msg != "" {
			return msg
		}
		j.keys = append(j.keys, k)
	case 't':
		return j.setSeparator(o.Value)
	case 'o':
		if j.output != "" && j.output != o.Value {
			return "multiple output files specified"
		}
		j.output = o.Value
	case 'F':
		j.from0 = o.Value
	case 'W':
		j.randomSource = o.Value
	case 'S', 'T':
	default:
		j.applyFlag(o.Key)
	}
	return ""
}

func (j *sortJob) applyFlag(key rune) {
	switch key {
	case 'm':
		j.merge = true
	case 's':
		j.stable = true
	case 'u':
		j.unique = true
	case 'z':
		j.eol = 0
	default:
		j.global.parseOrdering(string(key), blanksStart|blanksEnd)
	}
}

// setSeparator sets the separator of -t. It returns the message of an error, or "".
func (j *sortJob) setSeparator(s string) string {
	switch {
	case s == "":
		return "empty tab"
	case s == `\0`:
		s = "\x00"
	case len(s) > 1:
		return "multi-character tab " + quoting.QuoteWord(s)
	}
	if j.sep >= 0 && j.sep != int(s[0]) {
		return "incompatible tabs"
	}
	j.sep = int(s[0])
	return ""
}

// completeKeys gives keys without options of their own the global ones. It returns the message of an
// error, or "".
func (j *sortJob) completeKeys() string {
	for _, k := range j.keys {
		if k.isDefault() && !k.reverse {
			k.blanks, k.endBlanks, k.fold, k.dict, k.printing = j.global.blanks, j.global.endBlanks, j.global.fold, j.global.dict, j.global.printing
			k.kinds, k.reverse = j.global.kinds, j.global.reverse
		}
	}
	if len(j.keys) == 0 && !j.global.isDefault() {
		k := j.global
		k.whole = true
		j.keys = append(j.keys, &k)
	}
	random := false
	for _, k := range j.keys {
		if msg := k.chooseKind(); msg != "" {
			return msg
		}
		random = random || k.kind == sortRandom
	}
	j.simple = len(j.keys) == 0
	if !random {
		return ""
	}
	var b [8]byte
	if j.randomSource == "" {
		j.p.Rand(b[:])
	} else {
		h, err := stream.Open(j.p, j.randomSource)
		if err != nil {
			return "open failed: " + quoting.QuoteNameIfNeeded(j.randomSource) + ": " + program.Reason(err)
		}
		if n, err := h.Read(b[:]); err != nil || n == 0 {
			return quoting.QuoteNameIfNeeded(j.randomSource) + ": end of file"
		}
		stream.Close(h)
	}
	j.seed = binary.LittleEndian.Uint64(b[:])
	return ""
}

// compare orders two lines by the keys, and then, unless -s or -u is given, by all their bytes.
func (j *sortJob) compare(a, b []byte) int {
	for i, k := range j.keys {
		if c := j.compareKey(k, a, b); c != 0 {
			return c
		}
		j.p.Tick(i + 1)
	}
	return j.compareLastResort(a, b)
}

func (j *sortJob) compareKey(k *sortKey, a, b []byte) int {
	af, at := k.findBounds(a, j.sep)
	bf, bt := k.findBounds(b, j.sep)
	c := k.compare(a[af:at], b[bf:bt], j.seed)
	if k.reverse {
		return -c
	}
	return c
}

// compareLastResort orders lines with equal keys by all their bytes, unless -s or -u is given.
func (j *sortJob) compareLastResort(a, b []byte) int {
	if len(j.keys) > 0 && (j.stable || j.unique) {
		return 0
	}
	c := bytes.Compare(a, b)
	if j.global.reverse {
		return -c
	}
	return c
}

// reportReadError reports an input that can't be read and returns the exit status.
func (j *sortJob) reportReadError(name string, err error) int {
	verb := "cannot read"
	if errors.Is(err, vfs.EISDIR) {
		verb = "read failed"
	}
	j.p.Errorf("%s: %s: %s", verb, quoting.QuoteNameIfNeeded(name), program.Reason(err))
	return 2
}

// run sorts the files and returns the exit status.
func (j *sortJob) run(names []string) int {
	if j.merge && !slices.Contains(names, j.output) && len(names) <= 64 {
		return j.mergeFiles(names)
	}
	a := &sortArena{p: j.p, eol: j.eol}
	for _, name := range names {
		in, err := stream.Open(j.p, name)
		if err != nil {
			return j.reportReadError(name, err)
		}
		size := int64(0)
		if f := in.File(); f != nil {
			if info, err := f.Stat(); err == nil {
				size = info.Size()
			}
		}
		err = a.load(in, size)
		stream.Close(in)
		if err != nil {
			return j.reportReadError(name, err)
		}
	}
	a.cutLines()
	if j.simple {
		a.sortBytes(j.global.reverse)
	} else {
		j.sortKeyed(a)
	}
	if code := j.openOutput(); code != 0 {
		return code
	}
	j.write(a)
	return j.closeOutput()
}

// openOutput opens the file of -o, or chooses standard output. It returns an exit status, 0 for
// success.
func (j *sortJob) openOutput() int {
	j.writer, j.outName = j.p.Out(), "standard output"
	if j.output == "" {
		return 0
	}
	h, err := j.p.Create(j.output)
	if err != nil {
		j.p.Errorf("open failed: %s: %s", quoting.QuoteNameIfNeeded(j.output), program.Reason(err))
		return 2
	}
	j.writer, j.outName = bufio.NewWriterSize(h, stream.ChunkSize), j.output
	return 0
}

func (j *sortJob) closeOutput() int {
	if err := j.writer.Flush(); err != nil {
		j.p.Errorf("write failed: %s: %s", quoting.QuoteName(j.outName), program.Reason(err))
		return 2
	}
	return 0
}

// write prints the sorted lines, with -u one of each group of equal ones.
func (j *sortJob) write(a *sortArena) {
	var prev *sortLine
	for i := range a.lines {
		l := &a.lines[i]
		if j.unique && prev != nil && j.compare(a.lineText(prev), a.lineText(l)) == 0 {
			continue
		}
		prev = l
		if _, err := j.writer.Write(a.buf[l.at : l.at+l.n+1]); err != nil {
			return // Flush reports the error again
		}
		j.p.Tick(1)
	}
}

// checkOrder checks whether a file is sorted and returns the exit status.
func (j *sortJob) checkOrder(name string) int {
	in, err := stream.Open(j.p, name)
	if err != nil {
		return j.reportReadError(name, err)
	}
	defer stream.Close(in)
	l := stream.NewLineReader(j.p, in, j.eol)
	defer l.Close()
	var prev []byte
	for n := 1; ; n++ {
		line := l.Next()
		if line == nil {
			break
		}
		text := stream.TrimDelimiter(line, j.eol)
		if n > 1 {
			if c := j.compare(prev, text); c > 0 || c == 0 && j.unique {
				if j.check == 1 {
					j.p.Errorf("%s:%d: disorder: %s", quoting.QuoteNameIfNeeded(name), n, text)
				}
				return 1
			}
		}
		prev = append(prev[:0], text...)
	}
	if err := l.Err(); err != nil {
		return j.reportReadError(name, err)
	}
	return 0
}

// mergeFiles merges sorted inputs.
func (j *sortJob) mergeFiles(names []string) int {
	var inputs []*stream.LineReader
	var heads [][]byte
	for _, name := range names {
		in, err := stream.Open(j.p, name)
		if err != nil {
			return j.reportReadError(name, err)
		}
		defer stream.Close(in)
		j.p.Alloc(stream.ChunkSize)
		l := stream.NewLineReader(j.p, in, j.eol)
		inputs, heads = append(inputs, l), append(heads, l.Next())
	}
	if code := j.openOutput(); code != 0 {
		return code
	}
	var last []byte
	for first := true; ; {
		best := -1
		for i, h := range heads {
			if h != nil && (best < 0 || j.compare(stream.TrimDelimiter(h, j.eol), stream.TrimDelimiter(heads[best], j.eol)) < 0) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		text := stream.TrimDelimiter(heads[best], j.eol)
		if first || !j.unique || j.compare(last, text) != 0 {
			_, _ = j.writer.Write(text) // Flush reports the error, here and below
			_ = j.writer.WriteByte(j.eol)
			if j.unique {
				last = append(last[:0], text...)
			}
		}
		first = false
		heads[best] = inputs[best].Next()
	}
	for i, l := range inputs {
		if err := l.Err(); err != nil {
			return j.reportReadError(names[i], err)
		}
	}
	return j.closeOutput()
}
