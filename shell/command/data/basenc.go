package data

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// radix is an encoding of bytes: groups of raw bytes become groups of characters.
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

func newRadix64(e *base64.Encoding, digits string) radix {
	return radix{3, 4, digits + "=", true, e.AppendEncode, func(dst, src []byte) ([]byte, bool) {
		out, err := e.AppendDecode(dst, src)
		return out, err == nil
	}}
}

func newRadix32(e *base32.Encoding, digits string) radix {
	return radix{5, 8, digits + "=", true, e.AppendEncode, func(dst, src []byte) ([]byte, bool) {
		out, err := e.AppendDecode(dst, src)
		return out, err == nil
	}}
}

// findRadix returns the encoding of an option.
func findRadix(kind rune) radix {
	switch kind {
	case 'u':
		return newRadix64(base64.URLEncoding, base64Digits+"-_")
	case '3':
		return newRadix32(base32.StdEncoding, base32Digits)
	case 'h':
		return newRadix32(base32.HexEncoding, hex32Digits)
	case 'x':
		return radix{1, 2, "0123456789ABCDEF", false, encodeHex, decodeHex}
	case 'm', 'l':
		return newBitRadix(kind == 'm')
	case 'z':
		return radix{4, 5, z85Digits, false, encodeZ85, decodeZ85}
	}
	return newRadix64(base64.StdEncoding, base64Digits+"+/")
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

func newBitRadix(msbFirst bool) radix {
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

// encodeZ85 appends the Z85 encoding of groups of four bytes.
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

// decodeZ85 appends the bytes of groups of five characters.
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

var baseOptions = []option.Option{
	{Short: 'd', Long: "decode"}, {Short: 'i', Long: "ignore-garbage"}, {Short: 'w', Long: "wrap", Arg: option.Required},
}

// newBaseProgram returns the program of base64 or base32.
func newBaseProgram(kind rune) kernel.Program {
	return func(p *kernel.Proc) int { return runBase(p, kind, option.Parser{Options: baseOptions}) }
}

func runBasenc(p *kernel.Proc) int {
	return runBase(p, 0, option.Parser{Options: append([]option.Option{
		{Long: "base64", ID: '6'},
		{Long: "base64url", ID: 'u'},
		{Long: "base32", ID: '3'},
		{Long: "base32hex", ID: 'h'},
		{Long: "base16", ID: 'x'},
		{Long: "base2msbf", ID: 'm'},
		{Long: "base2lsbf", ID: 'l'},
		{Long: "z85", ID: 'z'},
	}, baseOptions...)})
}

func runBase(p *kernel.Proc, kind rune, s option.Parser) int {
	opts, names, ok := s.Parse(p)
	if !ok {
		return 1
	}
	wrap := int64(76)
	decode, garbage := false, false
	for _, o := range opts {
		switch o.Key {
		case 'd':
			decode = true
		case 'i':
			garbage = true
		case 'w':
			n, fault := number.ParseSize(o.Value, "")
			if fault == number.Invalid || n < 0 {
				p.Errorf("invalid wrap size: %s", quoting.QuoteWord(o.Value))
				return 1
			}
			wrap = n
		default:
			kind = o.Key
		}
	}
	if option.ReportExtra(p, names, 1) {
		return 1
	}
	if kind == 0 {
		p.Errorf("missing encoding type")
		option.SuggestHelp(p)
		return 1
	}
	name := stream.OperandsOrStdin(names)[0]
	in, err := stream.Open(p, name)
	if err != nil {
		p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		return 1
	}
	defer stream.Close(in)
	r := findRadix(kind)
	msg := ""
	if decode {
		msg, err = r.decodeAll(p, in, garbage)
	} else {
		msg, err = r.encodeAll(p, in, wrap)
	}
	if err != nil {
		msg = "read error: " + program.Reason(err)
	}
	if msg != "" {
		p.Errorf("%s", msg)
		return 1
	}
	return 0
}

// encodeAll encodes a stream in whole groups of bytes.
func (r radix) encodeAll(p *kernel.Proc, in io.Reader, wrap int64) (string, error) {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
	var out []byte
	col := int64(0)
	for {
		n, err := io.ReadFull(in, b[:60<<10])
		p.Tick(1 + n>>5)
		if n%r.raw != 0 && !r.pad {
			return "invalid input (length must be multiple of 4 characters)", nil
		}
		out = r.encode(out[:0], b[:n])
		col = writeWrapped(p, out, wrap, col)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if wrap > 0 && col > 0 {
				_ = p.Out().WriteByte('\n') // Flush reports the error
			}
			return "", nil
		case err != nil:
			return "", err
		}
	}
}

// writeWrapped writes text in lines of wrap characters, starting at column col, and returns the column
// at its end.
func writeWrapped(p *kernel.Proc, text []byte, wrap, col int64) int64 {
	out := p.Out()
	for wrap > 0 && int64(len(text)) >= wrap-col {
		_, _ = out.Write(text[:wrap-col]) // Flush reports the error
		_ = out.WriteByte('\n')
		text = text[wrap-col:]
		col = 0
	}
	_, _ = out.Write(text)
	return col + int64(len(text))
}

const badInput = "invalid input"

// decodeAll decodes a stream. An incomplete group is kept until more input follows.
func (r radix) decodeAll(p *kernel.Proc, in io.Reader, garbage bool) (string, error) {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
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
		_, _ = p.Out().Write(raw) // Flush reports the error
		if !ok {
			return badInput, nil
		}
		text = append(text[:0], text[whole:]...)
		if end {
			return "", nil
		}
	}
}

// decodeGroups decodes up to the first invalid group, including a valid prefix of that. Padding may
// occur inside, where encoded texts were concatenated.
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
			return r.decodePrefix(raw, text[:n]), false
		}
		raw, text = out, text[n:]
	}
	return raw, true
}

// decodePrefix decodes the valid prefix of an invalid text.
func (r radix) decodePrefix(raw, text []byte) []byte {
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
	if r.chars != 4 { // GNU does so for base64 only
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
