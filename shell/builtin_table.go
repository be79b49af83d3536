package shell

import "sync"

// docTable is the table of builtins. It is created once and never changed.
type docTable struct {
	list []doc
	m    map[string]*doc
}

//nolint:gochecknoglobals // created at the first use: an initializer would refer to itself
var builtinTable struct {
	once sync.Once
	docTable
}

func builtinDocs() *docTable {
	builtinTable.once.Do(func() {
		builtinTable.list = append(shellDocs(), valueDocs()...)
		builtinTable.m = make(map[string]*doc, len(builtinTable.list))
		for i := range builtinTable.list {
			builtinTable.m[builtinTable.list[i].name] = &builtinTable.list[i]
		}
	})
	return &builtinTable.docTable
}

// shellDocs returns the builtins that control the shell.
func shellDocs() []doc {
	return []doc{
		{":", ":", "Null command.", true, bTrue},
		{".", ". filename [arguments]", "Execute commands from a file in the current shell.", true, bSource},
		{"source", "source filename [arguments]", "Execute commands from a file in the current shell.", true, bSource},
		{"alias", "alias [-p] [name[=value] ... ]", "Define or display aliases.", false, bAlias},
		{"bg", "bg [job_spec ...]", "Move jobs to the background.", false, bBg},
		{"bind", "bind [-lpsvPSVX] [-m keymap] [-f filename] [-q name] [-u name] [-r keyseq] [-x keyseq:shell-command] [keyseq:readline-function or readline-command]", "Set Readline key bindings and variables.", false, bBind},
		{"break", "break [n]", "Exit for, while, or until loops.", true, bBreak},
		{"builtin", "builtin [shell-builtin [arg ...]]", "Execute shell builtins.", false, bBuiltin},
		{"caller", "caller [expr]", "Return the context of the current subroutine call.", false, bCaller},
		{"cd", "cd [-L|[-P [-e]] [-@]] [dir]", "Change the shell working directory.", false, bCd},
		{"command", "command [-pVv] command [arg ...]", "Execute a simple command or display information about commands.", false, bCommand},
		{"compgen", "compgen [-abcdefgjksuv] [-o option] [-A action] [-G globpat] [-W wordlist] [-F function] [-C command] [-X filterpat] [-P prefix] [-S suffix] [word]", "Display possible completions depending on the options.", false, bCompgen},
		{"complete", "complete [-abcdefgjksuv] [-pr] [-DEI] [-o option] [-A action] [-G globpat] [-W wordlist] [-F function] [-C command] [-X filterpat] [-P prefix] [-S suffix] [name ...]", "Specify how arguments are to be completed by Readline.", false, bComplete},
		{"compopt", "compopt [-o|+o option] [-DEI] [name ...]", "Modify or display completion options.", false, bCompopt},
		{"continue", "continue [n]", "Resume for, while, or until loops.", true, bBreak},
		{"dirs", "dirs [-clpv] [+N] [-N]", "Display directory stack.", false, bDirs},
		{"disown", "disown [-h] [-ar] [jobspec ... | pid ...]", "Remove jobs from current shell.", false, bDisown},
		{"enable", "enable [-a] [-dnps] [-f filename] [name ...]", "Enable and disable shell builtins.", false, bEnable},
		{"eval", "eval [arg ...]", "Execute arguments as a shell command.", true, bEval},
		{"exec", "exec [-cl] [-a name] [command [argument ...]] [redirection ...]", "Replace the shell with the given command.", true, bExec},
		{"exit", "exit [n]", "Exit the shell.", true, bExit},
		{"false", "false", "Return an unsuccessful result.", false, bFalse},
		{"fc", "fc [-e ename] [-lnr] [first] [last] or fc -s [pat=rep] [command]", "Display or execute commands from the history list.", false, bFc},
		{"fg", "fg [job_spec]", "Move job to the foreground.", false, bFg},
		{"hash", "hash [-lr] [-p pathname] [-dt] [name ...]", "Remember or display program locations.", false, bHash},
		{"help", "help [-dms] [pattern ...]", "Display information about builtin commands.", false, bHelp},
		{"history", "history [-c] [-d offset] [n] or history -anrw [filename] or history -ps arg [arg...]", "Display or manipulate the history list.", false, bHistory},
		{"jobs", "jobs [-lnprs] [jobspec ...] or jobs -x command [args]", "Display status of jobs.", false, bJobs},
		{"kill", "kill [-s sigspec | -n signum | -sigspec] pid | jobspec ... or kill -l [sigspec]", "Send a signal to a job.", false, bKill},
		{"logout", "logout [n]", "Exit a login shell.", false, bLogout},
		{"popd", "popd [-n] [+N | -N]", "Remove directories from stack.", false, bPopd},
		{"pushd", "pushd [-n] [+N | -N | dir]", "Add directories to stack.", false, bPushd},
		{"pwd", "pwd [-LP]", "Print the name of the current working directory.", false, bPwd},
		{"return", "return [n]", "Return from a shell function.", true, bReturn},
		{"set", "set [-abefhkmnptuvxBCEHPT] [-o option-name] [--] [-] [arg ...]", "Set or unset values of shell options and positional parameters.", true, bSet},
		{"shift", "shift [n]", "Shift positional parameters.", true, bShift},
		{"shopt", "shopt [-pqsu] [-o] [optname ...]", "Set and unset shell options.", false, bShopt},
		{"suspend", "suspend [-f]", "Suspend shell execution.", false, bSuspend},
		{"times", "times", "Display process times.", true, bTimes},
		{"trap", "trap [-lp] [[arg] signal_spec ...]", "Trap signals and other events.", true, bTrap},
		{"true", "true", "Return a successful result.", false, bTrue},
		{"type", "type [-afptP] name [name ...]", "Display information about command type.", false, bType},
		{"ulimit", "ulimit [-SHabcdefiklmnpqrstuvxPRT] [limit]", "Modify shell resource limits.", false, bUlimit},
		{"umask", "umask [-p] [-S] [mode]", "Display or set file mode mask.", false, bUmask},
		{"unalias", "unalias [-a] name [name ...]", "Remove each NAME from the list of defined aliases.", false, bUnalias},
		{"wait", "wait [-fn] [-p var] [id ...]", "Wait for job completion and return exit status.", false, bWait},
	}
}

