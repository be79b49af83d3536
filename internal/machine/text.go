package machine

import "strings"

// maxShown is how much of what a machine says is quoted in one line.
const maxShown = 300

// printable makes a line of foreign text that does nothing to a terminal.
func printable(s string, most int) string {
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

// plain replaces in place what is not plain ASCII text.
func plain(b []byte) []byte {
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
