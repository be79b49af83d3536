package file

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/filemode"
	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const mkfifoUsage = `Usage: mkfifo [OPTION]... NAME...
Create named pipes (FIFOs) with the given NAMEs.

  -m, --mode=MODE    set file permission bits to MODE, not a=rw - umask
  -Z, --context      (ignored)
      --help         display this help and exit
`

var mkfifoOptions = option.Parser{Options: []option.Option{{Short: 'm', Long: "mode", Arg: option.Required}, {Short: 'Z'}, {Long: "context", Arg: option.Optional, ID: 'Z'}}}

func runMkfifo(p *kernel.Proc) int {
	opts, names, ok := mkfifoOptions.Parse(p)
	if !ok || option.ReportMissing(p, names, 1) {
		return 1
	}
	mode, ok := nodeMode(p, opts)
	if !ok {
		return 1
	}
	code := 0
	for _, name := range names {
		if !makeFIFO(p, name, mode) {
			code = 1
		}
	}
	return code
}

// nodeMode returns the mode of -m, or nil.
func nodeMode(p *kernel.Proc, opts []option.Setting) (*filemode.Change, bool) {
	var mode *filemode.Change
	for _, o := range opts {
		if o.Key != 'm' {
			continue
		}
		c, ok := filemode.ParseChange(o.Value)
		if !ok {
			p.Errorf("invalid mode")
			return nil, false
		}
		if c.Apply(0o666, false, p.Umask())&^0o777 != 0 {
			p.Errorf("mode must specify only file permission bits")
			return nil, false
		}
		mode = &c
	}
	return mode, true
}

func makeFIFO(p *kernel.Proc, name string, mode *filemode.Change) bool {
	err := p.Mkfifo(name, 0o666)
	if err != nil {
		if p.Name() == "mknod" {
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
		} else {
			p.Errorf("cannot create fifo %s: %s", quoting.QuoteName(name), program.Reason(err))
		}
		return false
	}
	if mode != nil {
		if err := p.Chmod(name, filemode.FromUnix(mode.Apply(0o666, false, p.Umask()))); err != nil {
			p.Errorf("cannot set permissions of %s: %s", quoting.QuoteName(name), program.Reason(err))
			return false
		}
	}
	return true
}

const mknodUsage = `Usage: mknod [OPTION]... NAME TYPE [MAJOR MINOR]
Create the special file NAME of the given TYPE.

  -m, --mode=MODE    set file permission bits to MODE, not a=rw - umask
  -Z, --context      (ignored)
      --help         display this help and exit

TYPE is p, a FIFO.  A sandbox refuses devices (b, c, u).
`

func runMknod(p *kernel.Proc) int {
	opts, names, ok := mkfifoOptions.Parse(p)
	if !ok {
		return 1
	}
	mode, ok := nodeMode(p, opts)
	if !ok {
		return 1
	}
	most := 4
	if len(names) == 0 || len(names) == 1 || names[1] != "" && names[1][0] == 'p' {
		most = 2
	}
	if len(names) == 2 && most == 4 {
		p.Errorf("missing operand after %s\nSpecial files require major and minor device numbers.", quoting.QuoteWord(names[1]))
		option.SuggestHelp(p)
		return 1
	}
	if option.ReportMissing(p, names, most) {
		return 1
	}
	if len(names) > most {
		p.Errorf("extra operand %s", quoting.QuoteWord(names[most]))
		if most == 2 && len(names) == 4 {
			_, _ = p.Stderr.WriteString("Fifos do not have major and minor device numbers.\n") // best effort
		}
		option.SuggestHelp(p)
		return 1
	}
	switch names[1] {
	case "p":
		return int(number.FromBool(!makeFIFO(p, names[0], mode)))
	case "b", "c", "u":
		p.Errorf("%s: Operation not permitted", quoting.QuoteNameIfNeeded(names[0]))
		return 1
	}
	p.Errorf("invalid device type %s", quoting.QuoteName(names[1]))
	option.SuggestHelp(p)
	return 1
}
