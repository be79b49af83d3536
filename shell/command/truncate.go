package command

import (
	"math"
	"os"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

var truncateOptions = parsing{options: []option{
	{short: 'c', long: "no-create"}, {short: 'o', long: "io-blocks"}, {short: 'r', long: "reference", arg: required}, {short: 's', long: "size", arg: required},
}}

type truncateJob struct {
	p        *kernel.Proc
	noCreate bool
	blocks   bool
	op       byte // 0: to size; else + - < > / %
	size     int64
	ref      int64 // -1: the file's own size
}

func truncate(p *kernel.Proc) int {
	opts, names, ok := truncateOptions.parse(p)
	if !ok {
		return 1
	}
	j := truncateJob{p: p, ref: -1}
	size, ref := "", ""
	for _, o := range opts {
		switch o.key {
		case 'c':
			j.noCreate = true
		case 'o':
			j.blocks = true
		case 'r':
			ref = o.value
		case 's':
			size = o.value
			if !j.parseSize(size) {
				return 1
			}
		}
	}
	if msg := j.conflict(size, ref); msg != "" {
		p.Errorf("%s", msg)
		tryHelp(p)
		return 1
	}
	if len(names) == 0 {
		p.Errorf("missing file operand")
		tryHelp(p)
		return 1
	}
	if ref != "" {
		info, err := p.Stat(ref)
		if err != nil {
			p.Errorf("cannot stat %s: %s", quote(ref), why(err))
			return 1
		}
		j.ref = info.Size()
	}
	code := 0
	for _, name := range names {
		if !j.file(name) {
			code = 1
		}
	}
	return code
}

func (j *truncateJob) conflict(size, ref string) string {
	switch {
	case size == "" && ref == "":
		return "you must specify either " + cite("--size") + " or " + cite("--reference")
	case size != "" && ref != "" && j.op == 0:
		return "you must specify a relative " + cite("--size") + " with " + cite("--reference")
	case j.blocks && size == "":
		return cite("--io-blocks") + " was specified but " + cite("--size") + " was not"
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
			tryHelp(j.p)
			return false
		}
		j.op = num[0]
		num = num[1:]
	}
	n, fault := parseSize(num, "EgGkKmMPtTYZ0")
	j.size = n
	switch {
	case fault == sizeHuge:
		j.p.Errorf("Invalid number: %s: Value too large for defined data type", cite(s))
	case fault == sizeBad || num == "" || num[0] == '+':
		j.p.Errorf("Invalid number: %s", cite(strings.TrimLeft(s, " \t<>/%")))
	case n == 0 && (j.op == '/' || j.op == '%'):
		j.p.Errorf("division by zero")
	default:
		return true
	}
	return false
}

func (j *truncateJob) file(name string) bool {
	flag := os.O_WRONLY
	if !j.noCreate {
		flag |= os.O_CREATE
	}
	h, err := j.p.OpenFile(name, flag, 0o666)
	if err != nil {
		if j.noCreate && isMissing(err) {
			return true
		}
		j.p.Errorf("cannot open %s for writing: %s", quote(name), why(err))
		return false
	}
	defer closeInput(h)
	size, ok := j.target(h)
	if !ok {
		j.p.Errorf("overflow extending size of file %s", quote(name))
		return false
	}
	if err := h.Truncate(size); err != nil {
		j.p.Errorf("failed to truncate %s at %d bytes: %s", quote(name), size, why(err))
		return false
	}
	return true
}

// target returns the size that the file is to get.
func (j *truncateJob) target(h *kernel.Handle) (int64, bool) {
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
		up := inUnits(base, n)
		return up * n, up <= math.MaxInt64/n
	}
	if j.size == 0 && base >= 0 && j.ref >= 0 {
		return base, true
	}
	return n, true
}
