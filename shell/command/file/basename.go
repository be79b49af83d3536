package file

import (
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
)

const basenameUsage = `Usage: basename NAME [SUFFIX]
  or:  basename OPTION... NAME...
Print NAME with any leading directory components removed.
If specified, also remove a trailing SUFFIX.

  -a, --multiple       support multiple arguments and treat each as a NAME
  -s, --suffix=SUFFIX  remove a trailing SUFFIX; implies -a
  -z, --zero           end each output line with NUL, not newline
      --help           display this help and exit
`

var basenameOptions = option.Parser{StopAtOperand: true, Options: []option.Option{
	{Short: 'a', Long: "multiple"}, {Short: 's', Long: "suffix", Arg: option.Required}, {Short: 'z', Long: "zero"},
}}

func runBasename(p *kernel.Proc) int {
	opts, names, ok := basenameOptions.Parse(p)
	if !ok {
		return 1
	}
	many, suffix, eol := false, "", "\n"
	for _, o := range opts {
		switch o.Key {
		case 'a':
			many = true
		case 's':
			many, suffix = true, o.Value
		case 'z':
			eol = "\x00"
		}
	}
	if option.ReportMissing(p, names, 1) || !many && option.ReportExtra(p, names, 2) {
		return 1
	}
	if !many && len(names) == 2 {
		suffix, names = names[1], names[:1]
	}
	for _, name := range names {
		b := lastName(name)
		if rest, ok := strings.CutSuffix(b, suffix); ok && rest != "" && b != "/" {
			b = rest
		}
		_, _ = p.Out().WriteString(b + eol) // Flush reports the error
	}
	return 0
}

// lastName returns the last part of a path, or "/" for slashes alone.
func lastName(path string) string {
	trimmed := strings.TrimRight(path, "/")
	if trimmed == "" && path != "" {
		return "/"
	}
	return trimmed[strings.LastIndexByte(trimmed, '/')+1:]
}

const dirnameUsage = `Usage: dirname [OPTION] NAME...
Output each NAME with its last non-slash component and trailing slashes
removed; if NAME contains no /'s, output '.' (meaning the current directory).

  -z, --zero     end each output line with NUL, not newline
      --help     display this help and exit
`

var dirnameOptions = option.Parser{Options: []option.Option{{Short: 'z', Long: "zero"}}}

func runDirname(p *kernel.Proc) int {
	opts, names, ok := dirnameOptions.Parse(p)
	if !ok || option.ReportMissing(p, names, 1) {
		return 1
	}
	eol := "\n"
	if len(opts) > 0 {
		eol = "\x00"
	}
	for _, name := range names {
		_, _ = p.Out().WriteString(dirOf(name) + eol) // Flush reports the error
	}
	return 0
}

// dirOf returns a path without its last part, or "." if that was all.
func dirOf(path string) string {
	trimmed := strings.TrimRight(path, "/")
	i := strings.LastIndexByte(trimmed, '/')
	switch {
	case trimmed == "" && path != "":
		return "/"
	case i < 0:
		return "."
	}
	if dir := strings.TrimRight(trimmed[:i], "/"); dir != "" {
		return dir
	}
	return "/"
}
