package command_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

// oddText returns a few lines of random words, numbers and separators.
func oddText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(12) {
		for range r.IntN(9) {
			b.WriteString(commandtest.Pick(r, "a", "b", "A", "c", " ", "  ", "\t", ":", ",", "1", "2", "10", "-", ".", "é", "z", "x y", "K", "\x00", "\xff"))
		}
		if r.IntN(8) > 0 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// odd builds random arguments, most of them sensible.
type odd struct {
	r    *rand.Rand
	args []string
}

func (o *odd) add(s ...string) { o.args = append(o.args, s...) }

// maybe adds s with a probability of 1/n.
func (o *odd) maybe(n int, s ...string) {
	if o.r.IntN(n) == 0 {
		o.add(s...)
	}
}

func (o *odd) pick(list ...string) string { return list[o.r.IntN(len(list))] }
func (o *odd) digit(n int) string         { return strconv.Itoa(1 + o.r.IntN(n)) }

// some adds up to two of a list.
func (o *odd) some(list ...string) {
	for range o.r.IntN(3) {
		o.add(o.pick(list...))
	}
}

var oddArgs = map[string]func(o *odd){
	"sort": func(o *odd) {
		o.some("-n", "-r", "-f", "-u", "-s", "-b", "-d", "-i", "-g", "-h", "-V", "-M", "-z", "-c", "-C", "-m")
		for range o.r.IntN(3) {
			k := "-k" + o.digit(3) + o.pick("", "", ".1", ".2", ".3") + o.pick("", "", "n", "r", "b", "f", "nr", "V", "h", "g", "d")
			o.add(k + o.pick("", "", ",1", ",2", ",3", ",2.1", ",1.2b", ",3n", ",2r"))
		}
		o.maybe(3, "-t", o.pick(":", ",", " ", "\t", "a"))
		o.maybe(2, "f")
		o.maybe(3, "g")
	},
	"cut": func(o *odd) {
		o.add(o.pick("-f", "-c", "-b"), o.pick("1", "2", "1,3", "2-", "-2", "1-2,4-", "3,1", "2-3"))
		o.maybe(2, "-d"+o.pick(":", ",", " ", "a"))
		o.some("-s", "--complement", "-z", "--output-delimiter="+o.pick("", "_", "__"))
		o.maybe(2, "f", "g")
	},
	"uniq": func(o *odd) {
		o.some("-c", "-d", "-u", "-D", "-i", "-z", "--all-repeated=prepend", "--all-repeated=separate", "--group=both", "--group=append")
		o.some("-f"+o.digit(4), "-s"+o.digit(4), "-w"+o.digit(4))
		o.maybe(2, "f")
	},
	"tr": func(o *odd) {
		o.some("-c", "-d", "-s", "-s")
		o.add(o.pick("a-z", "A-Z", "abc", "[:alpha:]", "[:upper:]", "[:lower:]", "[:space:]", "[:punct:]", "\\n", " ", "x", "a-c", ":,", "1-9a", "[=a=]", "-", "a-", "\\000-\\037"))
		o.maybe(2, o.pick("A-Z", "x", "[x*]", "[x*3]", "xyz", "[:lower:]", "[:upper:]", "\\\\", "[a-c]", ""))
	},
	"head": oddEnd, "tail": oddEnd,
	"paste": func(o *odd) {
		o.some("-s", "-z", "-d"+o.pick(",", ":;", "\\n", "\\0", "\\t\\0x", ""))
		for range 1 + o.r.IntN(3) {
			o.add(o.pick("f", "g", "-"))
		}
	},
	"join": func(o *odd) {
		o.maybe(3, "-t", o.pick(":", ",", " ", ""))
		o.some("-a1", "-a2", "-v1", "-v2", "-i", "--header", "--check-order", "--nocheck-order", "-eE", "-j2", "-12", "-o0,1.2,2.1", "-oauto")
		o.add(o.pick("f", "-"), o.pick("g", "f"))
	},
	"wc": func(o *odd) {
		o.some("-l", "-w", "-c", "-m", "-L")
		o.maybe(2, "f")
		o.maybe(2, "g")
	},
	"cat": func(o *odd) {
		o.some("-n", "-b", "-s", "-E", "-T", "-v", "-A", "-e", "-t")
		o.some("f", "g", "-")
	},
	"chmod": func(o *odd) {
		o.maybe(2, "-v")
		o.add(oddMode(o), "f", "g", "d", "x", "s")
	},
	"mkdir": func(o *odd) { o.add("-m", oddMode(o), "n") },
}

// oddEnd adds random arguments of head and tail.
func oddEnd(o *odd) {
	o.maybe(2, o.pick("-n", "-c")+o.pick("", "-", "+")+o.pick("0", "1", "2", "3", "10", "1k"))
	o.some("-q", "-v", "-z")
	o.maybe(2, "f")
	o.maybe(2, "g")
}

func oddMode(o *odd) string {
	if o.r.IntN(6) == 0 {
		return o.pick("644", "0755", "4755", "00644", "07777", "1777", "02", "888", "")
	}
	var clauses []string
	for range 1 + o.r.IntN(3) {
		mode := o.pick("", "u", "g", "o", "a", "ug", "go", "uo", "ugo")
		for range 1 + o.r.IntN(2) {
			mode += o.pick("+", "-", "=") + o.pick("", "r", "w", "x", "X", "s", "t", "rw", "rx", "rwx", "rwxXst", "u", "g", "o", "xs", "644", "0755", "st")
		}
		clauses = append(clauses, mode)
	}
	return strings.Join(clauses, ",")
}

// TestRandomArguments compares with GNU for random arguments and texts. The seed
// is fixed.
func TestRandomArguments(t *testing.T) {
	tools := []string{"sort", "cut", "uniq", "tr", "head", "tail", "paste", "join", "wc", "cat", "chmod", "mkdir"}
	var cases []commandtest.Case
	for i := range 240 {
		r := rand.New(rand.NewPCG(31, uint64(i)))
		tool := tools[i%len(tools)]
		o := &odd{r: r, args: []string{tool}}
		oddArgs[tool](o)
		c := commandtest.Case{Name: fmt.Sprint(i), Stdin: oddText(r), Loose: true, NoFiles: tool == "mkdir"}
		c.Tree = []string{"f=" + oddText(r), "g=" + oddText(r), "0750 d/", "0755 x=1", "6755 s=1"}
		for _, a := range o.args {
			c.Run += "'" + a + "' "
		}
		cases = append(cases, c)
	}
	commandtest.Compare(t, cases)
}
