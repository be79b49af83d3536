package system_test

import (
	"strings"
	"testing"

	"github.com/atoll-sandbox/atoll/shell/command/internal/commandtest"
)

func TestGetopt(t *testing.T) {
	var cases []commandtest.Case
	for _, args := range []string{
		"ab:c -a -b x -c y z", "ab:c -abx y", "-o ab:c -- -a -b x y -c", "-o ab:c:: -l long,arg:,opt:: -- --long --arg x --opt --opt=y -cz rest", "-o a -- -z", "-o a: -- -a", "-o a -l foo -- --bar", "-o a -l foo,food -- --fo", "-o a -l foo -- --foo=1", "-o a -l foo: -- --foo", "-n prog -o a -- -z",
		"-q -o a -- -z", "-Q -o a -- -a", "-u -o a: -- -a 'x y'", "-o a: -- -a \"it's\"", "-s csh -o a: -- -a 'x!y'", "-T", "", "-o", "-o +ab -- -a x -b", "-o -ab -- -a x -b", "-a -o ab -l foo,bar: -- -foo -bar x -a", "-o ab -- a -- -b", "-l foo -- x", "-o '' -l foo,bar -- --fo --b", "-o :a: -- -z", "-s x -o a -- -a", "-z", "ab", "-o a -l 'foo bar' -- --foo --bar",
	} {
		cases = append(cases, commandtest.Case{Run: strings.TrimSpace("getopt " + args)})
	}
	commandtest.Compare(t, cases)
}
