package file

import (
	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
	"github.com/atoll-sandbox/atoll/shell/command/program"
	"github.com/atoll-sandbox/atoll/vfs"
)

const readlinkUsage = `Usage: readlink [OPTION]... FILE...
Print value of a symbolic link or canonical file name

  -f, --canonicalize            canonicalize by following every symlink in
                                every component of the given name recursively;
                                all but the last component must exist
  -e, --canonicalize-existing   canonicalize by following every symlink in
                                every component of the given name recursively,
                                all components must exist
  -m, --canonicalize-missing    canonicalize by following every symlink in
                                every component of the given name recursively,
                                without requirements on components existence
  -n, --no-newline              do not output the trailing delimiter
  -q, --quiet
  -s, --silent                  suppress most error messages (on by default)
  -v, --verbose                 report error messages
  -z, --zero                    end each output line with NUL, not newline
      --help                    display this help and exit
`

var readlinkOptions = option.Parser{Options: []option.Option{
	{Short: 'f', Long: "canonicalize"},
	{Short: 'e', Long: "canonicalize-existing"},
	{Short: 'm', Long: "canonicalize-missing"},
	{Short: 'n', Long: "no-newline"},
	{Short: 'q', Long: "quiet"},
	{Short: 's', Long: "silent"},
	{Short: 'v', Long: "verbose"},
	{Short: 'z', Long: "zero"},
}}

func runReadlink(p *kernel.Proc) int {
	opts, names, ok := readlinkOptions.Parse(p)
	if !ok || option.ReportMissing(p, names, 1) {
		return 1
	}
	c := canon{p: p}
	resolve, verbose, newline, eol := false, false, true, byte('\n')
	for _, o := range opts {
		switch o.Key {
		case 'f', 'e', 'm':
			resolve = true
			c.mode = map[rune]canonMode{'f': canonLast, 'e': canonAll, 'm': canonMissing}[o.Key]
		case 'n':
			newline = false
		case 'q', 's':
			verbose = false
		case 'v':
			verbose = true
		case 'z':
			eol = 0
		}
	}
	if !newline && len(names) > 1 {
		p.Errorf("ignoring --no-newline with multiple arguments")
		newline = true
	}
	code := 0
	for _, name := range names {
		read := p.Readlink
		if name == "" {
			read = func(string) (string, error) { return "", vfs.ENOENT }
		}
		if resolve {
			read = c.resolvePath
		}
		text, err := read(name)
		if err != nil {
			code = 1
			if verbose {
				p.Errorf("%s: %s", quoting.QuoteNameIfNeeded(name), program.Reason(err))
			}
			continue
		}
		_, _ = p.Out().WriteString(text) // Flush reports the error, here and below
		if newline {
			_ = p.Out().WriteByte(eol)
		}
	}
	return code
}
