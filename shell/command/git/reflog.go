package git

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// loggedEntry is a line of a ref's log that is printed with its commit.
type loggedEntry struct {
	logEntry
	name  string // of the ref, as the user gave it
	index int
}

// selector returns the name of an entry: NAME@{N}, with --date NAME@{DATE}.
func (l *logRun) selector(full bool) string {
	name := l.entry.name
	if !full {
		name = shortenRef(name)
	}
	at := strconv.Itoa(l.entry.index)
	if style, ok := l.flags["--date"]; ok {
		at = l.formatDate(l.entry.who, style)
	}
	return name + "@{" + at + "}"
}

// expandReflog expands the placeholder %gX of a log entry; outside of a walk along a log it is empty.
func (l *logRun) expandReflog(text string) (string, int) {
	if len(text) < 2 {
		return "%g", 1
	}
	if l.entry == nil {
		return "", 2
	}
	name, mail, _ := splitIdentity(l.entry.who)
	switch text[1] {
	case 'd':
		return l.selector(false), 2
	case 'D':
		return l.selector(true), 2
	case 's':
		return l.entry.reason, 2
	case 'n', 'N':
		return name, 2
	case 'e', 'E':
		return mail, 2
	}
	return "%g" + text[1:2], 2
}

// reflogHead returns the lines about a log entry above the author of its commit.
func (l *logRun) reflogHead() string {
	if l.entry == nil {
		return ""
	}
	name, mail, _ := splitIdentity(l.entry.who)
	return fmt.Sprintf("Reflog: %s (%s <%s>)\nReflog message: %s\n", l.selector(true), name, mail, l.entry.reason)
}

// manageReflog is git reflog.
func (c *call) manageReflog() error {
	verb := ""
	if len(c.args) > 0 {
		verb = c.args[0]
	}
	switch verb {
	case "show":
		c.args = c.args[1:]
	case "expire":
		return c.expireReflog(c.args[1:])
	case "delete":
		return c.deleteLogEntries(c.args[1:])
	case "exists":
		if len(c.args) != 2 || len(c.readLog(c.args[1])) == 0 {
			return &failure{1, ""}
		}
		return nil
	}
	if !c.has("--format", "--pretty", "--oneline") {
		c.flags["--oneline"] = ""
	}
	return c.printReflog()
}

// printReflog prints the log of a ref: each entry with the commit that it names.
func (c *call) printReflog() error {
	name := "HEAD"
	if len(c.args) > 0 {
		name = c.args[0]
	}
	ref := c.expandRef(cutBefore(name, "@{"))
	if ref == "" {
		return errUnknownRevision(name)
	}
	first := 0
	if base, inner, ok := strings.Cut(name, "@{"); ok {
		n, err := strconv.Atoi(strings.TrimSuffix(inner, "}"))
		if err != nil || n < 0 {
			return errUnknownRevision(name)
		}
		name, first = base, n
	}
	l, err := c.newLog()
	if err != nil {
		return err
	}
	if l.within, err = c.relativePaths(c.paths); err != nil {
		return err
	}
	skipped := 0
	for n, e := range c.readLog(ref) {
		if n < first || !e.new.isValid() || e.new == zeroID {
			continue
		}
		if l.most >= 0 && l.printed >= l.most {
			break
		}
		k, err := c.readCommit(e.new)
		if err != nil {
			return err
		}
		shown, _, err := l.simplify(k, k.parents)
		if err != nil {
			return err
		}
		if !shown || !l.accepts(k) {
			continue
		}
		if skipped < l.skip {
			skipped++
			continue
		}
		l.entry = &loggedEntry{e, name, n}
		if err := l.printCommit(k, len(k.parents) < 2 || c.has("--first-parent")); err != nil {
			return err
		}
	}
	return nil
}

// writeLog replaces the log of a ref by entries, the newest first.
func (r *repository) writeLog(name string, list []logEntry) error {
	var b strings.Builder
	old := zeroID
	for _, e := range slices.Backward(list) {
		r.p.Tick(1)
		fmt.Fprintf(&b, "%s %s %s\t%s\n", old, e.new, e.who, e.reason)
		old = e.new
	}
	cost := int64(b.Len())
	r.p.Alloc(cost)
	defer r.p.Free(cost)
	return r.p.WriteFile(r.logPath(name), []byte(b.String()), 0o644)
}

// listLogs returns the refs that have a log.
func (r *repository) listLogs() []string {
	var list []string
	for _, name := range append([]string{"HEAD"}, r.listRefs("refs/")...) {
		if name != "HEAD" {
			name = "refs/" + name
		}
		if len(r.readLog(name)) > 0 {
			list = append(list, name)
		}
	}
	return list
}

// expireReflog removes entries that are older than a limit; of those that no ref reaches, the limit is another one.
func (c *call) expireReflog(args []string) error {
	limits := map[string]int64{}
	for option, days := range map[string]int{"--expire": 90, "--expire-unreachable": 30} {
		text, ok := c.flags[option]
		switch at, valid := c.parseDate(text); {
		case !ok:
			limits[option] = c.p.Now().Add(-time.Duration(days) * 24 * time.Hour).Unix()
		case text == "now" || text == "all":
			limits[option] = 1 << 62
		case text == "never" || text == "false":
			limits[option] = -1 << 62
		case !valid:
			return newFatal("invalid timestamp '%s' given to '%s'", text, option)
		default:
			limits[option] = at.Unix()
		}
	}
	names := args
	if c.has("--all") {
		names = c.listLogs()
	}
	for _, name := range names {
		ref := c.expandRef(name)
		if ref == "" {
			return newError("%s points nowhere!", name)
		}
		reached, err := c.collectAncestors([]id{c.peelTag(c.readRef(ref))})
		if err != nil {
			return err
		}
		list := slices.DeleteFunc(c.readLog(ref), func(e logEntry) bool {
			_, _, at := splitIdentity(e.who)
			return at.Unix() < limits["--expire"] || !reached[e.new] && at.Unix() < limits["--expire-unreachable"]
		})
		if c.has("-n", "--dry-run") {
			continue
		}
		if err := c.writeLog(ref, list); err != nil {
			return err
		}
	}
	return nil
}

// deleteLogEntries removes single entries REF@{N}.
func (c *call) deleteLogEntries(args []string) error {
	if len(args) == 0 {
		return &failure{129, "error: no reflog specified to delete"}
	}
	for _, a := range args {
		name, inner, ok := strings.Cut(a, "@{")
		if !ok {
			return newError("not a reflog: %s", a)
		}
		ref := c.expandRef(orHead(name))
		n, err := strconv.Atoi(strings.TrimSuffix(inner, "}"))
		list := c.readLog(ref)
		if ref == "" || err != nil || n < 0 {
			return newError("no reflog for '%s'", a)
		}
		if n >= len(list) || c.has("-n", "--dry-run") {
			continue
		}
		if err := c.writeLog(ref, slices.Delete(list, n, n+1)); err != nil {
			return err
		}
		if rest := c.readLog(ref); c.has("--updateref") && len(rest) > 0 {
			if err := c.writeRef(ref, rest[0].new, ""); err != nil {
				return err
			}
		}
	}
	return nil
}
