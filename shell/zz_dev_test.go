package shell_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestDev(t *testing.T) {
	f := os.Getenv("DEV")
	if f == "" {
		t.Skip()
	}
	bad := 0
	n := 0
	for _, s := range sections(t, f) {
		const input = "one\ntwo words\nthree\n"
		wantOut, wantErr, wantCode := theirs(t, s.script, input)
		gotOut, gotErr, gotCode := ours(t, s.script, input)
		n++
		if gotOut != wantOut || gotCode != wantCode || gotErr != wantErr {
			bad++
			wantOut, gotOut, wantErr, gotErr = cut(wantOut), cut(gotOut), cut(wantErr), cut(gotErr)
			fmt.Printf("=== %s\n%s--- bash %d\n%s", s.name, s.script, wantCode, wantOut)
			if wantErr != gotErr {
				fmt.Printf("2> %s", wantErr)
			}
			fmt.Printf("--- ours %d\n%s", gotCode, gotOut)
			if wantErr != gotErr {
				fmt.Printf("2> %s", gotErr)
			}
			fmt.Println()
		}
	}
	fmt.Printf("%d of %d differ\n", bad, n)
}

func cut(s string) string {
	l := strings.SplitAfter(s, "\n")
	if len(l) > 14 {
		l = append(l[:14], "...\n")
	}
	return strings.Join(l, "")
}
