package jq

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestDev(t *testing.T) {
	if os.Getenv("JQDEV") == "" {
		t.Skip()
	}
	out, _ := os.Create(os.Getenv("JQDEV") + ".out")
	in, _ := os.Open(os.Getenv("JQDEV"))
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		var c struct{ P, I string }
		json.Unmarshal(sc.Bytes(), &c)
		if c.I == "" {
			c.I = "null"
		}
		o, e, x := devRun(c.P, c.I)
		b, _ := json.Marshal(map[string]any{"p": c.P, "o": strings.TrimSpace(o), "e": strings.TrimSpace(e), "x": x})
		fmt.Fprintln(out, string(b))
	}
}

func devRun(p, in string) (o, e string, x int) {
	defer func() {
		if r := recover(); r != nil {
			e = fmt.Sprint("PANIC ", r)
			x = 134
		}
	}()
	var out, errs strings.Builder
	cfg := &Config{}
	enc := NewEncoder(&errs, Format{}, nil)
	cfg.Host.Debug = func(v Value) { enc.Encode(v); errs.WriteString("\n") }
	cfg.Host.Stderr = func(v Value) { enc.Encode(v) }
	cfg.Host.Environ = []string{"PATH=/", "HOME=/"}
	cfg.Host.Filename = func() Value { return "/dev/stdin" }
	cfg.Host.Now = func() (int64, int) { return 1, 1 }
	code, err := Compile(p, cfg)
	if err != nil {
		return "", "jq: error: " + err.Error(), 3
	}
	d := code.Decoder(strings.NewReader(in))
	cfg.Host.Input = func() (Value, bool, error) {
		v, err := d.Decode()
		if err != nil {
			return nil, false, nil
		}
		return v, true, nil
	}
	w := code.Encoder(&out, Format{})
	v, err := d.Decode()
	if err != nil {
		return "", "jq: parse error: " + err.Error(), 5
	}
	r := code.Run(v)
	for {
		v, ok, err := r.Next()
		if !ok {
			if h, ok := err.(*HaltError); ok {
				if s, ok := h.Value.(string); ok {
					errs.WriteString(s)
				} else if !h.Quiet && h.Value != nil {
					enc.Encode(h.Value)
				}
				return out.String(), errs.String(), h.Status
			}
			if err != nil {
				je, ok := err.(*Error)
				if ok {
					if _, ok := je.Value.(string); ok {
						return out.String(), errs.String() + "jq: error (at /dev/stdin:0): " + err.Error(), 5
					}
					ee := NewEncoder(nil, Format{}, nil)
					ee.Encode(je.Value)
					return out.String(), errs.String() + "jq: error (at /dev/stdin:0) (not a string): " + string(ee.buf), 5
				}
				return out.String(), errs.String() + "jq: error: " + err.Error(), 5
			}
			return out.String(), errs.String(), 0
		}
		w.Encode(v)
		out.WriteString("\n")
	}
}
