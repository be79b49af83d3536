package kernel

import (
	"encoding/binary"
	"testing"
)

// FuzzTTY checks that the state of a terminal stays bounded and consistent for any input and mode,
// and that all input can be read.
func FuzzTTY(f *testing.F) {
	head := func(m Mode, input string) []byte {
		b := binary.LittleEndian.AppendUint16(nil, uint16(m.In))
		b = binary.LittleEndian.AppendUint16(b, uint16(m.Out))
		b = binary.LittleEndian.AppendUint16(b, uint16(m.Local))
		return append(b, input...)
	}
	for _, m := range []Mode{SaneMode(), SaneMode().Raw()} {
		for _, input := range []string{"ls -l\r", "a\tb\x7f\x7f\x17\x15", "\x16\x03\x04\xff", "日本\x7f\x12\x00\x01x", "\x13held\x11\x03\x1c\x1a"} {
			f.Add(head(m, input))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 6 {
			return
		}
		mode := func(b []byte) Mode {
			m := SaneMode()
			m.In, m.Out = uint32(binary.LittleEndian.Uint16(b)), uint32(binary.LittleEndian.Uint16(b[2:]))
			m.Local = uint32(binary.LittleEndian.Uint16(b[4:]))
			return m
		}
		l := &line{mode: mode(data)}
		echoed := 0
		for i, c := range data[6:] {
			switch {
			case c == 0 && i+7 < len(data)-6: // another mode
				l.set(mode(data[6+i:]))
			case c == 1: // a read of some bytes
				n, _ := l.takeLine(make([]byte, 1+i%7))
				if n > 1+i%7 {
					t.Fatalf("read %d bytes of %d", n, 1+i%7)
				}
			}
			if l.room() == 0 {
				continue
			}
			echo, s := l.receive(c, nil)
			if s != 0 && s != SIGINT && s != SIGQUIT && s != SIGTSTP {
				t.Fatalf("signal %v", s)
			}
			echoed += len(echo)
			l.output(nil, []byte{c})
			l.checkWhole(t)
		}
		if most := (len(data) + 1) * (8*lineSize + 64); echoed > most {
			t.Fatalf("%d bytes were echoed as %d", len(data), echoed)
		}
		l.set(SaneMode().Raw())
		for range lineSize + 1 {
			if n, _ := l.takeLine(make([]byte, 3)); n == 0 {
				break
			}
		}
		if len(l.input) != 0 {
			t.Fatalf("%d bytes can't be read", len(l.input))
		}
	})
}

// checkWhole fails if the line's state is inconsistent.
func (l *line) checkWhole(t *testing.T) {
	t.Helper()
	if len(l.input) > lineSize || len(l.ends) != len(l.input) || l.ready < 0 || l.ready > len(l.input) || l.column < 0 {
		t.Fatalf("%d bytes, %d ends, %d ready, column %d", len(l.input), len(l.ends), l.ready, l.column)
	}
	if l.mode.Local&ICANON != 0 && l.ready > 0 && !l.ends[l.ready-1] {
		t.Fatalf("the last of %d bytes ends no line", l.ready)
	}
}
