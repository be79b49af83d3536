package shellexec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll"
)

// maxArgument is the maximum length of one argument or environment variable on Linux.
const maxArgument = 128<<10 - 1

// encodeJob encodes a command for the script.
func encodeJob(cmd *atoll.Cmd, dir string) (string, error) {
	args := cmd.Args
	if cmd.Shell != "" {
		args = []string{"sh", "-c", cmd.Shell}
	}
	var plain, odd []string
	for _, v := range cmd.Env {
		if name, _, _ := strings.Cut(v, "="); isExportable(name) {
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
	writeLine(&b, dir)
	writeLine(&b, strconv.Itoa(len(plain)))
	writeLine(&b, strconv.Itoa(len(plain)+len(args)))
	for _, s := range slices.Concat(plain, args) {
		if len(s) > maxArgument {
			return "", fmt.Errorf("%w: an argument or variable of %d bytes: Linux allows at most %d; use standard input or a file", atoll.ErrInvalid, len(s), maxArgument)
		}
		writeLine(&b, s)
	}
	return b.String(), nil
}

// isExportable reports whether every shell can export a variable.
func isExportable(name string) bool {
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

// writeLine writes arbitrary text as one line of printable ASCII.
func writeLine(b *strings.Builder, s string) {
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
