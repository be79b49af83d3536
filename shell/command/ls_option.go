package command

import (
	"strconv"
)

var lsOptions = parsing{options: []option{
	{short: 'a', long: "all"},
	{short: 'b', long: "escape"},
	{short: 'd', long: "directory"},
	{short: 'D', long: "dired"},
	{long: "full-time", id: 1},
	{long: "group-directories-first", id: 2},
	{short: 'h', long: "human-readable"},
	{short: 'i', long: "inode"},
	{short: 'k', long: "kibibytes"},
	{short: 'n', long: "numeric-uid-gid"},
	{short: 'G', long: "no-group"},
	{short: 'q', long: "hide-control-chars"},
	{short: 'r', long: "reverse"},
	{short: 's', long: "size"},
	{short: 'w', long: "width", arg: required},
	{short: 'A', long: "almost-all"},
	{short: 'B', long: "ignore-backups"},
	{long: "classify", arg: optional, id: 'F'},
	{short: 'F'},
	{long: "file-type", id: 3},
	{long: "si", id: 4},
	{long: "dereference-command-line", short: 'H'},
	{long: "dereference-command-line-symlink-to-dir", id: 5},
	{short: 'I', long: "ignore", arg: required},
	{long: "indicator-style", arg: required, id: 6},
	{long: "hide", arg: required, id: 7},
	{short: 'L', long: "dereference"},
	{short: 'N', long: "literal"},
	{short: 'Q', long: "quote-name"},
	{long: "quoting-style", arg: required, id: 8},
	{short: 'R', long: "recursive"},
	{long: "format", arg: required, id: 9},
	{long: "show-control-chars", id: 10},
	{long: "sort", arg: required, id: 11},
	{short: 'T', long: "tabsize", arg: required},
	{long: "time", arg: required, id: 12},
	{long: "time-style", arg: required, id: 13},
	{long: "zero", id: 14},
	{long: "color", arg: optional, id: 15},
	{long: "hyperlink", arg: optional, id: 16},
	{long: "block-size", arg: required, id: 17},
	{short: 'Z', long: "context", id: 16},
	{long: "author", id: 18},
	{short: 'c'},
	{short: 'f'},
	{short: 'g'},
	{short: 'l'},
	{short: 'm'},
	{short: 'o'},
	{short: 'p'},
	{short: 't'},
	{short: 'u'},
	{short: 'v'},
	{short: 'x'},
	{short: 'C'},
	{short: 'S'},
	{short: 'U'},
	{short: 'X'},
	{short: '1'},
}}

// option applies one option; the result is the exit status where it fails.
func (l *lister) option(o given) int {
	switch o.key {
	case 'a':
		l.hidden = lsAll
	case 'A':
		l.hidden = lsAlmost
	case 'b':
		l.quoting = quoteEscape
	case 'N':
		l.quoting = quoteLiteral
	case 'Q':
		l.quoting = quoteC
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
		l.ignore = append(l.ignore, o.value)
	case 7:
		l.hide = append(l.hide, o.value)
	case 18:
		l.author = true
	default:
		return l.layoutOption(o)
	}
	return 0
}

