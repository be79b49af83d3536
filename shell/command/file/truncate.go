package file

import (
	"math"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const truncateUsage = `Usage: truncate OPTION... FILE...
Shrink or extend the size of each FILE to the specified size

A FILE argument that does not exist is created.

  -c, --no-create        do not create any files
  -o, --io-blocks        treat SIZE as number of IO blocks instead of bytes
  -r, --reference=RFILE  base size on RFILE
  -s, --size=SIZE        set or adjust the file size by SIZE bytes
      --help             display this help and exit

SIZE may also be prefixed by one of the following modifying characters:
'+' extend by, '-' reduce by, '<' at most, '>' at least,
'/' round down to multiple of, '%' round up to multiple of.
`

var truncateOptions = option.Parser{Options: []option.Option{
	{Short: 'c', Long: "no-create"}, {Short: 'o', Long: "io-blocks"}, {Short: 'r', Long: "reference", Arg: option.Required}, {Short: 's', Long: "size", Arg: option.Required},
}}

type truncateJob struct {
	p        *kernel.Proc
	noCreate bool
	blocks   bool
	op       byte // 0: to size; else + - < > / %
	size     int64
	ref      int64 // -1: the file's own size
}

func runTruncate(p *kernel.Proc) int {
	opts, names, ok := truncateOptions.Parse(p)
	if !ok {
		return 1
	}
	j := truncateJob{p: p, ref: -1}
	size, ref := "", ""
	for _, o := range opts {
		switch o.Key {
		case 'c':
			j.noCreate = true
		case 'o':
			j.blocks = true
		case 'r':
			ref = o.Value
		case 's':
			size = o.Value
			if !j.parseSize(size) {
				return 1
			}
		}
	}
	if msg := j.checkOptions(size, ref); msg != "" {
		p.Errorf("%s", msg)
		option.SuggestHelp(p)
		return 1
	}
	if len(names) == 0 {
		p.Errorf("missing file operand")
		option.SuggestHelp(p)
		return 1
	}
	if ref != "" {
		info, err := p.Stat(ref)
		if err != nil {
			p.Errorf("cannot stat %s: %s", quoting.QuoteName(ref), program.Reason(err))
			return 1
		}
		j.ref = info.Size()
	}
	code := 0
	for _, name := range names {
		if !j.truncateFile(name) {
			code = 1
		}
	}
	return code
}

func (j *truncateJob) checkOptions(size, ref string) string {
	switch {
	case size == "" && ref == "":
		return "you must specify either " + quoting.QuoteWord("--size") + " or " + quoting.QuoteWord("--reference")
	case size != "" && ref != "" && j.op == 0:
		return "you must specify a relative " + quoting.QuoteWord("--size") + " with " + quoting.QuoteWord("--reference")
	case j.blocks && size == "":
		return quoting.QuoteWord("--io-blocks") + " was specified but " + quoting.QuoteWord("--size") + " was not"
	}
	return ""
}

func (j *truncateJob) parseSize(s string) bool {
	num := strings.TrimLeft(s, " \t")
	if num != "" && strings.IndexByte("<>/%", num[0]) >= 0 {
		j.op = num[0]
		num = strings.TrimLeft(num[1:], " \t")
	}
	if num != "" && (num[0] == '+' || num[0] == '-') {
		if j.op != 0 {
			j.p.Errorf("multiple relative modifiers specified")
			option.SuggestHelp(j.p)
			return false
		}
		j.op = num[0]
		num = num[1:]
	}
	n, fault := number.ParseSize(num, "EgGkKmMPtTYZ0")
	j.size = n
	switch {
	case fault == number.TooLarge:
		j.p.Errorf("Invalid number: %s: Value too large for defined data type", quoting.QuoteWord(s))
	case fault == number.Invalid || num == "" || num[0] == '+':
		j.p.Errorf("Invalid number: %s", quoting.QuoteWord(strings.TrimLeft(s, " \t<>/%")))
	case n == 0 && (j.op == '/' || j.op == '%'):
		j.p.Errorf("division by zero")
	default:
		return true
	}
	return false
}

func (j *truncateJob) truncateFile(name string) bool {
	flag := os.O_WRONLY
	if !j.noCreate {
		flag |= os.O_CREATE
	}
	h, err := j.p.OpenFile(name, flag, 0o666)
	if err != nil {
		if j.noCreate && isMissing(err) {
			return true
		}
		j.p.Errorf("cannot open %s for writing: %s", quoting.QuoteName(name), program.Reason(err))
		return false
	}
	defer stream.Close(h)
	size, ok := j.targetSize(h)
	if !ok {
		j.p.Errorf("overflow extending size of file %s", quoting.QuoteName(name))
		return false
	}
	if err := h.Truncate(size); err != nil {
		j.p.Errorf("failed to truncate %s at %d bytes: %s", quoting.QuoteName(name), size, program.Reason(err))
		return false
	}
	return true
}

// targetSize returns the size to set, and false if it is out of range.
func (j *truncateJob) targetSize(h *kernel.Handle) (int64, bool) {
	n := j.size
	if j.blocks {
		if n > math.MaxInt64/4096 {
			return 0, false
		}
		n *= 4096
	}
	base := j.ref
	if base < 0 && j.op != 0 {
		base = 0
		if f := h.File(); f != nil {
			if info, err := f.Stat(); err == nil {
				base = info.Size()
			}
		}
	}
	switch j.op {
	case '+':
		return base + n, base <= math.MaxInt64-n
	case '-':
		return max(0, base-n), true
	case '<':
		return min(base, n), true
	case '>':
		return max(base, n), true
	case '/':
		return base / n * n, true
	case '%':
		up := number.DivideUp(base, n)
		return up * n, up <= math.MaxInt64/n
	}
	if j.size == 0 && base >= 0 && j.ref >= 0 {
		return base, true
	}
	return n, true
}
