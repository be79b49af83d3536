package file

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const pathchkUsage = `Usage: pathchk [OPTION]... NAME...
Diagnose invalid or unportable file names.

  -p                  check for most POSIX systems
  -P                  check for empty names and leading "-"
      --portability   check for all POSIX systems (equivalent to -p -P)
      --help          display this help and exit
`

var pathchkOptions = option.Parser{Options: []option.Option{{Short: 'p'}, {Short: 'P'}, {Long: "portability", ID: 'a'}}}

// Limits of names: those that POSIX guarantees, and those of the sandbox.
const (
	posixName, posixPath = 14, 256
	ourName, ourPath     = 255, 4096
)

const portable = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

func runPathchk(p *kernel.Proc) int {
	opts, names, ok := pathchkOptions.Parse(p)
	if !ok || option.ReportMissing(p, names, 1) {
		return 1
	}
	posix, strict := false, false
	for _, o := range opts {
		posix = posix || o.Key != 'P'
		strict = strict || o.Key != 'p'
	}
	code := 0
	for _, name := range names {
		if msg := checkPath(p, name, posix, strict); msg != "" {
			p.Errorf("%s", msg)
			code = 1
		}
	}
	return code
}

func checkPath(p *kernel.Proc, name string, posix, strict bool) string {
	if strict {
		for part := range strings.SplitSeq(name, "/") {
			if strings.HasPrefix(part, "-") {
				return "leading '-' in a component of file name " + quoting.QuoteName(name)
			}
		}
	}
	if (posix || strict) && name == "" {
		return "empty file name"
	}
	if posix {
		return checkPortable(name)
	}
	if _, err := p.Lstat(name); err != nil && (!isMissing(err) || name == "") {
		return quoting.QuoteNameIfNeeded(name) + ": " + program.Reason(err)
	}
	return checkLengths(name, ourName, ourPath)
}

func checkPortable(name string) string {
	for _, r := range strings.ReplaceAll(name, "/", "") {
		if !strings.ContainsRune(portable, r) {
			return "nonportable character " + quoting.QuoteWord(string(r)) + " in file name " + quoting.QuoteName(name)
		}
	}
	return checkLengths(name, posixName, posixPath)
}

func checkLengths(name string, part, whole int) string {
	if len(name) >= whole {
		return "limit " + strconv.Itoa(whole-1) + " exceeded by length " + strconv.Itoa(len(name)) + " of file name " + quoting.QuoteName(name)
	}
	for s := range strings.SplitSeq(name, "/") {
		if len(s) > part {
			return "limit " + strconv.Itoa(part) + " exceeded by length " + strconv.Itoa(len(s)) + " of file name component " + quoting.QuoteName(s)
		}
	}
	return ""
}
