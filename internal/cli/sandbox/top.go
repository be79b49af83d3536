package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/client"
	"github.com/atoll-sandbox/atoll/internal/cli/app"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

func (a commands) topCommand() *cobra.Command {
	var once bool
	var interval time.Duration
	t := &top{a: a}
	cmd := &cobra.Command{
		Use:     "top",
		Example: "  atoll top",
		Short:   "Display resource usage of all sandboxes, live",
		Long: `Display resource usage of all sandboxes, live. Keys choose the order: n name, s
state, a age, c commands, m memory, d disk; the same key again reverses it; q
quits. Without a terminal, or with --once, print one table.`,
		Args: app.CheckArgCount(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < 100*time.Millisecond {
				return fmt.Errorf("%w: --interval %v: must be at least 100ms", atoll.ErrInvalid, interval)
			}
			ctx := cmd.Context()
			in, ok := a.In.(*os.File)
			if once || a.JSON || !ok || !tty.IsTerminal(in) || !tty.IsTerminal(a.Out) {
				return t.printOnce(ctx)
			}
			return t.runLive(ctx, in, interval)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "one table instead of a screen")
	cmd.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between two looks")
	cmd.Flags().BoolVar(&t.all, "all-owners", false, "those of all owners (needs the scope operate)")
	return cmd
}

// top is the view of all sandboxes.
type top struct {
	a       commands
	all     bool
	order   byte // the key of the column to sort by; 0: as they were made
	reverse bool
}

// topRow is one sandbox of it.
type topRow struct {
	atoll.Info
	Stats *atoll.Stats `json:"stats,omitempty"` // nil: not known
}

// readRows asks for all sandboxes and what they use.
func (t *top) readRows(ctx context.Context) ([]topRow, error) {
	all, err := t.a.ListSandboxes(ctx, client.Filter{AllOwners: t.all})
	if err != nil {
		return nil, err
	}
	rows := make([]topRow, len(all))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, info := range all {
		rows[i].Info = info
		if !info.Features.Stats || info.State != atoll.Running && info.State != atoll.Paused {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if sb, err := t.a.Conn.Sandbox(ctx, info.ID); err == nil {
				if st, err := sb.Stats(ctx); err == nil { // one that is gone meanwhile has none
					rows[i].Stats = &st
				}
			}
		})
	}
	wg.Wait()
	t.sort(rows)
	return rows, ctx.Err()
}

func (t *top) sort(rows []topRow) {
	stat := func(r topRow) atoll.Stats {
		if r.Stats == nil {
			return atoll.Stats{ID: r.ID}
		}
		return *r.Stats
	}
	by := map[byte]func(a, b topRow) int{
		'n': func(a, b topRow) int { return cmp.Compare(output.SandboxName(a.Status), output.SandboxName(b.Status)) },
		's': func(a, b topRow) int { return cmp.Compare(a.State, b.State) },
		'a': func(a, b topRow) int { return b.Created.Compare(a.Created) },
		'c': func(a, b topRow) int { return cmp.Compare(stat(b).Commands, stat(a).Commands) },
		'm': func(a, b topRow) int { return cmp.Compare(stat(b).MemoryUsed, stat(a).MemoryUsed) },
		'd': func(a, b topRow) int { return cmp.Compare(stat(b).DiskUsed, stat(a).DiskUsed) },
	}[t.order]
	if by == nil {
		return
	}
	slices.SortStableFunc(rows, by)
	if t.reverse {
		slices.Reverse(rows)
	}
}

