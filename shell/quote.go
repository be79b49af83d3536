package shell

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// needsEscapes reports whether s contains characters that only $'…' can show.
func needsEscapes(s string) bool {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c < ' ' || c == 127 {
				return true
			}
			i++
			continue
		}
		r, w := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && w == 1 || !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) {
			return true
		}
		i += w
	}
	return false
}

// quoteEscapes quotes s as $'…'.
func quoteEscapes(s string) string {
	var b strings.Builder
	b.Grow(len(s) + 8)
	b.WriteString("$'")
	for i := 0; i < len(s); {
		r, w := utf8.DecodeRuneInString(s[i:])
		c := s[i]
		switch k := strings.IndexByte("\x1b\a\b\f\n\r\t\v\\'", c); {
		case k >= 0:
			b.WriteByte('\\')
			b.WriteByte(`Eabfnrtv\'`[k])
		case w == 1 && (c < ' ' || c >= 127), r != utf8.RuneError && c >= utf8.RuneSelf && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r):
			for j := range w {
				fmt.Fprintf(&b, `\%03o`, s[i+j])
			}
		default:
			b.WriteString(s[i : i+w])
		}
		i += w
	}
	b.WriteByte('\'')
	return b.String()
}

// hasMetas reports whether s must be quoted to be one literal word.
func hasMetas(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\n', '\'', '"', '\\', '|', '&', ';', '(', ')', '<', '>', '!', '{', '}', '*', '[', '?', ']', '^', '$', '`':
			return true
		case '~':
			if i == 0 || s[i-1] == '=' || s[i-1] == ':' {
				return true
			}
		case '#':
			if i == 0 || s[i-1] == ' ' || s[i-1] == '\t' {
				return true
			}
		}
	}
	return false
}

// quoteSingle quotes s with single quotes.
func quoteSingle(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// writeSingle writes s with single quotes, in pieces: s may be large.
func writeSingle(w io.StringWriter, s string) {
	_, _ = w.WriteString("'") // a failed write is reported when the output is flushed
	for found := true; found; {
		var part string
		part, s, found = strings.Cut(s, "'")
		_, _ = w.WriteString(part)
		if found {
			_, _ = w.WriteString(`'\''`)
		}
	}
	_, _ = w.WriteString("'")
}

// quoteDouble quotes s with double quotes.
func quoteDouble(s string) string {
	if !strings.ContainsAny(s, "\"$`\\") {
		return `"` + s + `"`
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		if strings.IndexByte("\"$`\\", s[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
	return b.String()
}

// quoteAlways quotes s as ${x@Q} does, even if that is not needed.
func quoteAlways(s string) string {
	if needsEscapes(s) {
		return quoteEscapes(s)
	}
	return quoteSingle(s)
}

// quoteWord quotes s if needed, as set -x does.
func quoteWord(s string) string {
	switch {
	case s == "":
		return "''"
	case hasMetas(s):
		return quoteSingle(s)
	case needsEscapes(s):
		return quoteEscapes(s)
	}
	return s
}

// quoteSet quotes a value as set lists it.
func quoteSet(s string) string {
	switch {
	case needsEscapes(s):
		return quoteEscapes(s)
	case hasMetas(s):
		return quoteSingle(s)
	}
	return s
}

// quoteVar quotes a value as declare -p lists it.
func quoteVar(s string) string {
	if needsEscapes(s) {
		return quoteEscapes(s)
	}
	return quoteDouble(s)
}

// quoteKey quotes the key of an associative array as declare -p lists it.
func quoteKey(s string) string {
	switch {
	case needsEscapes(s):
		return quoteEscapes(s)
	case s == "" || hasMetas(s) || s == "@":
		return quoteDouble(s)
	}
	return s
}

// quoteBackslash quotes s as %q of printf does.
func quoteBackslash(s string) string {
	switch {
	case s == "":
		return "''"
	case needsEscapes(s):
		return quoteEscapes(s)
	case !hasMetas(s) && strings.IndexByte(s, ',') < 0:
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		special := strings.IndexByte(" \t\n'\"\\|&;()<>!{}*[?]^$`,", c) >= 0 ||
			c == '#' && i == 0 || c == '~' && (i == 0 || s[i-1] == '=' || s[i-1] == ':')
		if special {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
