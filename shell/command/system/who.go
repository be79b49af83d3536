package system

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/datetime"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

func runWho(p *kernel.Proc) int {
	opts, _, ok := option.Parser{Options: []option.Option{
		{Short: 'b', Long: "boot"},
		{Short: 'q', Long: "count"},
		{Short: 'H', Long: "heading"},
		{Short: 'a', Long: "all"},
		{Short: 'm'},
		{Short: 'u', Long: "users"},
		{Short: 'r', Long: "runlevel"},
		{Short: 'T', Long: "mesg"},
		{Short: 's', Long: "short"},
		{Short: 'l', Long: "login"},
		{Short: 'd', Long: "dead"},
	}}.Parse(p)
	if !ok {
		return 1
	}
	out := p.Out()
	for _, o := range opts {
		switch o.Key {
		case 'b', 'a':
			_, _ = out.WriteString(datetime.Format(p, p.Kernel().BootTime().In(datetime.LocalZone(p)), "         system boot  %Y-%m-%d %H:%M\n")) // Flush reports the error
		case 'q':
			_, _ = out.WriteString("# users=0\n")
		case 'H':
			_, _ = out.WriteString("NAME     LINE         TIME             COMMENT\n")
		}
	}
	return 0
}

func runW(p *kernel.Proc) int {
	opts, _, ok := option.Parser{Options: []option.Option{{Short: 'h', Long: "no-header"}, {Short: 's', Long: "short"}, {Short: 'f', Long: "from"}, {Short: 'u', Long: "no-current"}, {Short: 'i', Long: "ip-addr"}}}.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if o.Key == 'h' {
			return 0
		}
	}
	up := p.Now().Sub(p.Kernel().BootTime())
	_, _ = p.Out().WriteString(uptimeLine(p, up) + "\nUSER     TTY      FROM             LOGIN@   IDLE   JCPU   PCPU WHAT\n") // Flush reports the error
	return 0
}
