package shell

// optSet holds the options of set -o.
type optSet uint32

// The options of set -o, in the order of their names.
const (
	optAllexport optSet = 1 << iota
	optBraceexpand
	optEmacs
	optErrexit
	optErrtrace
	optFunctrace
	optHashall
	optHistexpand
	optHistory
	optIgnoreeof
	optInteractiveComments
	optKeyword
	optMonitor
	optNoclobber
	optNoexec
	optNoglob
	optNolog
	optNotify
	optNounset
	optOnecmd
	optPhysical
	optPipefail
	optPosix
	optPrivileged
	optVerbose
	optVi
	optXtrace
)

// defaultOpts are the initial options of a non-interactive shell.
const defaultOpts = optBraceexpand | optHashall | optInteractiveComments

// shoptSet holds the options of shopt.
type shoptSet uint64

// The options of shopt, in the order of their names.
const (
	shAutocd shoptSet = 1 << iota
	shAssocExpandOnce
	shCdableVars
	shCdspell
	shCheckhash
	shCheckjobs
	shCheckwinsize
	shCmdhist
	shCompat31
	shCompat32
	shCompat40
	shCompat41
	shCompat42
	shCompat43
	shCompat44
	shCompleteFullquote
	shDirexpand
	shDirspell
	shDotglob
	shExecfail
	shExpandAliases
	shExtdebug
	shExtglob
	shExtquote
	shFailglob
	shForceFignore
	shGlobasciiranges
	shGlobskipdots
	shGlobstar
	shGnuErrfmt
	shHistappend
	shHistreedit
	shHistverify
	shHostcomplete
	shHuponexit
	shInheritErrexit
	shInteractiveComments
	shLastpipe
	shLithist
	shLocalvarInherit
	shLocalvarUnset
	shLoginShell
	shMailwarn
	shNoEmptyCmdCompletion
	shNocaseglob
	shNocasematch
	shNoexpandTranslation
	shNullglob
	shPatsubReplacement
	shProgcomp
	shProgcompAlias
	shPromptvars
	shRestrictedShell
	shShiftVerbose
	shSourcepath
	shVarredirClose
	shXpgEcho
)

// defaultShopts are the initial shopt options.
const defaultShopts = shCheckwinsize | shCmdhist | shCompleteFullquote | shExtquote | shForceFignore |
	shGlobasciiranges | shGlobskipdots | shHostcomplete | shInteractiveComments | shPatsubReplacement |
	shProgcomp | shPromptvars | shSourcepath

// optOn reports whether an option of set -o is on.
func (in *interp) optOn(o optSet) bool { return in.opts&o != 0 }

// shoptOn reports whether an option of shopt is on.
func (in *interp) shoptOn(o shoptSet) bool { return in.shopts&o != 0 }
