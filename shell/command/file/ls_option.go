package file

import (
	"strconv"

	"github.com/atoll-sandbox/atoll/shell/command/internal/number"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/quoting"
)

var lsOptions = option.Parser{Options: []option.Option{
	{Short: 'a', Long: "all"},
	{Short: 'b', Long: "escape"},
	{Short: 'd', Long: "directory"},
	{Short: 'D', Long: "dired"},
	{Long: "full-time", ID: 1},
	{Long: "group-directories-first", ID: 2},
	{Short: 'h', Long: "human-readable"},
	{Short: 'i', Long: "inode"},
	{Short: 'k', Long: "kibibytes"},
	{Short: 'n', Long: "numeric-uid-gid"},
	{Short: 'G', Long: "no-group"},
	{Short: 'q', Long: "hide-control-chars"},
	{Short: 'r', Long: "reverse"},
	{Short: 's', Long: "size"},
	{Short: 'w', Long: "width", Arg: option.Required},
	{Short: 'A', Long: "almost-all"},
	{Short: 'B', Long: "ignore-backups"},
	{Long: "classify", Arg: option.Optional, ID: 'F'},
	{Short: 'F'},
	{Long: "file-type", ID: 3},
	{Long: "si", ID: 4},
	{Long: "dereference-command-line", Short: 'H'},
	{Long: "dereference-command-line-symlink-to-dir", ID: 5},
	{Short: 'I', Long: "ignore", Arg: option.Required},
	{Long: "indicator-style", Arg: option.Required, ID: 6},
	{Long: "hide", Arg: option.Required, ID: 7},
	{Short: 'L', Long: "dereference"},
	{Short: 'N', Long: "literal"},
	{Short: 'Q', Long: "quote-name"},
	{Long: "quoting-style", Arg: option.Required, ID: 8},
	{Short: 'R', Long: "recursive"},
	{Long: "format", Arg: option.Required, ID: 9},
	{Long: "show-control-chars", ID: 10},
	{Long: "sort", Arg: option.Required, ID: 11},
	{Short: 'T', Long: "tabsize", Arg: option.Required},
	{Long: "time", Arg: option.Required, ID: 12},
	{Long: "time-style", Arg: option.Required, ID: 13},
	{Long: "zero", ID: 14},
	{Long: "color", Arg: option.Optional, ID: 15},
	{Long: "hyperlink", Arg: option.Optional, ID: 16},
	{Long: "block-size", Arg: option.Required, ID: 17},
	{Short: 'Z', Long: "context", ID: 16},
	{Long: "author", ID: 18},
	{Short: 'c'},
	{Short: 'f'},
	{Short: 'g'},
	{Short: 'l'},
	{Short: 'm'},
	{Short: 'o'},
	{Short: 'p'},
	{Short: 't'},
	{Short: 'u'},
	{Short: 'v'},
	{Short: 'x'},
	{Short: 'C'},
	{Short: 'S'},
	{Short: 'U'},
	{Short: 'X'},
	{Short: '1'},
}}

// applyOption applies one option. It returns an exit status, 0 for success.
func (l *lister) applyOption(o option.Setting) int {
	switch o.Key {
	case 'a':
		l.hidden = lsAll
	case 'A':
		l.hidden = lsAlmost
	case 'b':
		l.quoting = quoting.Escape
	case 'N':
		l.quoting = quoting.Literal
	case 'Q':
		l.quoting = quoting.C
	case 'q':
		l.question = true
	case 10:
		l.question = false
	case 'd':
		l.directory = true
	case 2:
		l.dirsFirst = true
	case 'i':
		l.inode = true
	case 's':
		l.blocks = true
	case 'r':
		l.reverse = true
	case 'R':
		l.recursive = true
	case 'H':
		l.follow = 'H'
	case 'L':
		l.follow = 'L'
	case 5:
		l.follow = 'D'
	case 'B':
		l.ignore = append(l.ignore, "*~", ".*~")
	case 'I':
		l.ignore = append(l.ignore, o.Value)
	case 7:
		l.hide = append(l.hide, o.Value)
	case 18:
		l.author = true
	default:
		return l.layoutOption(o)
	}
	return 0
}

