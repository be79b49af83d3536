// Package glob matches names with patterns of *, ? and […].
package glob

import (
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// Match reports whether a pattern matches all of name: * matches any run of characters, ? one
// character, […] one of a set, and a backslash makes the next character literal. A slash is an
// ordinary character.
func Match(p *kernel.Proc, pattern, name string) bool {
	pat, text := pattern, name
	star, starText := "", "" // the pattern after the last star, and the text where it was tried
	starred := false
	for {
		p.Tick(1)
		if strings.HasPrefix(pat, "*") {
			star, starText, starred = pat[1:], text, true
			pat = star
			continue
		}
		if pat == "" && text == "" {
			return true
		}
		if rest, after, ok := matchOne(pat, text); ok {
			pat, text = rest, after
			continue
		}
		if !starred || starText == "" {
			return false
		}
		_, w := utf8.DecodeRuneInString(starText)
		starText = starText[w:]
		pat, text = star, starText
	}
}

// matchOne matches one character and returns the rest of the pattern and of the text.
func matchOne(pat, text string) (rest, after string, ok bool) {
	if pat == "" || text == "" {
		return "", "", false
	}
	r, w := utf8.DecodeRuneInString(text)
	switch pat[0] {
	case '?':
		return pat[1:], text[w:], true
	case '[':
		if rest, ok, found := matchSet(pat, r); found {
			return rest, text[w:], ok
		}
	case '\\':
		if len(pat) > 1 {
			pat = pat[1:]
		}
	}
	if pat[0] != text[0] {
		return "", "", false
	}
	return pat[1:], text[1:], true
}

// matchSet matches a character with the set at the head of pat; found reports whether there is one.
func matchSet(pat string, r rune) (rest string, ok, found bool) {
	at := 1
	negated := at < len(pat) && (pat[at] == '!' || pat[at] == '^')
	if negated {
		at++
	}
	for first := true; at < len(pat); first = false {
		if pat[at] == ']' && !first {
			return pat[at+1:], ok != negated, true
		}
		lo, w := utf8.DecodeRuneInString(pat[at:])
		at += w
		if lo == '\\' && at < len(pat) {
			lo, w = utf8.DecodeRuneInString(pat[at:])
			at += w
		}
		hi := lo
		if at+1 < len(pat) && pat[at] == '-' && pat[at+1] != ']' {
			hi, w = utf8.DecodeRuneInString(pat[at+1:])
			at += 1 + w
		}
		ok = ok || lo <= r && r <= hi
	}
	return "", false, false
}
