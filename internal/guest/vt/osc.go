package vt

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxTitle = 256 // bytes

// finishOSC executes an OSC. Only titles are supported.
func (e *Emulator) finishOSC() {
	e.last = 0
	n, text, found := strings.Cut(string(e.seq.str), ";")
	if !found || n != "0" && n != "2" {
		return
	}
	e.title = cleanTitle(text)
	e.passBytes([]byte("\x1b]2;" + e.title + "\a"))
}

// cleanTitle removes control characters from a title and limits its length.
func cleanTitle(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, s)
	for len(s) > maxTitle {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
}
