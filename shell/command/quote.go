package command

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoting is a way to write a name, as GNU's --quoting-style.
type quoting int

const (
	quoteLiteral quoting = iota
	quoteShell
	quoteShellAlways
	quoteShellEscape
	quoteShellEscapeAlways
	quoteC
	quoteEscape
	quoteLocale
	quoteCMaybe
	quoteCLocale
)

var quotings = []choice{
	{"literal", int(quoteLiteral)},
	{"shell", int(quoteShell)},
	{"shell-always", int(quoteShellAlways)},
	{"shell-escape", int(quoteShellEscape)},
	{"shell-escape-always", int(quoteShellEscapeAlways)},
	{"c", int(quoteC)},
	{"c-maybe", int(quoteCMaybe)},
	{"escape", int(quoteEscape)},
	{"locale", int(quoteLocale)},
	{"clocale", int(quoteCLocale)},
}

// quote returns a name in single quotes that a shell reads back, as GNU's
// messages show names.
func quote(name string) string { return quoteShellEscapeAlways.of(name, "") }

// quotef returns a name that stands before a colon in a message: in quotes
// only when it needs them.
func quotef(name string) string { return quoteShellEscape.of(name, ":") }

// cite returns a word in quotes, with C's escapes for what is not printable.
func cite(word string) string { return quoteLocale.of(word, "") }

// of writes a name in a style; the characters in also are escaped too.
func (q quoting) of(name, also string) string {
	switch q {
	case quoteShell, quoteShellEscape:
		if !needsQuotes(name, also, q == quoteShellEscape) {
			return name
		}
		return shellQuoted(name, q == quoteShellEscape)
	case quoteShellAlways, quoteShellEscapeAlways:
		return shellQuoted(name, q == quoteShellEscapeAlways)
	case quoteCMaybe:
		if text := escaped(name, `"`+also); text == name {
			return name
		}
		return quoteC.of(name, also)
	case quoteC, quoteCLocale:
		return `"` + escaped(name, `"`+also) + `"`
	case quoteLocale:
		return "'" + escaped(name, "'"+also) + "'"
	case quoteEscape:
		return escaped(name, " "+also)
	}
	return name
}

// needsQuotes reports whether a shell would not read name as it stands.
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
		case escapes && !printable(name[i:], r):
			return true
		}
	}
	return false
}

// printable reports whether r, decoded at the head of s, can be shown.
func printable(s string, r rune) bool {
	if r == utf8.RuneError {
		_, w := utf8.DecodeRuneInString(s)
		return w > 1
	}
	return unicode.IsPrint(r)
}

// shellQuoted writes name in single quotes, with $'…' around what is not
// printable when escapes are wanted, or in double quotes when that is enough
// for an apostrophe.
func shellQuoted(name string, escapes bool) string {
	if strings.Contains(name, "'") && tame(name) {
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
		case escapes && !printable(name[i:], r):
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

// tame reports whether double quotes change nothing in name.
func tame(name string) bool {
	for i, r := range name {
		if r >= utf8.RuneSelf {
			if !printable(name[i:], r) {
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

// escaped writes name with C escapes for a backslash, the characters in also
// and what is not printable.
func escaped(name, also string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, w := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '\\' || strings.ContainsRune(also, r) && r != utf8.RuneError:
			b.WriteByte('\\')
			b.WriteString(name[i : i+w])
		case !printable(name[i:], r):
			writeEscape(&b, name[i:i+w])
		default:
			b.WriteString(name[i : i+w])
		}
		i += w
	}
	return b.String()
}
