package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
	"golang.org/x/sys/unix"
)

// realTTY is a pseudo-terminal of the host.
type realTTY struct{ master, slave int }

// openTTY opens a pseudo-terminal, or skips the test if that is not possible.
func openTTY(t *testing.T) *realTTY {
	t.Helper()
	skip := func(what string, err error) {
		testenv.Skip(t, "pty", "no pseudo-terminal of the host to compare with: %s: %v", what, err)
	}
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		skip("open /dev/ptmx", err)
	}
	t.Cleanup(func() { _ = unix.Close(master) })
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		skip("unlock", err)
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		skip("number", err)
	}
	slave, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		skip("open the slave", err)
	}
	t.Cleanup(func() { _ = unix.Close(slave) })
	return &realTTY{master, slave}
}

// setMode sets the terminal's mode.
func (r *realTTY) setMode(t *testing.T, m Mode) {
	t.Helper()
	x := &unix.Termios{Iflag: m.In, Oflag: m.Out, Cflag: m.Control, Lflag: m.Local}
	copy(x.Cc[:], m.Chars[:])
	if err := unix.IoctlSetTermios(r.slave, unix.TCSETS, x); err != nil {
		t.Fatalf("TCSETS: %v", err)
	}
}

// drain reads until a read would block, with one entry for each read; empty for the end of file.
// When a read would block, the kernel has processed all input.
func drain(t *testing.T, fd int) []string {
	t.Helper()
	var list []string
	b := make([]byte, 8192)
	for len(list) < 10_000 {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return list
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			t.Fatalf("read: %v", err)
		}
		list = append(list, string(b[:n]))
	}
	return list
}

func (r *realTTY) write(t *testing.T, fd int, b []byte) {
	t.Helper()
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatalf("write: %v", err)
		}
		b = b[max(0, n):]
	}
}

// typed is the result of some input.
type typed struct {
	reads []string
	echo  string
}

func (x typed) String() string {
	reads, echo := fmt.Sprintf("%q", x.reads), fmt.Sprintf("%q", x.echo)
	for _, s := range []*string{&reads, &echo} {
		if n := len(*s); n > 300 {
			*s = fmt.Sprintf("%s … %s (%d characters)", (*s)[:100], (*s)[n-100:], n)
		}
	}
	return "reads " + reads + ", echo " + echo
}

func (r *realTTY) typed(t *testing.T, m Mode, input []byte) typed {
	t.Helper()
	r.setMode(t, m)
	r.write(t, r.master, input)
	x := typed{reads: drain(t, r.slave)}
	x.echo = strings.Join(drain(t, r.master), "")
	return x
}

// runDiscipline passes input through this package's line discipline.
func runDiscipline(m Mode, input []byte) typed {
	l := &line{mode: m}
	var x typed
	read := func() {
		b := make([]byte, 8192)
		for l.ready > 0 {
			n, _ := l.takeLine(b)
			x.reads = append(x.reads, string(b[:n]))
		}
	}
	var echo []byte
	for _, c := range input {
		if l.room() == 0 {
			read()
		}
		before := len(echo)
		var s Signal
		if echo, s = l.receive(c, echo); s != 0 && m.Local&NOFLSH == 0 {
			echo = echo[before:] // Linux drops unread echo, and nothing reads it here before the end
		}
	}
	read()
	x.echo = string(echo)
	return x
}

// ttyModes are the modes to compare, by their changes.
func ttyModes() map[string]Mode {
	change := func(f func(m *Mode)) Mode {
		m := SaneMode()
		f(&m)
		return m
	}
	return map[string]Mode{
		"sane":             SaneMode(),
		"raw":              SaneMode().Raw(),
		"-echo":            change(func(m *Mode) { m.Local &^= ECHO }),
		"-echo echonl":     change(func(m *Mode) { m.Local = m.Local&^ECHO | ECHONL }),
		"-echoe":           change(func(m *Mode) { m.Local &^= ECHOE }),
		"-echok -echoke":   change(func(m *Mode) { m.Local &^= ECHOK | ECHOKE }),
		"-echoke":          change(func(m *Mode) { m.Local &^= ECHOKE }),
		"-echoctl":         change(func(m *Mode) { m.Local &^= ECHOCTL }),
		"-icanon":          change(func(m *Mode) { m.Local &^= ICANON }),
		"-icanon -isig":    change(func(m *Mode) { m.Local &^= ICANON | ISIG }),
		"-isig":            change(func(m *Mode) { m.Local &^= ISIG }),
		"noflsh":           change(func(m *Mode) { m.Local |= NOFLSH }),
		"-iexten":          change(func(m *Mode) { m.Local &^= IEXTEN }),
		"-iutf8":           change(func(m *Mode) { m.In &^= IUTF8 }),
		"-icrnl":           change(func(m *Mode) { m.In &^= ICRNL }),
		"igncr":            change(func(m *Mode) { m.In |= IGNCR }),
		"inlcr -icrnl":     change(func(m *Mode) { m.In = m.In&^ICRNL | INLCR }),
		"istrip":           change(func(m *Mode) { m.In |= ISTRIP }),
		"iuclc":            change(func(m *Mode) { m.In |= IUCLC }),
		"-opost":           change(func(m *Mode) { m.Out &^= OPOST }),
		"-onlcr":           change(func(m *Mode) { m.Out &^= ONLCR }),
		"tab3":             change(func(m *Mode) { m.Out |= XTABS }),
		"olcuc":            change(func(m *Mode) { m.Out |= OLCUC }),
		"ocrnl":            change(func(m *Mode) { m.Out |= OCRNL }),
		"onocr":            change(func(m *Mode) { m.Out |= ONOCR }),
		"onlret -onlcr":    change(func(m *Mode) { m.Out = m.Out&^ONLCR | ONLRET }),
		"erase ^H kill @":  change(func(m *Mode) { m.Chars[VERASE], m.Chars[VKILL] = 8, '@' }),
		"eol ; eol2 |":     change(func(m *Mode) { m.Chars[VEOL], m.Chars[VEOL2] = ';', '|' }),
		"nothing special":  change(func(m *Mode) { m.Chars = [19]byte{VMIN: 1} }),
		"raw but for echo": change(func(m *Mode) { *m = m.Raw(); m.Local |= ECHO | ECHOCTL; m.Out |= OPOST | ONLCR }),
	}
}

