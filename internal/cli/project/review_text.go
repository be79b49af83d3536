package project

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// comment is a comment of a review.
type comment struct {
	File string `json:"file,omitempty"` // empty: about all of it
	Line int    `json:"line,omitempty"` // of the new file; 0: the whole file, or a removed line
	Code string `json:"code,omitempty"` // that line
	Text string `json:"text"`
}

var commentForm = regexp.MustCompile(`(?s)^(\S[^\n]*?):(\d+):\s+(.*\S)\s*$`)

// parseComment parses the value of -m: FILE:LINE: TEXT, or TEXT.
func parseComment(s string) (comment, error) {
	if m := commentForm.FindStringSubmatch(s); m != nil {
		n, err := strconv.Atoi(m[2])
		if err != nil || n < 1 {
			return comment{}, fmt.Errorf("line %s: lines are numbered from 1", m[2])
		}
		return comment{File: m[1], Line: n, Text: m[3]}, nil
	}
	if s = strings.TrimSpace(s); s == "" {
		return comment{}, fmt.Errorf("the text is empty")
	}
	return comment{Text: s}, nil
}

// diffMark begins each line of the diff in the buffer of an editor.
const diffMark = "> "

// bufferHead and bufferFoot are around the diff. They have at least five lines each: an editor that follows
// settings in the first and last lines of a file (modelines) finds none of the sandbox there.
const bufferHead = `# Review of branch %s in %s.
#
# Write comments on lines of their own, below the line of the diff that they are about.
# What is above the diff is about all of it. Lines that begin with "#" or ">" are not sent.
# Without comments, nothing is sent.
#
`

const bufferFoot = `#
#
#
# The end of the diff.
#
`

// formatBuffer returns the buffer for an editor.
func formatBuffer(branch, sandbox, diff string) string {
	var b strings.Builder
	fmt.Fprintf(&b, bufferHead, branch, sandbox)
	for line := range strings.Lines(diff) {
		b.WriteString(diffMark + cleanCode(strings.TrimSuffix(line, "\n")) + "\n")
	}
	b.WriteString(bufferFoot)
	return b.String()
}

// cleanCode replaces what would steer a terminal or an editor in a line of code.
func cleanCode(s string) string {
	return strings.Map(func(c rune) rune {
		if c != '\t' && (unicode.IsControl(c) || c == unicode.ReplacementChar || unicode.Is(unicode.Bidi_Control, c)) {
			return '·'
		}
		return c
	}, s)
}

var hunkForm = regexp.MustCompile(`^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@`)

// diffPlace is the place in a diff up to which it was read.
type diffPlace struct {
	file   string
	next   int // number of the next line of the new file; 0: not in a hunk
	line   int // of the last line of the diff; 0: none
	code   string
	inHunk bool
}

// advance reads a line of a diff.
func (p *diffPlace) advance(line string) {
	p.line, p.code = 0, ""
	switch {
	case strings.HasPrefix(line, "diff --git "):
		*p = diffPlace{}
	case !p.inHunk && strings.HasPrefix(line, "+++ b/"):
		p.file = strings.TrimSuffix(line[len("+++ b/"):], "\t")
	case !p.inHunk && strings.HasPrefix(line, "--- a/"): // of a removed file, the only name
		p.file = strings.TrimSuffix(line[len("--- a/"):], "\t")
	case strings.HasPrefix(line, "@@ "):
		if m := hunkForm.FindStringSubmatch(line); m != nil {
			p.next, _ = strconv.Atoi(m[1]) // it has digits only; one that is too large has no lines
			p.inHunk = true
		}
	case p.inHunk && strings.HasPrefix(line, "-"):
		p.code = line[1:]
	case p.inHunk && (strings.HasPrefix(line, "+") || strings.HasPrefix(line, " ")):
		p.line, p.code = p.next, line[1:]
		p.next++
	}
}

// parseBuffer returns the comments in the buffer of an editor.
func parseBuffer(text string) []comment {
	var list []comment
	var at diffPlace
	var open *comment
	end := func() {
		if open != nil && strings.TrimSpace(open.Text) != "" {
			open.Text = strings.TrimSpace(open.Text)
			list = append(list, *open)
		}
		open = nil
	}
	in := bufio.NewScanner(strings.NewReader(text))
	in.Buffer(nil, len(text)+1)
	for in.Scan() {
		line := strings.TrimSuffix(in.Text(), "\r")
		switch {
		case strings.HasPrefix(line, strings.TrimSpace(diffMark)):
			end()
			at.advance(strings.TrimPrefix(strings.TrimPrefix(line, ">"), " "))
		case strings.HasPrefix(line, "#"):
		case open == nil:
			open = &comment{File: at.file, Line: at.line, Code: at.code, Text: line}
		default:
			open.Text += "\n" + line
		}
	}
	end()
	return list
}

// formatReview returns the message for the agent.
func formatReview(branch string, list []comment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "This is a review of your changes on branch %s. Address each comment, and commit.\n", branch)
	for i, c := range list {
		fmt.Fprintf(&b, "\n%d. ", i+1)
		switch {
		case c.File == "":
		case c.Line > 0:
			fmt.Fprintf(&b, "%s:%d\n", c.File, c.Line)
		case c.Code != "":
			fmt.Fprintf(&b, "%s, a removed line\n", c.File)
		default:
			fmt.Fprintf(&b, "%s\n", c.File)
		}
		if c.Code != "" {
			fmt.Fprintf(&b, "   > %s\n", c.Code)
		}
		if c.File != "" {
			b.WriteString("   ")
		}
		b.WriteString(strings.ReplaceAll(c.Text, "\n", "\n   ") + "\n")
	}
	return b.String()
}