// layoutOption applies what says how entries are laid out and sorted.
func (l *lister) layoutOption(o given) int {
	switch o.key {
	case 'l', 'g', 'n', 'o', 1:
		l.format = lsLong
		l.noOwner = l.noOwner || o.key == 'g'
		l.noGroup = l.noGroup || o.key == 'o'
		l.numeric = l.numeric || o.key == 'n'
		if o.key == 1 {
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
		l.quoting, l.color = quoteLiteral, false
	case 'C':
		l.format = lsColumns
	case 'x':
		l.format = lsAcross
	case 'm':
		l.format = lsCommas
	case 'c', 'u':
		l.time, l.timeGiven = lsCtime, true
		if o.key == 'u' {
			l.time = lsAtime
		}
	case 'f':
		l.hidden, l.sort, l.sortGiven = lsAll, lsUnsorted, true
		l.blocks, l.color = false, false
		if l.format == lsLong {
			l.format = lsOne
		}
	case 't', 'S', 'U', 'X', 'v':
		l.sort = map[rune]lsSort{'t': lsByTime, 'S': lsBySize, 'U': lsUnsorted, 'X': lsByExtension, 'v': lsByVersion}[o.key]
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
	lsWhen     = []choice{{"always", 1}, {"yes", 1}, {"force", 1}, {"never", 0}, {"no", 0}, {"none", 0}, {"auto", 2}, {"tty", 2}, {"if-tty", 2}}
	lsSorts    = []choice{{"none", int(lsUnsorted)}, {"time", int(lsByTime)}, {"size", int(lsBySize)}, {"extension", int(lsByExtension)}, {"version", int(lsByVersion)}, {"width", int(lsByWidth)}}
	lsTimes    = []choice{{"atime", int(lsAtime)}, {"access", int(lsAtime)}, {"use", int(lsAtime)}, {"ctime", int(lsCtime)}, {"status", int(lsCtime)}, {"birth", int(lsBirth)}, {"creation", int(lsBirth)}}
	lsFormats  = []choice{{"verbose", int(lsLong)}, {"long", int(lsLong)}, {"commas", int(lsCommas)}, {"horizontal", int(lsAcross)}, {"across", int(lsAcross)}, {"vertical", int(lsColumns)}, {"single-column", int(lsOne)}}
	lsMarks    = []choice{{"none", int(lsNoMark)}, {"slash", int(lsSlash)}, {"file-type", int(lsFileType)}, {"classify", int(lsClassify)}}
	lsEachTime = []choice{{"full-iso", 0}, {"long-iso", 1}, {"iso", 2}, {"locale", 3}}
)

// wants reports whether a WHEN of lsWhen is now.
func (l *lister) wants(when int) bool { return when == 1 || when == 2 && l.p.Stdout.IsTerminal() }

// wordOption applies options that take a word or a number.
func (l *lister) wordOption(o given) int {
	v, ok := 1, true
	pick := func(name string, list []choice) {
		if o.has {
			v, ok = choose(l.p, name, o.value, list)
		}
	}
	switch o.key {
	case 'F':
		if pick("--classify", lsWhen); ok && l.wants(v) {
			l.mark = lsClassify
		}
	case 15:
		pick("--color", lsWhen)
		l.color = l.wants(v)
	case 16:
	case 6:
		pick("--indicator-style", lsMarks)
		l.mark = lsIndicator(v)
	case 8:
		pick("--quoting-style", quotings)
		l.quoting = quoting(v)
	case 9:
		pick("--format", lsFormats)
		l.format = lsFormat(v)
	case 11:
		pick("--sort", lsSorts)
		l.sort, l.sortGiven = lsSort(v), true
	case 12:
		if o.value == "mtime" || o.value == "modification" {
			l.time, l.timeGiven = lsMtime, true
			return 0
		}
		pick("--time", lsTimes)
		l.time, l.timeGiven = lsTime(v), true
	case 13:
		l.timeStyle = o.value
		ok = l.checkTimeStyle()
	case 'w', 'T':
		return l.numberOption(o)
	case 17:
		return l.blockOption(o)
	}
	switch {
	case ok:
		return 0
	case o.key == 13:
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
		if c.word == style {
			l.timeStyle = style
			return true
		}
	}
	l.p.Errorf("invalid argument %s for %s\nValid arguments are:\n  - [posix-]full-iso\n  - [posix-]long-iso\n  - [posix-]iso\n  - [posix-]locale\n  - +FORMAT (e.g., +%%H:%%M) for a 'date'-style format",
		cite(style), cite("time style"))
	tryHelp(l.p)
	return false
}

func (l *lister) numberOption(o given) int {
	n, fault := parseSize(o.value, "")
	what := "line width"
	if o.key == 'T' {
		what = "tab size"
	}
	if fault == sizeBad || n < 0 {
		l.p.Errorf("invalid %s: %s", what, cite(o.value))
		return 2
	}
	if o.key == 'T' {
		l.tab = int(min(n, 1<<20))
	} else {
		l.width = int(min(n, 1<<30))
	}
	return 0
}

func (l *lister) blockOption(o given) int {
	switch o.value {
	case "human-readable":
		l.human = 1024
		return 0
	case "si":
		l.human = 1000
		return 0
	}
	n, fault := parseSize(o.value, "eEgGkKmMpPtTyYzZ0")
	if fault == sizeBad || n == 0 {
		l.p.Errorf("invalid --block-size argument %s", cite(o.value))
		return 2
	}
	l.blockSize, l.sizeUnit, l.human, l.suffix = n, n, 0, unitSuffix(o.value)
	return 0
}

// blockCount writes a number of blocks of 512 bytes in the unit asked for.
func (l *lister) blockCount(n int64) string {
	if l.human != 0 {
		return humanSize(n*512, l.human)
	}
	return strconv.FormatInt(inUnits(n*512, l.blockSize), 10) + l.suffix
}
