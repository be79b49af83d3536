package command

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const pathchkUsage = `Usage: pathchk [OPTION]... NAME...
Diagnose invalid or unportable file names.

  -p                  check for most POSIX systems
  -P                  check for empty names and leading "-"
      --portability   check for all POSIX systems (equivalent to -p -P)
      --help          display this help and exit
`

var pathchkOptions = parsing{options: []option{{short: 'p'}, {short: 'P'}, {long: "portability", id: 'a'}}}

// Limits that every POSIX system grants, and those of this one.
const (
	posixName, posixPath = 14, 256
	ourName, ourPath     = 255, 4096
)

const portable = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

func pathchk(p *kernel.Proc) int {
	opts, names, ok := pathchkOptions.parse(p)
	if !ok || missing(p, names, 1) {
		return 1
	}
	posix, strict := false, false
	for _, o := range opts {
		posix = posix || o.key != 'P'
		strict = strict || o.key != 'p'
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
				return "leading '-' in a component of file name " + quote(name)
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
		return quotef(name) + ": " + why(err)
	}
	return checkLengths(name, ourName, ourPath)
}

func checkPortable(name string) string {
	for _, r := range strings.ReplaceAll(name, "/", "") {
		if !strings.ContainsRune(portable, r) {
			return "nonportable character " + cite(string(r)) + " in file name " + quote(name)
		}
	}
	return checkLengths(name, posixName, posixPath)
}

func checkLengths(name string, part, whole int) string {
	if len(name) >= whole {
		return "limit " + itoa(whole-1) + " exceeded by length " + itoa(len(name)) + " of file name " + quote(name)
	}
	for s := range strings.SplitSeq(name, "/") {
		if len(s) > part {
			return "limit " + itoa(part) + " exceeded by length " + itoa(len(s)) + " of file name component " + quote(s)
		}
	}
	return ""
}
