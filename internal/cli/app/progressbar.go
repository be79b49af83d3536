package app

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// ProgressBar shows on stderr how far something long has come that has several parts:
// a bar for each on a terminal, else a line for each step.
type ProgressBar struct {
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

// part is a part of a progress bar.
type part struct {
	atoll.Progress

	told string // the last step that was written
}

const barEvery = 100 * time.Millisecond // between two drawings

func (a *App) NewProgressBar() *ProgressBar {
	p := &ProgressBar{w: a.Err, quiet: a.Quiet || a.JSON, now: time.Now}
	if f, ok := a.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w >= 40 && h >= 4 {
			p.bars, p.cols, p.rows = true, w, h
		}
	}
	return p
}

// Update takes a step of a part; one without an id is a line for people.
func (p *ProgressBar) Update(s atoll.Progress) {
	if p.quiet {
		return
	}
	if s.ID == "" {
		p.clearLine()
		for line := range strings.Lines(s.Message) {
			fmt.Fprintln(p.w, output.Clean(strings.TrimRight(line, "\r\n")))
		}
		p.drawLine()
		return
	}
	at := p.findPart(s.ID)
	at.Progress = s
	if p.bars {
		if p.now().Sub(p.last) >= barEvery || s.Total > 0 && s.Done >= s.Total {
			p.clearLine()
			p.drawLine()
		}
		return
	}
	step := s.Message
	if s.Total > 0 && s.Done >= s.Total {
		step = strings.TrimSpace(step + " " + output.FormatBytes(s.Total))
	} else if at.told != "" && strings.HasPrefix(at.told, s.Message) {
		return // it only goes on
	}
	if step != at.told {
		at.told = step
		fmt.Fprintf(p.w, "%s: %s\n", output.Clean(s.ID), output.Clean(step))
	}
}

func (p *ProgressBar) findPart(id string) *part {
	for _, at := range p.list {
		if at.ID == id {
			return at
		}
	}
	at := &part{}
	p.list = append(p.list, at)
	return at
}

// Finish leaves the screen as it is then.
func (p *ProgressBar) Finish() {
	if p.bars {
		p.clearLine()
		p.drawLine()
		p.drawn = 0
	}
}

// clearLine takes the bars off the screen.
func (p *ProgressBar) clearLine() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

// drawLine writes a bar for each part, as many as fit.
func (p *ProgressBar) drawLine() {
	if !p.bars {
		return
	}
	p.last = p.now()
	shown := p.list
	if most := p.rows - 2; len(shown) > most {
		shown = shown[len(shown)-most:]
	}
	for _, at := range shown {
		fmt.Fprintln(p.w, at.formatBar(p.cols))
		p.drawn++
	}
}

// formatBar is a part on one line of a terminal.
func (at *part) formatBar(cols int) string {
	id := output.Clean(at.ID)
	id = id[:min(len(id), 12)]
	if at.Total <= 0 {
		text := output.Clean(at.Message)
		if at.Done > 0 {
			text += " " + output.FormatBytes(at.Done)
		}
		return clipLine(fmt.Sprintf("%-12s %s", id, text), cols)
	}
	const width = 24
	full := int(min(at.Done, at.Total) * width / at.Total)
	bar := strings.Repeat("█", full) + strings.Repeat("░", width-full)
	return clipLine(fmt.Sprintf("%-12s %s %3d%% %s of %s %s", id, bar, min(100, 100*at.Done/at.Total), output.FormatBytes(at.Done), output.FormatBytes(at.Total), output.Clean(at.Message)), cols)
}

// clipLine cuts a line so that a terminal does not break it.
func clipLine(s string, cols int) string {
	r := []rune(s)
	return string(r[:min(len(r), cols-1)])
}
