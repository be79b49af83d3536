package vt

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
)

// judged is what xterm.js has made of a recording; see scripts/vt/oracle.mjs.
type judged struct {
	Row       int        `json:"row"`
	Col       int        `json:"col"`
	Alternate bool       `json:"alternate"`
	Screen    [][]string `json:"screen"`
	History   []string   `json:"history"`
}

// TestRecordings compares the model with xterm.js on recordings of programs:
// text, colors and attributes of every cell, the cursor, the lines above.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/*.raw")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".raw"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(strings.TrimSuffix(file, "raw") + "json")
			if err != nil {
				t.Fatal(err)
			}
			var want judged
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{len(raw), 1, 7} {
				m := New(atoll.Size{Rows: 24, Cols: 80}, 1000)
				for rest := raw; len(rest) > 0; rest = rest[min(size, len(rest)):] {
					_, _ = m.Write(rest[:min(size, len(rest))])
				}
				sound(t, m)
				if d := cmp.Diff(want, judge(m)); d != "" {
					t.Errorf("in pieces of %d: the model is another than xterm.js (-):\n%s", size, d)
				}
				if d := cmp.Diff(dump(m), dump(restored(m, ""))); d != "" {
					t.Errorf("a snapshot makes another terminal:\n%s", d)
				}
			}
		})
	}
}

func judge(m *Emulator) judged {
	s := m.Screen()
	j := judged{Row: s.Row, Col: s.Col, Alternate: s.Alternate, History: s.Scrollback}
	if m.pending {
		j.Col++ // as xterm.js counts
	}
	for y := range m.current.lines {
		j.Screen = append(j.Screen, runs(m, m.current.lines[y].cells))
	}
	if j.History == nil {
		j.History = []string{}
	}
	return j
}

// runs is what oracle.mjs calls so.
func runs(m *Emulator, cells []cell) []string {
	list := []string{}
	for i := range cells {
		c := &cells[i]
		if c.w == rest {
			continue
		}
		text, look := string(m.marks.appendCell(nil, c.r)), describe(c.style)
		if n := len(list); n > 0 && list[n-1] == look {
			list[n-2] += text
		} else {
			list = append(list, text, look)
		}
	}
	if n := len(list); n > 0 && list[n-1] == "" {
		if list[n-2] = strings.TrimRight(list[n-2], " "); list[n-2] == "" {
			list = list[:n-2]
		}
	}
	return list
}

func describe(s style) string {
	var words []string
	for _, k := range []struct {
		name string
		c    color
	}{{"f", s.fg}, {"b", s.bg}} {
		switch {
		case k.c&rgb != 0:
			words = append(words, k.name+"#"+fmt.Sprintf("%06x", int(k.c&0xffffff)))
		case k.c != 0:
			words = append(words, k.name+strconv.Itoa(int(k.c&0xff)))
		}
	}
	for _, k := range []struct {
		name string
		a    attr
	}{{"bold", bold}, {"faint", faint}, {"italic", italic}, {"underline", ulMask}, {"blink", blink}, {"inverse", inverse}, {"hidden", hidden}, {"strike", strike}, {"overline", overline}} {
		if s.attr&k.a != 0 {
			words = append(words, k.name)
		}
	}
	return strings.Join(words, " ")
}
