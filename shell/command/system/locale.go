package system

import (
	"fmt"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const localeUsage = `Usage: locale [-a|-m]
  or:  locale [-k] NAME...
Print the locale or its keywords.

  -a, --all-locales  write names of available locales
  -m, --charmaps     write names of available charmaps
      --help         display this help and exit
`

var localeCategories = []string{
	"LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LC_MONETARY", "LC_MESSAGES", "LC_PAPER", "LC_NAME", "LC_ADDRESS", "LC_TELEPHONE",
	"LC_MEASUREMENT", "LC_IDENTIFICATION",
}

var localeWords = map[string]string{
	"charmap": "UTF-8", "decimal_point": ".", "thousands_sep": "", "yesexpr": "^[yY]", "noexpr": "^[nN]", "d_fmt": "%m/%d/%y", "t_fmt": "%H:%M:%S",
	"d_t_fmt": "%a %b %e %H:%M:%S %Y", "day": "Sunday;Monday;Tuesday;Wednesday;Thursday;Friday;Saturday", "abday": "Sun;Mon;Tue;Wed;Thu;Fri;Sat",
	"mon": "January;February;March;April;May;June;July;August;September;October;November;December", "abmon": "Jan;Feb;Mar;Apr;May;Jun;Jul;Aug;Sep;Oct;Nov;Dec",
}

func runLocale(p *kernel.Proc) int {
	opts, names, ok := option.Parser{Options: []option.Option{{Short: 'a', Long: "all-locales"}, {Short: 'm', Long: "charmaps"}, {Short: 'k', Long: "keyword-name"}, {Short: 'c', Long: "category-name"}, {Short: 'v', Long: "verbose"}}}.Parse(p)
	if !ok {
		return 1
	}
	keyed := false
	out := p.Out()
	for _, o := range opts {
		switch o.Key {
		case 'a':
			_, _ = out.WriteString("C\nC.utf8\nPOSIX\n") // Flush reports the error
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
			_, _ = p.Stderr.WriteString("locale: unknown name \"" + n + "\"\n") // best effort
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
	_, _ = fmt.Fprintf(out, "LANG=%s\nLANGUAGE=%s\n", lang, p.Getenv("LANGUAGE")) // Flush reports the error
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
