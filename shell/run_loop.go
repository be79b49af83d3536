package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

func (c *compiler) ifCmd(x *syntax.If) run {
	type clause struct{ cond, then run }
	clauses := make([]clause, len(x.Clauses))
	for i, cl := range x.Clauses {
		clauses[i] = clause{c.stmts(cl.Cond), c.stmts(cl.Then)}
	}
	var other run
	if x.Else != nil {
		other = c.stmts(x.Else)
	}
	return func(in *interp) flow {
		for i := range clauses {
			in.ignoreFailure++
			f := clauses[i].cond(in)
			in.ignoreFailure--
			if f != flowNext {
				return f
			}
			if in.status == 0 {
				return clauses[i].then(in)
			}
		}
		if other != nil {
			return other(in)
		}
		in.status = 0
		return flowNext
	}
}

func (c *compiler) while(x *syntax.While) run {
	cond, body, until := c.stmts(x.Cond), c.stmts(x.Body), x.Until
	return func(in *interp) flow {
		in.loops++
		status := 0
		for {
			in.p.Tick(1)
			in.ignoreFailure++
			f := cond(in)
			in.ignoreFailure--
			done := until && f != flowNext // as in bash: continue is a condition that is true
			if f == flowNext {
				if (in.status == 0) == until {
					break
				}
				f = body(in)
				status = in.status
			}
			if f != flowNext {
				if stop, out := in.handleLoopFlow(f); stop {
					in.loops--
					return out
				}
				if done {
					break
				}
				status = in.status
			}
		}
		in.loops--
		in.status = status
		return flowNext
	}
}

// handleLoopFlow interprets a flow that left a loop's body: stop is set if the
// loop ends, and then out is its flow.
func (in *interp) handleLoopFlow(f flow) (stop bool, out flow) {
	switch f {
	case flowNext:
		return false, flowNext
	case flowBreak, flowContinue:
		in.loopLevels--
		if in.loopLevels > 0 {
			return true, f
		}
		return f == flowBreak, flowNext
	}
	return true, f
}

// words compiles the words of for and select; without words it is "$@".
func (c *compiler) words(in bool, ws []*syntax.Word) func(in *interp) []string {
	if !in {
		return func(in *interp) []string { return in.params }
	}
	return c.fields(ws)
}

// loopHeader returns `for x in a b` as set -x prints it.
func loopHeader(kind, name string, in bool, ws []*syntax.Word) string {
	var b strings.Builder
	b.WriteString(kind + " " + name)
	if !in {
		b.WriteString(` in "$@"`)
		return b.String()
	}
	b.WriteString(" in")
	for _, w := range ws {
		b.WriteString(" " + w.Raw)
	}
	return b.String()
}

func (c *compiler) forCmd(x *syntax.Cmd, f *syntax.For) run {
	words, body, name, line := c.words(f.In, f.Words), c.stmts(f.Body), f.Name, x.Pos.Line
	text := loopHeader("for", name, f.In, f.Words)
	return func(in *interp) flow {
		in.line = line
		if !isName(name) {
			in.errorf("`%s': not a valid identifier", name)
			if in.optOn(optPosix) {
				in.exitOnError(2)
			}
			in.abortLine(1)
		}
		list := words(in)
		in.status = 0
		in.loops++
		defer func() { in.loops-- }()
		for _, w := range list {
			in.p.Tick(1)
			in.line = line
			if fl := in.traceStep(text, text); fl != flowNext {
				return fl
			}
			if !in.setFor(name, w) {
				in.status = 1
				return in.handleFailure()
			}
			if fl := body(in); fl != flowNext {
				if stop, out := in.handleLoopFlow(fl); stop {
					return out
				}
			}
		}
		return flowNext
	}
}

// traceStep runs the DEBUG trap and prints the trace of set -x before a
// command that is not a simple command.
func (in *interp) traceStep(text, command string) flow {
	if in.traps.debug != "" {
		if !in.inTrap {
			in.node, in.command = nil, command
		}
		if f := in.runDebugTrap(); f != flowNext {
			return f
		}
	}
	if in.optOn(optXtrace) {
		in.printTrace(text)
	}
	return flowNext
}

// arithPart compiles one of the three expressions of for (( )). An error in it
// ends the loop: v is then 0 and ok false.
func (c *compiler) arithPart(a *syntax.Arith, line int32) func(in *interp) (v int64, ok bool, f flow) {
	if a == nil || strings.TrimSpace(a.Raw) == "" {
		return func(*interp) (int64, bool, flow) { return 1, true, flowNext }
	}
	eval, text := c.arith(a), strings.TrimSpace(a.Raw)
	return func(in *interp) (int64, bool, flow) {
		in.line = line
		if in.isTracing() {
			if f := in.traceStep("(( "+text+" ))", "(("+text+"))"); f != flowNext {
				return 0, true, f
			}
		}
		return in.evalArithCmd(eval)
	}
}

func (c *compiler) arithFor(x *syntax.Cmd, f *syntax.ArithFor) run {
	line := x.Pos.Line
	start, cond, post := c.arithPart(f.Init, line), c.arithPart(f.Cond, line), c.arithPart(f.Post, line)
	body := c.stmts(f.Body)
	return func(in *interp) flow {
		in.loops++
		defer func() { in.loops-- }()
		if _, ok, fl := start(in); !ok || fl != flowNext {
			return fl
		}
		status := 0
		for {
			in.p.Tick(1)
			v, ok, fl := cond(in)
			if !ok || fl != flowNext {
				return fl
			}
			if v == 0 {
				in.status = status
				return flowNext
			}
			if fl = body(in); fl != flowNext {
				if stop, out := in.handleLoopFlow(fl); stop {
					return out
				}
			}
			status = in.status
			if _, ok, fl = post(in); !ok || fl != flowNext {
				return fl
			}
		}
	}
}