// layoutOption applies the options for layout and order.
func (l *lister) layoutOption(o option.Setting) int {
	switch o.Key {
	case 'l', 'g', 'n', 'o', 1:
		l.format = lsLong
		l.noOwner = l.noOwner || o.Key == 'g'
		l.noGroup = l.noGroup || o.Key == 'o'
		l.numeric = l.numeric || o.Key == 'n'
		if o.Key == 1 {
			l.timeStyle = "full-iso"
		}
	case 'G':
		l.noGroup = true
	case '1':
		if l.format != lsLong {
			l.format = lsOne
		}
	case 14:
		l.eol = 0
		if l.format != lsLong {
			l.format = lsOne
		}
		l.quoting, l.color = quoting.Literal, false
	case 'C':
		l.format = lsColumns
	case 'x':
		l.format = lsAcross
	case 'm':
		l.format = lsCommas
	case 'c', 'u':
		l.time, l.timeGiven = lsCtime, true
		if o.Key == 'u' {
			l.time = lsAtime
		}
	case 'f':
		l.hidden, l.sort, l.sortGiven = lsAll, lsUnsorted, true
		l.blocks, l.color = false, false
		if l.format == lsLong {
			l.format = lsOne
		}
	case 't', 'S', 'U', 'X', 'v':
		l.sort = map[rune]lsSort{'t': lsByTime, 'S': lsBySize, 'U': lsUnsorted, 'X': lsByExtension, 'v': lsByVersion}[o.Key]
		l.sortGiven = true
	case 'p':
		l.mark = lsSlash
	case 3:
		l.mark = lsFileType
	case 'h':
		l.human = 1024
	case 4:
		l.human = 1000
	case 'k':
		l.blockSize = 1024
	default:
		return l.wordOption(o)
	}
	return 0
}

var (
	lsWhen     = []option.Choice{{Word: "always", Value: 1}, {Word: "yes", Value: 1}, {Word: "force", Value: 1}, {Word: "never", Value: 0}, {Word: "no", Value: 0}, {Word: "none", Value: 0}, {Word: "auto", Value: 2}, {Word: "tty", Value: 2}, {Word: "if-tty", Value: 2}}
	lsSorts    = []option.Choice{{Word: "none", Value: int(lsUnsorted)}, {Word: "time", Value: int(lsByTime)}, {Word: "size", Value: int(lsBySize)}, {Word: "extension", Value: int(lsByExtension)}, {Word: "version", Value: int(lsByVersion)}, {Word: "width", Value: int(lsByWidth)}}
	lsTimes    = []option.Choice{{Word: "atime", Value: int(lsAtime)}, {Word: "access", Value: int(lsAtime)}, {Word: "use", Value: int(lsAtime)}, {Word: "ctime", Value: int(lsCtime)}, {Word: "status", Value: int(lsCtime)}, {Word: "birth", Value: int(lsBirth)}, {Word: "creation", Value: int(lsBirth)}}
	lsFormats  = []option.Choice{{Word: "verbose", Value: int(lsLong)}, {Word: "long", Value: int(lsLong)}, {Word: "commas", Value: int(lsCommas)}, {Word: "horizontal", Value: int(lsAcross)}, {Word: "across", Value: int(lsAcross)}, {Word: "vertical", Value: int(lsColumns)}, {Word: "single-column", Value: int(lsOne)}}
	lsMarks    = []option.Choice{{Word: "none", Value: int(lsNoMark)}, {Word: "slash", Value: int(lsSlash)}, {Word: "file-type", Value: int(lsFileType)}, {Word: "classify", Value: int(lsClassify)}}
	lsEachTime = []option.Choice{{Word: "full-iso", Value: 0}, {Word: "long-iso", Value: 1}, {Word: "iso", Value: 2}, {Word: "locale", Value: 3}}
)

