package shell

import "strings"

func bEcho(in *interp, args []string) int {
	newline, escapes := true, in.shopts&shXpgEcho != 0
	i := 1
	for ; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' || strings.Trim(a[1:], "neE") != "" || in.optOn(optPosix) && escapes {
			break
		}
		for j := 1; j < len(a); j++ {
			switch a[j] {
			case 'n':
				newline = false
			case 'e':
				escapes = true
			case 'E':
				escapes = false
			}
		}
	}
	n := len(args) - i + 1
	for _, a := range args[i:] {
		n += len(a)
	}
	in.chargeScratch(n)
	b := make([]byte, 0, n)
	for k, a := range args[i:] {
		if k > 0 {
			b = append(b, ' ')
		}
		if !escapes || strings.IndexByte(a, '\\') < 0 {
			b = append(b, a...)
			continue
		}
		t, end := in.echoEscapes(a)
		b = append(b, t...)
		if end {
			newline = false
			break
		}
	}
	if newline {
		b = append(b, '\n')
	}
	return in.writeOut("echo", b)
}

// echoEscapes decodes the escapes of echo -e. They are those of printf's %b,
// except that octal numbers begin with a zero.
func (in *interp) echoEscapes(s string) (string, bool) {
	p := &printer{in: in}
	var b strings.Builder
	in.chargeScratch(len(s))
	b.Grow(len(s))
	for s != "" {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		if len(s) > 1 && (s[1] >= '1' && s[1] <= '7' || strings.IndexByte(`"'?`, s[1]) >= 0) || missingDigits(s) {
			b.WriteString(s[:2])
			s = s[2:]
			continue
		}
		t, n, end := p.decodeEscape(s, true)
		if end {
			return b.String(), true
		}
		b.WriteString(t)
		s = s[n:]
	}
	return b.String(), false
}

// missingDigits reports whether s begins with \x, \u or \U without a digit,
// which echo prints literally.
func missingDigits(s string) bool {
	if len(s) < 2 || strings.IndexByte("xuU", s[1]) < 0 {
		return false
	}
	_, n := scanDigits(s[2:], 1, 16)
	return n == 0
}
