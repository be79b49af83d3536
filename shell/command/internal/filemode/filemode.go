// Package filemode converts between the file modes of Go and Linux, prints them
// and parses those of chmod.
package filemode

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
)

// Types and permissions of files in the numbers of Linux.
const (
	TypeMask   = 0o170000
	TypeFIFO   = 0o010000
	TypeChar   = 0o020000
	TypeDir    = 0o040000
	TypeBlock  = 0o060000
	TypeFile   = 0o100000
	TypeLink   = 0o120000
	TypeSocket = 0o140000

	SetUID  = 0o4000
	SetGID  = 0o2000
	Sticky  = 0o1000
	AllBits = 0o7777
)

// ToUnix returns a mode as a Linux number: type and permissions.
func ToUnix(m fs.FileMode) uint32 {
	u := uint32(m.Perm()) | specialBits(m)
	switch {
	case m.IsDir():
		return u | TypeDir
	case m&fs.ModeSymlink != 0:
		return u | TypeLink
	case m&fs.ModeNamedPipe != 0:
		return u | TypeFIFO
	case m&fs.ModeSocket != 0:
		return u | TypeSocket
	case m&fs.ModeCharDevice != 0:
		return u | TypeChar
	case m&fs.ModeDevice != 0:
		return u | TypeBlock
	}
	return u | TypeFile
}

func specialBits(m fs.FileMode) uint32 {
	var u uint32
	if m&fs.ModeSetuid != 0 {
		u |= SetUID
	}
	if m&fs.ModeSetgid != 0 {
		u |= SetGID
	}
	if m&fs.ModeSticky != 0 {
		u |= Sticky
	}
	return u
}

// FromUnix returns the permissions of a Linux mode, without its type.
func FromUnix(u uint32) fs.FileMode {
	m := fs.FileMode(u & 0o777)
	if u&SetUID != 0 {
		m |= fs.ModeSetuid
	}
	if u&SetGID != 0 {
		m |= fs.ModeSetgid
	}
	if u&Sticky != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// Format returns a Linux mode in the form of ls -l.
func Format(u uint32) string {
	b := []byte("?rwxrwxrwx")
	switch u & TypeMask {
	case TypeFile:
		b[0] = '-'
	case TypeDir:
		b[0] = 'd'
	case TypeLink:
		b[0] = 'l'
	case TypeFIFO:
		b[0] = 'p'
	case TypeSocket:
		b[0] = 's'
	case TypeChar:
		b[0] = 'c'
	case TypeBlock:
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
	mark(SetUID, 3, 's')
	mark(SetGID, 6, 's')
	mark(Sticky, 9, 't')
	return string(b)
}

// Change is a parsed mode argument of chmod.
type Change struct{ Steps []Step }

type Step struct {
	Op           byte   // + - =
	Scope        uint32 // bits that it may change; 0: all but those in the umask
	Perms        uint32
	copyFrom     byte // u, g or o: copy its permissions
	executeIfAny bool // X: executable if any may execute it, or for a directory
	Numeric      bool // octal: changes setuid and setgid of a directory too
	Explicit     uint32
}

// ParseChange parses a mode argument of chmod: octal, or u+x,go=rX…
func ParseChange(s string) (Change, bool) {
	if s == "" {
		return Change{}, false
	}
	if s[0] >= '0' && s[0] <= '7' {
		n, err := strconv.ParseUint(s, 8, 32)
		if err != nil || n > AllBits {
			return Change{}, false
		}
		st := Step{Op: '=', Scope: AllBits, Perms: uint32(n), Numeric: true, Explicit: uint32(n)}
		if len(s) >= 5 {
			st.Explicit = AllBits
		}
		return Change{[]Step{st}}, true
	}
	var c Change
	for clause := range strings.SplitSeq(s, ",") {
		if !c.parseClause(clause) {
			return Change{}, false
		}
	}
	return c, true
}

func (c *Change) parseClause(s string) bool {
	var who uint32
	for s != "" && strings.IndexByte("ugoa", s[0]) >= 0 {
		who |= whoBits(s[0])
		s = s[1:]
	}
	if s == "" {
		return false
	}
	for s != "" {
		st := Step{Op: s[0], Scope: who}
		if strings.IndexByte("+-=", st.Op) < 0 {
			return false
		}
		s = s[1:]
		n := character.PrefixLen(s, "01234567")
		switch {
		case n > 0:
			v, err := strconv.ParseUint(s[:n], 8, 32)
			if who != 0 || err != nil || v > AllBits || n < len(s) {
				return false
			}
			st.Scope, st.Perms, st.Numeric, st.Explicit = AllBits, uint32(v), true, AllBits
		case s != "" && strings.IndexByte("ugo", s[0]) >= 0:
			st.copyFrom = s[0]
			n = 1
		default:
			n = character.PrefixLen(s, "rwxXst")
			for _, l := range s[:n] {
				st.addLetter(l)
			}
		}
		s = s[n:]
		c.Steps = append(c.Steps, st)
	}
	return true
}

func whoBits(c byte) uint32 {
	switch c {
	case 'u':
		return SetUID | 0o700
	case 'g':
		return SetGID | 0o070
	case 'o':
		return Sticky | 0o007
	}
	return AllBits
}

func (st *Step) addLetter(l rune) {
	switch l {
	case 'r':
		st.Perms |= 0o444
	case 'w':
		st.Perms |= 0o222
	case 'x':
		st.Perms |= 0o111
	case 'X':
		st.executeIfAny = true
	case 's':
		st.Perms |= SetUID | SetGID
		st.Explicit |= SetUID | SetGID
	case 't':
		st.Perms |= Sticky
		st.Explicit |= Sticky
	}
}

// Apply returns the permissions old after the change; dir reports whether they are a directory's.
func (c Change) Apply(old uint32, dir bool, umask uint32) uint32 {
	m := old & AllBits
	for _, st := range c.Steps {
		m = st.applyTo(m, dir, umask)
	}
	return m
}

func (st Step) applyTo(m uint32, dir bool, umask uint32) uint32 {
	who := st.Scope
	if who == 0 {
		who = AllBits &^ umask
	}
	omit := uint32(0) // bits that the step does not change
	if dir {
		omit = (SetUID | SetGID) &^ st.Explicit
	}
	v := st.Perms
	switch st.copyFrom {
	case 'u':
		v = spreadBits(m >> 6)
	case 'g':
		v = spreadBits(m >> 3)
	case 'o':
		v = spreadBits(m)
	}
	if st.executeIfAny && (dir || m&0o111 != 0) {
		v |= 0o111
	}
	v &= who &^ omit
	switch st.Op {
	case '+':
		return m | v
	case '-':
		return m &^ v
	}
	keep := omit
	if st.Scope != 0 {
		keep |= ^st.Scope
	}
	return m&keep | v
}

// AffectedBits returns the bits that the change sets or clears.
func (c Change) AffectedBits(umask uint32) uint32 {
	var all uint32
	for _, st := range c.Steps {
		who := st.Scope
		if who == 0 {
			who = AllBits &^ umask
		}
		switch {
		case st.Numeric || st.copyFrom != 0 || st.executeIfAny:
			all |= who
		case st.Op == '=':
			all |= who
		default:
			all |= who & st.Perms
		}
	}
	return all
}

// spreadBits gives three bits of permission to user, group and others.
func spreadBits(bits uint32) uint32 {
	bits &= 7
	return bits<<6 | bits<<3 | bits
}