func (c *compiler) caseCmd(x *syntax.Cmd, k *syntax.Case) run {
	type item struct {
		patterns []func(in *interp) *pattern
		body     run
		empty    bool
		term     syntax.CaseTerm
	}
	word, line, text := c.scalar(k.Word), x.Pos.Line, "case "+k.Word.Raw+" in"
	items := make([]item, len(k.Items))
	for i, it := range k.Items {
		items[i] = item{body: c.stmts(it.Body), term: it.Term, empty: len(it.Body) == 0}
		for _, w := range it.Patterns {
			items[i].patterns = append(items[i].patterns, c.pattern(w))
		}
	}
	matches := func(in *interp, it *item, s string) bool {
		for _, p := range it.patterns {
			in.p.Tick(1)
			if p(in).matchAll(in, s) {
				return true
			}
		}
		return false
	}
	return func(in *interp) flow {
		in.line = line
		if f := in.traceStep(text, text); f != flowNext {
			return f
		}
		s := word(in)
		status, fall := 0, false
		for i := range items {
			it := &items[i]
			if !fall && !matches(in, it, s) {
				continue
			}
			if it.empty {
				in.status = 0
			}
			if f := it.body(in); f != flowNext {
				return f
			}
			status = in.status
			fall = it.term == syntax.CaseFall
			if it.term == syntax.CaseBreak {
				break
			}
		}
		in.status = status
		return flowNext
	}
}

func (c *compiler) selectCmd(x *syntax.Cmd, s *syntax.Select) run {
	words, body, name, line := c.words(s.In, s.Words), c.stmts(s.Body), s.Name, x.Pos.Line
	text := loopHeader("select", name, s.In, s.Words)
	return func(in *interp) flow {
		in.line = line
		list := words(in)
		in.status = 0
		if len(list) == 0 {
			return flowNext
		}
		in.loops++
		defer func() { in.loops-- }()
		for show := true; ; {
			in.p.Tick(1)
			in.line = line
			if f := in.traceStep(text, text); f != flowNext {
				return f
			}
			choice, again, ok := in.readChoice(list, show)
			if !ok {
				in.status = 1
				return flowNext
			}
			if show = again; again {
				continue
			}
			if !in.set(name, choice) {
				in.status = 1
				return flowNext
			}
			if f := body(in); f != flowNext {
				if stop, out := in.handleLoopFlow(f); stop {
					return out
				}
			}
			reply, _ := in.get("REPLY")
			show = reply == ""
		}
	}
}

// readChoice shows the menu of a select command and reads a choice. again is
// set when the line was empty.
func (in *interp) readChoice(list []string, show bool) (choice string, again, ok bool) {
	if show {
		cols := 80
		if v, set := in.get("COLUMNS"); set {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				cols = n
			}
		}
		in.writeMenu(list, cols)
	}
	ps3, set := in.get("PS3")
	if !set {
		ps3 = "#? "
	}
	in.writeStderr(ps3)
	line, ok := in.readLine()
	in.set("REPLY", line)
	if !ok {
		_ = in.print("select", "\n") // ends the line of the prompt
		return "", false, false
	}
	if line == "" {
		return "", true, true
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || n < 1 || n > len(list) {
		return "", false, true
	}
	return list[n-1], false, true
}

// readLine reads a line from standard input byte by byte, so that the rest
// remains for other readers. ok is false at the end of input.
func (in *interp) readLine() (line string, ok bool) {
	var b []byte
	one := make([]byte, 1)
	for {
		n, err := in.p.Stdin.Read(one)
		if n == 1 {
			if one[0] == '\n' {
				return string(b), true
			}
			b = append(b, one[0])
		}
		if err != nil {
			return string(b), false
		}
		if len(b)%4096 == 4095 {
			in.p.Alloc(4096)
		}
	}
}

// writeMenu prints the choices of select in columns, as bash does, in parts: columns are as wide as the
// longest choice, so all of it may need much more memory than the choices.
func (in *interp) writeMenu(list []string, width int) {
	longest := 0
	for _, w := range list {
		in.p.Tick(1 + len(w)>>6)
		longest = max(longest, utf8.RuneCountInString(w))
	}
	digits := len(strconv.Itoa(len(list)))
	cell := longest + digits + 2
	cols := max(1, width/(cell+2))
	rows := (len(list) + cols - 1) / cols
	if cols = (len(list) + rows - 1) / rows; rows == 1 {
		rows, cols = len(list), 1
	}
	var b strings.Builder
	for r := 0; r < rows; r++ {
		for col, at := 0, 0; col < cols; col++ {
			i := col*rows + r
			if i >= len(list) {
				break
			}
			width := digits
			if col == 0 {
				width = len(strconv.Itoa(rows))
			}
			b.WriteString(padLeft(strconv.Itoa(i+1), width) + ") " + list[i])
			if col < cols-1 && i+rows < len(list) {
				fillColumns(&b, at+width+2+utf8.RuneCountInString(list[i]), at+cell+2)
			}
			at += cell + 2
			in.p.Tick(1 + cell>>6)
			if b.Len() >= 32<<10 {
				in.writeStderr(b.String())
				b.Reset()
			}
		}
		b.WriteByte('\n')
	}
	in.writeStderr(b.String())
}

// padLeft pads s with spaces on the left to n bytes.
func padLeft(s string, n int) string { return strings.Repeat(" ", max(0, n-len(s))) + s }

// fillColumns writes tabs and spaces from one column to another.
func fillColumns(b *strings.Builder, from, to int) {
	for from < to {
		if to/8 > from/8 {
			b.WriteByte('\t')
			from += 8 - from%8
		} else {
			b.WriteByte(' ')
			from++
		}
	}
}
