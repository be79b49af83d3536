package file

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/character"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/vfs"
)

// findPiece formats one piece of a -printf format.
type findPiece func(e *findEntry) string

// compileFormat compiles the format of -printf.
func (q *findParser) compileFormat(s string) []findPiece {
	var pieces []findPiece
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			t := text.String()
			pieces = append(pieces, func(*findEntry) string { return t })
			text.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		q.f.p.Tick(1)
		switch {
		case s[i] == '\\' && i+1 < len(s):
			c, used := findEscape(s[i:])
			if s[i+1] == 'c' {
				flush()
				return append(pieces, func(*findEntry) string { _ = q.f.p.Out().Flush(); return "" }) // the last Flush reports the error
			}
			if c == s[i:i+used] {
				q.f.p.Errorf("warning: unrecognized escape `\\%c'", s[i+1])
			}
			text.WriteString(c)
			i += used - 1
		case s[i] == '%':
			piece, literal, used := q.parseDirective(s[i:])
			if q.failed {
				return nil
			}
			text.WriteString(literal)
			if piece != nil {
				flush()
				pieces = append(pieces, piece)
			}
			i += used - 1
		default:
			text.WriteByte(s[i])
		}
	}
	flush()
	return pieces
}

func findEscape(s string) (string, int) {
	if i := strings.IndexByte(`abfnrtv\`, s[1]); i >= 0 {
		return "\a\b\f\n\r\t\v\\"[i : i+1], 2
	}
	if n := character.PrefixLen(s[1:min(len(s), 4)], "01234567"); n > 0 {
		v, _ := strconv.ParseUint(s[1:1+n], 8, 16) // digits only
		return string([]byte{byte(v)}), 1 + n
	}
	return s[:2], 2
}

// parseDirective parses one % sequence: a piece, or literal text.
func (q *findParser) parseDirective(s string) (piece findPiece, literal string, used int) {
	i := 1
	n := character.PrefixLen(s[i:], "-+ #0")
	spec := statSpec{flags: s[i : i+n], prec: -1}
	i += n
	n = character.PrefixLen(s[i:], "0123456789")
	spec.width = clampNumber(s[i : i+n])
	i += n
	if i < len(s) && s[i] == '.' {
		n = character.PrefixLen(s[i+1:], "0123456789")
		spec.prec = clampNumber(s[i+1 : i+1+n])
		i += 1 + n
	}
	if i == len(s) {
		q.reportError("error: %s at end of format string", s)
		return nil, "", i
	}
	c := s[i]
	i++
	if c == '%' {
		return nil, "%", i
	}
	if strings.IndexByte("ABCT", c) >= 0 {
		if i == len(s) {
			q.reportError("error: %s at end of format string", s)
			return nil, "", i
		}
		return q.f.timePiece(spec, c, s[i]), "", i + 1
	}
	get := findFields[c]
	if get == nil {
		q.f.p.Errorf("warning: unrecognized format directive `%%%c'", c)
		return nil, s[:i], i
	}
	f := q.f
	return func(e *findEntry) string { return get(f, e, spec) }, "", i
}

