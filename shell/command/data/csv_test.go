package data_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// TestCSV compares the programs for CSV with csvkit 1.0.7. Without -d it guesses the delimiter, so files have several commas.
func TestCSV(t *testing.T) {
	tree := []string{
		"a.csv=id,name,price,ok,when\n1,\"Smith, J\",1.50,true,2024-01-02\n2,Ann,20,false,2024-02-03\n10,\"say \"\"hi\"\"\",,true,\n", "short.csv=a,a,,b\n1,2,3,4\n5\n6,7,8,9\n", "semi.csv=a;b\n1;2\n3;4\n", "bool.csv=a,b,c\n1,1.5,y\n0,2e3,n\n",
		"numbers.csv=x,y\n1000000,12345.678912\n-2,-0.5\n,3\n", "empty.csv=", "names=Ann\nBob\n", "tabs.tsv=a\tb\n1\tx y\n", "one.csv=a,b\n,x\n,\n", "nulls.csv=a,b,c\nNA,x,1\nnull,n/a,2\n-,y,3\n", "wide.csv=name,text\na," + strings.Repeat("long ", 20) + "\n", "lines.csv=a,b\n\"one\ntwo\",2\n",
	}
	cases := commandtest.Cases(tree, "p,q\n3,4\n1,2\n",
		"csvcut -n a.csv", "csvcut -c name,1 a.csv", "csvcut -c 2-4 a.csv", "csvcut -c 4- a.csv", "csvcut -c -2 a.csv", "csvcut -C name,ok a.csv", "csvcut -c 1,1,id a.csv", "csvcut -l -c name a.csv", "csvcut -c 1-4 short.csv", "csvcut -d ; -c b,a semi.csv", "csvcut -t -c b tabs.tsv", "csvcut -H -c b a.csv", "csvcut -x -c 1 one.csv", "csvcut -c 1 one.csv", "csvcut -K 1 -c 2 a.csv", "csvcut -c q", "csvcut lines.csv",
		"csvgrep -c name -m Ann a.csv", "csvgrep -c id -r ^1 a.csv", "csvgrep -i -c 1 -r ^1 a.csv", "csvgrep -c name -f names a.csv", "csvgrep -c 1,2 -r n a.csv", "csvgrep -a -c 1,2 -r n a.csv", "csvgrep -l -c id -m 1 a.csv", "csvgrep -c 1 -m nothing a.csv", "csvgrep -c 4 -m 9 short.csv",
		"csvsort -c id a.csv", "csvsort -r -c price a.csv", "csvsort -c price a.csv", "csvsort -c name a.csv", "csvsort -c ok,name a.csv", "csvsort -I -c id a.csv", "csvsort", "csvsort numbers.csv", "csvsort -c 2 nulls.csv", "csvsort -l -c name a.csv",
		"csvlook a.csv", "csvlook -I a.csv", "csvlook numbers.csv", "csvlook bool.csv", "csvlook nulls.csv", "csvlook -d ; semi.csv", "csvlook --max-rows 1 a.csv", "csvlook --max-columns 2 a.csv", "csvlook --max-column-width 6 wide.csv", "csvlook -l a.csv", "csvlook -H a.csv", "csvlook one.csv",
		"csvjson a.csv", "csvjson -i 2 a.csv", "csvjson --stream a.csv", "csvjson -k id a.csv", "csvjson -k name -i 1 a.csv", "csvjson -I a.csv", "csvjson bool.csv", "csvjson numbers.csv", "csvjson nulls.csv", "csvjson lines.csv", "csvjson -l a.csv",
		"csvformat -T a.csv", "csvformat -D ; a.csv", "csvformat -U 1 a.csv", "csvformat -M ; a.csv", "csvformat -t tabs.tsv", "csvstack a.csv a.csv", "csvstack numbers.csv",
	)
	for _, line := range []string{"csvcut -c nope a.csv", "csvcut -c 9 a.csv", "csvcut -c 0 a.csv", "csvcut -c 1 nofile", "csvgrep -c 1 a.csv", "csvgrep -m x a.csv", "csvgrep -c 1 -r ( a.csv", "csvlook --bad a.csv", "csvjson -k ok a.csv", "csvcut -d ab a.csv"} {
		cases = append(cases, commandtest.Case{Run: line, Tree: tree, Loose: true})
	}
	for i := range cases {
		cases[i].Rare = true
	}
	commandtest.Compare(t, cases)
}

// TestCSVBombs checks that input that would take any time or memory is stopped, and that its memory is freed.
func TestCSVBombs(t *testing.T) {
	s := commandtest.New(t, "/w")
	s.WriteFile("commas", strings.Repeat(",", 500000)+"\n"+strings.Repeat(strings.Repeat(",", 1000)+"\n", 200))
	s.WriteFile("quote", "a,b\n\""+strings.Repeat("x\n", 500000))
	for _, name := range []string{"csvcut -c 1", "csvcut -x", "csvgrep -c 1 -r (a*)*b", "csvgrep -c 1 -f /dev/zero", "csvsort", "csvlook", "csvjson", "csvformat -U 1", "csvstack", "csvcut -K 999999999 -c 1", "csvcut -c 1-,1-,1-,1-,1-"} {
		for _, file := range []string{"/dev/zero", "commas", "quote"} {
			commandtest.RunHostile(t, s, "", commandtest.SplitWords(name+" "+file)...)
		}
	}
	if n := s.Kernel.Memory(); n != 0 {
		t.Errorf("%d bytes stay charged", n)
	}
}
