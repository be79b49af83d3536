package datetime_test

import (
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
)

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2024-01-15 10:30:15.5 +0100", "next monday", "2 days ago", "@-1.5", "15 jan 2024", "jan 15, 2024 10pm", "12/25/24", "20240115 1030", "TZ=\"Asia/Tokyo\" now", "third week (x)", "Mon, 15 Jan 2024 10:30:00 UTC+2", "1 fortnight hence"} {
		f.Add(s)
	}
	now := time.Date(2024, 1, 15, 10, 30, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := datetime.Parse(s, now, time.UTC)
		if !ok || d.Year() < 1000 || d.Year() > 9999 {
			return
		}
		again, ok := datetime.Parse(d.UTC().Format("2006-01-02 15:04:05.000000000 +0000"), now, time.UTC)
		if !ok || !again.Equal(d) {
			t.Errorf("%q is %v, which reads as %v", s, d, again)
		}
	})
}
