package shell_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
)

// hostile are scripts that want more than they may have. Each has to end by
// itself or at the deadline, and must leave the session working.
var hostile = map[string]string{
	"fork bomb":           `:(){ :|:& };:`,
	"fork bomb wait":      `f() { f & f & wait; }; f`,
	"recursion":           `f() { f; }; f`,
	"recursion subshell":  `f() { (f); }; f`,
	"recursion subst":     `f() { x=$(f); }; f`,
	"recursion pipe":      `f() { f | f; }; f`,
	"recursion eval":      `e='eval "$e"'; eval "$e"`,
	"recursion source":    `echo '. ./s' > s; . ./s`,
	"recursion script":    `echo 'bash s' > s; bash s`,
	"recursion exec":      `printf '#!/bin/bash\nexec ./s\n' > s; chmod +x s; ./s`,
	"recursion shebang":   `printf '#!/tmp/s\n' > s; chmod +x s; ./s`,
	"recursion trap":      `trap 'kill -USR1 $$' USR1; kill -USR1 $$`,
	"recursion debug":     `trap 'f' DEBUG; f() { f; }; set -T; f`,
	"recursion err":       `trap 'false' ERR; set -E; f() { false; f; }; f`,
	"recursion exit":      `trap 'exit' EXIT; exit`,
	"recursion alias":     "shopt -s expand_aliases\nalias a='b b' b='a a'\na",
	"recursion handle":    `command_not_found_handle() { nosuchcommand; }; nosuchcommand`,
	"recursion procsub":   `f() { cat <(f); }; f`,
	"recursion arith":     `x=y; y=x; echo $((x))`,
	"recursion nameref":   `declare -n a=b; declare -n b=a; echo $a; a=1`,
	"endless while":       `while :; do :; done`,
	"endless for":         `for ((;;)); do :; done`,
	"endless until":       `until false; do :; done`,
	"endless cond":        `while [[ a ]]; do :; done`,
	"endless arith":       `while ((1)); do ((1)); done`,
	"endless read":        `while read x; do :; done < /dev/zero`,
	"read zero":           `read x < /dev/zero`,
	"mapfile zero":        `mapfile x < /dev/zero`,
	"subst zero":          `x=$(cat /dev/zero)`,
	"subst yes":           `x=$(yes)`,
	"subst file zero":     `x=$(</dev/zero)`,
	"pipe yes":            `yes | cat | cat > /dev/null`,
	"yes to full quota":   `yes > f`,
	"yes":                 `yes`,
	"echo loop":           `while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done`,
	"doubling string":     `x=x; while :; do x=$x$x; done`,
	"growing string":      `while :; do x+=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done`,
	"growing array":       `while :; do a+=(xxxxxxxxxxxxxxxxxxx yyyyyyyyyyyyyyyyyyyy); done`,
	"growing hash":        `i=0; declare -A m; while :; do m[k$i]=$i; ((i++)); done`,
	"sparse array":        `a[9223372036854775806]=1; a+=(2); echo ${#a[@]}`,
	"growing functions":   `i=0; while :; do eval "f$i() { echo a; echo b; }"; ((i++)); done`,
	"growing aliases":     `i=0; while :; do alias a$i=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; ((i++)); done`,
	"growing params":      `while :; do set -- "$@" xxxxxxxxxxxxxxxxxx "$@"; done`,
	"growing dirs":        `while :; do pushd -n /tmp/xxxxxxxxxxxxxxxxxxxxxxxxxxx >/dev/null; done`,
	"growing history":     `while :; do history -s xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done`,
	"growing descriptors": `while :; do exec {fd}< /dev/null || break; done`,
	"growing traps":       `while :; do trap "$x" USR1; x+=xxxxxxxxxxxxxxxxxxxxxxxxxx; done`,
	"growing hash table":  `i=0; while :; do hash -p /bin/cat c$i; ((i++)); done`,
	"growing scopes":      `f() { local x$1=xxxxxxxxxxxxxxxxxxxxxxx; f $(($1+1)); }; f 1`,
	"braces":              `echo {1..100000000}`,
	"nested braces":       `echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}`,
	"printf width":        `printf '%1000000000d' 1`,
	"printf v":            `printf -v x '%*d' 1000000000 1`,
	"replace":             `x=$(printf '%1000s' a); for i in 1 2 3 4 5 6 7 8 9; do x=${x// /$x}; done`,
	"pattern":             `shopt -s extglob; x=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab; case $x in *(*(a)*(a)*(a))c) ;; esac`,
	"glob":                `shopt -s globstar; while :; do echo /**/*/**/* > /dev/null; done`,
	"regex":               `x=$(printf '%5000s' a); [[ $x =~ (\ *)*(\ *)*(\ *)*b ]]`,
	"heredoc loop":        `while :; do cat <<< "xxxxxxxxxxxxxxxxxxxxx" > /dev/null; done`,
	"background forever":  `while :; do sleep 1000 & done`,
	"sleepers":            `sleep 1000 & sleep 1000 & wait`,
	"fifo":                `mkfifo p; cat p`,
	"fifo both":           `mkfifo p; cat p & cat > p`,
	"coproc":              `while :; do coproc cat; done 2>/dev/null`,
	"coproc deadlock":     `coproc cat; read x <&${COPROC[0]}`,
	"ignore all":          `for i in $(kill -l 2>/dev/null) INT TERM HUP; do trap '' $i; done 2>/dev/null; while :; do :; done`,
	"stop self":           `kill -STOP $$`,
	"many pipes":          `eval "$(printf 'cat | %.0s' $(for ((i=0;i<400;i++)); do echo x; done)) cat" < /dev/null`,
	"parens":              "eval \"$(printf '(%.0s' $(for ((i=0;i<100000;i++)); do echo x; done))\"",
	"self pipe":           `exec 3<> <(:); cat <&3`,
	"wait self":           `wait $$; wait -n; sleep 0 & wait -n; :`,
	"select":              `select x in a b; do :; done < /dev/zero`,
	"time loop":           `time while :; do :; done`,
	"getopts loop":        `while getopts a x -a -a -a; do OPTIND=1; done`,
	"exec redirect loop":  `while :; do exec > /dev/null 2>&1; done`,
	"suspend job":         `sleep 100 & kill -STOP $!; wait`,
	"PS4":                 `PS4='$(set -x; :)'; set -x; :`,
	"PROMPT":              `x='${x@P}'; echo "${x@P}"`,
	"compgen":             `f() { compgen -F f x; }; f`,
	"mapfile callback":    `f() { mapfile -C f -c 1 a <<< "1"; }; f`,
	"fc":                  `history -s 'fc -s'; fc -s`,
	"syntax bomb":         `x='$('; for ((i=0;i<15;i++)); do x=$x$x; done; eval "echo $x"`,
}

