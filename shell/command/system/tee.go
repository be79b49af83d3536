package system

import (
	"errors"
	"io"
	"os"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// teeSink is an output that has not failed.
type teeSink struct {
	name string
	w    *kernel.Handle
}

var teeOptions = option.Parser{Options: []option.Option{
	{Short: 'a', Long: "append"}, {Short: 'i', Long: "ignore-interrupts"}, {Short: 'p'}, {Long: "output-error", Arg: option.Optional, ID: 'o'},
}}

var teeModes = []option.Choice{{Word: "warn", Value: 1}, {Word: "warn-nopipe", Value: 2}, {Word: "exit", Value: 3}, {Word: "exit-nopipe", Value: 4}}

func runTee(p *kernel.Proc) int {
	opts, names, ok := teeOptions.Parse(p)
	if !ok {
		return 1
	}
	flag, mode := os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0
	for _, o := range opts {
		switch o.Key {
		case 'a':
			flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		case 'i':
			p.SetSignal(kernel.SIGINT, kernel.Ignore)
		case 'p':
			mode = 2
		case 'o':
			mode = 2
			if o.HasValue {
				mode, ok = option.Choose(p, "--output-error", o.Value, teeModes)
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
			p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(n), program.Reason(err))
			code = 1
			if mode >= 3 {
				return 1
			}
			continue
		}
		sinks = append(sinks, teeSink{quoting.QuoteNameIfNeeded(n), h})
	}
	return max(code, teeCopy(p, sinks, mode))
}

// teeCopy copies until the end of the input or the failure of the last sink.
func teeCopy(p *kernel.Proc, sinks []teeSink, mode int) int {
	b := stream.ChunkPool.Get().(*[stream.ChunkSize]byte)
	defer stream.ChunkPool.Put(b)
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
				p.Errorf("%s: %s", sinks[i].name, program.Reason(werr))
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
			p.Errorf("read error: %s", program.Reason(err))
			return 1
		}
	}
	return code
}
