package command

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

type sortJob struct {
	p       *kernel.Proc
	keys    []*sortKey
	global  sortKey
	sep     int
	stable  bool
	unique  bool
	check   int // 0 no, 1 tell, 2 quiet
	merge   bool
	output  string
	from0   string
	eol     byte
	seed    uint64
	source  string // of random bytes
	simple  bool   // whole lines by their bytes
	writer  *bufio.Writer
	outName string
}

var sortOptions = parsing{options: []option{
	{short: 'b', long: "ignore-leading-blanks"},
	{short: 'd', long: "dictionary-order"},
	{short: 'f', long: "ignore-case"},
	{short: 'g', long: "general-numeric-sort"},
	{short: 'i', long: "ignore-nonprinting"},
	{short: 'M', long: "month-sort"},
	{short: 'h', long: "human-numeric-sort"},
	{short: 'n', long: "numeric-sort"},
	{short: 'R', long: "random-sort"},
	{long: "random-source", arg: required, id: 'W'},
	{short: 'r', long: "reverse"},
	{long: "sort", arg: required, id: 'O'},
	{short: 'V', long: "version-sort"},
	{short: 'c'},
	{long: "check", arg: optional, id: 'X'},
	{short: 'C'},
	{long: "files0-from", arg: required, id: 'F'},
	{short: 'k', long: "key", arg: required},
	{short: 'm', long: "merge"},
	{short: 'o', long: "output", arg: required},
	{short: 's', long: "stable"},
	{short: 't', long: "field-separator", arg: required},
	{short: 'u', long: "unique"},
	{short: 'z', long: "zero-terminated"},
	{short: 'S', long: "buffer-size", arg: required},
	{short: 'T', long: "temporary-directory", arg: required},
	{long: "parallel", arg: required, id: 'T'},
	{long: "batch-size", arg: required, id: 'T'},
	{long: "compress-program", arg: required, id: 'T'},
	{short: 'y', arg: optional, id: 'T'},
}}

func sortCommand(p *kernel.Proc) int {
	opts, names, ok := sortOptions.parse(p)
	if !ok {
		return 2
	}
	j := &sortJob{p: p, sep: -1, eol: '\n'}
	for _, o := range opts {
		if msg := j.option(o); msg != "" {
			if msg == refused {
				return 1
			}
			p.Errorf("%s", msg)
			return 2
		}
	}
	if msg := j.settle(); msg != "" {
		p.Errorf("%s", msg)
		return 2
	}
	if j.from0 != "" {
		var code int
		if names, ok = names0(p, j.from0, "open failed: "+quotef(j.from0), names); !ok {
			return 2
		}
		if names, code = checkNames0(p, j.from0, names); code != 0 {
			return 2
		}
		if len(names) == 0 {
			p.Errorf("no input from %s", quote(j.from0))
			return 2
		}
	}
	names = operandsOr(names)
	switch {
	case j.check != 0 && len(names) > 1:
		p.Errorf("extra operand %s not allowed with -%c", quote(names[1]), "?cC"[j.check])
		return 2
	case j.check != 0:
		return j.checkOrder(names[0])
	}
	return j.run(names)
}

// refused is the message of an option that has complained already.
const refused = "\x00"

func (j *sortJob) option(o given) string {
	switch o.key {
	case 'c', 'C':
		kind := 1 + int(b2i(o.key == 'C'))
		if j.check != 0 && j.check != kind {
			return "options '-cC' are incompatible"
		}
		j.check = kind
	case 'X':
		j.check = 1
		if o.has {
			v, ok := choose(j.p, "--check", o.value, []choice{{"quiet", 2}, {"silent", 2}, {"diagnose-first", 1}})
			if !ok {
				return refused
			}
			j.check = v
		}
	case 'O':
		v, ok := choose(j.p, "--sort", o.value, []choice{{"general-numeric", 'g'}, {"human-numeric", 'h'}, {"month", 'M'}, {"numeric", 'n'}, {"random", 'R'}, {"version", 'V'}})
		if !ok {
			return refused
		}
		j.global.ordering(string(rune(v)), 0)
	case 'k':
		k, msg := parseSortKey(o.value)
		if msg != "" {
			return msg
		}
		j.keys = append(j.keys, k)
	case 't':
		return j.separator(o.value)
	case 'o':
		if j.output != "" && j.output != o.value {
			return "multiple output files specified"
		}
		j.output = o.value
	case 'F':
		j.from0 = o.value
	case 'W':
		j.source = o.value
	case 'S', 'T':
	default:
		j.flag(o.key)
	}
	return ""
}

func (j *sortJob) flag(key rune) {
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
		j.global.ordering(string(key), blanksStart|blanksEnd)
	}
}

func (j *sortJob) separator(s string) string {
	switch {
	case s == "":
		return "empty tab"
	case s == `\0`:
		s = "\x00"
	case len(s) > 1:
		return "multi-character tab " + cite(s)
	}
	if j.sep >= 0 && j.sep != int(s[0]) {
		return "incompatible tabs"
	}
	j.sep = int(s[0])
	return ""
}

