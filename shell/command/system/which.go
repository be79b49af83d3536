package system

import (
	"errors"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/vfs"
)

const whichUsage = `Usage: which [-as] COMMAND...
Print the path of each command that would run.

  -a          print all of them, not only the first in $PATH
  -s          print nothing, only return an exit status
      --help  display this help and exit
`

func runWhich(p *kernel.Proc) int {
	opts, names, ok := option.Parser{Options: []option.Option{{Short: 'a'}, {Short: 's'}}}.Parse(p)
	if !ok {
		return 2
	}
	all, silent := false, false
	for _, o := range opts {
		all, silent = all || o.Key == 'a', silent || o.Key == 's'
	}
	code := 0
	if len(names) == 0 {
		code = 1
	}
	for _, n := range names {
		if !whichOne(p, n, all, silent) {
			code = 1
		}
	}
	return code
}

func whichOne(p *kernel.Proc, name string, all, silent bool) bool {
	dirs := strings.Split(p.Getenv("PATH"), ":")
	if strings.Contains(name, "/") {
		dirs = []string{""}
	}
	found := false
	for _, d := range dirs {
		path := name
		if !strings.Contains(name, "/") {
			path = strings.TrimSuffix(d, "/") + "/" + name
			if d == "" {
				path = "./" + name
			}
		}
		_, err := p.LookPath(path)
		if name == "" || err != nil && !errors.Is(err, vfs.ENOEXEC) {
			continue
		}
		found = true
		if !silent {
			_, _ = p.Out().WriteString(path + "\n") // Flush reports the error
		}
		if !all {
			break
		}
	}
	return found
}
