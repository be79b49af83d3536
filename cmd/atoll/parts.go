package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
)

// parts shows on stderr how far something long has come that has several parts:
// a bar for each on a terminal, else a line for each step.
type parts struct {
	w     io.Writer
	quiet bool
	bars  bool
	cols  int
	rows  int
	now   func() time.Time

	list  []*part
	drawn int       // lines on the screen
	last  time.Time // when
}

// part is one of them.
type part struct {
	atoll.Progress

	told string // the last step that was written
}

const barEvery = 100 * time.Millisecond // between two drawings

func (a *app) newParts() *parts {
	p := &parts{w: a.err, quiet: a.quiet || a.json, now: time.Now}
	if f, ok := a.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w >= 40 && h >= 4 {
			p.bars, p.cols, p.rows = true, w, h
		}
	}
	return p
}

// step takes a step of a part; one without an id is a line for people.
func (p *parts) step(s atoll.Progress) {
	if p.quiet {
		return
	}
	if s.ID == "" {
		p.clear()
		for line := range strings.Lines(s.Message) {
			fmt.Fprintln(p.w, plain(strings.TrimRight(line, "\r\n")))
		}
		p.draw()
		return
	}
	at := p.of(s.ID)
	at.Progress = s
	if p.bars {
		if p.now().Sub(p.last) >= barEvery || s.Total > 0 && s.Done >= s.Total {
			p.clear()
			p.draw()
		}
		return
	}
	step := s.Message
	if s.Total > 0 && s.Done >= s.Total {
		step = strings.TrimSpace(step + " " + bytesText(s.Total))
	} else if at.told != "" && strings.HasPrefix(at.told, s.Message) {
		return // it only goes on
	}
	if step != at.told {
		at.told = step
		fmt.Fprintf(p.w, "%s: %s\n", plain(s.ID), plain(step))
	}
}

func (p *parts) of(id string) *part {
	for _, at := range p.list {
		if at.ID == id {
			return at
		}
	}
	at := &part{}
	p.list = append(p.list, at)
	return at
}

// end leaves the screen as it is then.
func (p *parts) end() {
	if p.bars {
		p.clear()
		p.draw()
		p.drawn = 0
	}
}

// clear takes the bars off the screen.
func (p *parts) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

// draw writes a bar for each part, as many as fit.
func (p *parts) draw() {
	if !p.bars {
		return
	}
	p.last = p.now()
	shown := p.list
	if most := p.rows - 2; len(shown) > most {
		shown = shown[len(shown)-most:]
	}
	for _, at := range shown {
		fmt.Fprintln(p.w, at.bar(p.cols))
		p.drawn++
	}
}

// bar is a part on one line of a terminal.
func (at *part) bar(cols int) string {
	id := plain(at.ID)
	id = id[:min(len(id), 12)]
	if at.Total <= 0 {
		text := plain(at.Message)
		if at.Done > 0 {
			text += " " + bytesText(at.Done)
		}
		return clipLine(fmt.Sprintf("%-12s %s", id, text), cols)
	}
	const width = 24
	full := int(min(at.Done, at.Total) * width / at.Total)
	bar := strings.Repeat("█", full) + strings.Repeat("░", width-full)
	return clipLine(fmt.Sprintf("%-12s %s %3d%% %s of %s %s", id, bar, min(100, 100*at.Done/at.Total), bytesText(at.Done), bytesText(at.Total), plain(at.Message)), cols)
}

// clipLine cuts a line so that a terminal does not break it.
func clipLine(s string, cols int) string {
	r := []rune(s)
	return string(r[:min(len(r), cols-1)])
}
