package vt

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
)

func newEmulator(t testing.TB, rows, cols uint16, text string) *Emulator {
	t.Helper()
	m := New(atoll.Size{Rows: rows, Cols: cols}, 100)
	if _, err := m.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return m
}

// dump is all of a model's state that a snapshot restores.
func dump(m *Emulator) string {
	var b strings.Builder
	fmt.Fprintf(&b, "size %dx%d alt %v title %q\ncursor %d,%d %v pen %+v sets %+v\nmodes %+v\n",
		m.rows, m.cols, m.current == &m.alt, m.title, m.x, m.y, m.pending, m.pen, m.sets, m.modes)
	for i := range m.history.lines {
		p := m.history.lineAt(i)
		fmt.Fprintf(&b, "back %q %v\n", p.text, p.wrapped)
	}
	for _, s := range []*screen{&m.main, &m.alt} {
		if s.lines == nil {
			continue
		}
		v := s.saved
		if v.origin {
			v.y = min(max(v.y, s.top), s.bottom)
		}
		fmt.Fprintf(&b, "margins %d-%d tabs %v saved %+v\n", s.top, s.bottom, s.tabs, v)
		for y := range s.lines {
			l := &s.lines[y]
			wrapped := l.wrapped && (y > 0 || s == &m.main && len(m.history.lines) > 0)
			fmt.Fprintf(&b, "%d %v %q\n", y, wrapped, m.marks.appendLine(nil, trimBlanks(l.cells)))
		}
	}
	return b.String()
}

// sound fails if a model's invariants do not hold.
func sound(t *testing.T, m *Emulator) {
	t.Helper()
	if m.x < 0 || m.x >= m.cols || m.y < 0 || m.y >= m.rows || m.pending && m.x != m.cols-1 {
		t.Fatalf("cursor %d,%d (%v) of %dx%d", m.x, m.y, m.pending, m.cols, m.rows)
	}
	for y := range m.current.lines {
		cells := m.current.lines[y].cells
		if len(cells) != m.cols {
			t.Fatalf("row %d has %d cells", y, len(cells))
		}
		for x := range cells {
			if cells[x].w == wide && (x+1 == m.cols || cells[x+1].w != rest) || cells[x].w == rest && (x == 0 || cells[x-1].w != wide) {
				t.Fatalf("row %d: half a character at %d", y, x)
			}
		}
	}
}

// restored returns a terminal that has been given a snapshot.
func restored(m *Emulator, before string) *Emulator {
	n := New(m.Size(), m.history.maxLines)
	_, _ = n.Write([]byte(before))
	_, _ = n.Write(m.Snapshot(true))
	return n
}

