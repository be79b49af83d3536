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

// printTools prints the tools that can be called.
func printTools(args []string) error {
	if len(args) > 1 || len(args) == 1 && args[0] != "--json" {
		return newFault(wrong, "list takes only --json\n%s", usage)
	}
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	tools, err := s.listTools()
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
		if err := printText(strings.TrimRight(fmt.Sprintf("%-*s  %s", width, cleanLine(t.Name), cleanLine(line)), " ")); err != nil {
			return err
		}
	}
	return nil
}

// printText prints a text of one or more lines.
func printText(text string) error {
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

// cleanLine replaces control characters in a line from the host, so that it is safe for a
// terminal.
func cleanLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// printHelp prints the usage of this program or of a tool.
func printHelp(args []string) error {
	if len(args) == 0 {
		_, err := os.Stdout.WriteString(usage)
		return err
	}
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	t, err := s.findTool(args[0])
	if err != nil {
		return err
	}
	if err := printText(fmt.Sprintf("%s\n%s\n\nIts input:", t.Name, t.Description)); err != nil {
		return err
	}
	return printJSON(t.InputSchema)
}

// findTool returns the tool of a name.
func (s *session) findTool(name string) (*offered, error) {
	tools, err := s.listTools()
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
	return nil, newFault(unknown, "there is no tool %q; there is: %s", name, strings.Join(names, ", "))
}

// callJSON calls a tool with JSON.
func callJSON(args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return newFault(wrong, "call takes a tool and its input\n%s", usage)
	}
	input := []byte("{}")
	if len(args) == 2 {
		var err error
		if input, err = readInput(args[1]); err != nil {
			return newFault(wrong, "the input: %v", err)
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(input, &object); err != nil {
		return newFault(wrong, "the input is no JSON object: %v", err)
	}
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	return s.callAndPrint(args[0], input)
}

// readInput returns the input of a tool: the text itself, the content of a file, or standard input.
func readInput(arg string) ([]byte, error) {
	switch {
	case arg == "-":
		return io.ReadAll(os.Stdin)
	case strings.HasPrefix(arg, "@"):
		return os.ReadFile(arg[1:])
	}
	return []byte(arg), nil
}

// callFields calls a tool with arguments key=value, converted to the types of its schema, and
// key:=json.
func callFields(name string, args []string) error {
	s, err := open()
	if err != nil {
		return err
	}
	defer s.close()
	t, err := s.findTool(name)
	if err != nil {
		return err
	}
	input, err := parseFields(t, args)
	if err != nil {
		return err
	}
	b, err := json.Marshal(input)
	if err != nil {
		return err
	}
	return s.callAndPrint(name, b)
}

// parseFields converts arguments to the input of a tool.
func parseFields(t *offered, args []string) (map[string]json.RawMessage, error) {
	var schema struct {
		Properties map[string]struct{ Type any }
	}
	_ = json.Unmarshal(t.InputSchema, &schema) // else all are texts
	input := make(map[string]json.RawMessage)
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok || key == "" {
			return nil, newFault(wrong, "%q is no KEY=VALUE; 'atoll-tool help %s' says what it takes", arg, t.Name)
		}
		if k, ok := strings.CutSuffix(key, ":"); ok {
			if !json.Valid([]byte(value)) {
				return nil, newFault(wrong, "%s: %q is no JSON", k, value)
			}
			input[k] = json.RawMessage(value)
			continue
		}
		v, err := parseTyped(schema.Properties[key].Type, value)
		if err != nil {
			return nil, newFault(wrong, "%s: %v", key, err)
		}
		input[key] = v
	}
	return input, nil
}

// parseTyped converts a word to JSON of a type.
func parseTyped(want any, word string) (json.RawMessage, error) {
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

// callAndPrint calls a tool and prints its result.
func (s *session) callAndPrint(name string, input json.RawMessage) error {
	r, err := s.callTool(name, input)
	var refused *rpcError
	if errors.As(err, &refused) {
		if _, err := s.findTool(name); err != nil {
			return err
		}
		return newFault(failed, "%s", cleanLine(refused.Message))
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
			if err := printText(c.Text); err != nil {
				return err
			}
		case c.Data != nil:
			path, err := saveImage(c.MimeType, c.Data)
			if err != nil {
				return newFault(failed, "%v", err)
			}
			if err := printText(path); err != nil {
				return err
			}
		}
	}
	if r.IsError {
		return &fault{status: failed}
	}
	return nil
}

// saveImage writes an image to a new file in the working directory.
func saveImage(kind string, data []byte) (string, error) {
	suffix := map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg"}[kind]
	f, err := os.CreateTemp(".", "tool-*"+suffix)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}
