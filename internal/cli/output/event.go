package output

import (
	"fmt"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// FormatEvent is an event in words.
func FormatEvent(e atoll.Event) string {
	what := e.Name
	switch {
	case what == "":
		what = e.Object
	case e.Object != "" && e.Object != e.Name:
		what += " (" + e.Object + ")"
	}
	text := fmt.Sprintf("%-20s %s", e.Type, what)
	for k, v := range SortedPairs(e.Data) {
		text += " " + k + "=" + OneLine(v)
	}
	if e.Message != "" {
		text += ": " + OneLine(e.Message)
	}
	return strings.TrimRight(text, " ")
}
