// Package character classifies characters.
package character

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// LocaleIsBytes reports whether each byte is a character in the locale of a process.
func LocaleIsBytes(p *kernel.Proc) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := p.Getenv(name); v != "" {
			return v == "C" || v == "POSIX" || strings.EqualFold(v, "C.ASCII")
		}
	}
	return false
}

// IsLetter reports whether c is an ASCII letter.
func IsLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// IsSpace reports whether c is a space or one of \t, \n, \v, \f and \r.
func IsSpace(c int) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// IsDigit reports whether c is a decimal digit.
func IsDigit(c int) bool { return c >= '0' && c <= '9' }

// PrefixLen returns the length of the prefix of s that consists of bytes in set.
func PrefixLen(s, set string) int { return len(s) - len(strings.TrimLeft(s, set)) }
