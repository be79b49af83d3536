package shell

import (
	"bytes"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
)

// history is the command history. It is shared between processes and never
// changed in place.
type history struct {
	lines []string
	first int // the number of the first line
}

// maxHistory limits the number of lines.
const maxHistory = 500

func (in *interp) historyLines() []string {
	if in.hist == nil {
		return nil
	}
	return in.hist.lines
}

func (in *interp) historyBase() int {
	if in.hist == nil || in.hist.first == 0 {
		return 1
	}
	return in.hist.first
}

// addHistory appends a line to the history.
func (in *interp) addHistory(line string) {
	h := &history{first: in.historyBase()}
	old := in.historyLines()
	in.charge(int64(len(line)))
	if len(old) >= maxHistory {
		h.first++
		in.charge(-int64(len(old[0])))
		old = old[1:]
	}
	h.lines = append(old[:len(old):len(old)], line)
	in.hist = h
}

func bHistory(in *interp, args []string) int {
	if len(args) > 1 && args[1] == "-d" {
		return in.deleteHistory(args[2:])
	}
	set, rest, ok := in.parseFlags(args, "canrwps")
	if !ok {
		return 2
	}
	switch {
	case set['c']:
		for _, line := range in.historyLines() {
			in.charge(-int64(len(line)))
		}
		in.hist = nil
		return 0
	case set['s']:
		if len(rest) > 0 {
			in.addHistory(in.joinScratch(rest, " "))
		}
		return 0
	case set['p']:
		return max(in.print("history", in.joinScratch(rest, "\n")), in.print("history", "\n"))
	case set['r'] || set['n']:
		return in.loadHistory(rest)
	case set['w'] || set['a']:
		return in.saveHistory(rest)
	}
	lines := in.historyLines()
	from := 0
	if len(rest) > 0 {
		n, valid := parseNumber(rest[0])
		if !valid {
			in.errorf("history: %s: numeric argument required", rest[0])
			return 1
		}
		from = max(0, len(lines)-max(n, 0))
	}
	for i := from; i < len(lines); i++ {
		for _, part := range []string{padLeft(itoa(in.historyBase()+i), 5) + "  ", lines[i], "\n"} {
			if status := in.print("history", part); status != 0 {
				return status
			}
		}
	}
	return 0
}

// joinScratch joins strings. The result is charged until the end of the command.
func (in *interp) joinScratch(list []string, sep string) string {
	n := len(list) * len(sep)
	for _, s := range list {
		n += len(s)
	}
	in.chargeScratch(n)
	return strings.Join(list, sep)
}

func (in *interp) deleteHistory(args []string) int {
	lines := in.historyLines()
	if len(args) == 0 {
		in.errorf("history: -d: option requires an argument")
		return in.reportUsage("history", "")
	}
	n, ok := parseNumber(args[0])
	at := n - in.historyBase()
	if n < 0 {
		at = len(lines) + n
	}
	if !ok || at < 0 || at >= len(lines) {
		in.errorf("history: %s: history position out of range", args[0])
		return 1
	}
	in.hist = &history{first: in.historyBase(), lines: append(append([]string(nil), lines[:at]...), lines[at+1:]...)}
	return 0
}

func (in *interp) historyFile(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return in.value("HISTFILE")
}

func (in *interp) loadHistory(args []string) int {
	file := in.historyFile(args)
	b, err := in.p.ReadFile(file)
	if err != nil {
		in.errorf("history: %s: cannot read: %v", file, kernel.Reason(err))
		return 1
	}
	for line := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) {
		in.chargeWork(1)
		in.addHistory(string(line))
	}
	in.p.Free(int64(cap(b)))
	return 0
}

func (in *interp) saveHistory(args []string) int {
	file := in.historyFile(args)
	var text []byte
	for _, line := range in.historyLines() {
		text = append(append(in.growScratch(text, len(line)+1), line...), '\n')
	}
	if err := in.p.WriteFile(file, text, 0o600); err != nil {
		in.errorf("history: %s: cannot create: %v", file, kernel.Reason(err))
		return 1
	}
	return 0
}

// bFc implements fc -l and fc -s; there is no editor for the other forms.
func bFc(in *interp, args []string) int {
	set, rest, ok := in.parseFlags(args, "elnrs")
	if !ok {
		return 2
	}
	lines := in.historyLines()
	switch {
	case set['s']:
		return in.rerunHistory(lines, rest)
	case !set['l']:
		in.errorf("fc: there is no editor here: use fc -l to list commands and fc -s to repeat one")
		return 1
	case len(lines) == 0:
		return 0
	}
	from, to := max(0, len(lines)-16), len(lines)-1
	if len(rest) > 0 {
		from, to = in.historyAt(rest[0]), len(lines)-1
	}
	if len(rest) > 1 {
		to = in.historyAt(rest[1])
	}
	if from < 0 || to < 0 {
		in.errorf("fc: history specification out of range")
		return 1
	}
	step := 1
	if from > to {
		step = -1
	}
	if set['r'] {
		from, to, step = to, from, -step
	}
	var b strings.Builder
	for i := from; ; i += step {
		if !set['n'] {
			b.WriteString(itoa(in.historyBase() + i))
		}
		b.WriteString("\t " + lines[i] + "\n")
		if i == to {
			break
		}
	}
	return in.print("fc", b.String())
}

// historyAt returns the index of the line that a number, a negative offset or
// a prefix selects, or -1.
func (in *interp) historyAt(spec string) int {
	lines := in.historyLines()
	if n, ok := parseNumber(spec); ok {
		if n < 0 {
			return max(0, len(lines)+n)
		}
		return min(max(0, n-in.historyBase()), len(lines)-1)
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], spec) {
			return i
		}
	}
	return -1
}

func (in *interp) rerunHistory(lines, args []string) int {
	var edits [][2]string
	for len(args) > 0 && strings.Contains(args[0], "=") {
		from, to, _ := strings.Cut(args[0], "=")
		edits = append(edits, [2]string{from, to})
		args = args[1:]
	}
	at := len(lines) - 1
	if len(args) > 0 {
		at = in.historyAt(args[0])
	}
	if at < 0 {
		in.errorf("fc: no command found")
		return 1
	}
	line := lines[at]
	for _, e := range edits {
		line = strings.ReplaceAll(line, e[0], e[1])
	}
	in.writeStderr(line + "\n")
	in.addHistory(line)
	return bEval(in, []string{"eval", line})
}
