// Package output formats values, tables and Markdown for terminals.
package output

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
)

// SandboxName returns the name of a sandbox; its id if it has none.
func SandboxName(s atoll.Status) string {
	if s.Name != "" {
		return s.Name
	}
	return s.ID
}

func FormatAge(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return FormatDuration(time.Since(t))
}

// FormatDuration formats a duration in its largest unit.
func FormatDuration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func FormatBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// CloseAfter closes c and joins the error with err, unless err is or has the same one.
func CloseAfter(err error, c io.Closer) error {
	cerr := c.Close()
	if cerr == nil || errors.Is(err, cerr) {
		return err
	}
	return errors.Join(err, cerr)
}

// NonNil returns list, or an empty list for nil, so that JSON has an array.
func NonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// SortedPairs iterates over a map in the order of its keys.
func SortedPairs[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// FormatAgo formats the time since t with "ago"; "-" for the zero time.
func FormatAgo(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return FormatAge(t) + " ago"
}

func RoundDuration(d time.Duration) time.Duration {
	switch {
	case d < time.Millisecond:
		return d.Round(100 * time.Nanosecond)
	case d < time.Second:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// ReadyReason says why a sandbox is or is not ready.
func ReadyReason(s atoll.Status) string {
	for _, c := range s.Conditions {
		if c.Type == "ready" {
			return strings.TrimSpace(c.Reason + " " + c.Message)
		}
	}
	return "unknown"
}

// OneLine is the beginning of a text, on one line.
func OneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 100 {
		s = string(r[:99]) + "…"
	}
	return s
}

// FormatUntil is how long from now a time is; "-" for never.
func FormatUntil(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := time.Until(t).Round(time.Second)
	if d <= 0 {
		return "now"
	}
	return "in " + FormatDuration(d)
}

// DashIfEmpty stands for nothing.
func DashIfEmpty(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func FormatExpiry(t time.Time) string {
	if t.IsZero() {
		return "does not expire"
	}
	return "expires " + FormatUntil(t)
}

// ToolCallTitle is a call in a line.
func ToolCallTitle(t *agent.ToolCall) string {
	text := t.Title
	if text == "" {
		text = t.Name
	}
	if t.Kind == agent.MCP || t.Kind == agent.Other || t.Kind == "" {
		if in := strings.TrimSpace(string(t.Input)); in != "" && in != "{}" && in != "null" {
			text += " " + in
		}
	}
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		text = text[:i] + " …"
	}
	return text
}

// Truncate cuts a text to n characters.
func Truncate(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// FormatCount is a number of things.
func FormatCount(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// AbbreviateList is the beginning of a list of names.
func AbbreviateList(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
