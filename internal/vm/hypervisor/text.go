package hypervisor

import "strings"

// maxShown limits the bytes of a VM's text that one line quotes.
const maxShown = 300

// printableLine returns untrusted text as one line without control characters, of at most the given
// number of bytes.
func printableLine(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == 0xfffd {
			return ' '
		}
		return r
	}, s))
}

// replaceNonASCII replaces in place all bytes that are not plain ASCII text by dots.
func replaceNonASCII(b []byte) []byte {
	out := b[:0]
	for _, c := range b {
		switch {
		case c == '\n' || c == '\t' || c >= ' ' && c < 0x7f:
			out = append(out, c)
		case c == '\r': // consoles end lines with both
		default:
			out = append(out, '.')
		}
	}
	return out
}
