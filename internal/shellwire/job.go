package shellwire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// mostArgument is how long one argument or variable of a program can be on Linux.
const mostArgument = 128<<10 - 1

// job writes down for the script what to run.
func job(cmd *atoll.Cmd, dir string) (string, error) {
	args := cmd.Args
	if cmd.Shell != "" {
		args = []string{"sh", "-c", cmd.Shell}
	}
	var plain, odd []string
	for _, v := range cmd.Env {
		if name, _, _ := strings.Cut(v, "="); exportable(name) {
			plain = append(plain, v)
		} else {
			odd = append(odd, v)
		}
	}
	if len(odd) > 0 { // no shell has such variables
		if strings.Contains(args[0], "=") {
			return "", fmt.Errorf("%w: a program whose name has a \"=\" can't have the variable %q here", atoll.ErrInvalid, odd[0])
		}
		args = slices.Concat([]string{"env"}, odd, args)
	}
	var b strings.Builder
	line(&b, dir)
	line(&b, strconv.Itoa(len(plain)))
	line(&b, strconv.Itoa(len(plain)+len(args)))
	for _, s := range slices.Concat(plain, args) {
		if len(s) > mostArgument {
			return "", fmt.Errorf("%w: an argument or variable of %d bytes: Linux takes at most %d in one; use standard input or a file", atoll.ErrInvalid, len(s), mostArgument)
		}
		line(&b, s)
	}
	return b.String(), nil
}

// exportable reports whether every shell can set a variable.
func exportable(name string) bool {
	switch name {
	case "UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO", "BASHPID": // some shells' own
		return false
	}
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, "__")
}

// line writes a line that holds any text, in printable ASCII.
func line(b *strings.Builder, s string) {
	strange := func(c byte) bool { return c < ' ' || c > '~' || c == '\\' }
	odd := false
	for i := range len(s) {
		odd = odd || strange(s[i])
	}
	if !odd {
		b.WriteString("=" + s + "\n")
		return
	}
	b.WriteByte('%')
	for i := range len(s) {
		if strange(s[i]) {
			fmt.Fprintf(b, `\0%03o`, s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	b.WriteByte('\n')
}