// formatTable formats the rows as a table.
func (t *top) formatTable(rows []topRow) [][]string {
	table := [][]string{{"NAME", "STATE", "AGE", "RUNNING", "COMMANDS", "MEMORY", "DISK", "FILES", "DRIVER", "OWNER"}}
	for _, r := range rows {
		commands, memory, disk, files := "-", "-", "-", "-"
		if s := r.Stats; s != nil {
			commands, memory, disk, files = strconv.FormatInt(s.Commands, 10), output.FormatBytes(s.MemoryUsed), output.FormatBytes(s.DiskUsed), strconv.Itoa(s.Files)
			if s.DiskLimit > 0 {
				disk += fmt.Sprintf(" (%d%%)", 100*s.DiskUsed/s.DiskLimit)
			}
		}
		table = append(table, []string{output.SandboxName(r.Status), string(r.State), output.FormatAge(r.Created), strconv.Itoa(r.Commands), commands, memory, disk, files, r.Driver, r.Owner.String()})
	}
	if !t.all {
		for i, row := range table {
			table[i] = row[:len(row)-1]
		}
	}
	return table
}

func (t *top) printOnce(ctx context.Context) error {
	rows, err := t.readRows(ctx)
	if err != nil {
		return err
	}
	if t.a.JSON {
		return t.a.PrintJSON(output.NonNil(rows))
	}
	return t.a.PrintTable(t.formatTable(rows))
}

// Terminal control sequences.
const (
	screenOpen  = "\x1b[?1049h\x1b[?25l" // the other screen, no cursor
	screenClose = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineEnd     = "\x1b[K\r\n"
	screenRest  = "\x1b[J"
	inverse     = "\x1b[7m"
	normal      = "\x1b[0m"
)

// runLive shows the table on the whole screen until q is pressed. The terminal is
// as it was afterwards, however it ends.
func (t *top) runLive(ctx context.Context, in *os.File, interval time.Duration) (err error) {
	if _, err := t.a.Client(ctx); err != nil {
		return err // before the screen is another
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	fmt.Fprint(t.a.Out, screenOpen)
	defer func() {
		fmt.Fprint(t.a.Out, screenClose)
		err = errors.Join(err, term.Restore(int(in.Fd()), old))
	}()
	keys := make(chan byte)
	go func() { // nobody can end a read of a terminal: it goes with the process
		var b [1]byte
		for {
			if n, err := in.Read(b[:]); err != nil || n == 0 {
				close(keys)
				return
			}
			keys <- b[0]
		}
	}()
	return t.updateLoop(ctx, in, interval, keys)
}

// updateLoop draws until a key or ctx ends it.
func (t *top) updateLoop(ctx context.Context, in *os.File, interval time.Duration, keys <-chan byte) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		rows, err := t.readRows(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if derr := t.drawScreen(in, rows, err); derr != nil {
			return derr
		}
		select {
		case <-tick.C:
		case k, ok := <-keys:
			if !ok || k == 'q' || k == tty.CtrlC || k == 4 || k == 'Q' {
				return nil
			}
			t.handleKey(k)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// handleKey chooses the order.
func (t *top) handleKey(k byte) {
	if strings.IndexByte("nsacmd", k) < 0 {
		return
	}
	t.reverse = t.order == k && !t.reverse
	t.order = k
}

// drawScreen writes the whole screen in one go, not more than fits.
func (t *top) drawScreen(in *os.File, rows []topRow, failure error) error {
	width, height, err := term.GetSize(int(in.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	running := 0
	for _, r := range rows {
		if r.State == atoll.Running {
			running++
		}
	}
	head := fmt.Sprintf("atoll top  %s  %d sandboxes, %d running   (n s a c m d: order, q: leave)", time.Now().Format("15:04:05"), len(rows), running)
	if failure != nil {
		head = "atoll top  " + output.OneLine(failure.Error())
	}
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, row := range t.formatTable(rows) {
		for i := range row {
			row[i] = output.Clean(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var screen strings.Builder
	screen.WriteString(screenHome + truncateLine(output.Clean(head), width) + lineEnd)
	for i, line := range strings.Split(strings.TrimRight(text.String(), "\n"), "\n") {
		if i+2 > height-1 {
			break
		}
		line = truncateLine(line, width)
		if i == 0 {
			line = inverse + line + normal
		}
		screen.WriteString(line + lineEnd)
	}
	screen.WriteString(screenRest)
	_, err = fmt.Fprint(t.a.Out, screen.String())
	return err
}

// truncateLine shortens a line to the width of a screen.
func truncateLine(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[:width])
	}
	return line
}