func TestScreen(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"Text", "hello\r\nworld", "hello\nworld"},
		{"Wrap", "0123456789abc", "0123456789\nabc"},
		{"PendingWrap", "0123456789\rX", "X123456789"},
		{"NoWrap", "\x1b[?7l0123456789abc", "012345678c"},
		{"Scroll", "1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5"},
		{"Wide", "漢字ab", "漢字ab"},
		{"WideWraps", "123456789漢", "123456789\n漢"},
		{"WideHalved", "漢字\x1b[1;2Hx", " x字"},
		{"Combining", "e\u0301x", "e\u0301x"},
		{"CombiningAtEnd", "123456789e\u0301x", "123456789e\u0301\nx"},
		{"Insert", "abc\x1b[1;2H\x1b[2@", "a  bc"},
		{"Delete", "abcdef\x1b[1;2H\x1b[2P", "adef"},
		{"Erase", "abcdef\x1b[1;2H\x1b[2X", "a  def"},
		{"InsertLine", "1\r\n2\r\n3\x1b[2H\x1b[L", "1\n\n2\n3"},
		{"DeleteLine", "1\r\n2\r\n3\x1b[2H\x1b[M", "1\n3"},
		{"Margins", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3H\n", "1\n3\n\n4"},
		{"Origin", "\x1b[2;3r\x1b[?6h\x1b[HX\x1b[9HY", "\nX\nY"},
		{"Reverse", "1\r\n2\x1b[H\x1bM0", "0\n1\n2"},
		{"Repeat", "ab\x1b[3b", "abbbb"},
		{"RepeatNothing", "ab\x1b[H\x1b[3b", "ab"},
		{"Tabs", "a\tb", "a       b"},
		{"TabSet", "\x1b[3g\x1b[4G\x1bH\ra\tb", "a  b"},
		{"LineDrawing", "\x1b(0lqk\x1b(Bq", "┌─┐q"},
		{"Shift", "\x1b)0q\x0eq\x0fq", "q─q"},
		{"Alternate", "main\x1b[?1049hother\x1b[?1049l!", "main!"},
		{"AlternateShown", "main\x1b[?1049h\x1b[Hother", "other"},
		{"Cancelled", "a\x1b[12\x18b", "ab"},
		{"StringIsNoText", "a\x1bPsecret\x1b\\b\x1b_x\x07y\x1b\\c", "abc"},
		{"C1", "a\u009b1Cb", "a b"},
		{"NoUTF8", "a\xff\xc3\x28b", "a(b"},
		{"InsertMode", "abc\x1b[H\x1b[4hX", "Xabc"},
		{"SavedCursor", "ab\x1b7\r\ncd\x1b8X", "abX\ncd"},
		{"EraseBelow", "1\r\n2\r\n3\x1b[2H\x1b[J", "1"},
		{"EraseAbove", "1\r\n2\r\n3\x1b[2H\x1b[1J", "\n\n3"},
		{"EraseAtPendingWrap", "0123456789\x1b[K", "0123456789"},
		{"Aligned", "\x1b#8", "EEEEEEEEEE\nEEEEEEEEEE\nEEEEEEEEEE\nEEEEEEEEEE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newEmulator(t, 4, 10, c.in)
			if got := m.Text(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			sound(t, m)
			if d := cmp.Diff(dump(m), dump(restored(m, ""))); d != "" {
				t.Errorf("a snapshot makes another terminal:\n%s", d)
			}
			one := New(m.Size(), 100) // byte by byte
			for i := range len(c.in) {
				_, _ = one.Write([]byte{c.in[i]})
			}
			if d := cmp.Diff(dump(m), dump(one)); d != "" {
				t.Errorf("byte by byte:\n%s", d)
			}
		})
	}
}

func TestScrollback(t *testing.T) {
	m := New(atoll.Size{Rows: 3, Cols: 10}, 5)
	for i := range 20 {
		fmt.Fprintf(m, "\x1b[3%dmline %d\x1b[m\r\n", i%8, i)
	}
	want := []string{"line 13", "line 14", "line 15", "line 16", "line 17"}
	if d := cmp.Diff(want, m.Screen().Scrollback); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(dump(m), dump(restored(m, "old\r\nstuff\r\nthat\r\nwas\x1b[?1049h\x1b[5;7rthere\x1b]0;half"))); d != "" {
		t.Errorf("a snapshot makes another terminal:\n%s", d)
	}
	_, _ = m.Write([]byte("\x1b[3J"))
	if s := m.Screen().Scrollback; s != nil {
		t.Errorf("after it was cleared: %q", s)
	}
}

func TestQueriesAreNotForwarded(t *testing.T) {
	m := New(atoll.Size{Rows: 5, Cols: 20}, 0)
	var out, answers bytes.Buffer
	m.OnOutput = func(b []byte) { out.Write(b) }
	m.OnResponse = func(b []byte) { answers.Write(b) }
	_, _ = m.Write([]byte("a\x1b[6n\x1b[cb\x1b[>c\x1b[?2004$p\x1b]52;c;aGk=\a\x1b]0;t\x1b\\\x1bP$qm\x1b\\\x1b[21tc\x1b[1;31mé\x1b[5i"))
	if got, want := out.String(), "ab\x1b]2;t\ac\x1b[1;31mé"; got != want {
		t.Errorf("people's terminals get %q, want %q", got, want)
	}
	if got, want := answers.String(), "\x1b[1;2R\x1b[?1;2c\x1b[>0;276;0c\x1b[?2004;2$y"; got != want {
		t.Errorf("the program gets %q, want %q", got, want)
	}
}

