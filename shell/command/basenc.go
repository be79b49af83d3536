package command

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

// baseUsage returns the usage of base64 and base32.
func baseUsage(tool string) string {
	return "Usage: " + tool + ` [OPTION]... [FILE]
` + strings.ToUpper(tool[:1]) + tool[1:] + ` encode or decode FILE, or standard input, to standard output.

With no FILE, or when FILE is -, read standard input.

  -d, --decode          decode data
  -i, --ignore-garbage  when decoding, ignore non-alphabet characters
  -w, --wrap=COLS       wrap encoded lines after COLS character (default 76).
                          Use 0 to disable line wrapping
      --help            display this help and exit
`
}

const basencUsage = `Usage: basenc [OPTION]... [FILE]
basenc encode or decode FILE, or standard input, to standard output.

With no FILE, or when FILE is -, read standard input.

      --base64          same as 'base64' program (RFC4648 section 4)
      --base64url       file- and url-safe base64 (RFC4648 section 5)
      --base32          same as 'base32' program (RFC4648 section 6)
      --base32hex       extended hex alphabet base32 (RFC4648 section 7)
      --base16          hex encoding (RFC4648 section 8)
      --base2msbf       bit string with most significant bit (msb) first
      --base2lsbf       bit string with least significant bit (lsb) first
      --z85             ascii85-like encoding (ZeroMQ spec:32/Z85)
  -d, --decode          decode data
  -i, --ignore-garbage  when decoding, ignore non-alphabet characters
  -w, --wrap=COLS       wrap encoded lines after COLS character (default 76).
                          Use 0 to disable line wrapping
      --help            display this help and exit
`

// radix is a way to write bytes: in groups of raw bytes and as many
// characters.
type radix struct {
	raw, chars int
	alphabet   string
	pad        bool
	encode     func(dst, src []byte) []byte // appends
	decode     func(dst, src []byte) ([]byte, bool)
}

const z85Digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

const (
	base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	base32Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	hex32Digits  = "0123456789ABCDEFGHIJKLMNOPQRSTUV"
)

func radix64(e *base64.Encoding, digits string) radix {
	return radix{3, 4, digits + "=", true, e.AppendEncode, func(dst, src []byte) ([]byte, bool) {
		out, err := e.AppendDecode(dst, src)
		return out, err == nil
	}}
}

func radix32(e *base32.Encoding, digits string) radix {
	return radix{5, 8, digits + "=", true, e.AppendEncode, func(dst, src []byte) ([]byte, bool) {
		out, err := e.AppendDecode(dst, src)
		return out, err == nil
	}}
}

func radixOf(kind rune) radix {
	switch kind {
	case 'u':
		return radix64(base64.URLEncoding, base64Digits+"-_")
	case '3':
		return radix32(base32.StdEncoding, base32Digits)
	case 'h':
		return radix32(base32.HexEncoding, hex32Digits)
	case 'x':
		return radix{1, 2, "0123456789ABCDEF", false, encodeHex, decodeHex}
	case 'm', 'l':
		return bitRadix(kind == 'm')
	case 'z':
		return radix{4, 5, z85Digits, false, encodeZ85, decodeZ85}
	}
	return radix64(base64.StdEncoding, base64Digits+"+/")
}

func encodeHex(dst, src []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range src {
		dst = append(dst, digits[c>>4], digits[c&15])
	}
	return dst
}

func decodeHex(dst, src []byte) ([]byte, bool) {
	for i := 0; i+1 < len(src); i += 2 {
		h, l := strings.IndexByte("0123456789ABCDEF", src[i]), strings.IndexByte("0123456789ABCDEF", src[i+1])
		if h < 0 || l < 0 {
			return dst, false
		}
		dst = append(dst, byte(h<<4|l))
	}
	return dst, len(src)%2 == 0
}

func bitRadix(msbFirst bool) radix {
	shift := func(i int) int {
		if msbFirst {
			return 7 - i
		}
		return i
	}
	return radix{1, 8, "01", false, func(dst, src []byte) []byte {
		for _, c := range src {
			for i := range 8 {
				dst = append(dst, '0'+c>>shift(i)&1)
			}
		}
		return dst
	}, func(dst, src []byte) ([]byte, bool) {
		for ; len(src) >= 8; src = src[8:] {
			c := byte(0)
			for i, d := range src[:8] {
				if d != '0' && d != '1' {
					return dst, false
				}
				c |= (d - '0') << shift(i)
			}
			dst = append(dst, c)
		}
		return dst, len(src) == 0
	}}
}

func encodeZ85(dst, src []byte) []byte {
	for ; len(src) >= 4; src = src[4:] {
		v := uint32(src[0])<<24 | uint32(src[1])<<16 | uint32(src[2])<<8 | uint32(src[3])
		var five [5]byte
		for i := 4; i >= 0; i-- {
			five[i] = z85Digits[v%85]
			v /= 85
		}
		dst = append(dst, five[:]...)
	}
	return dst
}

