package file

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/regex"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

// findPrimary parses the arguments of a primary and returns its test.
type findPrimary func(q *findParser, word string) findTest

var findPrimaries = map[string]findPrimary{
	"-true": findTrue, "-noleaf": findGlobal, "-mount": findGlobal, "-xdev": findGlobal, "-ignore_readdir_race": findGlobal, "-noignore_readdir_race": findGlobal,
	"-false":    func(*findParser, string) findTest { return func(*findEntry) bool { return false } },
	"-maxdepth": findDepthOption, "-mindepth": findDepthOption, "-depth": findGlobal, "-d": findGlobal,
	"-daystart": findPositional, "-follow": findPositional, "-warn": findPositional, "-nowarn": findPositional,
	"-regextype": findRegexType, "-files0-from": parseFiles0From,
	"-name": findName, "-iname": findName, "-path": findName, "-ipath": findName, "-wholename": findName, "-iwholename": findName, "-lname": findName, "-ilname": findName,
	"-regex": findRegex, "-iregex": findRegex,
	"-type": findType, "-xtype": findType, "-size": findSize, "-empty": findEmpty, "-perm": findPerm,
	"-newer": findNewer, "-anewer": findNewer, "-cnewer": findNewer,
	"-mtime": findAge, "-atime": findAge, "-ctime": findAge, "-mmin": findAge, "-amin": findAge, "-cmin": findAge, "-used": findUsed,
	"-user": findOwner, "-group": findOwner, "-uid": findNumber, "-gid": findNumber, "-links": findNumber, "-inum": findNumber,
	"-nouser": parseNoOwner, "-nogroup": parseNoOwner, "-samefile": parseSameFile, "-fstype": findFSType,
	"-readable": findAccess, "-writable": findAccess, "-executable": findAccess,
	"-print": findPrint, "-print0": findPrint, "-fprint": findPrint, "-fprint0": findPrint, "-printf": findPrintf, "-fprintf": findPrintf, "-ls": findLs, "-fls": findLs,
	"-prune": findPrune, "-quit": findQuit, "-delete": findDelete,
	"-exec": findExec, "-execdir": findExec, "-ok": findExec, "-okdir": findExec,
}

func findTrue(*findParser, string) findTest { return alwaysTrue }

func findGlobal(q *findParser, word string) findTest {
	q.warnGlobal(word)
	if word == "-depth" || word == "-d" {
		q.f.depthFirst = true
	}
	return alwaysTrue
}

func findPositional(q *findParser, word string) findTest {
	switch word {
	case "-daystart":
		q.dayStart = true
	case "-follow":
		q.f.follow = 'L'
	case "-nowarn":
		q.quiet = true
	case "-warn":
		q.quiet = false
	}
	return alwaysTrue
}

func findDepthOption(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || strings.Trim(s, "0123456789") != "" {
		return q.reportError("Expected a positive decimal integer argument to %s, but got %s", word, quoting.QuoteWord(s))
	}
	q.warnGlobal(word)
	if word == "-maxdepth" {
		q.f.most = n
	} else {
		q.f.least = n
	}
	return alwaysTrue
}

func parseFiles0From(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	q.from = s
	if !ok {
		return nil
	}
	return alwaysTrue
}

var findRegexTypes = map[string]regex.Options{
	"findutils-default": {Syntax: regex.BRE, Dialect: regex.Posix}, "emacs": {Syntax: regex.BRE, Dialect: regex.Posix}, "ed": {Syntax: regex.BRE, Dialect: regex.Posix},
	"sed": {Syntax: regex.BRE, Dialect: regex.Posix}, "grep": {Syntax: regex.BRE, Dialect: regex.Grep}, "posix-basic": {Syntax: regex.BRE, Dialect: regex.Posix},
	"posix-minimal-basic": {Syntax: regex.BRE, Dialect: regex.Posix}, "egrep": {Syntax: regex.ERE, Dialect: regex.Grep}, "posix-egrep": {Syntax: regex.ERE, Dialect: regex.Grep},
	"posix-extended": {Syntax: regex.ERE, Dialect: regex.Posix}, "posix-awk": {Syntax: regex.ERE, Dialect: regex.Posix}, "awk": {Syntax: regex.ERE, Dialect: regex.Posix}, "gnu-awk": {Syntax: regex.ERE, Dialect: regex.Posix},
}

func findRegexType(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	if _, ok := findRegexTypes[s]; !ok {
		return q.reportError("Unknown regular expression type %s; valid types are %s.", quoting.QuoteWord(s), "'findutils-default', 'ed', 'emacs', 'gnu-awk', 'grep', 'posix-awk', 'awk', 'posix-basic', 'posix-egrep', 'egrep', 'posix-extended', 'posix-minimal-basic', 'sed'")
	}
	q.regex = s
	return alwaysTrue
}

