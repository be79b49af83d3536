package command

import "testing"

func TestCat(t *testing.T) {
	odd := "a\tb\n\n\n\nc\rd\r\n\x00\x7f\x80\xff\xc3\xa9\nlast"
	tree := []string{"f=one\ntwo\n", "g=" + odd, "d/", "0600 h=x"}
	compare(t, []deed{
		{run: "cat f g h", tree: tree},
		{run: "cat", stdin: odd},
		{run: "cat - f", stdin: odd},
		{run: "cat -n f g", tree: tree},
		{run: "cat -b g", tree: tree},
		{run: "cat -s g", tree: tree},
		{run: "cat -A g", tree: tree},
		{run: "cat -e g f", tree: tree},
		{run: "cat -E g h f", tree: tree},
		{run: "cat -t g", tree: tree},
		{run: "cat -T g", tree: tree},
		{run: "cat -v g", tree: tree},
		{run: "cat -vbs g g", tree: tree},
		{run: "cat --show-all --number g", tree: tree},
		{run: "cat nofile f d", tree: tree},
		{run: "cat --nosuch=1"},
		{run: "cat --show"},
		{run: "cat --number=3"},
		{run: "cat -nz"},
		{run: "cat $'a\\nb' a:b"},
	})
}
