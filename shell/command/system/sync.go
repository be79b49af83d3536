package system

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const syncUsage = `Usage: sync [OPTION] [FILE]...
Synchronize cached writes to persistent storage: nothing to do here.

  -d, --data         sync only file data
  -f, --file-system  sync the file systems that contain the files
      --help         display this help and exit
`

func runSync(p *kernel.Proc) int {
	opts, names, ok := option.Parser{Options: []option.Option{{Short: 'd', Long: "data"}, {Short: 'f', Long: "file-system"}}}.Parse(p)
	if !ok {
		return 1
	}
	if len(opts) > 0 && opts[0].Key == 'd' && len(names) == 0 {
		p.Errorf("--data needs at least one argument")
		return 1
	}
	code := 0
	for _, n := range names {
		if _, err := p.Stat(n); err != nil {
			p.Errorf("error opening %s: %s", quoting.QuoteName(n), program.Reason(err))
			code = 1
		}
	}
	return code
}