func decodeZ85(dst, src []byte) ([]byte, bool) {
	for ; len(src) >= 5; src = src[5:] {
		v := uint64(0)
		for _, c := range src[:5] {
			d := strings.IndexByte(z85Digits, c)
			if d < 0 {
				return dst, false
			}
			v = v*85 + uint64(d)
		}
		if v > 1<<32-1 {
			return dst, false
		}
		dst = append(dst, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	}
	return dst, len(src) == 0
}

var baseOptions = []option{
	{short: 'd', long: "decode"}, {short: 'i', long: "ignore-garbage"}, {short: 'w', long: "wrap", arg: required},
}

// baser returns the program for one way to write.
func baser(kind rune) kernel.Program {
	return func(p *kernel.Proc) int { return baseRun(p, kind, parsing{options: baseOptions}) }
}

func basenc(p *kernel.Proc) int {
	return baseRun(p, 0, parsing{options: append([]option{
		{long: "base64", id: '6'},
		{long: "base64url", id: 'u'},
		{long: "base32", id: '3'},
		{long: "base32hex", id: 'h'},
		{long: "base16", id: 'x'},
		{long: "base2msbf", id: 'm'},
		{long: "base2lsbf", id: 'l'},
		{long: "z85", id: 'z'},
	}, baseOptions...)})
}

func baseRun(p *kernel.Proc, kind rune, s parsing) int {
	opts, names, ok := s.parse(p)
	if !ok {
		return 1
	}
	wrap := int64(76)
	decode, garbage := false, false
	for _, o := range opts {
		switch o.key {
		case 'd':
			decode = true
		case 'i':
			garbage = true
		case 'w':
			n, fault := parseSize(o.value, "")
			if fault == sizeBad || n < 0 {
				p.Errorf("invalid wrap size: %s", cite(o.value))
				return 1
			}
			wrap = n
		default:
			kind = o.key
		}
	}
	if extra(p, names, 1) {
		return 1
	}
	if kind == 0 {
		p.Errorf("missing encoding type")
		tryHelp(p)
		return 1
	}
	name := operandsOr(names)[0]
	in, err := open(p, name)
	if err != nil {
		p.Errorf("%s: %s", quotef(name), why(err))
		return 1
	}
	defer closeInput(in)
	r := radixOf(kind)
	msg := ""
	if decode {
		msg, err = r.decodeAll(p, in, garbage)
	} else {
		msg, err = r.encodeAll(p, in, wrap)
	}
	if err != nil {
		msg = "read error: " + why(err)
	}
	if msg != "" {
		p.Errorf("%s", msg)
		return 1
	}
	return 0
}

// encodeAll encodes a stream in whole groups of bytes.
func (r radix) encodeAll(p *kernel.Proc, in io.Reader, wrap int64) (string, error) {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	var out []byte
	col := int64(0)
	for {
		n, err := io.ReadFull(in, b[:60<<10])
		p.Tick(1 + n>>5)
		if n%r.raw != 0 && !r.pad {
			return "invalid input (length must be multiple of 4 characters)", nil
		}
		out = r.encode(out[:0], b[:n])
		col = wrapped(p, out, wrap, col)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if wrap > 0 && col > 0 {
				_ = p.Out().WriteByte('\n') // shows at the flush
			}
			return "", nil
		case err != nil:
			return "", err
		}
	}
}

// wrapped writes text in lines of wrap characters and returns the column.
func wrapped(p *kernel.Proc, text []byte, wrap, col int64) int64 {
	out := p.Out()
	for wrap > 0 && int64(len(text)) >= wrap-col {
		_, _ = out.Write(text[:wrap-col]) // shows at the flush
		_ = out.WriteByte('\n')
		text = text[wrap-col:]
		col = 0
	}
	_, _ = out.Write(text)
	return col + int64(len(text))
}

const badInput = "invalid input"

// decodeAll decodes a stream; what is not yet a whole group waits.
func (r radix) decodeAll(p *kernel.Proc, in io.Reader, garbage bool) (string, error) {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	var known [256]bool
	for i := range len(r.alphabet) {
		known[r.alphabet[i]] = true
	}
	var text, raw []byte
	for {
		n, err := in.Read(b[:])
		p.Tick(1 + n>>5)
		for _, c := range b[:n] {
			if c != '\n' && (!garbage || known[c]) {
				text = append(text, c)
			}
		}
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return "", err
		}
		whole := len(text)
		if !end {
			whole -= whole % r.chars
		}
		var ok bool
		raw, ok = r.decodeGroups(raw[:0], text[:whole])
		_, _ = p.Out().Write(raw) // shows at the flush
		if !ok {
			return badInput, nil
		}
		text = append(text[:0], text[whole:]...)
		if end {
			return "", nil
		}
	}
}

// decodeGroups decodes up to the first group that is wrong, of which it keeps
// what can be read. Padding may stand inside, where texts were joined.
func (r radix) decodeGroups(raw, text []byte) ([]byte, bool) {
	if !r.pad {
		return r.decode(raw, text)
	}
	for len(text) > 0 {
		n := len(text) - len(text)%r.chars
		if i := bytes.IndexByte(text, '='); i >= 0 {
			n = min(n, i/r.chars*r.chars+r.chars)
		}
		if n == 0 {
			n = len(text)
		}
		out, ok := r.decode(raw, text[:n])
		if !ok {
			return r.salvage(raw, text[:n]), false
		}
		raw, text = out, text[n:]
	}
	return raw, true
}

// salvage decodes what it can of a text with a fault.
func (r radix) salvage(raw, text []byte) []byte {
	for len(text) >= r.chars {
		out, ok := r.decode(raw, text[:r.chars])
		if !ok {
			break
		}
		raw, text = out, text[r.chars:]
	}
	good := 0
	for good < len(text) && good < r.chars && text[good] != '=' && strings.IndexByte(r.alphabet, text[good]) >= 0 {
		good++
	}
	group := append([]byte(nil), text[:good]...)
	if r.chars != 4 { // GNU keeps such a rest of base64 only
		return raw
	}
	keep := good * 6 / 8
	for len(group) < r.chars {
		group = append(group, r.alphabet[0])
	}
	if out, ok := r.decode(nil, group); ok && keep <= len(out) {
		raw = append(raw, out[:keep]...)
	}
	return raw
}