// isWhenNow reports whether a WHEN of lsWhen applies to standard output.
func (l *lister) isWhenNow(when int) bool { return when == 1 || when == 2 && l.p.Stdout.IsTerminal() }

// wordOption applies the options with a word or a number.
func (l *lister) wordOption(o option.Setting) int {
	v, ok := 1, true
	pick := func(name string, list []option.Choice) {
		if o.HasValue {
			v, ok = option.Choose(l.p, name, o.Value, list)
		}
	}
	switch o.Key {
	case 'F':
		if pick("--classify", lsWhen); ok && l.isWhenNow(v) {
			l.mark = lsClassify
		}
	case 15:
		pick("--color", lsWhen)
		l.color = l.isWhenNow(v)
	case 16:
	case 6:
		pick("--indicator-style", lsMarks)
		l.mark = lsIndicator(v)
	case 8:
		pick("--quoting-style", option.QuotingStyles)
		l.quoting = quoting.Style(v)
	case 9:
		pick("--format", lsFormats)
		l.format = lsFormat(v)
	case 11:
		pick("--sort", lsSorts)
		l.sort, l.sortGiven = lsSort(v), true
	case 12:
		if o.Value == "mtime" || o.Value == "modification" {
			l.time, l.timeGiven = lsMtime, true
			return 0
		}
		pick("--time", lsTimes)
		l.time, l.timeGiven = lsTime(v), true
	case 13:
		l.timeStyle = o.Value
		ok = l.checkTimeStyle()
	case 'w', 'T':
		return l.numberOption(o)
	case 17:
		return l.blockOption(o)
	}
	switch {
	case ok:
		return 0
	case o.Key == 13:
		return 2
	}
	return 1
}

func (l *lister) checkTimeStyle() bool {
	style := l.timeStyle
	if len(style) > 6 && style[:6] == "posix-" {
		style = style[6:]
	}
	if style != "" && style[0] == '+' {
		return true
	}
	for _, c := range lsEachTime {
		if c.Word == style {
			l.timeStyle = style
			return true
		}
	}
	l.p.Errorf("invalid argument %s for %s\nValid arguments are:\n  - [posix-]full-iso\n  - [posix-]long-iso\n  - [posix-]iso\n  - [posix-]locale\n  - +FORMAT (e.g., +%%H:%%M) for a 'date'-style format",
		quoting.QuoteWord(style), quoting.QuoteWord("time style"))
	option.SuggestHelp(l.p)
	return false
}

func (l *lister) numberOption(o option.Setting) int {
	n, fault := number.ParseSize(o.Value, "")
	what := "line width"
	if o.Key == 'T' {
		what = "tab size"
	}
	if fault == number.Invalid || n < 0 {
		l.p.Errorf("invalid %s: %s", what, quoting.QuoteWord(o.Value))
		return 2
	}
	if o.Key == 'T' {
		l.tab = int(min(n, 1<<20))
	} else {
		l.width = int(min(n, 1<<30))
	}
	return 0
}

func (l *lister) blockOption(o option.Setting) int {
	switch o.Value {
	case "human-readable":
		l.human = 1024
		return 0
	case "si":
		l.human = 1000
		return 0
	}
	n, fault := number.ParseSize(o.Value, "eEgGkKmMpPtTyYzZ0")
	if fault == number.Invalid || n == 0 {
		l.p.Errorf("invalid --block-size argument %s", quoting.QuoteWord(o.Value))
		return 2
	}
	l.blockSize, l.sizeUnit, l.human, l.suffix = n, n, 0, number.UnitSuffix(o.Value)
	return 0
}

// blockCount formats a number of blocks of 512 bytes in the chosen unit.
func (l *lister) blockCount(n int64) string {
	if l.human != 0 {
		return number.FormatHuman(n*512, l.human)
	}
	return strconv.FormatInt(number.DivideUp(n*512, l.blockSize), 10) + l.suffix
}
