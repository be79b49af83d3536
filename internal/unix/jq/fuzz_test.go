//go:build unix

package jq

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// FuzzProgram runs any program on any input within limits.
func FuzzProgram(f *testing.F) {
	for _, r := range loadPrograms(f) {
		f.Add(r.Program, "null")
	}
	f.Add(`.[] | select(.a > 1) | .b |= . + 1`, `[{"a":2,"b":1},{"a":0}]`)
	f.Add(`reduce .[] as [$a, {b: $c}] (0; . + $c) ?// 1`, `[[1,{"b":2}]]`)
	for _, program := range aliasPrograms {
		f.Add(program, `{"a":1,"b":[1,2,[3]]}`)
	}
	f.Fuzz(func(t *testing.T, program, input string) {
		l := &limits{memory: 32 << 20, deadline: time.Now().Add(300 * time.Millisecond)}
		hang := time.AfterFunc(2*time.Minute, func() { panic("the program didn't end after its deadline") })
		defer func() {
			hang.Stop()
			switch r := recover().(type) {
			case nil, overMemory, overTime:
			default:
				panic(r)
			}
		}()
		got, status, _ := evaluate(program, input, l)
		if want, wantStatus, _ := evaluateCopying(program, input, l); got != want || status != wantStatus {
			t.Errorf("in place %q, %d\ncopied   %q, %d", got, status, want, wantStatus)
		}
	})
}

// FuzzDecode decodes any text with both decoders; a decoded value prints as a text that decodes to
// the same value.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.50,-0,1e1000,"\ud83d\ude00\u0001"],"b":{}} nan`, `[1,[],{"a":{"b":[]}}]`, `[1,}`, `{"a" 1}`, "\"\xff\xf0\x9f\"", "1 2 3 x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := NewDecoder(strings.NewReader(text), nil)
		m := machine{account: &account{}}
		for {
			v, err := d.Decode()
			if err != nil {
				break
			}
			first := m.toJSON(v)
			again, err := DecodeText(first, nil)
			if err != nil {
				t.Fatalf("%q printed as %q: %v", text, first, err)
			}
			if second := m.toJSON(again); first != second {
				t.Fatalf("%q printed as %q, then %q", text, first, second)
			}
		}
		events := NewEventDecoder(strings.NewReader(text), nil)
		for {
			if _, err := events.Decode(); err != nil {
				var bad *SyntaxError
				if !errors.Is(err, io.EOF) && !errors.As(err, &bad) {
					t.Fatalf("%q: %v", text, err)
				}
				return
			}
		}
	})
}
