package app

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"text/template"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/internal/cli/output"
	"github.com/atoll-sandbox/atoll/internal/cli/tty"
)

// templateFuncs are the functions of --format, a part of those that docker has.
var templateFuncs = template.FuncMap{
	"join":  strings.Join,
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
	"json": func(v any) (string, error) {
		var b bytes.Buffer
		err := output.WriteJSON(&b, v, false)
		return strings.TrimSuffix(b.String(), "\n"), err
	},
}

// parseFormat reads the template of --format; "json" is one line of JSON for each
// result.
func (a *App) parseFormat() (err error) {
	text := a.Format
	if text == "" {
		return nil
	}
	if text == "json" {
		text = "{{json .}}"
	}
	if a.template, err = template.New("format").Funcs(templateFuncs).Parse(text); err != nil {
		return fmt.Errorf("%w: --format %q: %w", atoll.ErrInvalid, a.Format, err)
	}
	a.JSON = true // commands print their results, not tables
	return nil
}

// printFormatted executes the template of --format for v, or for each of its elements
// if it is a list. Each result is a line.
func (a *App) printFormatted(v any) error {
	all := []any{v}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Slice {
		all = all[:0]
		for i := range r.Len() {
			all = append(all, r.Index(i).Interface())
		}
	}
	for _, one := range all {
		var b strings.Builder
		if err := a.template.Execute(&b, one); err != nil {
			return fmt.Errorf("%w: --format: %w", atoll.ErrInvalid, err)
		}
		text := b.String()
		if tty.IsTerminal(a.Out) {
			text = output.CleanLines(text, "")
		}
		if _, err := fmt.Fprintln(a.Out, text); err != nil {
			return err
		}
	}
	return nil
}

// PrintJSON writes a result as indented JSON, or as --format says.
func (a *App) PrintJSON(v any) error {
	if a.template != nil {
		return a.printFormatted(v)
	}
	return output.WriteJSON(a.Out, v, true)
}

// PrintJSONLine writes a result as JSON on one line, or as --format says, for streams
// of results.
func (a *App) PrintJSONLine(v any) error {
	if a.template != nil {
		return a.printFormatted(v)
	}
	return output.WriteJSON(a.Out, v, false)
}

// Change is one thing that a command changed, as --json prints it.
type Change struct {
	Action string `json:"action"` // what was done, like "started" or "removed"
	Kind   string `json:"kind"`   // of what, like "sandbox" or "snapshot"
	ID     string `json:"id,omitempty"`
	Name   string `json:"name,omitempty"`
}

// PrintChange prints a change as a line of JSON with --json; without it, it prints
// nothing.
func (a *App) PrintChange(c Change) error {
	if !a.JSON {
		return nil
	}
	return a.PrintJSONLine(c)
}
