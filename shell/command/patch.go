package command

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/kernel"
)

const patchUsage = `Usage: patch [OPTION]... [ORIGFILE [PATCHFILE]]

Input options:

  -p NUM  --strip=NUM  Strip NUM leading components from file names.
  -F LINES  --fuzz LINES  Set the fuzz factor to LINES for inexact matching.
  -l  --ignore-whitespace  Ignore white space changes between patch and input.

  -c  --context  Interpret the patch as a context difference.
  -n  --normal  Interpret the patch as a normal difference.
  -u  --unified  Interpret the patch as a unified difference.

  -N  --forward  Ignore patches that appear to be reversed or already applied.
  -R  --reverse  Assume patches were created with old and new files swapped.

  -i PATCHFILE  --input=PATCHFILE  Read patch from PATCHFILE instead of stdin.

Output options:

  -o FILE  --output=FILE  Output patched files to FILE.
  -r FILE  --reject-file=FILE  Output rejects to FILE.

  -E  --remove-empty-files  Remove output files that are empty after patching.

  -Z  --set-utc  Set times of patched files, assuming diff uses UTC (GMT).
  -T  --set-time  Likewise, assuming local time.


Backup and version control options:

  -b  --backup  Back up the original contents of each file.
  --backup-if-mismatch  Back up if the patch does not match exactly.
  --no-backup-if-mismatch  Back up mismatches only if otherwise requested.

  -V STYLE  --version-control=STYLE  Use STYLE version control.
	STYLE is either 'simple', 'numbered', or 'existing'.
  -B PREFIX  --prefix=PREFIX  Prepend PREFIX to backup file names.
  -Y PREFIX  --basename-prefix=PREFIX  Prepend PREFIX to backup file basenames.
  -z SUFFIX  --suffix=SUFFIX  Append SUFFIX to backup file names.


Miscellaneous options:

  -t  --batch  Ask no questions; skip bad-Prereq patches; assume reversed.
  -f  --force  Like -t, but ignore bad-Prereq patches, and assume unreversed.
  -s  --quiet  --silent  Work silently unless an error occurs.
  --verbose  Output extra information about the work being done.
  --dry-run  Do not actually change any files; just print what would happen.
  --posix  Conform to the POSIX standard.

  -d DIR  --directory=DIR  Change the working directory to DIR first.
  --reject-format=FORMAT  Create 'context' or 'unified' rejects.
  --binary  Read and write data in binary mode.

  -v  --version  Output version info.
  --help  Output this help.
`

// patchStyle is how patches are read and applied.
type patchStyle struct {
	strip    int // leading components of names to drop; -1: all but the last
	fuzz     int
	spaces   bool // amounts of white space don't count
	kind     patchKind
	forward  bool
	reverse  bool
	output   string
	rejects  string
	unified  int  // format of rejects: 1 unified, -1 context, 0 as the patch
	empty    bool // remove files that end up empty
	backup   bool
	mismatch bool // back up where a patch does not match exactly
	numbered string
	prefix   string
	base     string
	suffix   string
	batch    bool
	force    bool
	silent   bool
	verbose  bool
	dry      bool
	posix    bool
	setTime  bool
}

const (
	patchBackup rune = 256 + iota
	patchNoBackup
	patchVerbose
	patchDry
	patchPosix
	patchRejectFormat
	patchBinary
)

var patchOptions = parsing{options: []option{
	{short: 'p', long: "strip", arg: required},
	{short: 'F', long: "fuzz", arg: required},
	{short: 'l', long: "ignore-whitespace"},
	{short: 'c', long: "context"},
	{short: 'n', long: "normal"},
	{short: 'u', long: "unified"},
	{short: 'N', long: "forward"},
	{short: 'R', long: "reverse"},
	{short: 'i', long: "input", arg: required},
	{short: 'o', long: "output", arg: required},
	{short: 'r', long: "reject-file", arg: required},
	{short: 'E', long: "remove-empty-files"},
	{short: 'Z', long: "set-utc"},
	{short: 'T', long: "set-time"},
	{short: 'b', long: "backup"},
	{long: "backup-if-mismatch", id: patchBackup},
	{long: "no-backup-if-mismatch", id: patchNoBackup},
	{short: 'V', long: "version-control", arg: required},
	{short: 'B', long: "prefix", arg: required},
	{short: 'Y', long: "basename-prefix", arg: required},
	{short: 'z', long: "suffix", arg: required},
	{short: 't', long: "batch"},
	{short: 'f', long: "force"},
	{short: 's', long: "quiet"},
	{long: "silent", id: 's'},
	{long: "verbose", id: patchVerbose},
	{long: "dry-run", id: patchDry},
	{long: "posix", id: patchPosix},
	{short: 'd', long: "directory", arg: required},
	{long: "reject-format", arg: required, id: patchRejectFormat},
	{long: "binary", id: patchBinary},
	{short: 'v', long: "version"},
}}

// patchRun is one run of patch.
type patchRun struct {
	patchStyle
	p       *kernel.Proc
	input   string
	dir     string
	target  string // the file to patch, when it was named
	status  int
	stopped bool
	made    map[string]bool // files that were written, so that their backups stay the first ones
}

