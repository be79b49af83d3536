package kernel

// Mode is the mode of a terminal, with Linux's numbers: termios without the speeds.
type Mode struct {
	In, Out, Control, Local uint32
	Chars                   [19]byte // by the V… constants; 0: none
}

// Flags of Mode.In.
const (
	BRKINT  = 0o2
	IGNPAR  = 0o4
	PARMRK  = 0o10
	INPCK   = 0o20
	ISTRIP  = 0o40
	INLCR   = 0o100
	IGNCR   = 0o200
	ICRNL   = 0o400
	IUCLC   = 0o1000
	IXON    = 0o2000
	IXANY   = 0o4000
	IXOFF   = 0o10000
	IMAXBEL = 0o20000
	IUTF8   = 0o40000
	IGNBRK  = 0o1
)

// Flags of Mode.Out.
const (
	OPOST  = 0o1
	OLCUC  = 0o2
	ONLCR  = 0o4
	OCRNL  = 0o10
	ONOCR  = 0o20
	ONLRET = 0o40
	XTABS  = 0o14000
)

// Flags of Mode.Control, which are kept without an effect.
const (
	B38400 = 0o17
	CS8    = 0o60
	CSTOPB = 0o100
	CREAD  = 0o200
	PARENB = 0o400
	PARODD = 0o1000
	HUPCL  = 0o2000
	CLOCAL = 0o4000
)

// Flags of Mode.Local.
const (
	ISIG    = 0o1
	ICANON  = 0o2
	ECHO    = 0o10
	ECHOE   = 0o20
	ECHOK   = 0o40
	ECHONL  = 0o100
	NOFLSH  = 0o200
	TOSTOP  = 0o400
	ECHOCTL = 0o1000
	ECHOKE  = 0o4000
	IEXTEN  = 0o100000
)

// Indexes of the special characters in Mode.Chars.
const (
	VINTR    = 0
	VQUIT    = 1
	VERASE   = 2
	VKILL    = 3
	VEOF     = 4
	VTIME    = 5
	VMIN     = 6
	VSTART   = 8
	VSTOP    = 9
	VSUSP    = 10
	VEOL     = 11
	VREPRINT = 12
	VDISCARD = 13
	VWERASE  = 14
	VLNEXT   = 15
	VEOL2    = 16
)

// SaneMode returns the initial mode of a terminal, that of `stty sane`.
func SaneMode() Mode {
	return Mode{
		In: ICRNL | IXON | IUTF8, Out: OPOST | ONLCR, Control: B38400 | CS8 | CREAD | HUPCL,
		Local: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
		Chars: [19]byte{
			VINTR: 3, VQUIT: 28, VERASE: 127, VKILL: 21, VEOF: 4, VMIN: 1, VSTART: 17, VSTOP: 19, VSUSP: 26,
			VREPRINT: 18, VDISCARD: 15, VWERASE: 23, VLNEXT: 22,
		},
	}
}

// Raw returns the mode in which bytes are not processed, like cfmakeraw.
func (m Mode) Raw() Mode {
	m.In &^= IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON
	m.Out &^= OPOST
	m.Local &^= ECHO | ECHONL | ICANON | ISIG | IEXTEN
	m.Chars[VMIN], m.Chars[VTIME] = 1, 0
	return m
}

// is reports whether c is the special character with index i.
func (m *Mode) is(i int, c byte) bool { return c != 0 && m.Chars[i] == c }
