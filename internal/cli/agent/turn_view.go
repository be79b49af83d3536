package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
)

// turnView shows a turn to a person: what the agent says on standard output,
// what it does on standard error.
type turnView struct {
	typist *typist // of a chat on a terminal; nil: none

	a       commands
	verbose bool
	colour  bool // of standard error
	quiet   bool
	now     func() time.Time

	mu      sync.Mutex
	paint   output.Markdown // guarded by mu, as all that follows
	said    bool            // deltas of this block were shown
	spoke   bool            // anything was
	thought bool            // in the middle of a thought
	tools   map[string]bool // those that were shown as begun
	last    string          // the title of the last of them
	spin    *spinner
	dropped string // what the log lacks
	err     error
}

func (a commands) newTurnView(verbose bool) *turnView {
	v := &turnView{
		a: a, verbose: verbose, colour: output.HasColor(a.Err), quiet: a.Quiet, now: time.Now,
		paint: output.Markdown{W: a.Out, Color: output.HasColor(a.Out)}, tools: make(map[string]bool),
	}
	if v.colour && !a.Quiet && !a.JSON {
		v.spin = newSpinner(a.Err)
	}
	return v
}

// close takes away what is only there while the turn is under way.
func (v *turnView) close() {
	if v.spin != nil {
		v.spin.stop()
	}
}

// handleEvent shows one event. The error is that of standard output.
func (v *turnView) handleEvent(e agent.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.a.JSON {
		return v.printLine(e)
	}
	if v.spin != nil {
		v.spin.hideFrame()
	}
	v.printEvent(e)
	if v.spin != nil && v.paint.Line == 0 && !v.thought && e.Type != agent.Finished {
		v.spin.showFrame()
	}
	return v.err
}

// printLine writes an event for programs.
func (v *turnView) printLine(e agent.Event) error {
	b, err := json.Marshal(e)
	if err == nil {
		_, err = v.a.Out.Write(append(b, '\n'))
	}
	return err
}

func (v *turnView) printEvent(e agent.Event) {
	if v.thought && e.Type != agent.ThoughtDelta {
		v.thought = false
		v.printNote("\n")
	}
	switch e.Type {
	case agent.TextDelta:
		if e.Parent == "" || v.verbose {
			v.printText(e.Text)
			v.said = true
		}
	case agent.TextDone:
		if e.Parent == "" || v.verbose {
			if !v.said {
				v.printText(e.Text)
			}
			v.endText()
		}
	case agent.ThoughtDelta:
		if v.verbose {
			v.thought = true
			v.printNote(v.applyStyle(output.Dim, cleanText(e.Text)))
		}
	case agent.Started:
		v.printStart(e)
	case agent.ToolStarted:
		v.tools[e.Tool.ID] = true
		v.printTool(e)
	case agent.ToolFinished:
		if !v.tools[e.Tool.ID] {
			v.printTool(e)
		}
		delete(v.tools, e.Tool.ID)
		v.toolEnd(e)
	case agent.PermissionDenied:
		v.printStyledLine(output.Red, "✗ not permitted: "+output.ToolCallTitle(e.Tool))
	case agent.PlanChanged:
		for _, s := range e.Plan {
			mark := map[string]string{"completed": "☑", "in_progress": "▸"}[s.Status]
			if mark == "" {
				mark = "☐"
			}
			v.printStyledLine(output.Dim, "  "+mark+" "+s.Text)
		}
	case agent.Retrying:
		v.printStyledLine(output.Yellow, fmt.Sprintf("⟳ the model does not answer (%s): try %d in %s", retryReason(e.Retry), e.Retry.Attempt+1, e.Retry.Delay.Round(100*time.Millisecond)))
	case agent.MessageChanged:
		v.printMessage(e)
	case agent.Dropped:
		v.dropped = e.Text // shown at the end: it must not break the text
	case agent.Warning:
		v.printStyledLine(output.Yellow, "! "+e.Text)
	case agent.Finished:
		v.printResult(e.Result)
	}
}

// printMessage prints a message to the agent, and that it was not read.
func (v *turnView) printMessage(e agent.Event) {
	switch e.Message.State {
	case agent.MessageSent:
		v.printStyledLine(output.Dim, "you> "+e.Text)
	case agent.MessageDropped:
		v.printStyledLine(output.Yellow, "! the agent has not read the message "+e.Message.ID)
	case agent.MessageQueued:
		v.printStyledLine(output.Dim, "the message "+e.Message.ID+" is queued as turn "+e.Message.Turn)
	case agent.MessageRead:
	}
}

func retryReason(r *agent.Retry) string {
	switch {
	case r.Message != "" && r.Status != 0:
		return fmt.Sprintf("%d %s", r.Status, r.Message)
	case r.Status != 0:
		return fmt.Sprint(r.Status)
	}
	return r.Message
}

