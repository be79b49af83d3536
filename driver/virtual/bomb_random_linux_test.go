package virtual_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-sandbox/atoll/internal/testing/testenv"
)

// TestRandomBombsStayWithinTheLimit runs random commands that multiply data, each in a process of
// its own, and looks at the most memory that the process had, as TestBombsStayWithinTheLimit does.
// $ATOLL_RANDOM_BOMBS is how many; 20000 take about an hour, and have deadlines from 0.2 to 5 seconds. Their names are
// their seeds, which follow from the day unless the variable is set.
func TestRandomBombsStayWithinTheLimit(t *testing.T) {
	r := testenv.Random(t, "ATOLL_BOMBS_SEED")
	if os.Getenv("ATOLL_RANDOM_BOMBS") != "" {
		r = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	bombs := make([]bomb, testenv.Rounds(t, 4, 12, "ATOLL_RANDOM_BOMBS"))
	for i := range bombs {
		seed := r.Uint64()
		bombs[i] = bomb{strconv.FormatUint(seed, 16), randomBomb(seed), bombDeadline}
		if os.Getenv("ATOLL_RANDOM_BOMBS") != "" {
			bombs[i].deadline = 200*time.Millisecond + time.Duration(seed%4800)*time.Millisecond
		}
	}
	testPeaks(t, bombs)
}

// bombMaker makes random commands.
type bombMaker struct{ r *rand.Rand }

// randomBomb returns the command of a seed.
func randomBomb(seed uint64) string {
	m := bombMaker{rand.New(rand.NewPCG(seed, 1))}
	var lines []string
	for range 1 + m.r.IntN(3) {
		lines = append(lines, m.line())
	}
	return strings.Join(lines, "\n")
}

func (m bombMaker) pick(list ...string) string { return list[m.r.IntN(len(list))] }

// size returns a number around the limits.
func (m bombMaker) size() string {
	return strconv.Itoa([]int{1000, 50_000, 300_000, 1_500_000, 9_000_000, 30_000_000, 200_000_000}[m.r.IntN(7)] + m.r.IntN(1000))
}

// line returns one line of a script.
func (m bombMaker) line() string {
	switch m.r.IntN(6) {
	case 0:
		return m.source() + " > f; " + m.useFile()
	case 1:
		return "x=$(" + m.pipe() + "); " + m.useVariable()
	case 2:
		return m.interpreter()
	case 3:
		return "mapfile -t a < <(" + m.pipe() + "); " + m.useArray()
	}
	return m.pipe() + " | wc -c"
}

// source returns a command that prints much.
func (m bombMaker) source() string {
	n := m.size()
	return m.pick(
		"seq 1 "+n, "head -c "+n+" /dev/zero", "head -c "+n+" /dev/zero | tr '\\0' 'a'", "yes | head -n "+n, "yes abc | head -c "+n,
		"printf '%"+n+"s' x", "printf '%.0sab\\n' {1.."+n+"}", "awk 'BEGIN{for(i=0;i<"+n+";i++)print i}'", "jq -n 'range("+n+")'", "echo {1.."+n+"}",
		"head -c "+n+" /dev/urandom", "head -c "+n+" /dev/zero | tr '\\0' '\\n'", "head -c "+n+" /dev/zero | tr '\\0' \"'\"", "seq -s, "+n,
	)
}

// pipe returns a source with filters.
func (m bombMaker) pipe() string {
	s := m.source()
	for range m.r.IntN(4) {
		s += " | " + m.filter()
	}
	return s
}

func (m bombMaker) filter() string {
	n := m.size()
	return m.pick(
		"sort", "sort -u", "sort -n -r", "sort -k2", "shuf", "tac", "rev", "uniq -c", "uniq -D", "cut -c1-", "cut -d, -f2-", "paste -s", "paste - - -", "paste -d, -s",
		"tr a-z A-Z", "tr -s a", "tr -c x y", "sed 's/./&&&&&&&&&&/g'", "sed -z 's/\\n/,/g'", "sed ':a;N;$!ba;s/\\n/ /g'", "sed 'H;$!d;x'", "sed G", "sed -n 'p;p;p'", "sed '1!G;h;$!d'",
		"awk '{a[NR]=$0} END{for(i in a)print a[i]}'", "awk '{s=s $0} END{print s}'", "awk '{gsub(/./,\"&&&&&&&&\")}1'", "awk '{print $0 $0 $0 $0}'", "awk -v RS='' '{print NF}'", "awk '{$1=$1; print; NF=100000}1'",
		"awk '{n=split($0,p,\"\"); print n}'", "awk '{printf \"%"+n+"s\", $0}'", "jq -R .", "jq -s .", "jq -R -s 'split(\"\")'", "jq -c -s 'map([.,.,.])'", "jq -s add", "jq -R -s 'ascii_downcase*3'",
		"fold -w 1", "fmt -w 1", "nl", "cat -A", "expand -t 1000", "unexpand -a", "base64", "base64 -w 0", "base32", "xxd", "xxd -p", "od -c", "od -An -tx1 -v", "hexdump -C", "column -t", "column",
		"grep -o .", "grep -n a", "grep -E '(a|b)*c?'", "grep -v x", "head -n -10", "tail -n "+n, "tail -c "+n, "tail -n +2", "tee g h", "xargs", "xargs -n 1 echo", "xargs echo", "split -l 1000 -", "csplit -s - 10",
		"wc", "cksum", "sha256sum", "gzip", "gzip | gunzip", "bzip2", "xz", "iconv -t UTF-16", "strings", "dd bs="+n, "dd bs=1M count=9", "comm - f", "join - f", "diff - f", "numfmt --to=si", "tsort", "factor", "pr", "tar cf - f", "while read -r l; do echo \"$l$l\"; done",
	)
}

// useFile returns a command on the file f.
func (m bombMaker) useFile() string {
	return m.pick(
		"grep -c -F -f f f", "grep -c -f f f", "sed -f f f", "awk -f f", "bash f", ". ./f", "jq -f f", "sort f f f | uniq | wc", "cat f f f f f f f f > g", "cp f g; diff f g | wc", "cat f >> f", "diff f /dev/null | wc",
		"paste f f f f f f | wc", "join f f | wc", "comm f f | wc", "xargs -a f echo | wc", "mapfile a < f; echo ${#a[@]}", "x=$(<f); echo ${#x}", "tar cf g f f f", "zip -q g f; unzip -p g | wc", "split -b 100 f; ls | wc", "patch < f", "bc < f | wc", "dc f | wc",
		"while read -r l; do a+=(\"$l\"); done < f; echo ${#a[@]}", "read -r -d '' x < f; echo ${#x}", "read -N 100000000 x < f; echo ${#x}", "tr '\\n' ' ' < f | xargs | wc", "sed 's/$/\\n/' f > g; sort g | wc", "awk '{a[$0]++} END{print length(a)}' f",
	) + " 2>/dev/null"
}

// useVariable returns a command on the variable x.
func (m bombMaker) useVariable() string {
	return m.pick(
		"y=$x$x$x$x; echo ${#y}", "while :; do x=$x$x; done", "y=${x//a/bbbbbbbbbb}; echo ${#y}", "y=${x@Q}; echo ${#y}", "y=${x^^}; echo ${#y}", "printf %q \"$x\" | wc", "printf -v y '%s%s%s' \"$x\" \"$x\" \"$x\"; echo ${#y}", "a=($x); echo ${#a[@]}", "set -- $x; echo $#",
		"[[ $x =~ (a*)* ]]; echo $?", "[[ $x == *a*b*c ]]; echo $?", "case $x in *x*y*) echo 1;; esac", "echo \"${x#*a}\" | wc", "echo \"${x##*a}\" | wc", "y=${x//[a-z]/$x}; echo ${#y}", "cat <<< \"$x$x\" | wc", "eval \"y='$x'\"; echo ${#y}", "for i in $x; do a[i]=$i; done; echo ${#a[@]}",
		"IFS=, read -ra a <<< \"$x\"; echo ${#a[@]}", "f() { local y=$x$1; f \"$y\"; }; f a", "echo \"$x\" \"$x\" \"$x\" | wc", "env X=\"$x\" env | wc", "export x; bash -c 'echo ${#x}'", "declare -A h; h[$x]=1; echo ${#h[@]}", "trap \"$x\" EXIT", "alias z=\"$x\"; alias | wc", "history -s \"$x\"; history | wc", "expr \"$x\" : '.*' | wc", "echo ${x:0:1000000}${x:1} | wc", "y=${x@E}; echo ${#y}", "y=${x@P}; echo ${#y}",
	) + " 2>/dev/null"
}

// useArray returns a command on the array a.
func (m bombMaker) useArray() string {
	return m.pick(
		"b=(\"${a[@]}\" \"${a[@]}\" \"${a[@]}\"); echo ${#b[@]}", "echo \"${a[*]}\" | wc", "IFS=,; x=\"${a[*]}\"; echo ${#x}", "printf '%s\\n' \"${a[@]}\" | wc", "declare -p a | wc", "b=(\"${a[@]//1/2222222222}\"); echo ${#b[@]}", "echo \"${a[@]@Q}\" | wc", "set -- \"${a[@]}\"; shift; echo $#", "unset 'a[0]'; echo ${#a[@]}",
		"for i in \"${!a[@]}\"; do b[i*2]=${a[i]}; done; echo ${#b[@]}", "select x in \"${a[@]}\"; do break; done < /dev/null | wc", "while :; do a+=(\"${a[@]}\"); done", "echo \"${a[@]^^}\" | wc", "(IFS=; echo \"${a[*]}\") | wc", "compgen -W \"${a[*]}\" | wc", "export -p | wc", "a=(\"${a[@]:1}\"); echo ${#a[@]}",
	) + " 2>/dev/null"
}

// interpreter returns a program of an interpreter.
func (m bombMaker) interpreter() string {
	n := m.size()
	return m.pick(
		"jq -n '[range("+n+")]|length'", "jq -n '[range("+n+")|tostring]|join(\",\")|length'", "jq -n 'reduce range("+n+") as $i (\"\"; .+\"ab\")|length'", "jq -n '[limit("+n+"; repeat(1))]|length'", "jq -n 'def f: [.,.]|f; 1|f'", "jq -n '\"a\"*"+n+"|length'", "jq -n '[range("+n+")]|map({(tostring):.})|add|length'", "jq -n '[range("+n+")]|sort_by(-.)|unique|length'", "jq -n '\"x\"|[match(\"\";\"g\")]|length'", "jq -n '[range("+n+")]|combinations(2)' | head -1", "jq -n '[range("+n+")]|@csv|length'", "jq -n 'last(range("+n+"))'", "jq -n '{a:1}|[paths]|length' ", "jq -n 'input_line_number|[recurse(.+1;.<"+n+")]|length'", "jq -n '[range("+n+")]|tojson|fromjson|length'", "jq -n '[range("+n+")]|implode|length'", "jq -n '(\"a\"*1000000)|gsub(\"a\";\"bbbbbbbb\")|length'",
		"awk 'BEGIN{x=\"ab\"; while(length(x)<"+n+") x=x x; print length(x)}'", "awk 'BEGIN{for(i=0;i<"+n+";i++) a[i]=i; print length(a)}'", "awk 'BEGIN{for(i=0;i<"+n+";i++) a[i,i]=i \"\" i; print length(a)}'", "awk 'BEGIN{s=sprintf(\"%"+n+"s\",\"\"); gsub(/ /,\"xyz\",s); print length(s)}'", "awk 'BEGIN{s=sprintf(\"%"+n+"s\",\"\"); print split(s,a,\" \"), length(toupper(s))}'", "awk 'function f(n){return n<1?\"\":f(n-1) n} BEGIN{print length(f("+n+"))}'", "awk 'BEGIN{$"+n+"=1; print NF, length($0)}'", "awk 'BEGIN{while((\"yes\"|getline l)>0) s=s l; print length(s)}'", "awk 'BEGIN{for(i=0;i<"+n+";i++) print i > \"f\" i}'", "awk 'BEGIN{for(;;) s=s substr(s,1) \"x\"}'", "awk 'BEGIN{s=\"a\"; for(i=0;i<40;i++) s=s \"|\" s; print match(\"b\",s)}'", "awk 'BEGIN{printf \"%*d\","+n+",1}' | wc",
		"for ((i=0;i<"+n+";i++)); do a[i]=$i; done; echo ${#a[@]}", "for ((i=0;i<"+n+";i++)); do x+=abcdefgh; done; echo ${#x}", "for ((i=0;i<"+n+";i++)); do declare v$i=1; done; set | wc", "for ((i=0;i<"+n+";i++)); do eval \"f$i() { :; }\"; done", "for ((i=0;i<"+n+";i++)); do echo $i > f$i; done", "for ((i=0;i<"+n+";i++)); do mkdir -p d/d; cd d; done", "f() { f \"$@\" x; }; f", "x=a; while :; do x=\"$x$x\"; : \"${x//a/aa}\"; done", "echo {a..z}{a..z}{a..z}{a..z}{a..z} | wc", "printf '%0"+n+"d' 1 | wc", "printf '%s' {1.."+n+"} | wc", "sed -n \"$(printf 'p;%.0s' {1.."+n+"})\" <<< x | wc", "grep -E \"$(printf 'a|%.0s' {1.."+n+"})b\" <<< x", "bc <<< '2^"+n+"' | wc", "dc -e '2 "+n+" ^ p' | wc", "factor "+n+n+n, "expr 9 '*' 9; let 'x=2**62'; echo $((x*x))", "sort <(seq "+n+") <(seq "+n+") | wc", "tee f f f < <(seq "+n+") | wc", "cat f f f > f; yes | tee -a f >> f", "touch f{1.."+n+"}; ls | wc", "ln -s f l; cat l l l | wc", "date -d '"+n+" days' +%"+n+"N | wc -c", "find / -printf '%"+n+"p\\n' | head -c 1000 | wc", "ls -R / | sed 's/.*/&&&&/' | sort | wc", "read -r -N "+n+" x < /dev/zero; echo ${#x}", "read -r x < <(head -c "+n+" /dev/zero | tr '\\0' a); echo ${#x}", "mapfile -n "+n+" a < <(yes); echo ${#a[@]}", "coproc yes; head -c "+n+" <&${COPROC[0]} | wc", fmt.Sprintf("exec 3< <(yes); for i in {1..%s}; do read -u 3 x; a+=($x); done; echo ${#a[@]}", n),
	) + " 2>/dev/null"
}
