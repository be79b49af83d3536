package search_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestCmp(t *testing.T) {
	tree := []string{"c1=abcdef\nxyz\n", "c2=abXdef\nxYz\n", "c3=abc", "c4=abcdef\n", "empty=", "d/", "bin1=\x00\x01\x7f\x80\xff\n", "bin2=\x01\x00\x80\x7f\xfe\n", "big1=" + strings.Repeat("x", 70000) + "a", "big2=" + strings.Repeat("x", 70000) + "b"}
	var cases []commandtest.Case
	for _, run := range []string{
		"cmp c1 c2", "cmp c1 c1", "cmp c1 c3", "cmp c3 c1", "cmp c1 c4", "cmp -l c1 c2", "cmp -b c1 c2", "cmp -lb c1 c2", "cmp -s c1 c2", "cmp -s c1 c1", "cmp -s c1 nope", "cmp c1 nope", "cmp -n 2 c1 c2", "cmp -n 3 c1 c2", "cmp -n 2K c1 c2", "cmp -i 3 c1 c2", "cmp -i 3:2 c1 c2", "cmp c1", "cmp", "cmp -n x c1 c2", "cmp -l c1 c3",
		"cmp c1 c2 3 3", "cmp c3 empty", "cmp empty c3", "cmp empty empty", "cmp c1 -", "cmp - c1", "cmp -i x c1 c2", "cmp c1 c2 1 2 3", "cmp -l -s c1 c2", "cmp d c1", "cmp c1 c2 1", "cmp c1 c2 100", "cmp -i 100 c1 c2", "cmp -lb bin1 bin2", "cmp -l bin1 bin2", "cmp -b bin1 bin2", "cmp big1 big2", "cmp -l big1 big2", "cmp --bytes=1 --quiet c1 c2", "cmp --verbose --print-bytes c1 c2", "cmp -n 0 c1 c2", "cmp -s c3 c1", "cmp -l c3 c1", "cmp -n 3 c3 c1",
	} {
		cases = append(cases, commandtest.Case{Tree: tree, Run: run, Stdin: "abcdef\nxyz\n"})
	}
	commandtest.Compare(t, cases)
}

func TestComm(t *testing.T) {
	tree := []string{"m1=a\nb\nd\n", "m2=b\nc\nd\n", "m3=b\na\n", "nonl=a\nb", "empty=", "d/", "z1=a\x00c\x00", "z2=b\x00c\x00", "dup=a\na\nb\n", "m4=a\nb\na\nc\n"}
	var cases []commandtest.Case
	for _, run := range []string{
		"comm m1 m2", "comm -12 m1 m2", "comm -13 m1 m2", "comm -23 m1 m2", "comm -1 m1 m2", "comm -3 m1 m2", "comm -123 m1 m2", "comm m1 m3", "comm --check-order m1 m3", "comm --nocheck-order m1 m3", "comm --total m1 m2", "comm --total -12 m1 m2", "comm --output-delimiter=, m1 m2", "comm --output-delimiter=, --total m1 m2", "comm -1", "comm m1 nope", "comm -123 --total m1 m2", "comm m1 m2 m3",
		"comm m3 m3", "comm m1 -", "comm - m1", "comm --output-delimiter= m1 m2", "comm", "comm m1 d", "comm --output-delimiter=a --output-delimiter=b m1 m2", "comm nonl m1", "comm empty m1", "comm empty empty", "comm -z z1 z2", "comm dup m1", "comm m4 m3", "comm m4 empty", "comm --check-order m4 m4", "comm -k m1 m2", "comm --check-order m1 m2",
	} {
		cases = append(cases, commandtest.Case{Tree: tree, Run: run, Stdin: "a\nc\nd\n"})
	}
	commandtest.Compare(t, cases)
}
