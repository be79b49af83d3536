package shell

import (
	"strings"
	"unicode"
)

// charClass is a bracket expression.
type charClass struct {
	negated bool
	ascii   [2]uint64 // of the characters below 128
	ranges  []runeRange
	classes []func(rune) bool
}

type runeRange struct{ lo, hi rune }

func (c *charClass) contains(r rune) bool {
	if r < 128 {
		return (c.ascii[r>>6]>>(uint(r)&63)&1 != 0) != c.negated
	}
	return c.isListed(r) != c.negated
}

func (c *charClass) isListed(r rune) bool {
	for _, x := range c.ranges {
		if x.lo <= r && r <= x.hi {
			return true
		}
	}
	for _, f := range c.classes {
		if r < rawByte && f(r) {
			return true
		}
	}
	return false
}

// buildASCII precomputes the result for the characters below 128.
func (c *charClass) buildASCII() {
	for r := rune(0); r < 128; r++ {
		if c.isListed(r) {
			c.ascii[r>>6] |= 1 << (uint(r) & 63)
		}
	}
}

// parseBracket parses a bracket expression; ok is false if '[' is literal.
func (c *patParser) parseBracket() (n patNode, ok bool) {
	if c.lastBracket == 0 {
		c.lastBracket = strings.LastIndexByte(c.src, ']') + 2
	}
	if c.lastBracket <= c.pos+3 {
		return patNode{}, false
	}
	start := c.pos
	c.pos++
	set := &charClass{}
	if c.pos < len(c.src) && (c.src[c.pos] == '!' || c.src[c.pos] == '^') {
		set.negated = true
		c.pos++
	}
	for first := true; ; first = false {
		if c.pos >= len(c.src) {
			c.pos = start
			return patNode{}, false
		}
		if c.src[c.pos] == ']' && !first {
			c.pos++
			break
		}
		if !c.parseBracketItem(set) {
			c.pos = start
			return patNode{}, false
		}
	}
	set.buildASCII()
	return patNode{op: patClass, set: set}, true
}

// parseBracketItem parses a class, a character or a range; false means that
// the text ends before the bracket does.
func (c *patParser) parseBracketItem(set *charClass) bool {
	if name, ok := c.parseDelimited(':'); ok {
		if f := charTest(name, c.flags&patBytes != 0); f != nil {
			set.classes = append(set.classes, f)
		}
		return true
	}
	lo, loOK, ok := c.parseBracketChar()
	if !ok {
		return false
	}
	hi, hiOK := lo, loOK
	if c.pos+1 < len(c.src) && c.src[c.pos] == '-' && c.src[c.pos+1] != ']' {
		c.pos++
		if strings.HasPrefix(c.src[c.pos:], "[:") {
			c.parseDelimited(':')
			return c.pos < len(c.src)
		}
		if hi, hiOK, ok = c.parseBracketChar(); !ok {
			return false
		}
	}
	if loOK && hiOK && lo <= hi {
		set.ranges = append(set.ranges, runeRange{lo, hi})
	}
	return true
}

// parseBracketChar parses one character: plain, escaped, [.x.] or [=x=]. known
// is false for an unknown collating name.
func (c *patParser) parseBracketChar() (r rune, known, ok bool) {
	for _, mark := range []byte{'.', '='} {
		if name, found := c.parseDelimited(mark); found {
			r, known = collatingChar(name, c.flags)
			return r, known, true
		}
	}
	if c.src[c.pos] == '\\' && c.pos+1 < len(c.src) {
		c.pos++
	}
	return c.next(), true, true
}

// parseDelimited parses [:name:], [.name.] or [=name=].
func (c *patParser) parseDelimited(mark byte) (string, bool) {
	rest := c.src[c.pos:]
	if len(rest) < 4 || rest[0] != '[' || rest[1] != mark {
		return "", false
	}
	end := strings.Index(rest[2:], string([]byte{mark, ']'}))
	if end < 0 {
		return "", false
	}
	c.pos += end + 4
	return rest[2 : 2+end], true
}