// printText shows what the agent says.
func (v *turnView) printText(text string) {
	if text != "" {
		v.spoke = true
		v.err = v.paint.WriteText(text)
	}
}

// endText ends a block of the agent's text.
func (v *turnView) endText() {
	v.said = false
	if err := v.paint.Close(); err != nil {
		v.err = err
	}
}

// printNote writes to standard error.
func (v *turnView) printNote(s string) {
	if !v.quiet {
		_, _ = io.WriteString(v.a.Err, s) // nobody to tell
	}
}

// printStyledLine prints a line about the turn.
func (v *turnView) printStyledLine(style, text string) {
	if v.paint.Line > 0 {
		v.endText()
	}
	v.printNote(v.applyStyle(style, cleanText(text)) + "\n")
}

// applyStyle paints what is already safe.
func (v *turnView) applyStyle(style, text string) string {
	if !v.colour || text == "" {
		return text
	}
	return style + text + output.Reset
}

// cleanText is text with its lines kept, and nothing that steers a terminal.
func cleanText(text string) string {
	return output.CleanLines(strings.TrimRight(text, "\n"), "")
}

func (v *turnView) printStart(e agent.Event) {
	s := e.Started
	parts := []string{strings.TrimSpace(s.Agent + " " + s.Version)}
	if s.Model != "" {
		parts = append(parts, s.Model)
	}
	if len(s.Skills) > 0 && v.verbose {
		parts = append(parts, "skills "+strings.Join(s.Skills, ", "))
	}
	for _, m := range s.MCP {
		if m.Status != "connected" {
			parts = append(parts, "tools of "+m.Name+" "+m.Status)
		}
	}
	v.printStyledLine(output.Dim, "● "+strings.Join(parts, " · "))
}

var marks = map[agent.Kind]string{
	agent.Read: "◦", agent.Edit: "✎", agent.Delete: "✗", agent.Move: "→", agent.Search: "⌕",
	agent.Execute: "$", agent.Think: "…", agent.Fetch: "↓", agent.MCP: "⚙",
}

// printTool shows the beginning of a call.
func (v *turnView) printTool(e agent.Event) {
	mark := marks[e.Tool.Kind]
	if mark == "" {
		mark = "•"
	}
	indent := "  "
	if e.Parent != "" {
		indent = "    ↳ "
	}
	v.last = output.ToolCallTitle(e.Tool)
	v.printStyledLine(output.Code, indent+mark+" "+output.Truncate(v.last, 160))
}

// toolEnd shows what came of a call.
func (v *turnView) toolEnd(e agent.Event) {
	t := e.Tool
	for _, d := range t.Diffs {
		plus, minus := countChanges(d)
		name := ""
		if d.Path != output.ToolCallTitle(t) && d.Path != v.last {
			name = d.Path + "  "
		}
		v.printStyledLine(output.Dim, fmt.Sprintf("      %s+%d −%d", name, plus, minus))
	}
	shown := 3
	switch {
	case t.Status == agent.ToolFailed || t.Status == agent.Denied:
		what := "failed"
		if t.Status == agent.Denied {
			what = "denied"
		}
		if t.Exit != nil && *t.Exit != 0 {
			what = fmt.Sprintf("exit %d", *t.Exit)
		}
		if t.Reason != "" {
			what += ": " + t.Reason
		}
		v.printStyledLine(output.Red, "      ✗ "+what)
		shown = 6
	case t.Kind != agent.Execute && t.Kind != agent.MCP && !v.verbose:
		return
	}
	if t.Output == "" || t.Output == t.Reason {
		return
	}
	out := strings.Split(strings.TrimRight(t.Output, "\n"), "\n")
	if v.verbose {
		shown = len(out)
	}
	for _, l := range out[:min(shown, len(out))] {
		v.printStyledLine(output.Dim, "      "+output.Truncate(l, 200))
	}
	if n := len(out) - shown; n > 0 {
		v.printStyledLine(output.Dim, fmt.Sprintf("      … %d more lines", n))
	}
}

// countChanges counts the lines that a change adds and removes.
func countChanges(d agent.Diff) (plus, minus int) {
	count := make(map[string]int)
	if d.Old != nil {
		for l := range strings.Lines(*d.Old) {
			count[l]--
		}
	}
	for l := range strings.Lines(d.New) {
		count[l]++
	}
	for _, n := range count {
		if n > 0 {
			plus += n
		} else {
			minus -= n
		}
	}
	return plus, minus
}

// printPermission shows a request for permission that is answered elsewhere.
func (v *turnView) printPermission(turn string, p agent.Permission) {
	v.printRequest(p)
	v.printStyledLine(output.Yellow, fmt.Sprintf("  'atoll turn decide %s %s allow' or deny%s", turn, p.ID, withinText(p.Deadline)))
}

