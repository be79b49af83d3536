package text_test

import (
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestColumnAgreesWithTheRealOne(t *testing.T) {
	tree := []string{"r=a b c\nlonger x\n\nq\n  lead z\n", "csv=name,age,city\nbob,5,\"x y\"\nal,,z\n", "t=a b c\nddd ee f\n", "c=a:b:c\nd::f\n", "utf=é x\nab y\n", "empty=", "n=" + commandtest.CountTo(30)}
	var cases []commandtest.Case
	for _, run := range []string{
		"column t", "column -t t", "column -t -s: c", "column -t -s: -o ' | ' c", "column -c 30 r", "column -x -c 30 r", "column -t -N A,B,C t", "column -t -R 1 t", "column -J -N a,b,c -n tab t",
		"column -c 40 n", "column -x -c 40 n", "column -t -d -N x,y t", "column -t -l 2 t", "column -L -t -s: c", "column nofile", "column -t r", "column -ts, csv", "column -ts, -o: csv", "column -t -s , -R 2 csv",
		"column -J -s, -N a,b,c csv", "column -J -s, csv", "column -t -s, -H 2 csv", "column -t -s, -N x,y,z -H y csv", "column -t -s, -N x,y,z -O z,x csv", "column -s, csv", "column -c 20 r",
		"column --table --separator , csv", "column -t -s ';' csv", "column -t -s, -N x,y,z -R x,z csv", "column -t utf", "column -t empty", "column -t nofile r", "column -t -R -1 csv", "column r", "column -c 8 n", "column n", "column -t", "column",
	} {
		cases = append(cases, commandtest.Case{Run: run, Tree: tree, Loose: true, Stdin: "one two\nthree\n"})
	}
	commandtest.Compare(t, cases)
}
