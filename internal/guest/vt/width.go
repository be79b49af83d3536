package vt

// runeSpan is a range of characters, both ends in it.
type runeSpan struct{ first, last rune }

// columnsOf returns how many columns a character from U+0300 on takes.
func columnsOf(r rune) int {
	switch {
	case inSpans(noColumn[:], r):
		return 0
	case r >= 0x1100 && inSpans(twoColumns[:], r):
		return 2
	}
	return 1
}

func inSpans(list []runeSpan, r rune) bool {
	for len(list) > 0 {
		i := len(list) / 2
		switch {
		case r < list[i].first:
			list = list[:i]
		case r > list[i].last:
			list = list[i+1:]
		default:
			return true
		}
	}
	return false
}
