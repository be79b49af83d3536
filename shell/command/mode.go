package command

import (
	"io/fs"
	"strconv"
	"strings"
)

// Types of files, as Linux numbers them.
const (
	typeMask   = 0o170000
	typeFIFO   = 0o010000
	typeChar   = 0o020000
	typeDir    = 0o040000
	typeBlock  = 0o060000
	typeFile   = 0o100000
	typeLink   = 0o120000
	typeSocket = 0o140000

	setuidBit = 0o4000
	setgidBit = 0o2000
	stickyBit = 0o1000
	modeBits  = 0o7777
)

// unixMode returns a mode as Linux numbers it.
func unixMode(m fs.FileMode) uint32 {
	u := uint32(m.Perm()) | specialBits(m)
	switch {
	case m.IsDir():
		return u | typeDir
	case m&fs.ModeSymlink != 0:
		return u | typeLink
	case m&fs.ModeNamedPipe != 0:
		return u | typeFIFO
	case m&fs.ModeSocket != 0:
		return u | typeSocket
	case m&fs.ModeCharDevice != 0:
		return u | typeChar
	case m&fs.ModeDevice != 0:
		return u | typeBlock
	}
	return u | typeFile
}

func specialBits(m fs.FileMode) uint32 {
	var u uint32
	if m&fs.ModeSetuid != 0 {
		u |= setuidBit
	}
	if m&fs.ModeSetgid != 0 {
		u |= setgidBit
	}
	if m&fs.ModeSticky != 0 {
		u |= stickyBit
	}
	return u
}

// permMode returns the permissions of a Linux mode.
func permMode(u uint32) fs.FileMode {
	m := fs.FileMode(u & 0o777)
	if u&setuidBit != 0 {
		m |= fs.ModeSetuid
	}
	if u&setgidBit != 0 {
		m |= fs.ModeSetgid
	}
	if u&stickyBit != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// modeString returns a Linux mode as ls -l shows it.
func modeString(u uint32) string {
	b := []byte("?rwxrwxrwx")
	switch u & typeMask {
	case typeFile:
		b[0] = '-'
	case typeDir:
		b[0] = 'd'
	case typeLink:
		b[0] = 'l'
	case typeFIFO:
		b[0] = 'p'
	case typeSocket:
		b[0] = 's'
	case typeChar:
		b[0] = 'c'
	case typeBlock:
		b[0] = 'b'
	}
	for i := range 9 {
		if u&(0o400>>i) == 0 {
			b[1+i] = '-'
		}
	}
	mark := func(bit uint32, at int, letter byte) {
		if u&bit == 0 {
			return
		}
		if b[at] == '-' {
			letter -= 'a' - 'A'
		}
		b[at] = letter
	}
	mark(setuidBit, 3, 's')
	mark(setgidBit, 6, 's')
	mark(stickyBit, 9, 't')
	return string(b)
}

// modeChange is a parsed argument of chmod: what it does to a mode.
type modeChange struct{ steps []modeStep }

type modeStep struct {
	op      byte   // + - =
	who     uint32 // bits that it may touch; 0: all that the mask leaves
	perms   uint32
	copying byte // u, g or o: permissions are copied from there
	condX   bool // X
	exact   bool // a number: setuid and setgid of a directory too
	named   uint32
}

// parseMode reads a mode as chmod takes it: octal, or u+x,go=rX…
func parseMode(s string) (modeChange, bool) {
	if s == "" {
		return modeChange{}, false
	}
	if s[0] >= '0' && s[0] <= '7' {
		n, err := strconv.ParseUint(s, 8, 32)
		if err != nil || n > modeBits {
			return modeChange{}, false
		}
		st := modeStep{op: '=', who: modeBits, perms: uint32(n), exact: true, named: uint32(n)}
		if len(s) >= 5 {
			st.named = modeBits
		}
		return modeChange{[]modeStep{st}}, true
	}
	var c modeChange
	for clause := range strings.SplitSeq(s, ",") {
		if !c.clause(clause) {
			return modeChange{}, false
		}
	}
	return c, true
}

func (c *modeChange) clause(s string) bool {
	var who uint32
	for s != "" && strings.IndexByte("ugoa", s[0]) >= 0 {
		who |= whoBits(s[0])
		s = s[1:]
	}
	if s == "" {
		return false
	}
	for s != "" {
		st := modeStep{op: s[0], who: who}
		if strings.IndexByte("+-=", st.op) < 0 {
			return false
		}
		s = s[1:]
		n := span0(s, "01234567")
		switch {
		case n > 0:
			v, err := strconv.ParseUint(s[:n], 8, 32)
			if who != 0 || err != nil || v > modeBits || n < len(s) {
				return false
			}
			st.who, st.perms, st.exact, st.named = modeBits, uint32(v), true, modeBits
		case s != "" && strings.IndexByte("ugo", s[0]) >= 0:
			st.copying = s[0]
			n = 1
		default:
			n = span0(s, "rwxXst")
			for _, l := range s[:n] {
				st.letter(l)
			}
		}
		s = s[n:]
		c.steps = append(c.steps, st)
	}
	return true
}

func whoBits(c byte) uint32 {
	switch c {
	case 'u':
		return setuidBit | 0o700
	case 'g':
		return setgidBit | 0o070
	case 'o':
		return stickyBit | 0o007
	}
	return modeBits
}

func (st *modeStep) letter(l rune) {
	switch l {
	case 'r':
		st.perms |= 0o444
	case 'w':
		st.perms |= 0o222
	case 'x':
		st.perms |= 0o111
	case 'X':
		st.condX = true
	case 's':
		st.perms |= setuidBit | setgidBit
		st.named |= setuidBit | setgidBit
	case 't':
		st.perms |= stickyBit
		st.named |= stickyBit
	}
}

// apply returns what the change makes of the permissions old.
func (c modeChange) apply(old uint32, dir bool, umask uint32) uint32 {
	m := old & modeBits
	for _, st := range c.steps {
		m = st.apply(m, dir, umask)
	}
	return m
}

func (st modeStep) apply(m uint32, dir bool, umask uint32) uint32 {
	who := st.who
	if who == 0 {
		who = modeBits &^ umask
	}
	omit := uint32(0) // what the step leaves alone
	if dir {
		omit = (setuidBit | setgidBit) &^ st.named
	}
	v := st.perms
	switch st.copying {
	case 'u':
		v = spread(m >> 6)
	case 'g':
		v = spread(m >> 3)
	case 'o':
		v = spread(m)
	}
	if st.condX && (dir || m&0o111 != 0) {
		v |= 0o111
	}
	v &= who &^ omit
	switch st.op {
	case '+':
		return m | v
	case '-':
		return m &^ v
	}
	keep := omit
	if st.who != 0 {
		keep |= ^st.who
	}
	return m&keep | v
}

// touched returns the bits that the change says something about.
func (c modeChange) touched(umask uint32) uint32 {
	var all uint32
	for _, st := range c.steps {
		who := st.who
		if who == 0 {
			who = modeBits &^ umask
		}
		switch {
		case st.exact || st.copying != 0 || st.condX:
			all |= who
		case st.op == '=':
			all |= who
		default:
			all |= who & st.perms
		}
	}
	return all
}

// spread gives three bits of permission to everybody.
func spread(bits uint32) uint32 {
	bits &= 7
	return bits<<6 | bits<<3 | bits
}
