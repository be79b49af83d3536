package output

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-sandbox/atoll"
)

type inner struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

type outer struct {
	inner
	Name   string            `json:"name"` // hides that of inner
	Note   string            `json:"note,omitempty"`
	When   time.Time         `json:"when,omitzero"`
	Map    map[string]int    `json:"map"`
	List   []any             `json:"list"`
	Nil    []string          `json:"nil"`
	Bytes  []byte            `json:"bytes"`
	Raw    json.RawMessage   `json:"raw,omitempty"`
	Ptr    *inner            `json:"ptr"`
	Labels map[string]string `json:"labels,omitempty"`
	Plain  float64
	hidden int
	Skip   int `json:"-"`
}

// TestWriteJSON: without durations, the output is that of encoding/json.
func TestWriteJSON(t *testing.T) {
	now := time.Date(2026, 11, 23, 1, 2, 3, 4, time.UTC)
	for _, v := range []any{
		nil, 1, "a<b>\u2028", true,
		[]string{},
		[]int{1, 2},
		map[string]any{"b": 1, "a": []byte("x")},
		json.RawMessage(`{"z":1,"a":2}`),
		outer{inner: inner{ID: "1", Name: "hidden"}, Name: "n", When: now, Map: map[string]int{"b": 1, "a": 2}, List: []any{1, "x", nil, inner{}}, Bytes: []byte("hi"), Ptr: &inner{ID: "2"}, hidden: 1, Skip: 2},
		&outer{Raw: json.RawMessage(`[1]`)},
		atoll.Info{Status: atoll.Status{ID: "x", Name: "box", Created: now}},
		[]atoll.Token{{ID: "t"}},
	} {
		var got, want bytes.Buffer
		if err := WriteJSON(&got, v, true); err != nil {
			t.Fatal(err)
		}
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("%T:\n%s", v, diff)
		}
	}
}

func TestDurationsAreStrings(t *testing.T) {
	var got bytes.Buffer
	v := map[string]any{"a": 90 * time.Second, "b": atoll.Timeouts{Exec: 5 * time.Minute}, "c": []time.Duration{0}}
	if err := WriteJSON(&got, v, false); err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"1m30s","b":{"exec":"5m0s"},"c":["0s"]}` + "\n"; got.String() != want {
		t.Errorf("got %s want %s", got.String(), want)
	}
}
