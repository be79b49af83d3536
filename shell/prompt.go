package shell

import (
	"path"
	"strconv"
	"strings"
)

// expandPrompt expands a prompt: its backslash escapes, and then what a
// here-document expands.
func (in *interp) expandPrompt(s string) string {
	if strings.IndexByte(s, '\\') >= 0 {
		s = in.promptEscapes(s)
	}
	if !in.shoptOn(shPromptvars) {
		return s
	}
	return in.expandText(s)
}

// promptEscapes replaces the backslash escapes of a prompt.
func (in *interp) promptEscapes(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(in.growScratch(b, 1), s[i])
			continue
		}
		i++
		var text string
		switch c := s[i]; {
		case c >= '0' && c <= '7':
			v, n := scanDigits(s[i:], 3, 8)
			text = string([]byte{byte(v)})
			i += n - 1
		case c == 'D' && i+1 < len(s) && s[i+1] == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				end = len(s) - i
			}
			text = in.promptTime(s[i+2 : min(i+end, len(s))])
			i = min(i+end, len(s)-1)
		default:
			text = in.promptEscape(c)
		}
		in.p.Tick(1 + len(text)>>6)
		b = append(in.growScratch(b, len(text)), text...)
	}
	return in.textOf(b)
}

// promptTime returns the time for the escape \D{format}.
func (in *interp) promptTime(format string) string {
	if format == "" {
		format = "%X"
	}
	return in.strftime(format, in.currentTime())
}

func (in *interp) promptEscape(c byte) string {
	now := func(format string) string { return in.strftime(format, in.currentTime()) }
	switch c {
	case 'a':
		return "\a"
	case 'e':
		return "\x1b"
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 'd':
		return now("%a %b %d")
	case 't':
		return now("%H:%M:%S")
	case 'T':
		return now("%I:%M:%S")
	case '@':
		return now("%I:%M %p")
	case 'A':
		return now("%H:%M")
	case 'h':
		host, _, _ := strings.Cut(in.value("HOSTNAME"), ".")
		return host
	case 'H':
		return in.value("HOSTNAME")
	case 's':
		return path.Base(in.name0)
	case 'u':
		return "root"
	case 'v':
		return "5.2"
	case 'V':
		return "5.2.15"
	case 'w':
		return in.promptDir()
	case 'W':
		if d := in.promptDir(); d == "~" {
			return d
		}
		return path.Base(in.value("PWD"))
	case '!', '#':
		return in.value("HISTCMD")
	case 'j':
		return strconv.Itoa(len(in.jobs.list))
	case 'l':
		if y := in.p.Terminal(); y != nil {
			return path.Base(y.Name())
		}
		return "tty"
	case '$':
		return "#"
	case '\\':
		return `\\`
	case '[', ']':
		return ""
	}
	return `\` + string([]byte{c})
}

// promptDir returns the working directory, with ~ for the home directory.
func (in *interp) promptDir() string {
	dir, home := in.value("PWD"), in.value("HOME")
	switch {
	case home == "" || home == "/":
		return dir
	case dir == home:
		return "~"
	case strings.HasPrefix(dir, home+"/"):
		return "~" + dir[len(home):]
	}
	return dir
}
