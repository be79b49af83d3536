package config

import (
	"testing"
)

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "64k": 64 << 10, "64KiB": 64 << 10, "1.5m": 3 << 19, "10 MB": 10 << 20, "2g": 2 << 30} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "m", "-1", "0", "1x", "1e400", "99999999999t"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}