func TestHostileScriptsTerminate(t *testing.T) {
	for name, script := range hostile {
		t.Run(name, func(t *testing.T) {
			const deadline = 300 * time.Millisecond
			s := newShell(options{limits: kernel.Limits{Memory: 32 << 20}})
			defer s.Close()
			var before, after runtime.MemStats
			var err error
			grown := int64(math.MaxInt64)
			for range 10 { // the garbage collector may be late under load, but not each time
				runtime.GC()
				runtime.ReadMemStats(&before)
				mustFinish(t, "a command past its deadline", func() {
					_, err = s.Execute(t.Context(), script, shell.IO{Timeout: deadline, Output: 1 << 20})
				})
				runtime.ReadMemStats(&after)
				grown = min(grown, int64(after.HeapAlloc)-int64(before.HeapAlloc))
				if grown <= 256<<20 {
					break
				}
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			if grown > 256<<20 {
				t.Errorf("heap grew by %d MiB", grown>>20)
			}
			res, err := s.Execute(t.Context(), "trap - DEBUG; set +x; unset -f command_not_found_handle; echo alive", shell.IO{Timeout: 5 * time.Second})
			if !strings.Contains(string(res.Stdout), "alive") {
				t.Errorf("the session died: %v %q %d", err, res.Stderr, res.ExitCode)
			}
		})
	}
}

// TestMemoryIsCharged lets a session fill its memory in each of the ways
// there are: the limit has to end it, and giving it back has to count.
func TestMemoryIsCharged(t *testing.T) {
	for name, script := range map[string]string{
		"string":    `while :; do x+=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done`,
		"array":     `while :; do a+=(xxxxxxxxxxxxxxxxxxx); done`,
		"hash":      `i=0; declare -A m; while :; do m[k$i]=$i; ((i++)); done`,
		"functions": `i=0; while :; do eval "f$i() { echo a; echo b; }"; ((i++)); done`,
		"aliases":   `x=$(printf '%1000s' a); i=0; while :; do alias a$i="$x"; ((i++)); done`,
		"params":    `while :; do set -- "$@" xxxxxxxxxxxxxxxxxx "$@"; done`,
		"specs":     `x=$(printf '%1000s' a); i=0; while :; do complete -W "$x" a$i; ((i++)); done`,
		"traps":     `x=xxxxxxxxxxxxxxxx; while :; do for s in HUP USR1 USR2 WINCH ALRM; do trap "$x" $s; done; x=$x$x; done`,
		"variables": `i=0; while :; do declare v$i=x; ((i++)); done`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(options{limits: kernel.Limits{Memory: 8 << 20}})
			defer s.Close()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			res, err := s.Execute(t.Context(), script, shell.IO{Timeout: 60 * time.Second})
			if err != nil || res.Signal != 9 {
				t.Errorf("signal %d, %v", res.Signal, err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 32<<20 {
				t.Errorf("the session holds %d MiB", kept>>20)
			}
			wantOut(t, s, "unset x a m; for f in $(compgen -A function); do unset -f $f; done; unalias -a; set --; complete -r; echo ok", "ok\n")
		})
	}
}

// TestSubstitutionIsWholeOrEndsTheShell: a shell without memory for the output of a command does not go
// on with a part of it.
func TestSubstitutionIsWholeOrEndsTheShell(t *testing.T) {
	for name, script := range map[string]string{
		"Pipeline":  `x=$(large | cat); echo "${#x}"`,
		"Subshell":  `x=$( (large | cat); echo end); echo "${#x}"`,
		"Argument":  `f() { echo $#; }; f "$(large)"`,
		"Builtins":  `x=$(while :; do printf '%1000s' x; done); echo "${#x}"`,
		"Programs":  `x=$(while :; do env printf '%10000s' x; done); echo "${#x}"`,
		"Condition": `x=$(large) || echo "${#x}"; echo "${#x}"`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(options{limits: kernel.Limits{Memory: 32 << 20}})
			defer s.Close()
			wantOut(t, s, `large() { for i in 1 2 3; do printf '%4000000s' x; done; }; a=$(large); echo "${#a}"`, "12000000\n")
			res, err := s.Execute(t.Context(), script, shell.IO{Timeout: 60 * time.Second})
			if err != nil || res.Signal != 9 || len(res.Stdout) > 0 || !strings.Contains(string(res.Stderr), "sh: memory limit of 32 MiB exceeded\n") {
				t.Errorf("signal %d, %v, %q, %.300q", res.Signal, err, res.Stdout, res.Stderr)
			}
			wantOut(t, s, `echo "${#a}"`, "12000000\n")
		})
	}
}

func TestChargesAreReleased(t *testing.T) {
	s := newShell(options{limits: kernel.Limits{Memory: 4 << 20}})
	defer s.Close()
	run(t, s, `for ((i=0;i<20000;i++)); do f() { echo a; echo b; }; unset -f f; alias a=xxxxxxxxx; unalias a; set -- a b c d $i; trap "echo $i" EXIT USR1; history -s "line $i"; g() { set -- x y; }; g q; complete -W 'a b' c; complete -r c; done`)
	wantOut(t, s, "echo ok", "ok\n")
}

func TestPanicOfProgramSetsStatus(t *testing.T) {
	s := newShell(options{})
	defer s.Close()
	wantOut(t, s, "boom 2>/dev/null; echo $?; echo x | boom 2>/dev/null; echo $?", "134\n134\n")
}
