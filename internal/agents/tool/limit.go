package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a result. More is of no use to a model; the text notes omissions.
const (
	maxText   = 60_000  // bytes
	maxImages = 8       // images
	maxImage  = 5 << 20 // bytes of one
)

// limitResult cuts a result to the limits, as valid UTF-8.
func limitResult(r Result) Result {
	if r.Structured != nil {
		r.Text, r.Structured = limitStructured(r.Text, r.Structured)
	}
	r.Text = cutMiddle(r.Text, maxText)
	if n := len(r.Images) - maxImages; n > 0 {
		r.Images = r.Images[:maxImages]
		r.Text = addNote(r.Text, fmt.Sprintf("%d more images left out", n))
	}
	images := r.Images
	r.Images = nil
	for _, im := range images {
		if len(im.Data) > maxImage {
			r.Text = addNote(r.Text, fmt.Sprintf("an image of %d bytes left out: the limit is %d", len(im.Data), maxImage))
			continue
		}
		r.Images = append(r.Images, im)
	}
	return r
}

// addNote adds a line in brackets to a tool's text.
func addNote(text, line string) string {
	return strings.TrimPrefix(text+"\n["+line+"]", "\n")
}

// limitStructured returns a result's text, by default the JSON of v, and v if it is
// an object within the size limit.
func limitStructured(text string, v any) (string, any) {
	b, err := json.Marshal(v)
	if err != nil {
		return addNote(text, "the tool's result is not JSON"), nil
	}
	if text == "" {
		text = string(b)
	}
	if len(b) > maxText || b[0] != '{' {
		return text, nil
	}
	return text, json.RawMessage(b)
}

// cutMiddle cuts the middle of a text of more than limit bytes, and notes that.
func cutMiddle(s string, limit int) string {
	if len(s) <= limit {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	head, tail := trimPartialRune(s[:limit*2/3]), s[len(s)-limit/3:]
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", strings.ToValidUTF8(head, "\uFFFD"), len(s)-len(head)-len(tail), strings.ToValidUTF8(tail, "\uFFFD"))
}

// clipText cuts a text to limit bytes.
func clipText(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return trimPartialRune(s[:limit]) + "…"
}

// trimPartialRune drops an incomplete character at the end of s.
func trimPartialRune(s string) string {
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
