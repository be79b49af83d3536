package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// BuiltinProcesses returns the processes that always exist: atoll.echo, atoll.time
// and atoll.who.
func BuiltinProcesses(now func() time.Time) Processes {
	return Processes{
		"atoll.echo": func(_ context.Context, _ Caller, args []any) (any, error) {
			if len(args) == 1 {
				return args[0], nil
			}
			return args, nil
		},
		"atoll.time": func(_ context.Context, _ Caller, args []any) (any, error) {
			t := now()
			zone := "UTC"
			if len(args) > 0 {
				switch v := args[0].(type) {
				case string:
					zone = v
				case map[string]any:
					if s, ok := v["zone"].(string); ok {
						zone = s
					}
				}
			}
			loc, err := time.LoadLocation(zone)
			if err != nil {
				return nil, &Error{fmt.Sprintf("There is no time zone %q: it is a name like Europe/Berlin.", clipText(zone, 60))}
			}
			return t.In(loc).Format(time.RFC3339), nil
		},
		"atoll.who": func(_ context.Context, who Caller, _ []any) (any, error) {
			return map[string]any{"app": who.Owner.App, "user": who.Owner.User, "chat": who.Chat, "assistant": who.Assistant, "turn": who.Turn}, nil
		},
	}
}

// readProcesses decodes a server whose tools are Go functions:
//
//	"tools": {
//	  "read_file": "fs.system.ReadFile",
//	  "find_user": {"process": "models.user.find", "args": ["{{id}}"], "description": "…", "schema": {…}},
//	  "yao.process": {"allow": ["models.user.*", "atoll.time"]}
//	}
func (f *file) readProcesses(r *objectReader, server string, p Processes) []Tool {
	find := func(n *node, field, name string) Func {
		fn := p[name]
		if fn == nil {
			f.addFault(n, field, "there is no process %q; there is: %s", name, listProcesses(p))
		}
		return fn
	}
	return f.readTools(r, server, func(n *node, field, text string) *Tool {
		fn := find(n, field, text)
		return &Tool{Description: "Calls " + text + ".", Call: func(ctx context.Context, c Call) (Result, error) {
			var input any
			if err := json.Unmarshal(c.Input, &input); err != nil {
				return Result{}, err
			}
			return callProcess(ctx, fn, c.Caller, []any{input})
		}}
	}, func(t *objectReader) *Tool {
		if t.o.of["allow"] != nil {
			return f.readDispatcher(t, p)
		}
		name := t.readText("process")
		if name == "" {
			t.addFault("process", "it is missing: it names the function, or allow those that may be named")
			return nil
		}
		fn := find(t.o.of["process"], t.fieldPath("process"), name)
		args := t.get("args")
		if args == nil {
			return &Tool{Call: func(ctx context.Context, c Call) (Result, error) {
				var input any
				if err := json.Unmarshal(c.Input, &input); err != nil {
					return Result{}, err
				}
				return callProcess(ctx, fn, c.Caller, []any{input})
			}}
		}
		if _, ok := args.value.([]*node); !ok {
			t.addFault("args", "it must be a list, not %s", args.kindName())
			return nil
		}
		list := f.parseValue(args, t.fieldPath("args"))
		items, _ := list.value.([]valueTemplate) // checked above
		return &Tool{Schema: f.schemaFor(t, list.inputFields()), Call: func(ctx context.Context, c Call) (Result, error) {
			s, err := newScope(c)
			if err != nil {
				return Result{}, err
			}
			values := make([]any, len(items)) // a missing value stays nil
			for i, item := range items {
				if v, there := item.fillValue(s); there {
					values[i] = convertNumbers(v)
				}
			}
			return callProcess(ctx, fn, c.Caller, values)
		}}
	})
}

// convertNumbers replaces json.Number by float64, in place.
func convertNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = convertNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = convertNumbers(v[k])
		}
	}
	return v
}

// readDispatcher returns a tool that calls one of several processes by name.
func (f *file) readDispatcher(t *objectReader, p Processes) *Tool {
	allowed := make(map[string]Func)
	for i, pattern := range t.readTexts("allow") {
		before := len(allowed)
		prefix, many := strings.CutSuffix(pattern, "*")
		for name, fn := range p {
			if name == pattern || many && strings.HasSuffix(prefix, ".") && strings.HasPrefix(name, prefix) {
				allowed[name] = fn
			}
		}
		if len(allowed) == before {
			f.addFault(t.o.of["allow"], fmt.Sprintf("%s[%d]", t.fieldPath("allow"), i), "there is no process %q; there is: %s (or all of a name, as in models.*)", pattern, listProcesses(p))
		}
	}
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"name"}, "additionalProperties": false,
		"properties": map[string]any{
			"name": map[string]any{"type": "string", "enum": slices.Sorted(maps.Keys(allowed))},
			"args": map[string]any{"type": "array"},
		},
	})
	if err != nil {
		t.addFault("allow", "%v", err)
	}
	return &Tool{Schema: schema, Call: func(ctx context.Context, c Call) (Result, error) {
		var in struct {
			Name string
			Args []any
		}
		if err := json.Unmarshal(c.Input, &in); err != nil {
			return Result{}, err
		}
		fn := allowed[in.Name]
		if fn == nil {
			return Result{}, &Error{"There is no process of that name, or it may not be called."}
		}
		return callProcess(ctx, fn, c.Caller, in.Args)
	}}
}

func listProcesses(p Processes) string {
	list := slices.Sorted(maps.Keys(p))
	if len(list) > 20 {
		list = append(list[:20], "…")
	}
	return strings.Join(list, ", ")
}

// callProcess calls a function and returns its value as a Result: texts, bytes and
// Results as they are, other values as JSON.
func callProcess(ctx context.Context, fn Func, who Caller, args []any) (Result, error) {
	v, err := fn(ctx, who, args)
	if err != nil {
		return Result{}, err
	}
	switch v := v.(type) {
	case Result:
		return v, nil
	case string:
		return Result{Text: v}, nil
	case []byte:
		return Result{Text: string(v)}, nil
	case Image:
		return Result{Images: []Image{v}}, nil
	case nil:
		return Result{Text: "null"}, nil
	case error:
		return Result{}, errors.Join(v)
	}
	return Result{Structured: v}, nil
}