func patch(p *kernel.Proc) int {
	r := &patchRun{p: p, patchStyle: patchStyle{strip: -1, fuzz: 2, suffix: ".orig", mismatch: true}, made: map[string]bool{}}
	opts, operands, ok := patchOptions.parse(p)
	if !ok {
		return diffTrouble
	}
	for _, o := range opts {
		if o.key == 'v' {
			_, _ = p.Out().WriteString("GNU patch 2.7.6, as atoll understands it\n") // shows at the flush
			return 0
		}
		if !r.option(o) {
			return diffTrouble
		}
	}
	if len(operands) > 2 {
		p.Errorf("%s: extra operand", operands[2])
		diffTry(p)
		return diffTrouble
	}
	if len(operands) > 0 {
		r.target = operands[0]
	}
	if len(operands) > 1 && r.input == "" {
		r.input = operands[1]
	}
	return r.run()
}

func (r *patchRun) option(o given) bool {
	switch o.key {
	case 'p', 'F':
		n, err := strconv.Atoi(o.value)
		if err != nil || n < 0 {
			what := map[rune]string{'p': "strip count", 'F': "fuzz factor"}[o.key]
			r.p.Errorf("**** %s %s is not a number", what, o.value)
			return false
		}
		if o.key == 'p' {
			r.strip = n
		} else {
			r.fuzz = n
		}
	case 'i':
		r.input = o.value
	case 'o':
		r.output = o.value
	case 'r':
		r.rejects = o.value
	case 'd':
		r.dir = o.value
	case 'V':
		r.numbered, r.backup = o.value, true
	case 'B':
		r.prefix = o.value
	case 'Y':
		r.base = o.value
	case 'z':
		r.suffix = o.value
	case patchRejectFormat:
		if o.value != "context" && o.value != "unified" {
			diffTry(r.p)
			return false
		}
		r.unified = map[string]int{"context": -1, "unified": 1}[o.value]
	default:
		r.flag(o.key)
	}
	return true
}

func (r *patchRun) flag(key rune) {
	switch key {
	case 'l':
		r.spaces = true
	case 'c':
		r.kind = patchContext
	case 'n':
		r.kind = patchNormal
	case 'u':
		r.kind = patchUnified
	case 'N':
		r.forward = true
	case 'R':
		r.reverse = true
	case 'E':
		r.empty = true
	case 'Z', 'T':
		r.setTime = true
	case 'b':
		r.backup = true
	case patchBackup:
		r.mismatch = true
	case patchNoBackup:
		r.mismatch = false
	case 't':
		r.batch = true
	case 'f':
		r.force = true
	case 's':
		r.silent = true
	case patchVerbose:
		r.verbose = true
	case patchDry:
		r.dry = true
	case patchPosix:
		r.posix, r.mismatch = true, false
	}
}

func (r *patchRun) say(s string) {
	if r.output == "-" && !r.silent {
		_, _ = r.p.Stderr.WriteString(s) // nobody to tell
		return
	}
	if !r.silent {
		_, _ = r.p.Out().WriteString(s) // shows at the flush
	}
}

// fatal says why patch can't go on.
func (r *patchRun) fatal(what string) {
	r.p.Errorf("**** %s", what)
	r.status, r.stopped = diffTrouble, true
}

// run reads the patches and applies them one after the other.
func (r *patchRun) run() int {
	data, ok := r.read()
	if !ok {
		return r.status
	}
	in := newPatchReader(r.p, data, r.kind)
	some := false
	for !r.stopped {
		file, err := in.next()
		if err != "" {
			if file != nil {
				r.announce(file)
			}
			r.fatal(err)
			break
		}
		if file == nil {
			break
		}
		some = true
		r.apply(file)
		r.p.Free(file.cost)
	}
	if !some && !r.stopped && len(data) > 0 {
		r.fatal("Only garbage was found in the patch input.")
	}
	return r.status
}

// read reads the patch and goes to the directory that was asked for.
func (r *patchRun) read() ([]byte, bool) {
	in := r.p.Stdin
	if r.dir != "" {
		if err := r.p.Chdir(r.dir); err != nil {
			r.fatal("Can't change to directory " + r.dir + " : " + why(err))
			return nil, false
		}
	}
	if r.input != "" && r.input != "-" {
		h, err := open(r.p, r.input)
		if err != nil {
			r.fatal("Can't open patch file " + r.input + " : " + why(err))
			return nil, false
		}
		defer closeInput(h)
		in = h
	}
	data, err := r.p.ReadAll(in)
	if err != nil {
		r.fatal("read error : " + why(err))
		return nil, false
	}
	return data, true
}

// announce says which file is at hand.
func (r *patchRun) announce(f *patchFile) {
	if name := r.choose(f); name != "" {
		verb := "patching"
		if r.dry {
			verb = "checking"
		}
		r.say(verb + " file " + shellWord(strings.TrimPrefix(name, "./")) + "\n")
	}
}
