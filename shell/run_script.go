package shell

import (
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// source describes the origin of a text.
type source struct {
	file string // BASH_SOURCE of the functions it defines; empty: the session's commands
	kind string // "-c", "eval", "EXIT trap" and so on, for syntax error messages
	line int32  // number of its first line; 0: 1
	more func() (string, error)
	echo bool // set -v prints the text as it is read
}

// runText parses and runs a text a complete command at a time, so that the
// commands before a syntax error run.
func (in *interp) runText(text string, src source) flow {
	in.chargeReplaced(0, 0) // gives back what children kept that have ended
	p := syntax.New(text, in.parseOptions(src))
	c := compiler{source: src.file}
	if c.source == "" && len(in.frames) > 0 {
		c.source = in.frames[len(in.frames)-1].source
	}
	shown := 0
	for {
		list, err := p.Next()
		if err != nil {
			return in.endParse(err, src)
		}
		if src.echo {
			shown = in.echoSource(text, shown, list)
		}
		if in.optOn(optNoexec) {
			in.releaseTree(p.Cost())
			continue
		}
		r := c.stmts(list)
		in.warnOpen(&c)
		f := in.runAndCatch(r)
		in.releaseTree(p.Cost())
		if f != flowNext {
			return f
		}
		if in.optOn(optOnecmd) && (src.more != nil || len(in.frames) == 1 && in.frames[0].fn == "main") {
			return flowExit
		}
	}
}

// warnOpen prints warnings about here-documents without their delimiter.
func (in *interp) warnOpen(c *compiler) {
	for _, d := range c.open {
		in.line = d.Pos.Line + int32(strings.Count(strings.TrimSuffix(d.Body.Raw, "\n"), "\n"))
		in.errorf("warning: here-document at line %d delimited by end-of-file (wanted `%s')", d.Pos.Line-1, d.Delim)
	}
	c.open = nil
}

func (in *interp) parseOptions(src source) syntax.Options {
	return syntax.Options{
		Budget:  in.p,
		Alias:   in.aliasText,
		ExtGlob: func() bool { return in.shoptOn(shExtglob) },
		More:    src.more,
		Posix:   in.optOn(optPosix),
		Line:    int(max(src.line, 1)),
	}
}

func (in *interp) aliasText(name string) (string, bool) {
	if !in.shoptOn(shExpandAliases) {
		return "", false
	}
	return in.alias.get(name)
}

// endParse handles the end of a text, or a syntax error.
func (in *interp) endParse(err error, src source) flow {
	if errors.Is(err, io.EOF) {
		return flowNext
	}
	if in.interactive != nil && in.interactive.interrupted {
		return flowExit
	}
	var se *syntax.Error
	if !errors.As(err, &se) {
		in.errorf("%v", err)
		in.status = 2
		return flowNext
	}
	in.syntaxError(se, src.kind)
	in.status = se.Status
	if src.kind == "-c" {
		in.status = se.CommandStatus
	}
	if (src.more != nil || in.optOn(optPosix)) && in.interactive == nil {
		return flowExit
	}
	return flowNext
}

// syntaxError prints a syntax error as bash does.
func (in *interp) syntaxError(err *syntax.Error, kind string) {
	name := in.name0
	if n := len(in.frames); n > 0 {
		name = in.frames[n-1].source
	}
	if kind != "" {
		name += ": " + kind
	}
	old := in.line
	in.line = int32(err.Line)
	defer func() { in.line = old }()
	prefix := name + ": line " + itoa(err.Line) + ": "
	if in.interactive != nil && kind == "" && len(in.frames) == 0 {
		prefix = name + ": "
	}
	in.writeStderr(prefix + err.Msg + "\n")
	if err.Detail != "" {
		in.writeStderr(prefix + err.Detail + "\n")
	}
	if err.Source != "" {
		in.writeStderr(prefix + "`" + err.Source + "'\n")
	}
}

// echoSource prints the lines up to the end of list that were not printed yet,
// and returns the number of lines printed so far.
func (in *interp) echoSource(text string, shown int, list []*syntax.Stmt) int {
	if len(list) == 0 {
		return shown
	}
	end := int(list[len(list)-1].End.Line)
	if !in.optOn(optVerbose) {
		return end
	}
	lines := strings.SplitAfter(text, "\n")
	for ; shown < end && shown < len(lines); shown++ {
		in.writeStderr(strings.TrimSuffix(lines[shown], "\n") + "\n")
	}
	return shown
}

// isIncomplete reports whether an error is a syntax error that more input
// could fix.
func isIncomplete(err error) bool {
	var se *syntax.Error
	return errors.As(err, &se) && se.Incomplete
}