func TestResize(t *testing.T) {
	m := newEmulator(t, 4, 10, "1\r\n2\r\n3\r\n漢字漢字漢")
	m.Resize(atoll.Size{Rows: 2, Cols: 5})
	sound(t, m)
	if got := m.Text(); got != "3\n漢字" {
		t.Errorf("smaller: %q", got)
	}
	if d := cmp.Diff([]string{"1", "2"}, m.Screen().Scrollback); d != "" {
		t.Error(d)
	}
	m.Resize(atoll.Size{Rows: 5, Cols: 20})
	if got := m.Text(); got != "3\n漢字" {
		t.Errorf("larger: %q", got)
	}
	m.Resize(atoll.Size{Rows: 60000, Cols: 60000})
	if m.rows != MaxRows || m.cols != MaxCols {
		t.Errorf("a huge one: %v", m.Size())
	}
	m.Resize(atoll.Size{Rows: 1, Cols: 1})
	_, _ = m.Write([]byte("漢字\x1b[2;4r\n\n\x1b[L\x1b[M"))
	sound(t, m)
}

func TestResizeOnAlternateScreen(t *testing.T) {
	m := newEmulator(t, 10, 20, "one\r\ntwo\x1b[?1049h\x1b[9;5Hlow")
	m.Resize(atoll.Size{Rows: 4, Cols: 20})
	if got := m.Text(); got != "\n\n\n    low" {
		t.Errorf("the alternate screen: %q", got)
	}
	_, _ = m.Write([]byte("\x1b[?1049l!"))
	if got := m.Text(); got != "one\ntwo!" {
		t.Errorf("the main screen: %q", got)
	}
}

func FuzzModel(f *testing.F) {
	f.Add([]byte("\x1b[2;3r\x1b[?6h\x1b7\x1b[?1049h\x1b[31;48;2;1;2;3mabc漢\x1b[K\r\n\x1b[5b"), []byte("x"), uint8(5), uint8(10))
	f.Add([]byte("\x1b(0abc\x0e\x1b[4:3m\x1b[?1003;1006h\x1b]2;t\a\x1b[3g\x1bH\t\x1b[P\x1b[@\x1b[L"), []byte("\x1b[?7l0123456789"), uint8(3), uint8(7))
	f.Add([]byte("0123456789漢字\x1b[44m0123456789\n\n\n\x1b[?1048h\x1b[4h\x1b[20h"), []byte("\x1b#8\x1b[?6h\x1b8"), uint8(2), uint8(9))
	f.Fuzz(func(t *testing.T, a, b []byte, rows, cols uint8) {
		m := New(atoll.Size{Rows: uint16(rows)%8 + 1, Cols: uint16(cols)%12 + 2}, 20)
		var seen []byte
		m.OnOutput = func(b []byte) { seen = append(seen, b...) }
		_, _ = m.Write(a)
		live := New(m.Size(), 20)
		_, _ = live.Write(seen)
		sound(t, m)
		if d := cmp.Diff(dump(m), dump(live)); d != "" {
			t.Errorf("what is passed on makes another terminal: %q\n%s", seen, d)
		}
		if d := cmp.Diff(dump(m), dump(restored(m, string(b)))); d != "" {
			t.Errorf("a snapshot makes another terminal: %q\n%s", m.Snapshot(true), d)
		}
		m.Paint(atoll.Size{Rows: 3, Cols: 5}, nil)
		m.Resize(atoll.Size{Rows: uint16(len(b)) % 9, Cols: uint16(len(a)) % 9})
		_, _ = m.Write(b)
		sound(t, m)
		m.Screen()
	})
}

func BenchmarkWrite(b *testing.B) {
	for name, text := range map[string]string{
		"plain": strings.Repeat("The quick brown fox jumps over the lazy dog, 0123456789.\r\n", 100),
		"color": strings.Repeat("\x1b[1;34mdir\x1b[0m  \x1b[38;2;10;20;30mfile.txt\x1b[m  -rw-r--r-- 1 root root\r\n", 100),
		"cjk":   strings.Repeat("漢字仮名交じり文 and text\r\n", 100),
	} {
		b.Run(name, func(b *testing.B) {
			m := New(atoll.Size{}, 2000)
			m.OnOutput = func([]byte) {}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = m.Write([]byte(text))
			}
		})
	}
}
