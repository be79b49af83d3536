package command

import (
	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const mkfifoUsage = `Usage: mkfifo [OPTION]... NAME...
Create named pipes (FIFOs) with the given NAMEs.

  -m, --mode=MODE    set file permission bits to MODE, not a=rw - umask
  -Z, --context      (ignored)
      --help         display this help and exit
`

var mkfifoOptions = parsing{options: []option{{short: 'm', long: "mode", arg: required}, {short: 'Z'}, {long: "context", arg: optional, id: 'Z'}}}

func mkfifo(p *kernel.Proc) int {
	opts, names, ok := mkfifoOptions.parse(p)
	if !ok || missing(p, names, 1) {
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

// nodeMode returns what -m asks for, or nil.
func nodeMode(p *kernel.Proc, opts []given) (*modeChange, bool) {
	var mode *modeChange
	for _, o := range opts {
		if o.key != 'm' {
			continue
		}
		c, ok := parseMode(o.value)
		if !ok {
			p.Errorf("invalid mode")
			return nil, false
		}
		if c.apply(0o666, false, p.Umask())&^0o777 != 0 {
			p.Errorf("mode must specify only file permission bits")
			return nil, false
		}
		mode = &c
	}
	return mode, true
}

func makeFIFO(p *kernel.Proc, name string, mode *modeChange) bool {
	err := p.Mkfifo(name, 0o666)
	if err != nil {
		if p.Name() == "mknod" {
			p.Errorf("%s: %s", quotef(name), why(err))
		} else {
			p.Errorf("cannot create fifo %s: %s", quote(name), why(err))
		}
		return false
	}
	if mode != nil {
		if err := p.Chmod(name, permMode(mode.apply(0o666, false, p.Umask()))); err != nil {
			p.Errorf("cannot set permissions of %s: %s", quote(name), why(err))
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

func mknod(p *kernel.Proc) int {
	opts, names, ok := mkfifoOptions.parse(p)
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
		p.Errorf("missing operand after %s\nSpecial files require major and minor device numbers.", cite(names[1]))
		tryHelp(p)
		return 1
	}
	if missing(p, names, most) {
		return 1
	}
	if len(names) > most {
		p.Errorf("extra operand %s", cite(names[most]))
		if most == 2 && len(names) == 4 {
			_, _ = p.Stderr.WriteString("Fifos do not have major and minor device numbers.\n") // nobody to tell
		}
		tryHelp(p)
		return 1
	}
	switch names[1] {
	case "p":
		return int(b2i(!makeFIFO(p, names[0], mode)))
	case "b", "c", "u":
		p.Errorf("%s: Operation not permitted", quotef(names[0]))
		return 1
	}
	p.Errorf("invalid device type %s", quote(names[1]))
	tryHelp(p)
	return 1
}