// findFields are the directives without a second letter.
var findFields = map[byte]func(f *finder, e *findEntry, s statSpec) string{
	'a': func(f *finder, e *findEntry, s statSpec) string { return s.padText(f.formatCtime(e.info.Atime())) },
	'c': func(f *finder, e *findEntry, s statSpec) string { return s.padText(f.formatCtime(e.info.Ctime())) },
	't': func(f *finder, e *findEntry, s statSpec) string { return s.padText(f.formatCtime(e.info.ModTime())) },
	'b': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(i64(e.info.Blocks())) },
	'k': func(_ *finder, e *findEntry, s statSpec) string {
		return s.padText(i64(number.DivideUp(e.info.Blocks(), 2)))
	},
	'd': func(_ *finder, e *findEntry, s statSpec) string { return s.padNumber(int64(e.depth), 10) },
	'D': func(_ *finder, _ *findEntry, s statSpec) string { return s.padText(strconv.Itoa(deviceID)) },
	'f': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(tailOf(e.path)) },
	'F': func(_ *finder, _ *findEntry, s statSpec) string { return s.padText(dfType) },
	'g': func(f *finder, e *findEntry, s statSpec) string {
		return s.padText(f.owners.GroupNameOrID(e.info.Gid()))
	},
	'G': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(strconv.Itoa(e.info.Gid())) },
	'h': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(headOf(e.path)) },
	'H': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(e.root) },
	'i': func(_ *finder, e *findEntry, s statSpec) string {
		return s.padText(strconv.FormatUint(e.info.Ino(), 10))
	},
	'l': func(f *finder, e *findEntry, s statSpec) string { return s.padText(f.linkTarget(e)) },
	'm': func(_ *finder, e *findEntry, s statSpec) string {
		return s.padNumber(int64(filemode.ToUnix(e.info.Mode())&filemode.AllBits), 8)
	},
	'M': func(_ *finder, e *findEntry, s statSpec) string {
		return s.padText(filemode.Format(filemode.ToUnix(e.info.Mode())))
	},
	'n': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(strconv.Itoa(e.info.Nlink())) },
	'p': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(e.path) },
	'P': func(_ *finder, e *findEntry, s statSpec) string {
		return s.padText(strings.TrimLeft(strings.TrimPrefix(e.path, e.root), "/"))
	},
	's': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(i64(e.info.Size())) },
	'S': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(formatSparseness(e.info)) },
	'u': func(f *finder, e *findEntry, s statSpec) string {
		return s.padText(f.owners.UserNameOrID(e.info.Uid()))
	},
	'U': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(strconv.Itoa(e.info.Uid())) },
	'y': func(_ *finder, e *findEntry, s statSpec) string { return s.padText(typeLetter(e.info)) },
	'Y': func(f *finder, e *findEntry, s statSpec) string { return s.padText(f.finalType(e)) },
	'Z': func(_ *finder, _ *findEntry, s statSpec) string { return s.padText("") },
}

func i64(n int64) string { return strconv.FormatInt(n, 10) }

// headOf returns a path without its last part.
func headOf(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "."
	}
	return path[:i]
}

// tailOf returns the last part of a path, with a slash at its end.
func tailOf(path string) string {
	name := lastName(path)
	if strings.HasSuffix(path, "/") && name != "/" {
		return name + "/"
	}
	return name
}

func (f *finder) linkTarget(e *findEntry) string {
	if e.info.Mode()&fs.ModeSymlink == 0 {
		return ""
	}
	t, err := f.p.Readlink(e.path)
	if err != nil {
		return ""
	}
	return t
}

func formatSparseness(info vfs.Info) string {
	if info.Size() == 0 {
		return "1"
	}
	return fmt.Sprintf("%g", float64(info.Blocks()*512)/float64(info.Size()))
}

func typeLetter(info vfs.Info) string {
	switch filemode.ToUnix(info.Mode()) & filemode.TypeMask {
	case filemode.TypeDir:
		return "d"
	case filemode.TypeLink:
		return "l"
	case filemode.TypeFIFO:
		return "p"
	case filemode.TypeSocket:
		return "s"
	case filemode.TypeChar:
		return "c"
	case filemode.TypeBlock:
		return "b"
	}
	return "f"
}

// finalType returns the letter for the type of a link's target.
func (f *finder) finalType(e *findEntry) string {
	if e.link.Mode()&fs.ModeSymlink == 0 {
		return typeLetter(e.info)
	}
	to, err := f.p.Stat(e.path)
	switch {
	case err == nil:
		return typeLetter(to)
	case errors.Is(err, vfs.ELOOP):
		return "L"
	case isMissing(err), errors.Is(err, vfs.ENOTDIR):
		return "N"
	}
	return "?"
}

// formatCtime formats a time like ctime of C, with a fraction.
func (f *finder) formatCtime(t time.Time) string {
	t = t.In(f.zone)
	return t.Format("Mon Jan _2 15:04:05") + formatFraction(t) + t.Format(" 2006")
}

// formatFraction returns the fraction of a second in ten digits.
func formatFraction(t time.Time) string { return fmt.Sprintf(".%09d0", t.Nanosecond()) }

// timePiece formats a time by a letter of strftime, or @ and +.
func (f *finder) timePiece(s statSpec, which, c byte) findPiece {
	return func(e *findEntry) string {
		t := stampOf(e.info, map[byte]byte{'A': 'a', 'C': 'c', 'B': 'B', 'T': 'm'}[which]).In(f.zone)
		switch c {
		case '@':
			return s.padText(i64(t.Unix()) + formatFraction(t))
		case '+':
			return s.padText(t.Format("2006-01-02+15:04:05") + formatFraction(t))
		case 'S':
			return s.padText(t.Format("05") + formatFraction(t))
		case 'T', 'X':
			return s.padText(t.Format("15:04:05") + formatFraction(t))
		}
		return s.padText(datetime.Format(f.p, t, "%"+string([]byte{c})))
	}
}
