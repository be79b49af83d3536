package system

import (
	"fmt"
	"sort"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const getconfUsage = `Usage: getconf [-v specification] variable_name [pathname]
  or:  getconf -a [pathname]
Print a limit of the system.

      --help  display this help and exit
`

var confValues = map[string]string{
	"ARG_MAX": "2097152", "PATH_MAX": "4096", "NAME_MAX": "255", "LINK_MAX": "127", "PIPE_BUF": "4096", "OPEN_MAX": "256", "PAGE_SIZE": "4096",
	"PAGESIZE": "4096", "CLK_TCK": "100", "LONG_BIT": "64", "WORD_BIT": "32", "CHAR_BIT": "8", "INT_MAX": "2147483647", "INT_MIN": "-2147483648",
	"UINT_MAX": "4294967295", "CHAR_MAX": "127", "CHAR_MIN": "-128", "SHRT_MAX": "32767", "SHRT_MIN": "-32768", "LONG_MAX": "9223372036854775807",
	"LONG_MIN": "-9223372036854775808", "ULONG_MAX": "18446744073709551615", "UCHAR_MAX": "255", "USHRT_MAX": "65535", "SSIZE_MAX": "32767", "SIZE_MAX": "18446744073709551615",
	"_NPROCESSORS_ONLN": "1", "_NPROCESSORS_CONF": "1", "HOST_NAME_MAX": "64", "LOGIN_NAME_MAX": "256", "LINE_MAX": "2048", "NGROUPS_MAX": "65536",
	"SYMLOOP_MAX": "40", "CHILD_MAX": "256", "RE_DUP_MAX": "32767", "BC_DIM_MAX": "2048", "BC_SCALE_MAX": "99", "BC_STRING_MAX": "1000", "BC_BASE_MAX": "99",
	"EXPR_NEST_MAX": "32", "POSIX_VERSION": "200809", "_POSIX_VERSION": "200809", "PATH": "/bin:/usr/bin", "_POSIX_PATH_MAX": "256", "_POSIX_NAME_MAX": "14", "FILESIZEBITS": "64", "GNU_LIBC_VERSION": "glibc 2.36", "TZNAME_MAX": "undefined", "STREAM_MAX": "16",
}

func runGetconf(p *kernel.Proc) int {
	opts, args, ok := option.Parser{StopAtOperand: true, Options: []option.Option{{Short: 'a'}, {Short: 'v', Arg: option.Required}}}.Parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if o.Key == 'a' {
			var names []string
			for n := range confValues {
				names = append(names, n)
			}
			sort.Strings(names)
			for _, n := range names {
				_, _ = fmt.Fprintf(p.Out(), "%-34s %s\n", n, confValues[n]) // Flush reports the error
			}
			return 0
		}
	}
	if len(args) == 0 || len(args) > 2 {
		_, _ = p.Stderr.WriteString("Usage: getconf [-v specification] variable_name [pathname]\n       getconf -a [pathname]\n") // best effort
		return 2
	}
	v, known := confValues[args[0]]
	if !known {
		p.Errorf("Unrecognized variable `%s'", args[0])
		return 2
	}
	_, _ = p.Out().WriteString(v + "\n")
	return 0
}
