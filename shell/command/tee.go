package command

import (
	"errors"
	"io"
	"os"

	"github.com/atoll-sandbox/atoll/internal/kernel"
	"github.com/atoll-sandbox/atoll/vfs"
)

const teeUsage = `Usage: tee [OPTION]... [FILE]...
Copy standard input to each FILE, and also to standard output.

  -a, --append              append to the given FILEs, do not overwrite
  -i, --ignore-interrupts   ignore interrupt signals
  -p                        operate in a more appropriate MODE with pipes
      --output-error[=MODE] set behavior on write error: warn, warn-nopipe,
                              exit, exit-nopipe
      --help                display this help and exit
`

// teeSink is a copy that is still written.
type teeSink struct {
	name string
	w    *kernel.Handle
}

var teeOptions = parsing{options: []option{
	{short: 'a', long: "append"}, {short: 'i', long: "ignore-interrupts"}, {short: 'p'}, {long: "output-error", arg: optional, id: 'o'},
}}

var teeModes = []choice{{"warn", 1}, {"warn-nopipe", 2}, {"exit", 3}, {"exit-nopipe", 4}}

func tee(p *kernel.Proc) int {
	opts, names, ok := teeOptions.parse(p)
	if !ok {
		return 1
	}
	flag, mode := os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0
	for _, o := range opts {
		switch o.key {
		case 'a':
			flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		case 'i':
			p.SetSignal(kernel.SIGINT, kernel.Ignore)
		case 'p':
			mode = 2
		case 'o':
			mode = 2
			if o.has {
				mode, ok = choose(p, "--output-error", o.value, teeModes)
			}
		}
		if !ok {
			return 1
		}
	}
	if mode > 0 {
		p.SetSignal(kernel.SIGPIPE, kernel.Ignore)
	}
	sinks := []teeSink{{"standard output", p.Stdout}}
	code := 0
	for _, n := range names {
		h, err := p.OpenFile(n, flag, 0o666)
		if err != nil {
			p.Errorf("%s: %s", quotef(n), why(err))
			code = 1
			if mode >= 3 {
				return 1
			}
			continue
		}
		sinks = append(sinks, teeSink{quotef(n), h})
	}
	return max(code, teeCopy(p, sinks, mode))
}

// teeCopy copies until the input or the last sink is gone.
func teeCopy(p *kernel.Proc, sinks []teeSink, mode int) int {
	b := chunks.Get().(*[chunk]byte)
	defer chunks.Put(b)
	code := 0
	for len(sinks) > 0 {
		n, err := p.Stdin.Read(b[:])
		for i := 0; n > 0 && i < len(sinks); i++ {
			_, werr := sinks[i].w.Write(b[:n])
			if werr == nil {
				continue
			}
			loud := !errors.Is(werr, vfs.EPIPE) || mode == 1 || mode == 3
			if loud {
				p.Errorf("%s: %s", sinks[i].name, why(werr))
				code = 1
			}
			if loud && mode >= 3 {
				return 1
			}
			sinks = append(sinks[:i], sinks[i+1:]...)
			i--
		}
		switch {
		case errors.Is(err, io.EOF):
			return code
		case err != nil:
			p.Errorf("read error: %s", why(err))
			return 1
		}
	}
	return code
}
