package main

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
)

// turnView shows a turn to a person: what the agent says on standard output,
// what it does on standard error.
type turnView struct {
	a       *app
	verbose bool
	colour  bool // of standard error
	quiet   bool
	now     func() time.Time

	mu      sync.Mutex
	paint   paint           // guarded by mu, as all that follows
	said    bool            // deltas of this block were shown
	spoke   bool            // anything was
	thought bool            // in the middle of a thought
	tools   map[string]bool // those that were shown as begun
	last    string          // the title of the last of them
	spin    *spinner
	err     error
}

func (a *app) newTurnView(verbose bool) *turnView {
	v := &turnView{
		a: a, verbose: verbose, colour: hasColour(a.err), quiet: a.quiet, now: time.Now,
		paint: paint{w: a.out, colour: hasColour(a.out)}, tools: make(map[string]bool),
	}
	if v.colour && !a.quiet && !a.json {
		v.spin = newSpinner(a.err)
	}
	return v
}

// close takes away what is only there while the turn is under way.
func (v *turnView) close() {
	if v.spin != nil {
		v.spin.stop()
	}
}

// event shows one event. The error is that of standard output.
func (v *turnView) event(e agent.Event) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.a.json {
		return v.line(e)
	}
	if v.spin != nil {
		v.spin.hide()
	}
	v.show(e)
	if v.spin != nil && v.paint.line == 0 && !v.thought && e.Type != agent.Finished {
		v.spin.show()
	}
	return v.err
}

// line writes an event for programs.
func (v *turnView) line(e agent.Event) error {
	b, err := json.Marshal(e)
	if err == nil {
		_, err = v.a.out.Write(append(b, '\n'))
	}
	return err
}

func (v *turnView) show(e agent.Event) {
	if v.thought && e.Type != agent.ThoughtDelta {
		v.thought = false
		v.note("\n")
	}
	switch e.Type {
	case agent.TextDelta:
		if e.Parent == "" || v.verbose {
			v.say(e.Text)
			v.said = true
		}
	case agent.TextDone:
		if e.Parent == "" || v.verbose {
			if !v.said {
				v.say(e.Text)
			}
			v.endText()
		}
	case agent.ThoughtDelta:
		if v.verbose {
			v.thought = true
			v.note(v.style(dimOn, safe(e.Text)))
		}
	case agent.Started:
		v.started(e)
	case agent.ToolStarted:
		v.tools[e.Tool.ID] = true
		v.tool(e)
	case agent.ToolFinished:
		if !v.tools[e.Tool.ID] {
			v.tool(e)
		}
		delete(v.tools, e.Tool.ID)
		v.toolEnd(e)
	case agent.PermissionDenied:
		v.say1(redOn, "✗ not permitted: "+title(e.Tool))
	case agent.PlanChanged:
		for _, s := range e.Plan {
			mark := map[string]string{"completed": "☑", "in_progress": "▸"}[s.Status]
			if mark == "" {
				mark = "☐"
			}
			v.say1(dimOn, "  "+mark+" "+s.Text)
		}
	case agent.Retrying:
		v.say1(yellowOn, fmt.Sprintf("⟳ the model does not answer (%s): try %d in %s", retryReason(e.Retry), e.Retry.Attempt+1, e.Retry.Delay.Round(100*time.Millisecond)))
	case agent.Warning:
		v.say1(yellowOn, "! "+e.Text)
	case agent.Finished:
		v.finished(e.Result)
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

// say shows what the agent says.
func (v *turnView) say(text string) {
	if text != "" {
		v.spoke = true
		v.err = v.paint.text(text)
	}
}

// endText ends a block of what the agent says.
func (v *turnView) endText() {
	v.said = false
	if err := v.paint.end(); err != nil {
		v.err = err
	}
}

// note writes to standard error.
func (v *turnView) note(s string) {
	if !v.quiet {
		_, _ = io.WriteString(v.a.err, s) // nobody to tell
	}
}

// say1 writes a line about the turn.
func (v *turnView) say1(style, text string) {
	if v.paint.line > 0 {
		v.endText()
	}
	v.note(v.style(style, safe(text)) + "\n")
}

// style paints what is already safe.
func (v *turnView) style(style, text string) string {
	if !v.colour || text == "" {
		return text
	}
	return style + text + allOff
}

// safe is text with its lines kept, and nothing that steers a terminal.
func safe(text string) string {
	return lines(strings.TrimRight(text, "\n"), "")
}

func (v *turnView) started(e agent.Event) {
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
	v.say1(dimOn, "● "+strings.Join(parts, " · "))
}

var marks = map[agent.Kind]string{
	agent.Read: "◦", agent.Edit: "✎", agent.Delete: "✗", agent.Move: "→", agent.Search: "⌕",
	agent.Execute: "$", agent.Think: "…", agent.Fetch: "↓", agent.MCP: "⚙",
}

// tool shows the beginning of a call.
func (v *turnView) tool(e agent.Event) {
	mark := marks[e.Tool.Kind]
	if mark == "" {
		mark = "•"
	}
	indent := "  "
	if e.Parent != "" {
		indent = "    ↳ "
	}
	v.last = title(e.Tool)
	v.say1(codeOn, indent+mark+" "+clip(v.last, 160))
}

// title is a call in a line.
func title(t *agent.ToolCall) string {
	text := t.Title
	if text == "" {
		text = t.Name
	}
	if t.Kind == agent.MCP || t.Kind == agent.Other || t.Kind == "" {
		if in := strings.TrimSpace(string(t.Input)); in != "" && in != "{}" && in != "null" {
			text += " " + in
		}
	}
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i] + " …"
	}
	return text
}

