package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/atoll-sandbox/atoll"
)

// recorder writes what a terminal shows as asciicast v2: a header, then a line
// for each piece with its time.
type recorder struct {
	w     io.Writer
	begun time.Time
	size  atoll.Size
	rest  []byte // the beginning of a character whose end is yet to come
}

// resized notes the size; the first one begins the recording.
func (r *recorder) resized(size atoll.Size) {
	if r.size = size; !r.begun.IsZero() {
		_ = r.event("r", fmt.Sprintf("%dx%d", size.Cols, size.Rows)) // the next Write fails too
	}
}

// Write notes output. What comes in pieces is noted in whole characters: a piece
// of one is no text, and would be lost.
func (r *recorder) Write(p []byte) (int, error) {
	if r.begun.IsZero() {
		r.begun = time.Now()
		header := map[string]any{"version": 2, "width": r.size.Cols, "height": r.size.Rows, "timestamp": r.begun.Unix()}
		if err := json.NewEncoder(r.w).Encode(header); err != nil {
			return 0, err
		}
	}
	text := append(r.rest, p...)
	whole := len(text) - unfinished(text)
	r.rest = append([]byte(nil), text[whole:]...)
	if whole == 0 {
		return len(p), nil
	}
	return len(p), r.event("o", string(text[:whole]))
}

// unfinished returns how many bytes at the end of a text begin a character that
// may go on.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

func (r *recorder) event(kind, data string) error {
	return json.NewEncoder(r.w).Encode([]any{time.Since(r.begun).Seconds(), kind, data})
}