// printRequest shows what an agent asks for.
func (v *turnView) printRequest(p agent.Permission) {
	v.printStyledLine(output.Yellow, "? "+describeTool(&p.Tool))
	for _, l := range toolDetails(&p.Tool) {
		v.printStyledLine(output.Dim, "    "+output.Truncate(l, 200))
	}
}

// mostDetails is how many lines of a call are shown before it is permitted.
const mostDetails = 16

// toolDetails returns the details of a call beyond its title: the change or the input.
func toolDetails(t *agent.ToolCall) []string {
	var list []string
	add := func(mark, text string) {
		for l := range strings.Lines(text) {
			list = append(list, mark+strings.TrimRight(l, "\r\n"))
		}
	}
	for _, d := range t.Diffs {
		if d.Old != nil {
			add("- ", *d.Old)
		}
		add("+ ", d.New)
	}
	var input map[string]any
	if len(list) == 0 && json.Unmarshal(t.Input, &input) == nil {
		for _, name := range slices.Sorted(maps.Keys(input)) {
			s, ok := input[name].(string)
			if ok && strings.Contains(s, "\n") { // what a title has no room for
				add("", s)
			}
		}
	}
	if n := len(list) - mostDetails; n > 0 {
		list = append(list[:mostDetails], fmt.Sprintf("… %d more lines", n))
	}
	return list
}

// printResult shows how it ended.
func (v *turnView) printResult(r *agent.Result) {
	if !v.spoke && r.Text != "" {
		v.printText(r.Text)
	}
	if v.said || v.paint.Line > 0 {
		v.endText()
	}
	if v.dropped != "" {
		v.printStyledLine(output.Yellow, "! "+v.dropped)
	}
	parts := []string{"done"}
	mark, style := "✓", output.Green
	if r.Outcome != agent.OK {
		mark, style = "✗", output.Red
		parts[0] = outcomeText(r)
	}
	if len(r.Denials) > 0 {
		parts = append(parts, output.FormatCount(len(r.Denials), "tool")+" not permitted")
	}
	u := r.Usage
	if u.Requests > 0 {
		parts = append(parts, output.FormatCount(int(u.Requests), "request"))
	}
	if u.Input+u.Output > 0 {
		parts = append(parts, fmt.Sprintf("%s in, %s out", formatCount(u.Input+u.CacheRead+u.CacheWrite), formatCount(u.Output)))
	}
	if u.Cost > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f", u.Cost))
	}
	parts = append(parts, r.Duration.Round(100*time.Millisecond).String())
	quiet := v.quiet
	v.quiet = quiet && r.Outcome == agent.OK // why it failed is always said
	v.printStyledLine(style, mark+" "+strings.Join(parts, " · "))
	if r.Outcome == agent.Crashed && r.Stderr != "" {
		v.printStyledLine(output.Dim, lastLines(r.Stderr, 10))
	}
	v.quiet = quiet
}

func lastLines(s string, n int) string {
	list := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(list[max(0, len(list)-n):], "\n")
}

// outcomeText says in words why a turn did not end well.
func outcomeText(r *agent.Result) string {
	text := map[agent.Outcome]string{
		agent.Failed: "it failed", agent.MaxTurns: "it was stopped after as many steps as it may take", agent.BudgetExceeded: "its budget is used up",
		agent.Refused: "the model refused", agent.Aborted: "interrupted", agent.Timeout: "it took too long", agent.Crashed: "the agent ended without a result",
	}[r.Outcome]
	if text == "" {
		text = string(r.Outcome)
	}
	if r.Message != "" {
		text += ": " + r.Message
	}
	return text
}

// formatCount is a number of tokens as people say it.
func formatCount(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}

// spinner shows on a terminal that something is under way, and for how long.
type spinner struct {
	w     io.Writer
	begun time.Time
	done  chan struct{}
	over  chan struct{}

	mu     sync.Mutex
	hidden bool
	drawn  bool
	frame  int
}

func newSpinner(w io.Writer) *spinner {
	s := &spinner{w: w, begun: time.Now(), done: make(chan struct{}), over: make(chan struct{})}
	go s.advance()
	return s
}

const spinEvery = 120 * time.Millisecond

func (s *spinner) advance() {
	defer close(s.over)
	tick := time.NewTicker(spinEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			s.drawFrame()
		}
	}
}

func (s *spinner) drawFrame() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hidden {
		return
	}
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	s.frame++
	s.drawn = true
	fmt.Fprintf(s.w, "\r%s%c %s%s\x1b[K", output.Dim, frames[s.frame%len(frames)], output.FormatDuration(time.Since(s.begun)), output.Reset)
}

// hideFrame takes it away, until show.
func (s *spinner) hideFrame() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = true
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

func (s *spinner) showFrame() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = false
}

func (s *spinner) stop() {
	close(s.done)
	<-s.over
	s.hideFrame()
}
