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

// Builtin returns the processes that are always there: atoll.echo, atoll.time,
// atoll.who.
func Builtin(now func() time.Time) Processes {
	return Processes{
		"atoll.echo": func(_ context.Context, _ Who, args []any) (any, error) {
			if len(args) == 1 {
				return args[0], nil
			}
			return args, nil
		},
		"atoll.time": func(_ context.Context, _ Who, args []any) (any, error) {
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
				return nil, &Error{fmt.Sprintf("There is no time zone %q: it is a name like Europe/Berlin.", clip(zone, 60))}
			}
			return t.In(loc).Format(time.RFC3339), nil
		},
		"atoll.who": func(_ context.Context, who Who, _ []any) (any, error) {
			return map[string]any{"app": who.Owner.App, "user": who.Owner.User, "chat": who.Chat, "assistant": who.Assistant, "turn": who.Turn}, nil
		},
	}
}

// processes reads a server whose tools are Go functions:
//
//	"tools": {
//	  "read_file": "fs.system.ReadFile",
//	  "find_user": {"process": "models.user.find", "args": ["{{id}}"], "description": "…", "schema": {…}},
//	  "yao.process": {"allow": ["models.user.*", "atoll.time"]}
//	}
func (f *file) processes(r *reader, server string, p Processes) []Tool {
	find := func(n *node, field, name string) Func {
		fn := p[name]
		if fn == nil {
			f.bad(n, field, "there is no process %q; there is: %s", name, known(p))
		}
		return fn
	}
	return f.each(r, server, func(n *node, field, text string) *Tool {
		fn := find(n, field, text)
		return &Tool{Description: "Calls " + text + ".", Call: func(ctx context.Context, c Call) (Result, error) {
			var input any
			if err := json.Unmarshal(c.Input, &input); err != nil {
				return Result{}, err
			}
			return process(ctx, fn, c.Who, []any{input})
		}}
	}, func(t *reader) *Tool {
		if t.o.of["allow"] != nil {
			return f.dispatcher(t, p)
		}
		name := t.text("process")
		if name == "" {
			t.bad("process", "it is missing: it names the function, or allow those that may be named")
			return nil
		}
		fn := find(t.o.of["process"], t.path("process"), name)
		args := t.get("args")
		if args == nil {
			return &Tool{Call: func(ctx context.Context, c Call) (Result, error) {
				var input any
				if err := json.Unmarshal(c.Input, &input); err != nil {
					return Result{}, err
				}
				return process(ctx, fn, c.Who, []any{input})
			}}
		}
		if _, ok := args.value.([]*node); !ok {
			t.bad("args", "it must be a list, not %s", args.kind())
			return nil
		}
		list := f.fill(args, t.path("args"))
		items, _ := list.value.([]filled) // it is a list
		return &Tool{Schema: f.schemaFor(t, list.fields()), Call: func(ctx context.Context, c Call) (Result, error) {
			s, err := newScope(c)
			if err != nil {
				return Result{}, err
			}
			values := make([]any, len(items)) // what is not there is nil, in its place
			for i, item := range items {
				if v, there := item.with(s); there {
					values[i] = numbers(v)
				}
			}
			return process(ctx, fn, c.Who, values)
		}}
	})
}

// numbers turns the numbers of a value into what encoding/json makes of them.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}

// dispatcher is a tool that calls any of some processes by name.
func (f *file) dispatcher(t *reader, p Processes) *Tool {
	allowed := make(map[string]Func)
	for i, pattern := range t.texts("allow") {
		before := len(allowed)
		prefix, many := strings.CutSuffix(pattern, "*")
		for name, fn := range p {
			if name == pattern || many && strings.HasSuffix(prefix, ".") && strings.HasPrefix(name, prefix) {
				allowed[name] = fn
			}
		}
		if len(allowed) == before {
			f.bad(t.o.of["allow"], fmt.Sprintf("%s[%d]", t.path("allow"), i), "there is no process %q; there is: %s (or all of a name, as in models.*)", pattern, known(p))
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
		t.bad("allow", "%v", err)
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
		return process(ctx, fn, c.Who, in.Args)
	}}
}

func known(p Processes) string {
	list := slices.Sorted(maps.Keys(p))
	if len(list) > 20 {
		list = append(list[:20], "…")
	}
	return strings.Join(list, ", ")
}

// process calls a function and makes a result of what it returns: a text or
// bytes as they are, a Result too, else JSON.
func process(ctx context.Context, fn Func, who Who, args []any) (Result, error) {
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
