package shell_test

import (
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/unix/kernel"
	"github.com/atoll-sandbox/atoll/shell"
)

// expand runs a script with a hostile text in $T, under small limits.
func expand(t *testing.T, script, text string) {
	t.Helper()
	if strings.IndexByte(text, 0) >= 0 || len(text) > 1000 {
		return
	}
	s := newShell(options{limits: kernel.Limits{Memory: 8 << 20, Steps: 1 << 20}})
	defer s.Close()
	in := "IFS= read -rd '' T\nT=${T%?}\n" + script
	var res shell.Result
	mustFinish(t, "the script", func() {
		res, _ = s.Execute(t.Context(), in, shell.IO{Stdin: strings.NewReader(text + "."), Timeout: time.Second})
	})
	if res.ExitCode == 134 || strings.Contains(string(res.Stderr), "internal error") {
		t.Errorf("%q: %s", text, res.Stderr)
	}
}

func FuzzArith(f *testing.F) {
	for _, s := range []string{"1+2*3", "x=5,x++ + ++x", "a[i]++", "2**63-1", "1?2:3", "16#ff<<3", "x/0", "a[a[0]]=x", "-9223372036854775808%-1", "T", "$T"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		expand(t, `echo $((T)); echo "$((${T:-1}))"; ((T)); let "$T"; declare -i n=$T; [[ $T -eq 1 ]]; echo ${a[$T]}; echo ${T:T:T}`, s)
	})
}

func FuzzExpansion(f *testing.F) {
	for _, s := range []string{"${x:-y}", "$((1+1))", "a b*c", "{a,b}{1..3}", "~root", "${T@Q}", "%d%s\\n", "[[:alpha:]]", "a[1]", "@(a|b)", "`echo`", "&\\&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		expand(t, `shopt -s extglob; set -- $T "$T"; echo ${T#$T} ${T//$T/$T} ${T^^$T} ${T@E} ${T@P} "${!T}"; printf "$T" "$T" 2; printf '%q %b\n' "$T" "$T"
eval "x=$T" 2>/dev/null; [[ $T == $T ]]; [[ $T =~ $T ]]; test $T; declare "$T=$T"; read "$T" <<< "$T"; unset "$T"; declare -n r="$T"; echo $r; eval "echo $T"`, s)
	})
}