// clip cuts a text to n characters.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// toolEnd shows what came of a call.
func (v *turnView) toolEnd(e agent.Event) {
	t := e.Tool
	for _, d := range t.Diffs {
		plus, minus := changed(d)
		name := ""
		if d.Path != title(t) && d.Path != v.last {
			name = d.Path + "  "
		}
		v.say1(dimOn, fmt.Sprintf("      %s+%d −%d", name, plus, minus))
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
		v.say1(redOn, "      ✗ "+what)
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
		v.say1(dimOn, "      "+clip(l, 200))
	}
	if n := len(out) - shown; n > 0 {
		v.say1(dimOn, fmt.Sprintf("      … %d more lines", n))
	}
}

// changed counts the lines that a change adds and removes.
func changed(d agent.Diff) (plus, minus int) {
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

// asked shows a request for permission that is answered elsewhere.
func (v *turnView) asked(turn string, p agent.Permission) {
	v.wish(p)
	v.say1(yellowOn, fmt.Sprintf("  'atoll turn decide %s %s allow' or deny%s", turn, p.ID, withinText(p.Deadline)))
}

// wish shows what an agent asks for.
func (v *turnView) wish(p agent.Permission) {
	v.say1(yellowOn, "? "+asks(&p.Tool))
	for _, l := range details(&p.Tool) {
		v.say1(dimOn, "    "+clip(l, 200))
	}
}

// mostDetails is how many lines of a call are shown before it is permitted.
const mostDetails = 16

// details are what a call would do, beyond its title: the change, or the input.
func details(t *agent.ToolCall) []string {
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

// finished shows how it ended.
func (v *turnView) finished(r *agent.Result) {
	if !v.spoke && r.Text != "" {
		v.say(r.Text)
	}
	if v.said || v.paint.line > 0 {
		v.endText()
	}
	parts := []string{"done"}
	mark, style := "✓", greenOn
	if r.Outcome != agent.OK {
		mark, style = "✗", redOn
		parts[0] = outcomeText(r)
	}
	if len(r.Denials) > 0 {
		parts = append(parts, count(len(r.Denials), "tool")+" not permitted")
	}
	u := r.Usage
	if u.Requests > 0 {
		parts = append(parts, count(int(u.Requests), "request"))
	}
	if u.Input+u.Output > 0 {
		parts = append(parts, fmt.Sprintf("%s in, %s out", amount(u.Input+u.CacheRead+u.CacheWrite), amount(u.Output)))
	}
	if u.Cost > 0 {
		parts = append(parts, fmt.Sprintf("$%.4f", u.Cost))
	}
	parts = append(parts, r.Duration.Round(100*time.Millisecond).String())
	quiet := v.quiet
	v.quiet = quiet && r.Outcome == agent.OK // why it failed is always said
	v.say1(style, mark+" "+strings.Join(parts, " · "))
	if r.Outcome == agent.Crashed && r.Stderr != "" {
		v.say1(dimOn, lastLines(r.Stderr, 10))
	}
	v.quiet = quiet
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func lastLines(s string, n int) string {
	list := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(list[max(0, len(list)-n):], "\n")
}

// outcomeText says in words why a turn did not end well.
func outcomeText(r *agent.Result) string {
	text := map[agent.Outcome]string{
		agent.Failed: "it failed", agent.MaxTurns: "it was stopped after as many steps as it may take", agent.Spent: "its budget is used up",
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

// amount is a number of tokens as people say it.
func amount(n int64) string {
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
	go s.turn()
	return s
}

const spinEvery = 120 * time.Millisecond

func (s *spinner) turn() {
	defer close(s.over)
	tick := time.NewTicker(spinEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			s.draw()
		}
	}
}

func (s *spinner) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hidden {
		return
	}
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	s.frame++
	s.drawn = true
	fmt.Fprintf(s.w, "\r%s%c %s%s\x1b[K", dimOn, frames[s.frame%len(frames)], span(time.Since(s.begun)), allOff)
}

// hide takes it away, until show.
func (s *spinner) hide() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = true
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

func (s *spinner) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = false
}

func (s *spinner) stop() {
	close(s.done)
	<-s.over
	s.hide()
}
