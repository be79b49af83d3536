package command

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
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

// machine is the hardware that the sandbox says it is.
const machine = "x86_64"

var unameOptions = parsing{options: []option{
	{short: 'a', long: "all"},
	{short: 's', long: "kernel-name"},
	{long: "sysname", id: 's'},
	{short: 'n', long: "nodename"},
	{short: 'r', long: "kernel-release"},
	{long: "release", id: 'r'},
	{short: 'v', long: "kernel-version"},
	{short: 'm', long: "machine"},
	{short: 'p', long: "processor"},
	{short: 'i', long: "hardware-platform"},
	{short: 'o', long: "operating-system"},
}}

func uname(p *kernel.Proc) int {
	opts, args, ok := unameOptions.parse(p)
	if !ok || extra(p, args, 0) {
		return 1
	}
	want := ""
	for _, o := range opts {
		if o.key == 'a' {
			want += "snrvmo"
		}
		want += string(o.key)
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
	_, _ = p.Out().WriteString(strings.Join(list, " ") + "\n") // shows at the flush
	return 0
}

func arch(p *kernel.Proc) int {
	_, args, ok := plainOptions.parse(p)
	if !ok || extra(p, args, 0) {
		return 1
	}
	_, _ = p.Out().WriteString(machine + "\n") // shows at the flush
	return 0
}

func nproc(p *kernel.Proc) int {
	opts, args, ok := parsing{options: []option{{long: "all", id: 'a'}, {long: "ignore", arg: required, id: 'i'}}}.parse(p)
	if !ok || extra(p, args, 0) {
		return 1
	}
	for _, o := range opts {
		if _, err := strconv.ParseUint(o.value, 10, 64); o.key == 'i' && err != nil {
			p.Errorf("invalid number: %s", cite(o.value))
			return 1
		}
	}
	_, _ = p.Out().WriteString("1\n") // shows at the flush
	return 0
}

var hostnameOptions = parsing{options: []option{
	{short: 's', long: "short"},
	{short: 'f', long: "fqdn"},
	{long: "long", id: 'f'},
	{short: 'd', long: "domain"},
	{short: 'i', long: "ip-address"},
	{short: 'I', long: "all-ip-addresses"},
	{short: 'a', long: "alias"},
	{short: 'A', long: "all-fqdns"},
}}

func hostname(p *kernel.Proc) int {
	opts, args, ok := hostnameOptions.parse(p)
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
		switch o.key {
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
	_, _ = p.Out().WriteString(name + "\n") // shows at the flush
	return 0
}
