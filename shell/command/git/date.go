package git

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
)

// parseDate parses a date: seconds and a zone as git stores it, or what GNU date understands.
func (r *repository) parseDate(text string) (time.Time, bool) {
	zone := datetime.LocalZone(r.p)
	at, where, _ := strings.Cut(strings.TrimPrefix(text, "@"), " ")
	if n, err := strconv.ParseInt(at, 10, 64); err == nil && (n >= 100_000_000 || strings.HasPrefix(text, "@")) {
		if z, err := strconv.Atoi(where); err == nil {
			return time.Unix(n, 0).In(time.FixedZone(where, (z/100*60+z%100)*60)), true
		}
		if where == "" {
			return time.Unix(n, 0).In(zone), true
		}
	}
	if strings.HasSuffix(text, ".ago") {
		text = strings.ReplaceAll(text, ".", " ")
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05-0700", "2006-01-02 15:04:05 -0700", "Mon Jan 2 15:04:05 2006 -0700", "Mon, 2 Jan 2006 15:04:05 -0700"} {
		if when, err := time.ParseInLocation(layout, text, zone); err == nil {
			return when, true
		}
	}
	return datetime.Parse(text, r.p.Now(), zone)
}

// formatDate returns the time of an author line as git log prints it, in the style of --date.
func (r *repository) formatDate(line, style string) string {
	_, _, at := splitIdentity(line)
	return r.formatTime(at, orDefault(style, r.conf.get("log.date")))
}

func (r *repository) formatTime(at time.Time, style string) string {
	base, local := strings.CutSuffix(style, "-local")
	if style == "local" {
		base, local = "default", true
	}
	if local {
		at = at.In(datetime.LocalZone(r.p))
	}
	if format, ok := strings.CutPrefix(base, "format:"); ok {
		return datetime.Format(r.p, at, format)
	}
	switch base {
	case "relative", "human":
		return formatAge(r.p.Now().Sub(at))
	case "iso", "iso8601":
		return at.Format("2006-01-02 15:04:05 -0700")
	case "iso-strict", "iso8601-strict":
		return at.Format("2006-01-02T15:04:05-07:00")
	case "rfc", "rfc2822":
		return at.Format("Mon, 2 Jan 2006 15:04:05 -0700")
	case "short":
		return at.Format("2006-01-02")
	case "unix":
		return strconv.FormatInt(at.Unix(), 10)
	case "raw":
		return strconv.FormatInt(at.Unix(), 10) + at.Format(" -0700")
	}
	if local {
		return at.Format("Mon Jan 2 15:04:05 2006")
	}
	return at.Format("Mon Jan 2 15:04:05 2006 -0700")
}

// formatAge returns an age such as "3 days ago".
func formatAge(d time.Duration) string {
	plural := func(n int64, unit string) string {
		if n != 1 {
			unit += "s"
		}
		return fmt.Sprintf("%d %s ago", n, unit)
	}
	seconds := int64(d / time.Second)
	if seconds < 0 {
		return "in the future"
	}
	if seconds < 90 {
		return plural(seconds, "second")
	}
	minutes := (seconds + 30) / 60
	if minutes < 90 {
		return plural(minutes, "minute")
	}
	hours := (minutes + 30) / 60
	if hours < 36 {
		return plural(hours, "hour")
	}
	days := (hours + 12) / 24
	switch {
	case days < 14:
		return plural(days, "day")
	case days < 70:
		return plural((days+3)/7, "week")
	case days < 365:
		return plural((days+15)/30, "month")
	case days < 1825:
		months := (days*12*2 + 365) / (365 * 2)
		if rest := months % 12; rest != 0 {
			return strings.TrimSuffix(plural(months/12, "year"), " ago") + ", " + plural(rest, "month")
		}
		return plural(months/12, "year")
	}
	return plural((days+183)/365, "year")
}