// settle lets keys without options of their own have the global ones.
func (j *sortJob) settle() string {
	for _, k := range j.keys {
		if k.plain() && !k.reverse {
			k.blanks, k.endBlanks, k.fold, k.dict, k.printing = j.global.blanks, j.global.endBlanks, j.global.fold, j.global.dict, j.global.printing
			k.kinds, k.reverse = j.global.kinds, j.global.reverse
		}
	}
	if len(j.keys) == 0 && !j.global.plain() {
		k := j.global
		k.whole = true
		j.keys = append(j.keys, &k)
	}
	random := false
	for _, k := range j.keys {
		if msg := k.settle(); msg != "" {
			return msg
		}
		random = random || k.kind == sortRandom
	}
	j.simple = len(j.keys) == 0
	if !random {
		return ""
	}
	var b [8]byte
	if j.source == "" {
		j.p.Rand(b[:])
	} else {
		h, err := open(j.p, j.source)
		if err != nil {
			return "open failed: " + quotef(j.source) + ": " + why(err)
		}
		if n, err := h.Read(b[:]); err != nil || n == 0 {
			return quotef(j.source) + ": end of file"
		}
		closeInput(h)
	}
	j.seed = binary.LittleEndian.Uint64(b[:])
	return ""
}

// compare orders two lines by the keys, and without -s and -u by all of them.
func (j *sortJob) compare(a, b []byte) int {
	for i, k := range j.keys {
		if c := j.compareKey(k, a, b); c != 0 {
			return c
		}
		j.p.Tick(i + 1)
	}
	return j.lastResort(a, b)
}

func (j *sortJob) compareKey(k *sortKey, a, b []byte) int {
	af, at := k.bounds(a, j.sep)
	bf, bt := k.bounds(b, j.sep)
	c := k.compare(a[af:at], b[bf:bt], j.seed)
	if k.reverse {
		return -c
	}
	return c
}

func (j *sortJob) lastResort(a, b []byte) int {
	if len(j.keys) > 0 && (j.stable || j.unique) {
		return 0
	}
	c := bytes.Compare(a, b)
	if j.global.reverse {
		return -c
	}
	return c
}

// failRead reports an input that can't be read.
func (j *sortJob) failRead(name string, err error) int {
	verb := "cannot read"
	if errors.Is(err, vfs.EISDIR) {
		verb = "read failed"
	}
	j.p.Errorf("%s: %s: %s", verb, quotef(name), why(err))
	return 2
}

func (j *sortJob) run(names []string) int {
	if j.merge && !slices.Contains(names, j.output) && len(names) <= 64 {
		return j.mergeFiles(names)
	}
	a := &sortArena{p: j.p, eol: j.eol}
	for _, name := range names {
		in, err := open(j.p, name)
		if err != nil {
			return j.failRead(name, err)
		}
		size := int64(0)
		if f := in.File(); f != nil {
			if info, err := f.Stat(); err == nil {
				size = info.Size()
			}
		}
		err = a.load(in, size)
		closeInput(in)
		if err != nil {
			return j.failRead(name, err)
		}
	}
	a.cut()
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

func (j *sortJob) openOutput() int {
	j.writer, j.outName = j.p.Out(), "standard output"
	if j.output == "" {
		return 0
	}
	h, err := j.p.Create(j.output)
	if err != nil {
		j.p.Errorf("open failed: %s: %s", quotef(j.output), why(err))
		return 2
	}
	j.writer, j.outName = bufio.NewWriterSize(h, chunk), j.output
	return 0
}

func (j *sortJob) closeOutput() int {
	if err := j.writer.Flush(); err != nil {
		j.p.Errorf("write failed: %s: %s", quote(j.outName), why(err))
		return 2
	}
	return 0
}

func (j *sortJob) write(a *sortArena) {
	var prev *sortLine
	for i := range a.lines {
		l := &a.lines[i]
		if j.unique && prev != nil && j.compare(a.text(prev), a.text(l)) == 0 {
			continue
		}
		prev = l
		if _, err := j.writer.Write(a.buf[l.at : l.at+l.n+1]); err != nil {
			return // shows again at the flush
		}
		j.p.Tick(1)
	}
}

// checkOrder tells whether a file is sorted.
func (j *sortJob) checkOrder(name string) int {
	in, err := open(j.p, name)
	if err != nil {
		return j.failRead(name, err)
	}
	defer closeInput(in)
	l := newLines(j.p, in, j.eol)
	defer l.close()
	var prev []byte
	for n := 1; ; n++ {
		line := l.next()
		if line == nil {
			break
		}
		text := trimDelim(line, j.eol)
		if n > 1 {
			if c := j.compare(prev, text); c > 0 || c == 0 && j.unique {
				if j.check == 1 {
					j.p.Errorf("%s:%d: disorder: %s", quotef(name), n, text)
				}
				return 1
			}
		}
		prev = append(prev[:0], text...)
	}
	if err := l.failed(); err != nil {
		return j.failRead(name, err)
	}
	return 0
}

// mergeFiles merges sorted inputs, a line of each at a time.
func (j *sortJob) mergeFiles(names []string) int {
	var inputs []*lines
	var heads [][]byte
	for _, name := range names {
		in, err := open(j.p, name)
		if err != nil {
			return j.failRead(name, err)
		}
		defer closeInput(in)
		j.p.Alloc(chunk)
		l := newLines(j.p, in, j.eol)
		inputs, heads = append(inputs, l), append(heads, l.next())
	}
	if code := j.openOutput(); code != 0 {
		return code
	}
	var last []byte
	for first := true; ; {
		best := -1
		for i, h := range heads {
			if h != nil && (best < 0 || j.compare(trimDelim(h, j.eol), trimDelim(heads[best], j.eol)) < 0) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		text := trimDelim(heads[best], j.eol)
		if first || !j.unique || j.compare(last, text) != 0 {
			_, _ = j.writer.Write(text) // shows at the flush, as below
			_ = j.writer.WriteByte(j.eol)
			if j.unique {
				last = append(last[:0], text...)
			}
		}
		first = false
		heads[best] = inputs[best].next()
	}
	for i, l := range inputs {
		if err := l.failed(); err != nil {
			return j.failRead(names[i], err)
		}
	}
	return j.closeOutput()
}
