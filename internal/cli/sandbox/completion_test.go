package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

func TestCompletionByNames(t *testing.T) {
	ctx := t.Context()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Destroy(ctx)
	if _, err := atoll.Execute(ctx, sb, "mkdir -p /work/source && cd /work && touch some.txt .hidden source/deep"); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"cat so":           "4: some.txt source/",
		"cat source/":      "4: source/deep",
		"cat /work/s":      "4: /work/some.txt /work/source/",
		"cat ":             "4: some.txt source/",
		"cat .h":           "4: .hidden",
		"tru":              "0: true truncate",
		"echo x | tru":     "9: true truncate",
		"cat nothing":      "4: ",
		"cat /nowhere/x":   "4: ",
		"ls ../work/so":    "3: ../work/some.txt ../work/source/",
		"FOO=so":           "4: some.txt source/",
		"./so":             "0: ./some.txt ./source/",
		"cat some.txt; ca": "14: ",
	} {
		start, list := nameCompleter{sb}.Complete(ctx, line, len(line))
		got := strings.Join(list, " ")
		if line == "cat some.txt; ca" {
			if !strings.Contains(" "+got+" ", " cat ") || start != 14 {
				t.Errorf("%q: %d %q, want cat among them", line, start, got)
			}
			continue
		}
		if got := fmt.Sprintf("%d: %s", start, got); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
