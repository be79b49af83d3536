package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// list prints what there is to call.
func list(args []string) error {
	if len(args) > 1 || len(args) == 1 && args[0] != "--json" {
		return faultf(wrong, "list takes only --json\n%s", usage)
	}
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	tools, err := s.tools()
	if err != nil {
		return err
	}
	if len(args) == 1 {
		return printJSON(tools)
	}
	width := 0
	for _, t := range tools {
		width = max(width, len(t.Name))
	}
	for _, t := range tools {
		line, _, _ := strings.Cut(t.Description, "\n")
		if err := say(strings.TrimRight(fmt.Sprintf("%-*s  %s", width, visible(t.Name), visible(line)), " ")); err != nil {
			return err
		}
	}
	return nil
}

// say prints a text as a line, or several.
func say(text string) error {
	_, err := io.WriteString(os.Stdout, strings.TrimSuffix(text, "\n")+"\n")
	return err
}

func printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(b, '\n'))
	return err
}

// visible makes a line of the host safe for a terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// help prints what this program, or a tool, takes.
func help(args []string) error {
	if len(args) == 0 {
		_, err := os.Stdout.WriteString(usage)
		return err
	}
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	t, err := s.find(args[0])
	if err != nil {
		return err
	}
	if err := say(fmt.Sprintf("%s\n%s\n\nIts input:", t.Name, t.Description)); err != nil {
		return err
	}
	return printJSON(t.InputSchema)
}

// find returns the tool of a name.
func (s *session) find(name string) (*offered, error) {
	tools, err := s.tools()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range tools {
		if tools[i].Name == name {
			return &tools[i], nil
		}
		names = append(names, tools[i].Name)
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return nil, faultf(unknown, "there is no tool %q; there is: %s", name, strings.Join(names, ", "))
}

// call calls a tool with JSON.
func call(args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return faultf(wrong, "call takes a tool and its input\n%s", usage)
	}
	input := []byte("{}")
	if len(args) == 2 {
		var err error
		if input, err = read(args[1]); err != nil {
			return faultf(wrong, "the input: %v", err)
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(input, &object); err != nil {
		return faultf(wrong, "the input is no JSON object: %v", err)
	}
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	return s.print(args[0], input)
}

// read returns an input: as it is, of a file, or of standard input.
func read(arg string) ([]byte, error) {
	switch {
	case arg == "-":
		return io.ReadAll(os.Stdin)
	case strings.HasPrefix(arg, "@"):
		return os.ReadFile(arg[1:])
	}
	return []byte(arg), nil
}

// sugar calls a tool with key=value, whose types are those of its schema, and
// key:=json.
func sugar(name string, args []string) error {
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	t, err := s.find(name)
	if err != nil {
		return err
	}
	input, err := fields(t, args)
	if err != nil {
		return err
	}
	b, err := json.Marshal(input)
	if err != nil {
		return err
	}
	return s.print(name, b)
}

// fields makes an input of words.
func fields(t *offered, args []string) (map[string]json.RawMessage, error) {
	var schema struct {
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(t.InputSchema, &schema) // else all are texts
	input := make(map[string]json.RawMessage)
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, faultf(wrong, "%q is no KEY=VALUE; 'atoll-tool help %s' says what it takes", arg, t.Name)
		}
		if k, ok := strings.CutSuffix(key, ":"); ok {
			if !json.Valid([]byte(value)) {
				return nil, faultf(wrong, "%s: %q is no JSON", k, value)
			}
			input[k] = json.RawMessage(value)
			continue
		}
		v, err := typed(schema.Properties[key].Type, value)
		if err != nil {
			return nil, faultf(wrong, "%s: %v", key, err)
		}
		input[key] = v
	}
	return input, nil
}

// typed is a word as JSON of a type.
func typed(want any, word string) (json.RawMessage, error) {
	switch want {
	case "integer", "number":
		if _, err := strconv.ParseFloat(word, 64); err != nil || !json.Valid([]byte(word)) {
			return nil, fmt.Errorf("%q is no number", word)
		}
		return json.RawMessage(word), nil
	case "boolean":
		if word != "true" && word != "false" {
			return nil, fmt.Errorf("%q is neither true nor false", word)
		}
		return json.RawMessage(word), nil
	case "array", "object":
		if !json.Valid([]byte(word)) {
			return nil, fmt.Errorf("%q is no JSON, and it must be of type %s", word, want)
		}
		return json.RawMessage(word), nil
	}
	return json.Marshal(word)
}

// print calls a tool and prints its answer.
func (s *session) print(name string, input json.RawMessage) error {
	r, err := s.call(name, input)
	var refused *rpcError
	if errors.As(err, &refused) {
		if _, err := s.find(name); err != nil {
			return err
		}
		return faultf(failed, "%s", visible(refused.Message))
	}
	if err != nil {
		return err
	}
	for _, c := range r.Content {
		switch {
		case c.Type == "text":
			if c.Text == "" {
				continue
			}
			if err := say(c.Text); err != nil {
				return err
			}
		case c.Data != nil:
			path, err := save(c.MimeType, c.Data)
			if err != nil {
				return faultf(failed, "%v", err)
			}
			if err := say(path); err != nil {
				return err
			}
		}
	}
	if r.IsError {
		return &fault{status: failed}
	}
	return nil
}

// save writes a picture to a new file of the current directory.
func save(kind string, data []byte) (string, error) {
	suffix := map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg"}[kind]
	f, err := os.CreateTemp(".", "tool-*"+suffix)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}
