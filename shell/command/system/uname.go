package system

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

const (
	unameUsage = `Usage: uname [OPTION]...
Print certain system information.  With no OPTION, same as -s.

  -a, --all                print all information, in the following order
  -s, --kernel-name        print the kernel name
  -n, --nodename           print the network node hostname
  -r, --kernel-release     print the kernel release
  -v, --kernel-version     print the kernel version
  -m, --machine            print the machine hardware name
  -p, --processor          print the processor type
  -i, --hardware-platform  print the hardware platform
  -o, --operating-system   print the operating system
      --help               display this help and exit
`
	archUsage = `Usage: arch [OPTION]...
Print machine architecture.

      --help     display this help and exit
`
	nprocUsage = `Usage: nproc [OPTION]...
Print the number of processing units available to the current process.

      --all        print the number of installed processors
      --ignore=N   if possible, exclude N processing units
      --help       display this help and exit
`
	hostnameUsage = `Usage: hostname [OPTION]...
Print the name of the sandbox.

  -s, --short        the name up to the first dot
  -f, --fqdn, --long the whole name
  -d, --domain       the name after the first dot
  -i, --ip-address   the address that the name stands for
  -I, --all-ip-addresses
      --help         display this help and exit
`
)

// machine is the hardware name of the sandbox.
const machine = "x86_64"

var unameOptions = option.Parser{Options: []option.Option{
	{Short: 'a', Long: "all"},
	{Short: 's', Long: "kernel-name"},
	{Long: "sysname", ID: 's'},
	{Short: 'n', Long: "nodename"},
	{Short: 'r', Long: "kernel-release"},
	{Long: "release", ID: 'r'},
	{Short: 'v', Long: "kernel-version"},
	{Short: 'm', Long: "machine"},
	{Short: 'p', Long: "processor"},
	{Short: 'i', Long: "hardware-platform"},
	{Short: 'o', Long: "operating-system"},
}}

func runUname(p *kernel.Proc) int {
	opts, args, ok := unameOptions.Parse(p)
	if !ok || option.ReportExtra(p, args, 0) {
		return 1
	}
	want := ""
	for _, o := range opts {
		if o.Key == 'a' {
			want += "snrvmo"
		}
		want += string(o.Key)
	}
	if want == "" {
		want = "s"
	}
	var list []string
	for _, k := range "snrvmpio" {
		if !strings.ContainsRune(want, k) {
			continue
		}
		list = append(list, map[rune]string{
			's': "Linux", 'n': p.Kernel().Hostname(), 'r': "6.1.0-atoll", 'v': "#1 SMP", 'm': machine,
			'p': "unknown", 'i': "unknown", 'o': "GNU/Linux",
		}[k])
	}
	_, _ = p.Out().WriteString(strings.Join(list, " ") + "\n") // Flush reports the error
	return 0
}

func runArch(p *kernel.Proc) int {
	_, args, ok := option.NoOptions.Parse(p)
	if !ok || option.ReportExtra(p, args, 0) {
		return 1
	}
	_, _ = p.Out().WriteString(machine + "\n") // Flush reports the error
	return 0
}

func runNproc(p *kernel.Proc) int {
	opts, args, ok := option.Parser{Options: []option.Option{{Long: "all", ID: 'a'}, {Long: "ignore", Arg: option.Required, ID: 'i'}}}.Parse(p)
	if !ok || option.ReportExtra(p, args, 0) {
		return 1
	}
	for _, o := range opts {
		if _, err := strconv.ParseUint(o.Value, 10, 64); o.Key == 'i' && err != nil {
			p.Errorf("invalid number: %s", quoting.QuoteWord(o.Value))
			return 1
		}
	}
	_, _ = p.Out().WriteString("1\n") // Flush reports the error
	return 0
}

var hostnameOptions = option.Parser{Options: []option.Option{
	{Short: 's', Long: "short"},
	{Short: 'f', Long: "fqdn"},
	{Long: "long", ID: 'f'},
	{Short: 'd', Long: "domain"},
	{Short: 'i', Long: "ip-address"},
	{Short: 'I', Long: "all-ip-addresses"},
	{Short: 'a', Long: "alias"},
	{Short: 'A', Long: "all-fqdns"},
}}

func runHostname(p *kernel.Proc) int {
	opts, args, ok := hostnameOptions.Parse(p)
	if !ok {
		return 1
	}
	if len(args) > 0 {
		p.Errorf("you must be root to change the host name")
		return 1
	}
	name := p.Kernel().Hostname()
	short, domain, _ := strings.Cut(name, ".")
	for _, o := range opts {
		switch o.Key {
		case 's':
			name = short
		case 'd':
			name = domain
		case 'i', 'I':
			name = "127.0.0.1"
		case 'a':
			name = ""
		}
	}
	_, _ = p.Out().WriteString(name + "\n") // Flush reports the error
	return 0
}
