package shell

import (
	"errors"
	"io"
	"strings"

	"github.com/atoll-sandbox/atoll/shell/syntax"
)

// source says where a text comes from.
type source struct {
	file string // BASH_SOURCE of what it defines; empty: the session's commands
	kind string // "-c", "eval", "EXIT trap"…: what errors of syntax name
	line int32  // of its first line; 0: 1
	more func() (string, error)
	echo bool // set -v prints it as it is read
}

// runText parses and runs a text, a complete command at a time, so that
// what comes before a syntax error has run.
func (in *interp) runText(text string, src source) flow {
	p := syntax.New(text, in.parseOptions(src))
	c := compiler{source: src.file}
	if c.source == "" && len(in.frames) > 0 {
		c.source = in.frames[len(in.frames)-1].source
	}
	shown := 0
	for {
		list, err := p.Next()
		if err != nil {
			return in.unparsed(err, src)
		}
		if src.echo {
			shown = in.echoSource(text, shown, list)
		}
		if in.opt(optNoexec) {
			continue
		}
		r := c.stmts(list)
		in.warnOpen(&c)
		if f := in.catch(r); f != flowNext {
			return f
		}
		if in.opt(optOnecmd) && (src.more != nil || len(in.frames) == 1 && in.frames[0].fn == "main") {
			return flowExit
		}
	}
}

// warnOpen complains about here-documents without their end.
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
		ExtGlob: func() bool { return in.shopt(shExtglob) },
		More:    src.more,
		Posix:   in.opt(optPosix),
		Line:    int(max(src.line, 1)),
	}
}

func (in *interp) aliasText(name string) (string, bool) {
	if !in.shopt(shExpandAliases) {
		return "", false
	}
	return in.alias.get(name)
}

// unparsed ends a text: at its end, or with a syntax error.
func (in *interp) unparsed(err error, src source) flow {
	if err == io.EOF {
		return flowNext
	}
	if in.person != nil && in.person.interrupted {
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
	if (src.more != nil || in.opt(optPosix)) && in.person == nil {
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
	if in.person != nil && kind == "" && len(in.frames) == 0 {
		prefix = name + ": "
	}
	in.complain(prefix + err.Msg + "\n")
	if err.Detail != "" {
		in.complain(prefix + err.Detail + "\n")
	}
	if err.Source != "" {
		in.complain(prefix + "`" + err.Source + "'\n")
	}
}

// echoSource prints the lines up to the end of list that were not printed
// yet, and returns how many lines that makes.
func (in *interp) echoSource(text string, shown int, list []*syntax.Stmt) int {
	if len(list) == 0 {
		return shown
	}
	end := int(list[len(list)-1].End.Line)
	if !in.opt(optVerbose) {
		return end
	}
	lines := strings.SplitAfter(text, "\n")
	for ; shown < end && shown < len(lines); shown++ {
		in.complain(strings.TrimSuffix(lines[shown], "\n") + "\n")
	}
	return shown
}

// incomplete reports whether an error of syntax would go away with more
// input.
func incomplete(err error) bool {
	var se *syntax.Error
	return errors.As(err, &se) && se.Incomplete
}