// valueDocs returns the builtins that work on values.
func valueDocs() []doc {
	return []doc{
		{"[", "[ arg... ]", "Evaluate conditional expression.", false, bTest},
		{"declare", "declare [-aAfFgiIlnrtux] [name[=value] ...] or declare -p [-aAfFilnrtux] [name ...]", "Set variable values and attributes.", false, bDeclare},
		{"echo", "echo [-neE] [arg ...]", "Write arguments to the standard output.", false, bEcho},
		{"export", "export [-fn] [name[=value] ...] or export -p", "Set export attribute for shell variables.", true, bExport},
		{"getopts", "getopts optstring name [arg ...]", "Parse option arguments.", false, bGetopts},
		{"let", "let arg [arg ...]", "Evaluate arithmetic expressions.", false, bLet},
		{"local", "local [option] name[=value] ...", "Define local variables.", false, bLocal},
		{"mapfile", "mapfile [-d delim] [-n count] [-O origin] [-s count] [-t] [-u fd] [-C callback] [-c quantum] [array]", "Read lines from the standard input into an indexed array variable.", false, bMapfile},
		{"printf", "printf [-v var] format [arguments]", "Formats and prints ARGUMENTS under control of the FORMAT.", false, bPrintf},
		{"read", "read [-ers] [-a array] [-d delim] [-i text] [-n nchars] [-N nchars] [-p prompt] [-t timeout] [-u fd] [name ...]", "Read a line from the standard input and split it into fields.", false, bRead},
		{"readarray", "readarray [-d delim] [-n count] [-O origin] [-s count] [-t] [-u fd] [-C callback] [-c quantum] [array]", "Read lines from a file into an array variable.", false, bMapfile},
		{"readonly", "readonly [-aAf] [name[=value] ...] or readonly -p", "Mark shell variables as unchangeable.", true, bReadonly},
		{"test", "test [expr]", "Evaluate conditional expression.", false, bTest},
		{"typeset", "typeset [-aAfFgiIlnrtux] name[=value] ... or typeset -p [-aAfFilnrtux] [name ...]", "Set variable values and attributes.", false, bDeclare},
		{"unset", "unset [-f] [-v] [-n] [name ...]", "Unset values and attributes of shell variables and functions.", true, bUnset},
	}
}
