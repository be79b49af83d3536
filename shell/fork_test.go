package shell_test

import "testing"

// TestForksAreIsolated runs subshells beside their parent, all changing
// the same variables. It is worth most under the race detector.
func TestForksAreIsolated(t *testing.T) {
	script := `
x=0 a=(1 2 3) s=abc; declare -A h=([k]=v)
f() { local x=$1 i; for ((i=0;i<200;i++)); do x=$((x+1)) s+=z a+=($i) h[k$i]=$i; unset "a[$i]"; done; echo $x ${#a[@]} ${#h[@]} ${#s}; }
for n in 1 2 3 4; do f $n > out$n & done
for ((i=0;i<200;i++)); do x=$((x+1)); s+=y; a+=(q); h[p$i]=1; y=$(echo $x; x=5; a=(); echo ${#a[@]}); done
wait
cat out1 out2 out3 out4
echo $x ${#a[@]} ${#h[@]} ${#s}
for ((i=0;i<20;i++)); do echo $i; done | while read l; do x=$l; a[l]=$x; ( x=no ); echo -n "$x "; done; echo
( ( x=1; ( x=2; echo $x & wait ); echo $x ); echo $x )
echo ${#a[@]}`
	const want = `201 3 201 203
202 3 201 203
203 3 201 203
204 3 201 203
200 203 201 203
0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 
2
1
200
203
`
	out, errs, code := runInAtoll(t, script, "")
	if out != want || errs != "" || code != 0 {
		t.Errorf("status %d, errors %q, output:\n%s\nwant:\n%s", code, errs, out, want)
	}
}

// TestCompletionsOfASubshellAreItsOwn changes completion specifications in subshells: their parent, which
// may run at the same time, keeps its own.
func TestCompletionsOfASubshellAreItsOwn(t *testing.T) {
	out, errs, code := runInAtoll(t, `complete -W a x; (complete -W b x; complete -W c y; complete -r x); complete -p; complete -W d z & wait; complete -p`, "")
	if want := "complete -W 'a' x\ncomplete -W 'a' x\n"; out != want || errs != "" || code != 0 {
		t.Errorf("status %d, errors %q, output:\n%s\nwant:\n%s", code, errs, out, want)
	}
}