func collatingChar(name string, flags patFlags) (rune, bool) {
	if name == "" {
		return 0, false
	}
	if r, w := charAt(name, 0, flags); w == len(name) {
		return r, true
	}
	r, ok := collatingNames()[name]
	return r, ok
}

// collatingNames returns the names that POSIX gives to characters.
func collatingNames() map[string]rune {
	return map[string]rune{
		"NUL": 0, "tab": '\t', "newline": '\n', "vertical-tab": '\v', "form-feed": '\f', "carriage-return": '\r',
		"space": ' ', "exclamation-mark": '!', "quotation-mark": '"', "number-sign": '#', "dollar-sign": '$',
		"percent-sign": '%', "ampersand": '&', "apostrophe": '\'', "left-parenthesis": '(', "right-parenthesis": ')',
		"asterisk": '*', "plus-sign": '+', "comma": ',', "hyphen": '-', "hyphen-minus": '-', "minus": '-', "dash": '-',
		"period": '.', "full-stop": '.', "slash": '/', "solidus": '/', "zero": '0', "one": '1', "two": '2', "three": '3',
		"four": '4', "five": '5', "six": '6', "seven": '7', "eight": '8', "nine": '9', "colon": ':', "semicolon": ';',
		"less-than-sign": '<', "equals-sign": '=', "greater-than-sign": '>', "question-mark": '?', "commercial-at": '@',
		"left-square-bracket": '[', "backslash": '\\', "reverse-solidus": '\\', "right-square-bracket": ']',
		"circumflex": '^', "circumflex-accent": '^', "underscore": '_', "low-line": '_', "grave-accent": '`',
		"left-brace": '{', "left-curly-bracket": '{', "vertical-line": '|', "right-brace": '}',
		"right-curly-bracket": '}', "tilde": '~', "DEL": 0x7f,
	}
}

// charTest returns the test of a character class, or nil.
func charTest(name string, bytes bool) func(rune) bool {
	f := asciiTest(name)
	if f == nil || bytes {
		return f
	}
	wide := map[string]func(rune) bool{
		"alpha": unicode.IsLetter, "upper": unicode.IsUpper, "lower": unicode.IsLower, "space": wideSpace,
		"alnum": func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) },
		"punct": func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) },
		"print": unicode.IsPrint, "graph": unicode.IsGraphic, "cntrl": unicode.IsControl,
		"word": func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) },
	}[name]
	if wide == nil {
		return f
	}
	return func(r rune) bool {
		if r < 128 {
			return f(r)
		}
		return wide(r)
	}
}

func wideSpace(r rune) bool {
	return unicode.IsSpace(r) && r != 0xa0 && r != 0x85 && r != 0x2007 && r != 0x202f
}

func asciiTest(name string) func(rune) bool {
	between := func(lo, hi rune) func(rune) bool { return func(r rune) bool { return lo <= r && r <= hi } }
	either := func(fs ...func(rune) bool) func(rune) bool {
		return func(r rune) bool {
			for _, f := range fs {
				if f(r) {
					return true
				}
			}
			return false
		}
	}
	upper, lower, digit := between('A', 'Z'), between('a', 'z'), between('0', '9')
	alnum := either(upper, lower, digit)
	switch name {
	case "alpha":
		return either(upper, lower)
	case "upper":
		return upper
	case "lower":
		return lower
	case "digit":
		return digit
	case "alnum":
		return alnum
	case "word":
		return either(alnum, between('_', '_'))
	case "xdigit":
		return either(digit, between('a', 'f'), between('A', 'F'))
	case "space":
		return either(between('\t', '\r'), between(' ', ' '))
	case "blank":
		return either(between(' ', ' '), between('\t', '\t'))
	case "cntrl":
		return either(between(0, 31), between(127, 127))
	case "print":
		return between(' ', '~')
	case "graph":
		return between('!', '~')
	case "punct":
		return either(between('!', '/'), between(':', '@'), between('[', '`'), between('{', '~'))
	case "ascii":
		return between(0, 127)
	}
	return nil
}
