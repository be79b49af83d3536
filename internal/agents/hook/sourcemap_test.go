package hook

import "testing"

func TestSourceMap(t *testing.T) {
	// Two lines: the first nobody's; the second from b.ts:1:1, and from column 5 on from a.ts:2:3.
	m, err := readSourceMap([]byte(`{"version":3,"sources":["a.ts","b.ts"],"mappings":";ACAA,IDCE"}`))
	if err != nil {
		t.Fatal(err)
	}
	m.offset = 10
	got := m.rewriteStack("    at f (<eval>:12:2)\n    at <anonymous> (<eval>:12:9)\n    at host (native)\n    at g (<eval>:11:1)\n    at h (<eval>:3:1)\n    at i (<eval>:99999999999999999999:1)\n")
	if want := "    at f (b.ts:1:1)\n    at (anonymous) (a.ts:2:3)\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, bad := range []string{`{`, `{"mappings":"!"}`, `{"mappings":"g"}`, `{"mappings":"gggggggggggg"}`} {
		if _, err := readSourceMap([]byte(bad)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func FuzzSourceMap(f *testing.F) {
	f.Add(`{"sources":["a.ts"],"mappings":";AAAA,EACA;;AADA"}`, "    at f (<eval>:2:3)\n")
	f.Add(`{"sources":[],"mappings":"AADDDD"}`, "    at <eval>:1:1\n")
	f.Fuzz(func(t *testing.T, b, stack string) {
		if m, err := readSourceMap([]byte(b)); err == nil {
			m.rewriteStack(stack) // does not panic
		}
	})
}