// ttyInputs are the inputs, by the law that they check.
var ttyInputs = map[string]string{
	"a line":                  "hello\n",
	"return is a newline":     "hello\rworld\r\n",
	"half a line waits":       "one\ntwo",
	"erase":                   "helpp\x7flo\n",
	"erase at the beginning":  "\x7f\x7fa\n",
	"erase UTF-8":             "aü日\x7fb\x7f\x7f\x7f\x7fx\n",
	"erase broken UTF-8":      "a\x80\x80\x7f\x7f\xc3\x7f\n",
	"erase a control":         "a\x01\x02\x7f\x7fb\n",
	"erase a tab":             "ab\tc\td\x7f\x7f\x7f\x7fz\n",
	"erase a tab after wide":  "日\t\x7fx\n",
	"kill":                    "some words\x15other\n",
	"kill with tabs":          "a\tb\x01c\td\x15x\n",
	"word erase":              "one two_3  \x17x \x17\x17\x17y\n",
	"word erase of marks":     "a-b...\x17\x17c\n",
	"word erase UTF-8":        "für über\x17x\x17\x17\n",
	"literal next":            "a\x16\x03b\x16\x7fc\x16\nd\n",
	"reprint":                 "abc\x12def\n",
	"end of file":             "\x04",
	"end of file after some":  "part\x04rest\x04\x04\n",
	"end of file after lines": "a\nb\n\x04c\n",
	"interrupt":               "abc\x03def\n",
	"interrupt drops lines":   "one\ntwo\x03three\n",
	"quit and suspend":        "a\x1cb\x1ac\n",
	"control characters":      "\x01\x02\x05\x06\x07\x0b\x0c\x0e\x1b[A\x1d\x1e\x1f\n",
	"bytes from 128":          "\xff\xfe\xe4\xf6\x80\n",
	"a NUL":                   "a\x00b\n",
	"lines at once":           "1\n22\n333\n",
	"an upper case":           "HeLLo\n",
	"a line of the other end": "a;b|c@d\x08e\n",
	"a long line":             strings.Repeat("x", 5000) + "\nnext\n",
	"discard is not used":     "a\x0fb\n",
}

// TestTTYIsLinux checks that the line discipline reads and echoes like Linux.
func TestTTYIsLinux(t *testing.T) {
	for mode, m := range ttyModes() {
		for what, input := range ttyInputs {
			if what == "a long line" && m.Local&ICANON == 0 {
				continue // it fills the queue, where only Linux's own buffers continue
			}
			t.Run(mode+"/"+what, func(t *testing.T) {
				got := runDiscipline(m, []byte(input))
				var want typed
				for range 20 { // Linux processes input beside the reader, which may see a line before ^C drops it: often under load
					r := openTTY(t)
					if want = r.typed(t, m, []byte(input)); got.String() == want.String() {
						return
					}
				}
				t.Errorf("%.200q:\nours:  %v\nLinux: %v", input, got, want)
			})
		}
	}
}

// TestTTYOutputIsLinux checks that output is processed like on Linux.
func TestTTYOutputIsLinux(t *testing.T) {
	texts := []string{"a\nb\n", "a\r\nb\rc", "\tx\n\ty\tz\n", "abc\b\b\tx\n", "ü日\tx\n", "\r\r\n\n", "a\x1b[1mb\x07\n", "lower UPPER\n", "\xff\x80\t|\n"}
	for mode, m := range ttyModes() {
		for _, text := range texts {
			r := openTTY(t)
			r.setMode(t, m)
			r.write(t, r.slave, []byte(text))
			want := strings.Join(drain(t, r.master), "")
			l := &line{mode: m}
			if got := string(l.output(nil, []byte(text))); got != want {
				t.Errorf("%s: %q: ours %q, Linux %q", mode, text, got, want)
			}
		}
	}
}

// TestTTYIsLinuxAtRandom compares random input. A failure prints the seed.
func TestTTYIsLinuxAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	keys := []byte("ab c_\t.\x7f\x17\x15\x16\x12\x04\x03\x1a\x1c\x01\x1b\r\n\xc3\xbc\xe6\x97\xa5\x80\xff\x00AZ;|@\x08\x13\x11")
	modes := ttyModes()
	for i := range 400 {
		var names []string
		for name := range modes {
			names = append(names, name)
		}
		name := names[rnd.IntN(len(names))]
		var input []byte
		for range rnd.IntN(60) {
			input = append(input, keys[rnd.IntN(len(keys))])
		}
		if bytes.IndexByte(input, 0x13) >= 0 {
			input = append(input, 0x11, 0x11) // otherwise the echo stays in the queue
		}
		r := openTTY(t)
		m := modes[name]
		m.Local |= NOFLSH // what Linux drops on ^C depends on the time of the read
		want, got := r.typed(t, m, input), runDiscipline(m, input)
		if got.String() != want.String() {
			t.Fatalf("seed %d, %d: %s: %q:\nours:  %v\nLinux: %v", seed, i, name, input, got, want)
		}
		r.close()
	}
}

func (r *realTTY) close() {
	_ = unix.Close(r.slave)
	_ = unix.Close(r.master)
}