// convertEmacsRegex converts emacs syntax to that of basic expressions: + and ? repeat without a backslash, and
// there are no intervals.
func convertEmacsRegex(s string) string {
	var b strings.Builder
	bracket := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case bracket:
			bracket = c != ']' || s[i-1] == '[' || i > 1 && s[i-1] == '^' && s[i-2] == '['
			b.WriteByte(c)
		case c == '[':
			bracket = true
			b.WriteByte(c)
		case c == '\\' && i+1 < len(s):
			i++
			if strings.IndexByte("+?{}", s[i]) < 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
		case (c == '+' || c == '?') && i > 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func findRegex(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	kind := q.regex
	o := findRegexTypes[kind]
	if kind == "" || kind == "emacs" || kind == "findutils-default" {
		s = convertEmacsRegex(s)
	}
	return q.newMatcher(s, o, word == "-iregex", func(e *findEntry) (string, bool) { return e.path, true })
}

// newMatcher returns a test that matches all of a text of an entry with an expression.
func (q *findParser) newMatcher(pattern string, o regex.Options, fold bool, text func(e *findEntry) (string, bool)) findTest {
	p := q.f.p
	o.IgnoreCase, o.Whole, o.Budget = fold, true, p
	r, err := regex.Compile(pattern, o)
	if err != nil {
		return q.reportError("failed to compile regular expression '%s': %s", pattern, regexWhy(err))
	}
	var span [2]int
	return func(e *findEntry) bool {
		s, ok := text(e)
		return ok && r.Match([]byte(s), 0, span[:], p) && span[0] == 0 && span[1] == len(s)
	}
}

func regexWhy(err error) string {
	var e *regex.Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return "invalid"
}

// globPattern converts a pattern of names to an extended expression.
func globPattern(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteByte('.')
		case '[':
			set, used := globSet(s[i:])
			b.WriteString(set)
			i += used - 1
		case '\\':
			if i+1 < len(s) {
				i++
			}
			writeLiteral(&b, s[i])
		default:
			writeLiteral(&b, c)
		}
	}
	return b.String()
}

