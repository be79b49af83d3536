// Package quoting quotes names and words like the GNU tools in messages and lists.
package quoting

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is a value of GNU's --quoting-style.
type Style int

const (
	Literal Style = iota
	Shell
	ShellAlways
	ShellEscape
	ShellEscapeAlways
	C
	Escape
	Locale
	CMaybe
	CLocale
)

// maxQuoted limits the names and words in messages. It is above the longest argument that Linux passes to a
// program, 128 KiB; quoted bytes take four to twelve times as much.
const maxQuoted = 256 << 10

// shorten returns the beginning of a name or word that is too long for a message.
func shorten(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return text[:maxQuoted] + "..."
}

// QuoteName returns a name in single quotes, valid in a shell, as GNU prints names in messages.
func QuoteName(name string) string { return ShellEscapeAlways.Quote(shorten(name), "") }

// QuoteNameIfNeeded returns a name that precedes a colon in a message, quoted only if a shell needs it.
func QuoteNameIfNeeded(name string) string { return ShellEscape.Quote(shorten(name), ":") }

// QuoteWord returns a word in quotes, with C escapes for unprintable characters.
func QuoteWord(word string) string { return Locale.Quote(shorten(word), "") }

// Account is what memory is charged to.
type Account interface {
	Alloc(n int64)
	Free(n int64)
}

// ChargeMessage charges what QuoteWord and a message with its result take, if a word of the input is long,
// and returns a function that frees it.
func ChargeMessage(a Account, word string) (free func()) {
	if len(word) < 64<<10 {
		return func() {}
	}
	n := 12 * int64(len(word)) // an escape has four bytes, and the text is copied twice
	a.Alloc(n)
	return func() { a.Free(n) }
}

// Quote returns a name in a style; the characters in also are escaped too.
func (q Style) Quote(name, also string) string {
	switch q {
	case Shell, ShellEscape:
		if !needsQuotes(name, also, q == ShellEscape) {
			return name
		}
		return quoteForShell(name, q == ShellEscape)
	case ShellAlways, ShellEscapeAlways:
		return quoteForShell(name, q == ShellEscapeAlways)
	case CMaybe:
		if text := EscapeText(name, `"`+also); text == name {
			return name
		}
		return C.Quote(name, also)
	case C, CLocale:
		return `"` + EscapeText(name, `"`+also) + `"`
	case Locale:
		return "'" + EscapeText(name, "'"+also) + "'"
	case Escape:
		return EscapeText(name, " "+also)
	}
	return name
}

// needsQuotes reports whether name must be quoted for a shell.
func needsQuotes(name, also string, escapes bool) bool {
	if name == "" {
		return true
	}
	for i, r := range name {
		switch {
		case strings.ContainsRune(" !\"$&()*;<=>[^`|'?\\", r), also != "" && strings.ContainsRune(also, r):
			return true
		case r == '#' || r == '~':
			if i == 0 {
				return true
			}
		case r == '{' || r == '}':
			if len(name) == 1 {
				return true
			}
		case r == '\n' || r == '\t' || r == '\r':
			return true
		case escapes && !IsPrintable(name[i:], r):
			return true
		}
	}
	return false
}

// IsPrintable reports whether r, the first character of s, is printable.
func IsPrintable(s string, r rune) bool {
	if r == utf8.RuneError {
		_, w := utf8.DecodeRuneInString(s)
		return w > 1
	}
	return unicode.IsPrint(r)
}

// quoteForShell returns name in single quotes, or in double quotes if it contains an apostrophe and
// nothing that those would change. With escapes, unprintable characters are written as $'…'.
func quoteForShell(name string, escapes bool) string {
	if strings.Contains(name, "'") && needsNoEscapes(name) {
		return `"` + name + `"`
	}
	var b strings.Builder
	b.Grow(len(name) + 2)
	b.WriteByte('\'')
	inside := false // of $'…'
	for i := 0; i < len(name); {
		r, w := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '\'':
			b.WriteString(`'\''`)
			inside = false
		case escapes && !IsPrintable(name[i:], r):
			if !inside {
				b.WriteString("'$'")
				inside = true
			}
			writeEscape(&b, name[i:i+w])
		default:
			if inside {
				b.WriteString("''")
				inside = false
			}
			b.WriteString(name[i : i+w])
		}
		i += w
	}
	b.WriteByte('\'')
	return b.String()
}

// needsNoEscapes reports whether name is unchanged by double quotes.
func needsNoEscapes(name string) bool {
	for i, r := range name {
		if r >= utf8.RuneSelf {
			if !IsPrintable(name[i:], r) {
				return false
			}
			continue
		}
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("%+,-./:]_ '", r)) {
			return false
		}
	}
	return true
}

// writeEscape writes the bytes of one character as C escapes.
func writeEscape(b *strings.Builder, s string) {
	if i := strings.IndexByte("\a\b\f\n\r\t\v", s[0]); i >= 0 {
		b.WriteByte('\\')
		b.WriteByte("abfnrtv"[i])
		return
	}
	for i := range len(s) {
		fmt.Fprintf(b, `\%03o`, s[i])
	}
}

// countPlain returns the number of bytes at the start of name that are printable ASCII characters and need
// no escape.
func countPlain(name, also string) int {
	for i := range len(name) {
		if c := name[i]; c < ' ' || c >= 0x7f || c == '\\' || strings.IndexByte(also, c) >= 0 {
			return i
		}
	}
	return len(name)
}

// EscapeText returns name with C escapes for backslashes, the characters in also and unprintable ones.
func EscapeText(name, also string) string {
	plain := countPlain(name, also)
	if plain == len(name) {
		return name
	}
	var b strings.Builder
	b.Grow(len(name) + len(name)/8)
	b.WriteString(name[:plain])
	for i := plain; i < len(name); {
		r, w := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '\\' || strings.ContainsRune(also, r) && r != utf8.RuneError:
			b.WriteByte('\\')
			b.WriteString(name[i : i+w])
		case !IsPrintable(name[i:], r):
			writeEscape(&b, name[i:i+w])
		default:
			b.WriteString(name[i : i+w])
		}
		i += w
	}
	return b.String()
}
