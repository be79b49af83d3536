package file

import (
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/terminal"
)

// lsRow is the text of the columns of a long listing.
type lsRow struct {
	mode, links, user, group, author, size, date string
}

func (l *lister) newRow(e *lsEntry) lsRow {
	r := lsRow{mode: filemode.Format(e.mode), links: strconv.Itoa(e.info.Nlink())}
	r.user, r.group = strconv.Itoa(e.info.Uid()), strconv.Itoa(e.info.Gid())
	if !l.numeric {
		r.user, r.group = l.owners.UserNameOrID(e.info.Uid()), l.owners.GroupNameOrID(e.info.Gid())
	}
	r.author = r.user
	switch t := e.mode & filemode.TypeMask; {
	case t == filemode.TypeChar || t == filemode.TypeBlock:
		dev := e.info.Rdev()
		r.size = strconv.Itoa(int(dev>>8)) + ", " + strconv.Itoa(int(dev&0xff))
	case l.human != 0:
		r.size = number.FormatHuman(e.info.Size(), l.human)
	default:
		r.size = strconv.FormatInt(number.DivideUp(e.info.Size(), l.sizeUnit), 10) + l.suffix
	}
	r.date = l.formatDate(l.timeOf(e))
	return r
}

// formatDate formats a time in the chosen style: within half a year with the time of day, else with the
// year.
func (l *lister) formatDate(t time.Time) string {
	recent := !t.After(l.now) && t.After(l.now.Add(-31556952*time.Second/2))
	t = t.In(l.zone)
	pick := func(new, old string) string {
		if recent {
			return t.Format(new)
		}
		return t.Format(old)
	}
	switch l.timeStyle {
	case "full-iso":
		return t.Format("2006-01-02 15:04:05.000000000 -0700")
	case "long-iso":
		return t.Format("2006-01-02 15:04")
	case "iso":
		return pick("01-02 15:04", "2006-01-02 ")
	}
	if style, ok := strings.CutPrefix(l.timeStyle, "+"); ok {
		old, fresh, two := strings.Cut(style, "\n")
		if two && recent {
			old = fresh
		}
		return datetime.Format(l.p, t, old)
	}
	return pick("Jan _2 15:04", "Jan _2  2006")
}

func (l *lister) printLong(list []lsEntry, f frills) {
	rows := make([]lsRow, len(list))
	l.p.Alloc(int64(len(list)) * 200)
	dates := int64(0)
	var w struct{ links, user, group, author, size int }
	for i := range list {
		l.p.Tick(8)
		rows[i] = l.newRow(&list[i])
		r := &rows[i]
		dates += int64(len(r.date))
		l.p.Alloc(int64(len(r.date)))
		w.links = max(w.links, len(r.links))
		w.user = max(w.user, terminal.TextWidth(r.user))
		w.group = max(w.group, terminal.TextWidth(r.group))
		w.author = max(w.author, terminal.TextWidth(r.author))
		w.size = max(w.size, len(r.size))
	}
	for i := range list {
		e, r := &list[i], &rows[i]
		l.writeText(f.formatFor(e) + r.mode + " " + padLeft(r.links, w.links) + " ")
		if !l.noOwner {
			l.writeText(l.ownerCell(r.user, w.user))
		}
		if !l.noGroup {
			l.writeText(l.ownerCell(r.group, w.group))
		}
		if l.author {
			l.writeText(l.ownerCell(r.author, w.author))
		}
		l.writeText(padLeft(r.size, w.size) + " " + r.date + " ")
		l.longName(e)
		_ = l.p.Out().WriteByte(l.eol) // Flush reports the error
	}
	l.p.Free(int64(len(list))*200 + dates)
}

func (l *lister) ownerCell(s string, width int) string {
	if l.numeric {
		return padLeft(s, width) + " "
	}
	return s + strings.Repeat(" ", width-terminal.TextWidth(s)) + " "
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-len(s))) + s
}

func (l *lister) longName(e *lsEntry) {
	if e.mode&filemode.TypeMask != filemode.TypeLink {
		l.name(e)
		return
	}
	code, target := "", ""
	if l.color {
		code = lsColor(e, e.mode)
		if !e.broken {
			target = lsColor(e, e.tmode)
		}
	}
	l.writeColored(l.quoteName(e.name), code)
	l.writeText(" -> ")
	l.writeColored(l.quoteName(e.target), target)
	if !e.broken {
		l.writeText(l.markOf(e.tmode))
	}
}
