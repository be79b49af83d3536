package text

import (
	"unicode/utf16"
	"unicode/utf8"
)

// decodeUTF8 decodes the first character of b as charset.decode does.
func decodeUTF8(b []byte) (rune, int) {
	r, n := utf8.DecodeRune(b)
	if r != utf8.RuneError || n > 1 {
		return r, n
	}
	if len(b) < utf8.UTFMax && !utf8.FullRune(b) {
		return 0, 0
	}
	return 0, -1
}

func encodeUTF8(b []byte, r rune) ([]byte, bool) { return utf8.AppendRune(b, r), true }

func decodeBelow(limit int) func([]byte) (rune, int) {
	return func(b []byte) (rune, int) {
		if int(b[0]) >= limit {
			return 0, -1
		}
		return rune(b[0]), 1
	}
}

func encodeBelow(limit rune) func([]byte, rune) ([]byte, bool) {
	return func(b []byte, r rune) ([]byte, bool) { return append(b, byte(r)), r < limit }
}

// latin9 and cp1252 are the bytes that differ from ISO-8859-1.
var (
	latin9 = map[byte]rune{0xa4: '€', 0xa6: 'Š', 0xa8: 'š', 0xb4: 'Ž', 0xb8: 'ž', 0xbc: 'Œ', 0xbd: 'œ', 0xbe: 'Ÿ'}
	cp1252 = map[byte]rune{
		0x80: '€', 0x82: '‚', 0x83: 'ƒ', 0x84: '„', 0x85: '…', 0x86: '†', 0x87: '‡', 0x88: 'ˆ', 0x89: '‰', 0x8a: 'Š', 0x8b: '‹', 0x8c: 'Œ', 0x8e: 'Ž', 0x91: '‘', 0x92: '’', 0x93: '“', 0x94: '”', 0x95: '•',
		0x96: '–', 0x97: '—', 0x98: '˜', 0x99: '™', 0x9a: 'š', 0x9b: '›', 0x9c: 'œ', 0x9e: 'ž', 0x9f: 'Ÿ', 0x81: -1, 0x8d: -1, 0x8f: -1, 0x90: -1, 0x9d: -1,
	}
)

// decodeTable returns a decoder of a single-byte charset that differs from ISO-8859-1 in table.
func decodeTable(table map[byte]rune) func([]byte) (rune, int) {
	return func(b []byte) (rune, int) {
		r, ok := table[b[0]]
		switch {
		case !ok:
			return rune(b[0]), 1
		case r < 0:
			return 0, -1
		}
		return r, 1
	}
}

// encodeTable returns an encoder of a single-byte charset that differs from ISO-8859-1 in table.
func encodeTable(table map[byte]rune) func([]byte, rune) ([]byte, bool) {
	back := map[rune]byte{}
	for c, r := range table {
		back[r] = c
	}
	return func(b []byte, r rune) ([]byte, bool) {
		if c, ok := back[r]; ok {
			return append(b, c), true
		}
		if r > 0xff {
			return b, false
		}
		_, taken := table[byte(r)]
		return append(b, byte(r)), !taken
	}
}

func decodeUnit16(b []byte, big bool) uint16 {
	if big {
		return uint16(b[0])<<8 | uint16(b[1])
	}
	return uint16(b[1])<<8 | uint16(b[0])
}

// decodeUTF16 returns a decoder of UTF-16 in a byte order.
func decodeUTF16(big bool) func([]byte) (rune, int) {
	return func(b []byte) (rune, int) {
		if len(b) < 2 {
			return 0, 0
		}
		r := rune(decodeUnit16(b, big))
		if !utf16.IsSurrogate(r) {
			return r, 2
		}
		if len(b) < 4 {
			return 0, 0
		}
		if r = utf16.DecodeRune(r, rune(decodeUnit16(b[2:], big))); r == utf8.RuneError {
			return 0, -1
		}
		return r, 4
	}
}

// encodeUTF16 returns an encoder of UTF-16 in a byte order.
func encodeUTF16(big bool) func([]byte, rune) ([]byte, bool) {
	return func(b []byte, r rune) ([]byte, bool) {
		for _, u := range utf16.AppendRune(nil, r) {
			if big {
				b = append(b, byte(u>>8), byte(u))
			} else {
				b = append(b, byte(u), byte(u>>8))
			}
		}
		return b, true
	}
}

// decodeUTF32 returns a decoder of UTF-32 in a byte order.
func decodeUTF32(big bool) func([]byte) (rune, int) {
	return func(b []byte) (rune, int) {
		if len(b) < 4 {
			return 0, 0
		}
		v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		if big {
			v = uint32(b[3]) | uint32(b[2])<<8 | uint32(b[1])<<16 | uint32(b[0])<<24
		}
		if v > utf8.MaxRune || v >= 0xd800 && v < 0xe000 {
			return 0, -1
		}
		return rune(v), 4
	}
}

// encodeUTF32 returns an encoder of UTF-32 in a byte order.
func encodeUTF32(big bool) func([]byte, rune) ([]byte, bool) {
	return func(b []byte, r rune) ([]byte, bool) {
		if big {
			return append(b, byte(r>>24), byte(r>>16), byte(r>>8), byte(r)), true
		}
		return append(b, byte(r), byte(r>>8), byte(r>>16), byte(r>>24)), true
	}
}
