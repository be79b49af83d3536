// Package casttest plays terminal recordings in tests.
package casttest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/guest/vt"
)

// Play returns the terminal as it is after an asciicast (version 2) has been played.
func Play(t testing.TB, tape string) *vt.Emulator {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(tape), "\n")
	var head struct{ Version, Width, Height int }
	if err := json.Unmarshal([]byte(lines[0]), &head); err != nil || head.Version != 2 {
		t.Fatalf("%s: %v", lines[0], err)
	}
	played := vt.New(atoll.Size{Rows: uint16(head.Height), Cols: uint16(head.Width)}, 100)
	for _, line := range lines[1:] {
		var e []any
		if err := json.Unmarshal([]byte(line), &e); err != nil || len(e) != 3 {
			t.Fatalf("%s: %v", line, err)
		}
		switch text := e[2].(string); e[1] {
		case "o":
			_, _ = played.Write([]byte(text)) // never fails
		case "r":
			var s atoll.Size
			if _, err := fmt.Sscanf(text, "%dx%d", &s.Cols, &s.Rows); err != nil {
				t.Fatal(err)
			}
			played.Resize(s)
		}
	}
	return played
}