func writeLiteral(b *strings.Builder, c byte) {
	if strings.IndexByte(`.*+?()[]{}|^$\`, c) >= 0 {
		b.WriteByte('\\')
	}
	b.WriteByte(c)
}

// globSet converts a set of a pattern to one of an expression.
func globSet(s string) (set string, used int) {
	i := 1
	out := "["
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		out += "^"
		i++
	}
	for first := true; i < len(s); first = false {
		switch {
		case s[i] == ']' && !first:
			return out + "]", i + 1
		case s[i] == '[' && i+1 < len(s) && (s[i+1] == ':' || s[i+1] == '=' || s[i+1] == '.'):
			end := strings.Index(s[i+2:], string(s[i+1])+"]")
			if end < 0 {
				return `\[`, 1
			}
			out += s[i : i+2+end+2]
			i += end + 4
		case s[i] == '\\' && i+1 < len(s):
			out += s[i+1 : i+2]
			i += 2
		default:
			out += s[i : i+1]
			i++
		}
	}
	return `\[`, 1
}

func findName(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	fold := strings.HasPrefix(word, "-i")
	var text func(e *findEntry) (string, bool)
	switch strings.TrimPrefix(strings.TrimPrefix(word, "-i"), "-") {
	case "name":
		if strings.Contains(s, "/") && !q.quiet && s != "/" {
			q.f.p.Errorf("warning: '%s' matches against basenames only, but the given pattern contains a directory separator ('/'), thus the expression will evaluate to false all the time.  Did you mean '%s'?", word, map[bool]string{false: "-wholename", true: "-iwholename"}[fold])
		}
		text = func(e *findEntry) (string, bool) { return e.name(), true }
	case "lname":
		text = func(e *findEntry) (string, bool) {
			if e.info.Mode()&fs.ModeSymlink == 0 {
				return "", false
			}
			t, err := q.f.p.Readlink(e.path)
			return t, err == nil
		}
	default:
		text = func(e *findEntry) (string, bool) { return e.path, true }
	}
	return q.newGlobTest(s, fold, text)
}

// newGlobTest returns a test for a pattern of names. The simplest patterns need no regular expression.
func (q *findParser) newGlobTest(s string, fold bool, text func(e *findEntry) (string, bool)) findTest {
	special := strings.ContainsAny(s, `*?[\`)
	tail, star := strings.CutPrefix(s, "*")
	switch {
	case fold:
	case !special:
		return func(e *findEntry) bool { t, ok := text(e); return ok && t == s }
	case star && !strings.ContainsAny(tail, `*?[\`):
		return func(e *findEntry) bool { t, ok := text(e); return ok && strings.HasSuffix(t, tail) }
	}
	return q.newMatcher(globPattern(s), regex.Options{Syntax: regex.ERE, Dialect: regex.Posix}, fold, text)
}

func findType(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	var kinds uint32 // bits by type number
	for part := range strings.SplitSeq(s, ",") {
		switch {
		case part == "" && s == "":
			return q.reportError("Arguments to %s should contain at least one letter", word)
		case part == "":
			return q.reportError("Last file type in list argument to %s is missing, i.e., list is ending on: ','", word)
		case len(part) > 1 && strings.IndexByte("bcdpflsD", part[0]) >= 0:
			return q.reportError("Must separate multiple arguments to %s using: ','", word)
		}
		i := strings.IndexByte("bcdpflsD", part[0])
		if i < 0 {
			return q.reportError("Unknown argument to %s: %s", word, part[:1])
		}
		kinds |= 1 << ([]uint32{filemode.TypeBlock, filemode.TypeChar, filemode.TypeDir, filemode.TypeFIFO, filemode.TypeFile, filemode.TypeLink, filemode.TypeSocket, 0}[i] >> 12)
	}
	if word == "-type" {
		return func(e *findEntry) bool { return kinds&(1<<(filemode.ToUnix(e.info.Mode())>>12)) != 0 }
	}
	return func(e *findEntry) bool {
		info := q.f.otherSide(e)
		return kinds&(1<<(filemode.ToUnix(info.Mode())>>12)) != 0
	}
}

// otherSide returns a link as -L sees it under -P, and the other way round.
func (f *finder) otherSide(e *findEntry) vfs.Info {
	if f.follow == 'L' {
		return e.link
	}
	if e.info.Mode()&fs.ModeSymlink != 0 {
		if to, err := f.p.Stat(e.path); err == nil {
			return to
		}
	}
	return e.info
}

func findSize(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	units := map[byte]int64{'b': 512, 'c': 1, 'w': 2, 'k': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
	unit, num := int64(512), s
	if s == "" {
		return q.reportError("invalid null argument to -size")
	}
	if c := s[len(s)-1]; c < '0' || c > '9' {
		if unit, ok = units[c]; !ok {
			return q.reportError("invalid -size type `%c'", c)
		}
		num = s[:len(s)-1]
	}
	comp, ok := parseComp(num)
	if !ok {
		return q.reportError("Invalid argument `%s' to -size", s)
	}
	return func(e *findEntry) bool { return comp.holdsFor(number.DivideUp(e.info.Size(), unit)) }
}

func findEmpty(q *findParser, _ string) findTest {
	return func(e *findEntry) bool {
		if e.info.IsDir() {
			list, err := q.f.p.ReadDir(e.path)
			return err == nil && len(list) == 0
		}
		return e.info.Mode().IsRegular() && e.info.Size() == 0
	}
}

func findPerm(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	kind, text := byte(0), s
	if s != "" && (s[0] == '-' || s[0] == '/') {
		kind, text = s[0], s[1:]
	}
	c, ok := filemode.ParseChange(text)
	if !ok || strings.HasPrefix(s, "+") {
		return q.reportError("invalid mode %s", quoting.QuoteWord(s))
	}
	want := c.Apply(0, false, 0)
	if kind == '/' && want == 0 {
		q.f.p.Errorf("warning: you have specified a mode pattern %s (which is equivalent to /000). The meaning of -perm /000 has now been changed to be consistent with -perm -000; that is, while it used to match no files, it now matches all files.", s)
	}
	dirWant := c.Apply(0, true, 0)
	return func(e *findEntry) bool {
		m, w := filemode.ToUnix(e.info.Mode())&filemode.AllBits, want
		if e.info.IsDir() {
			w = dirWant
		}
		switch kind {
		case '-':
			return m&w == w
		case '/':
			return w == 0 || m&w != 0
		}
		return m == w
	}
}

func (q *findParser) stat(name string) (vfs.Info, bool) {
	look := q.f.p.Lstat
	if q.f.follow != 'P' {
		look = q.f.p.Stat
	}
	info, err := look(name)
	if err != nil {
		q.reportError("%s: %s", quoting.QuoteWord(name), program.Reason(err))
	}
	return info, err == nil
}

// stampOf returns the time for a letter.
func stampOf(info vfs.Info, c byte) time.Time {
	switch c {
	case 'a':
		return info.Atime()
	case 'c':
		return info.Ctime()
	case 'B':
		return info.BirthTime()
	}
	return info.ModTime()
}

func findNewer(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	info, ok := q.stat(s)
	if !ok {
		return nil
	}
	return newerThan(strings.TrimSuffix(word[1:], "newer"), info.ModTime())
}

func newerThan(which string, ref time.Time) findTest {
	c := byte('m')
	if which != "" {
		c = which[0]
	}
	return func(e *findEntry) bool { return stampOf(e.info, c).After(ref) }
}

func (q *findParser) newerXY(word string) findTest {
	x, y := word[6], word[7]
	if strings.IndexByte("aBcm", x) < 0 || strings.IndexByte("aBcmt", y) < 0 {
		return q.reportError("invalid predicate `%s'", word)
	}
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	if q.tested == "" {
		q.tested = word
	}
	if y == 't' {
		t, ok := datetime.Parse(s, q.f.start, q.f.zone)
		if !ok {
			return q.reportError("I cannot figure out how to interpret %s as a date or time", quoting.QuoteWord(s))
		}
		return newerThan(string(x), t)
	}
	info, ok := q.stat(s)
	if !ok {
		return nil
	}
	return newerThan(string(x), stampOf(info, y))
}

func findAge(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	sign, num := splitSign(s)
	n, err := strconv.ParseFloat(num, 64)
	if err != nil || n < 0 || n > 1e9 || strings.Trim(num, "0123456789.") != "" {
		return q.reportError("invalid argument `%s' to `%s'", s, word)
	}
	unit, base := time.Minute, q.f.start
	if strings.HasSuffix(word, "time") {
		unit = 24 * time.Hour
		base = base.Add(-unit)
		if q.dayStart {
			y, m, d := q.f.start.In(q.f.zone).Date()
			base = time.Date(y, m, d, 0, 0, 0, 0, q.f.zone)
		}
		if sign < 0 {
			base = base.Add(unit - time.Second)
		}
	}
	at := base.Add(-time.Duration(n * float64(unit)))
	which := word[1]
	return func(e *findEntry) bool {
		t := stampOf(e.info, which)
		switch sign {
		case 1:
			return t.Before(at)
		case -1:
			return t.After(at)
		}
		return t.After(at) && !t.After(at.Add(unit))
	}
}

func findUsed(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	comp, ok := parseComp(s)
	if !ok {
		return q.reportError("Invalid argument %s to %s", s, word)
	}
	return func(e *findEntry) bool {
		d := e.info.Atime().Sub(e.info.Ctime())
		return d >= 0 && comp.holdsFor(int64(d/(24*time.Hour)))
	}
}

func findOwner(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	what, look := "user", q.f.owners.UID
	if word == "-group" {
		what, look = "group", q.f.owners.GID
	}
	n, ok := look(s)
	if !ok {
		if what == "group" {
			return q.reportError("%s is not the name of an existing group", quoting.QuoteWord(s))
		}
		return q.reportError("%s is not the name of a known user", quoting.QuoteWord(s))
	}
	if what == "user" {
		return func(e *findEntry) bool { return e.info.Uid() == n }
	}
	return func(e *findEntry) bool { return e.info.Gid() == n }
}

func findNumber(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	comp, ok := parseComp(s)
	if !ok {
		return q.reportError("invalid argument `%s' to `%s'", s, word)
	}
	switch word {
	case "-uid":
		return func(e *findEntry) bool { return comp.holdsFor(int64(e.info.Uid())) }
	case "-gid":
		return func(e *findEntry) bool { return comp.holdsFor(int64(e.info.Gid())) }
	case "-links":
		return func(e *findEntry) bool { return comp.holdsFor(int64(e.info.Nlink())) }
	}
	return func(e *findEntry) bool { return comp.holdsFor(int64(e.info.Ino())) }
}

func parseNoOwner(q *findParser, word string) findTest {
	if word == "-nouser" {
		return func(e *findEntry) bool { return q.f.owners.UserName(e.info.Uid()) == "" }
	}
	return func(e *findEntry) bool { return q.f.owners.GroupName(e.info.Gid()) == "" }
}

func parseSameFile(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	info, ok := q.stat(s)
	if !ok {
		return nil
	}
	return func(e *findEntry) bool { return e.info.Ino() == info.Ino() }
}

func findFSType(q *findParser, word string) findTest {
	s, ok := q.nextArgument(word)
	if !ok {
		return nil
	}
	return func(*findEntry) bool { return s == dfType }
}

func findAccess(q *findParser, word string) findTest {
	return func(e *findEntry) bool {
		info := e.info
		if info.Mode()&fs.ModeSymlink != 0 {
			to, err := q.f.p.Stat(e.path)
			if err != nil {
				return false
			}
			info = to
		}
		if word == "-writable" {
			return !info.ReadOnly()
		}
		return word != "-executable" || info.IsDir() || info.Mode()&0o111 != 0
	}
}
