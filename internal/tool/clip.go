package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// What an answer may have: more is of no use to a model, and what it does not
// get it is told.
const (
	maxText   = 60_000  // bytes
	maxImages = 8       // pictures
	maxImage  = 5 << 20 // bytes, of one
)

// bound keeps a result within bounds, as valid UTF-8.
func bound(r Result) Result {
	if r.Structured != nil {
		r.Text, r.Structured = structured(r.Text, r.Structured)
	}
	r.Text = middle(r.Text, maxText)
	if n := len(r.Images) - maxImages; n > 0 {
		r.Images = r.Images[:maxImages]
		r.Text = note(r.Text, fmt.Sprintf("%d more pictures left out", n))
	}
	images := r.Images
	r.Images = nil
	for _, im := range images {
		if len(im.Data) > maxImage {
			r.Text = note(r.Text, fmt.Sprintf("a picture of %d bytes left out: at most %d are passed on", len(im.Data), maxImage))
			continue
		}
		r.Images = append(r.Images, im)
	}
	return r
}

// note adds a line that is not the tool's to its text.
func note(text, line string) string {
	return strings.TrimPrefix(text+"\n["+line+"]", "\n")
}

// structured returns a result's text, which is the JSON of v if it has none, and
// v if it is an object of a bearable size.
func structured(text string, v any) (string, any) {
	b, err := json.Marshal(v)
	if err != nil {
		return note(text, "what the tool answered is no JSON"), nil
	}
	if text == "" {
		text = string(b)
	}
	if len(b) > maxText || b[0] != '{' {
		return text, nil
	}
	return text, json.RawMessage(b)
}

// middle leaves out the middle of a text of more than limit bytes, and says so.
func middle(s string, limit int) string {
	if len(s) <= limit {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	head, tail := whole(s[:limit*2/3]), s[len(s)-limit/3:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", strings.ToValidUTF8(head, "\uFFFD"), len(s)-len(head)-len(tail), strings.ToValidUTF8(tail, "\uFFFD"))
}

// clip cuts a text to limit bytes.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return whole(s[:limit]) + "…"
}

// whole drops a letter that is only half there at the end of s.
func whole(s string) string {
	for i := 1; i <= utf8.UTFMax && i <= len(s); i++ {
		if utf8.RuneStart(s[len(s)-i]) {
			if !utf8.FullRuneInString(s[len(s)-i:]) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}
