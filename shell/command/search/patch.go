package search

import (
	"strconv"
	"strings"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell/command/internal/option"
	"github.com/atoll-sandbox/atoll/shell/command/internal/stream"
	"github.com/atoll-sandbox/atoll/shell/command/program"
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

// patchStyle holds the options of patch.
type patchStyle struct {
	strip    int // leading components of names to drop; -1: all but the last
	fuzz     int
	spaces   bool // ignore amounts of white space
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

var patchOptions = option.Parser{Options: []option.Option{
	{Short: 'p', Long: "strip", Arg: option.Required},
	{Short: 'F', Long: "fuzz", Arg: option.Required},
	{Short: 'l', Long: "ignore-whitespace"},
	{Short: 'c', Long: "context"},
	{Short: 'n', Long: "normal"},
	{Short: 'u', Long: "unified"},
	{Short: 'N', Long: "forward"},
	{Short: 'R', Long: "reverse"},
	{Short: 'i', Long: "input", Arg: option.Required},
	{Short: 'o', Long: "output", Arg: option.Required},
	{Short: 'r', Long: "reject-file", Arg: option.Required},
	{Short: 'E', Long: "remove-empty-files"},
	{Short: 'Z', Long: "set-utc"},
	{Short: 'T', Long: "set-time"},
	{Short: 'b', Long: "backup"},
	{Long: "backup-if-mismatch", ID: patchBackup},
	{Long: "no-backup-if-mismatch", ID: patchNoBackup},
	{Short: 'V', Long: "version-control", Arg: option.Required},
	{Short: 'B', Long: "prefix", Arg: option.Required},
	{Short: 'Y', Long: "basename-prefix", Arg: option.Required},
	{Short: 'z', Long: "suffix", Arg: option.Required},
	{Short: 't', Long: "batch"},
	{Short: 'f', Long: "force"},
	{Short: 's', Long: "quiet"},
	{Long: "silent", ID: 's'},
	{Long: "verbose", ID: patchVerbose},
	{Long: "dry-run", ID: patchDry},
	{Long: "posix", ID: patchPosix},
	{Short: 'd', Long: "directory", Arg: option.Required},
	{Long: "reject-format", Arg: option.Required, ID: patchRejectFormat},
	{Long: "binary", ID: patchBinary},
	{Short: 'v', Long: "version"},
}}

// patchRun is the state of one run of patch.
type patchRun struct {
	patchStyle
	p       *kernel.Proc
	input   string
	dir     string
	target  string // file to patch, if named as an operand
	status  int
	stopped bool
	made    map[string]bool // files already written: they have their backup
}

func runPatch(p *kernel.Proc) int {
	r := &patchRun{p: p, patchStyle: patchStyle{strip: -1, fuzz: 2, suffix: ".orig", mismatch: true}, made: map[string]bool{}}
	opts, operands, ok := patchOptions.Parse(p)
	if !ok {
		return diffTrouble
	}
	for _, o := range opts {
		if o.Key == 'v' {
			_, _ = p.Out().WriteString("GNU patch 2.7.6, as atoll understands it\n") // Flush reports the error
			return 0
		}
		if !r.applyOption(o) {
			return diffTrouble
		}
	}
	if len(operands) > 2 {
		p.Errorf("%s: extra operand", operands[2])
		suggestDiffHelp(p)
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

func (r *patchRun) applyOption(o option.Setting) bool {
	switch o.Key {
	case 'p', 'F':
		n, err := strconv.Atoi(o.Value)
		if err != nil || n < 0 {
			what := map[rune]string{'p': "strip count", 'F': "fuzz factor"}[o.Key]
			r.p.Errorf("**** %s %s is not a number", what, o.Value)
			return false
		}
		if o.Key == 'p' {
			r.strip = n
		} else {
			r.fuzz = n
		}
	case 'i':
		r.input = o.Value
	case 'o':
		r.output = o.Value
	case 'r':
		r.rejects = o.Value
	case 'd':
		r.dir = o.Value
	case 'V':
		r.numbered, r.backup = o.Value, true
	case 'B':
		r.prefix = o.Value
	case 'Y':
		r.base = o.Value
	case 'z':
		r.suffix = o.Value
	case patchRejectFormat:
		if o.Value != "context" && o.Value != "unified" {
			suggestDiffHelp(r.p)
			return false
		}
		r.unified = map[string]int{"context": -1, "unified": 1}[o.Value]
	default:
		r.applyFlag(o.Key)
	}
	return true
}

func (r *patchRun) applyFlag(key rune) {
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

func (r *patchRun) printMessage(s string) {
	if r.output == "-" && !r.silent {
		_, _ = r.p.Stderr.WriteString(s) // best effort
		return
	}
	if !r.silent {
		_, _ = r.p.Out().WriteString(s) // Flush reports the error
	}
}

// stopWithError reports why patch can't continue and stops it.
func (r *patchRun) stopWithError(what string) {
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
				r.announceFile(file)
			}
			r.stopWithError(err)
			break
		}
		if file == nil {
			break
		}
		some = true
		r.applyPatch(file)
		r.p.Free(file.cost)
	}
	if !some && !r.stopped && len(data) > 0 {
		r.stopWithError("Only garbage was found in the patch input.")
	}
	return r.status
}

// read changes to the directory of -d and reads the patch.
func (r *patchRun) read() ([]byte, bool) {
	in := r.p.Stdin
	if r.dir != "" {
		if err := r.p.Chdir(r.dir); err != nil {
			r.stopWithError("Can't change to directory " + r.dir + " : " + program.Reason(err))
			return nil, false
		}
	}
	if r.input != "" && r.input != "-" {
		h, err := stream.Open(r.p, r.input)
		if err != nil {
			r.stopWithError("Can't open patch file " + r.input + " : " + program.Reason(err))
			return nil, false
		}
		defer stream.Close(h)
		in = h
	}
	data, err := r.p.ReadAll(in)
	if err != nil {
		r.stopWithError("read error : " + program.Reason(err))
		return nil, false
	}
	return data, true
}

// announceFile prints the name of the current file.
func (r *patchRun) announceFile(f *patchFile) {
	if name := r.chooseFile(f); name != "" {
		verb := "patching"
		if r.dry {
			verb = "checking"
		}
		r.printMessage(verb + " file " + shellWord(strings.TrimPrefix(name, "./")) + "\n")
	}
}
