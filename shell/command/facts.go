package command

import (
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const (
	getconfUsage = `Usage: getconf [-v specification] variable_name [pathname]
  or:  getconf -a [pathname]
Print a limit of the system.

      --help  display this help and exit
`
	localeUsage = `Usage: locale [-a|-m]
  or:  locale [-k] NAME...
Print the locale, or what it has to say.

  -a, --all-locales  write names of available locales
  -m, --charmaps     write names of available charmaps
      --help         display this help and exit
`
	manUsage = `Usage: man [OPTION]... [SECTION] PAGE...
Print what the --help of a command prints: a sandbox has no manual.

  -f, -k         list the commands whose name or purpose holds a word
      --help     display this help and exit
`
	syncUsage = `Usage: sync [OPTION] [FILE]...
Synchronize cached writes to persistent storage: nothing to do here.

  -d, --data         sync only file data
  -f, --file-system  sync the file systems that contain the files
      --help         display this help and exit
`
	uuidgenUsage = `Usage: uuidgen [options]
Create a new UUID value.

  -r, --random   generate random-based uuid (the default)
  -t, --time     generate time-based uuid
  -C, --count NUM  generate more uuids in loop
      --help     display this help and exit
`
	mcookieUsage = `Usage: mcookie [options]
Generate a random cookie of 32 hexadecimal digits.

  -f, --file FILE      ignored: there is enough randomness
  -m, --max-size NUM   ignored
  -v, --verbose        ignored
      --help           display this help and exit
`
)

var confValues = map[string]string{
	"ARG_MAX": "2097152", "PATH_MAX": "4096", "NAME_MAX": "255", "LINK_MAX": "127", "PIPE_BUF": "4096", "OPEN_MAX": "256", "PAGE_SIZE": "4096",
	"PAGESIZE": "4096", "CLK_TCK": "100", "LONG_BIT": "64", "WORD_BIT": "32", "CHAR_BIT": "8", "INT_MAX": "2147483647", "INT_MIN": "-2147483648",
	"UINT_MAX": "4294967295", "CHAR_MAX": "127", "CHAR_MIN": "-128", "SHRT_MAX": "32767", "SHRT_MIN": "-32768", "LONG_MAX": "9223372036854775807",
	"LONG_MIN": "-9223372036854775808", "ULONG_MAX": "18446744073709551615", "UCHAR_MAX": "255", "USHRT_MAX": "65535", "SSIZE_MAX": "32767", "SIZE_MAX": "18446744073709551615",
	"_NPROCESSORS_ONLN": "1", "_NPROCESSORS_CONF": "1", "HOST_NAME_MAX": "64", "LOGIN_NAME_MAX": "256", "LINE_MAX": "2048", "NGROUPS_MAX": "65536",
	"SYMLOOP_MAX": "40", "CHILD_MAX": "256", "RE_DUP_MAX": "32767", "BC_DIM_MAX": "2048", "BC_SCALE_MAX": "99", "BC_STRING_MAX": "1000", "BC_BASE_MAX": "99",
	"EXPR_NEST_MAX": "32", "POSIX_VERSION": "200809", "_POSIX_VERSION": "200809", "PATH": "/bin:/usr/bin", "_POSIX_PATH_MAX": "256", "_POSIX_NAME_MAX": "14", "FILESIZEBITS": "64", "GNU_LIBC_VERSION": "glibc 2.36", "TZNAME_MAX": "undefined", "STREAM_MAX": "16",
}

func getconf(p *kernel.Proc) int {
	opts, args, ok := parsing{ordered: true, options: []option{{short: 'a'}, {short: 'v', arg: required}}}.parse(p)
	if !ok {
		return 1
	}
	for _, o := range opts {
		if o.key == 'a' {
			var names []string
			for n := range confValues {
				names = append(names, n)
			}
			sort.Strings(names)
			for _, n := range names {
				_, _ = fmt.Fprintf(p.Out(), "%-34s %s\n", n, confValues[n]) // shows at the flush
			}
			return 0
		}
	}
	if len(args) == 0 || len(args) > 2 {
		_, _ = p.Stderr.WriteString("Usage: getconf [-v specification] variable_name [pathname]\n       getconf -a [pathname]\n") // nobody to tell
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

var localeCategories = []string{
	"LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY", "LC_MESSAGES", "LC_PAPER", "LC_NAME", "LC_ADDRESS", "LC_TELEPHONE",
	"LC_MEASUREMENT", "LC_IDENTIFICATION",
}

var localeWords = map[string]string{
	"charmap": "UTF-8", "decimal_point": ".", "thousands_sep": "", "yesexpr": "^[yY]", "noexpr": "^[nN]", "d_fmt": "%m/%d/%y", "t_fmt": "%H:%M:%S",
	"d_t_fmt": "%a %b %e %H:%M:%S %Y", "day": "Sunday;Monday;Tuesday;Wednesday;Thursday;Friday;Saturday", "abday": "Sun;Mon;Tue;Wed;Thu;Fri;Sat",
	"mon": "January;February;March;April;May;June;July;August;September;October;November;December", "abmon": "Jan;Feb;Mar;Apr;May;Jun;Jul;Aug;Sep;Oct;Nov;Dec",
}

func locale(p *kernel.Proc) int {
	opts, names, ok := parsing{options: []option{{short: 'a', long: "all-locales"}, {short: 'm', long: "charmaps"}, {short: 'k', long: "keyword-name"}, {short: 'c', long: "category-name"}, {short: 'v', long: "verbose"}}}.parse(p)
	if !ok {
		return 1
	}
	keyed := false
	out := p.Out()
	for _, o := range opts {
		switch o.key {
		case 'a':
			_, _ = out.WriteString("C\nC.utf8\nPOSIX\n") // shows at the flush
			return 0
		case 'm':
			_, _ = out.WriteString("ANSI_X3.4-1968\nUTF-8\n")
			return 0
		case 'k':
			keyed = true
		}
	}
	if len(names) == 0 {
		printLocale(p)
		return 0
	}
	code := 0
	for _, n := range names {
		v, known := localeWords[n]
		switch {
		case !known:
			_, _ = p.Stderr.WriteString("locale: unknown name \"" + n + "\"\n") // nobody to tell
			code = 1
		case keyed:
			_, _ = fmt.Fprintf(out, "%s=%q\n", n, v)
		default:
			_, _ = out.WriteString(v + "\n")
		}
	}
	return code
}

func printLocale(p *kernel.Proc) {
	lang, all := p.Getenv("LANG"), p.Getenv("LC_ALL")
	out := p.Out()
	_, _ = fmt.Fprintf(out, "LANG=%s\nLANGUAGE=%s\n", lang, p.Getenv("LANGUAGE")) // shows at the flush
	if lang == "" {
		lang = "POSIX"
	}
	for _, c := range localeCategories {
		switch v := p.Getenv(c); {
		case all != "":
			_, _ = fmt.Fprintf(out, "%s=%q\n", c, all)
		case v != "":
			_, _ = fmt.Fprintf(out, "%s=%s\n", c, v)
		default:
			_, _ = fmt.Fprintf(out, "%s=%q\n", c, lang)
		}
	}
	_, _ = fmt.Fprintf(out, "LC_ALL=%s\n", all)
}

func man(p *kernel.Proc) int {
	opts, args, ok := parsing{ordered: true, options: []option{{short: 'f'}, {short: 'k'}, {short: 'a'}, {short: 'P', arg: required}, {short: 'w'}}}.parse(p)
	if !ok {
		return 2
	}
	if len(args) > 1 && strings.Trim(args[0], "0123456789npl") == "" {
		args = args[1:]
	}
	if len(args) == 0 {
		_, _ = p.Stderr.WriteString("What manual page do you want?\nFor example, try 'man man'.\n") // nobody to tell
		return 1
	}
	show := manPage
	if len(opts) > 0 {
		switch opts[0].key {
		case 'f':
			show = func(c Command, a string) string { return manLine(c, c.Name == a) }
		case 'k':
			show = func(c Command, a string) string { return manLine(c, strings.Contains(c.Name+" "+c.Short, a)) }
		}
	}
	code := 0
	for _, a := range args {
		text := ""
		for _, c := range All() {
			text += show(c, a)
		}
		_, _ = p.Out().WriteString(text) // shows at the flush
		if text == "" {
			_, _ = p.Stderr.WriteString("No manual entry for " + a + "\n")
			code = 16
		}
	}
	return code
}

// manPage returns what there is to read of a command that has that name.
func manPage(c Command, name string) string {
	if c.Name != name && !slices.Contains(c.Aliases, name) {
		return ""
	}
	return c.Name + " - " + c.Short + "\n\n" + c.help()
}

func manLine(c Command, hit bool) string {
	if !hit {
		return ""
	}
	return c.Name + " (1) - " + c.Short + "\n"
}

func syncFiles(p *kernel.Proc) int {
	opts, names, ok := parsing{options: []option{{short: 'd', long: "data"}, {short: 'f', long: "file-system"}}}.parse(p)
	if !ok {
		return 1
	}
	if len(opts) > 0 && opts[0].key == 'd' && len(names) == 0 {
		p.Errorf("--data needs at least one argument")
		return 1
	}
	code := 0
	for _, n := range names {
		if _, err := p.Stat(n); err != nil {
			p.Errorf("error opening %s: %s", quote(n), why(err))
			code = 1
		}
	}
	return code
}

func uuidgen(p *kernel.Proc) int {
	opts, _, ok := parsing{options: []option{{short: 'r', long: "random"}, {short: 't', long: "time"}, {short: 'C', long: "count", arg: required}}}.parse(p)
	if !ok {
		return 1
	}
	count, version := int64(1), byte(4)
	for _, o := range opts {
		switch o.key {
		case 't':
			version = 1
		case 'C':
			n, fault := parseSize(o.value, "")
			if fault != sizeFine {
				p.Errorf("Cannot parse count: %s", quote(o.value))
				return 1
			}
			count = n
		}
	}
	for range count {
		var b [16]byte
		p.Rand(b[:])
		if version == 1 {
			t := uint64(p.Now().UnixNano()/100) + 0x01b21dd213814000
			b[0], b[1], b[2], b[3] = byte(t>>24), byte(t>>16), byte(t>>8), byte(t)
			b[4], b[5], b[6], b[7] = byte(t>>40), byte(t>>32), byte(t>>56), byte(t>>48)
		}
		b[6] = b[6]&0x0f | version<<4
		b[8] = b[8]&0x3f | 0x80
		h := hex.EncodeToString(b[:])
		_, _ = p.Out().WriteString(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + "\n") // shows at the flush
		p.Tick(2)
	}
	return 0
}

func mcookie(p *kernel.Proc) int {
	_, _, ok := parsing{options: []option{{short: 'f', long: "file", arg: required}, {short: 'm', long: "max-size", arg: required}, {short: 'v', long: "verbose"}}}.parse(p)
	if !ok {
		return 1
	}
	var b [16]byte
	p.Rand(b[:])
	_, _ = p.Out().WriteString(hex.EncodeToString(b[:]) + "\n") // shows at the flush
	return 0
}
