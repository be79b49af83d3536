package app

import (
	"os"

	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// Columns returns the width of the terminal on stdout; 0 if stdout is no terminal or its width
// is unknown, and lines are not wrapped.
func (a *App) Columns() int {
	f, ok := a.Out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// PrintTable writes rows in columns. Where they are too wide for the terminal, they move
// together, and then the last one is wrapped.
func (a *App) PrintTable(rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = output.Clean(cell)
		}
	}
	text, width := output.FormatTable(rows, 3), a.Columns()
	if width > 0 && output.MaxLineWidth(text) > width {
		rows = output.WrapLastColumn(rows, 2, width)
		text = output.FormatTable(rows, 2)
	}
	_, err := a.Out.Write(text)
	return err
}
