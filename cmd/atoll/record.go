package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/atoll-sandbox/atoll"
)

// recorder writes what a terminal shows as asciicast v2: a header, then a line
// for each piece with its time.
type recorder struct {
	w     io.Writer
	begun time.Time
	size  atoll.Size
}

// resized notes the size; the first one begins the recording.
func (r *recorder) resized(size atoll.Size) {
	if r.size = size; !r.begun.IsZero() {
		_ = r.event("r", fmt.Sprintf("%dx%d", size.Cols, size.Rows)) // the next Write fails too
	}
}

// Write notes output.
func (r *recorder) Write(p []byte) (int, error) {
	if r.begun.IsZero() {
		r.begun = time.Now()
		header := map[string]any{"version": 2, "width": r.size.Cols, "height": r.size.Rows, "timestamp": r.begun.Unix()}
		if err := json.NewEncoder(r.w).Encode(header); err != nil {
			return 0, err
		}
	}
	return len(p), r.event("o", string(p))
}

func (r *recorder) event(kind, data string) error {
	return json.NewEncoder(r.w).Encode([]any{time.Since(r.begun).Seconds(), kind, data})
}
