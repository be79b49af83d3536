#### q1
f() { local -r c=5; echo $c; c=6; echo no; }; f; echo after $?
#### q2
x=5; readonly x; unset x; echo $? $x; declare -r y=1; y=2; echo no
#### q3
a=(1 2 3); for i in "${!a[@]}"; do a[i]=$((a[i]*2)); done; echo "${a[@]}"; b=("${a[@]:1}"); echo ${b[*]}; a+=(8); echo ${a[-1]}; unset 'a[-1]'; echo ${#a[@]}
#### q4
declare -A m=([a]=1 [b]=2); for k in $(echo "${!m[@]}" | tr ' ' '\n' 2>/dev/null | cat); do :; done; m[c]=3; unset 'm[a]'; echo ${#m[@]} ${m[b]} ${m[c]}; [[ -v m[b] ]] && echo has; [[ -v m[z] ]] || echo hasnt
#### q5
while IFS= read -r line || [ -n "$line" ]; do echo "[$line]"; done < <(printf 'a\n  b  \nc')
#### q6
exec 3<<< "in"; while read -u 3 x; do echo $x; done; cat <&3
#### q7
printf '%s\n' {a..c} > f; n=0; while read l; do ((n++)); done < f; echo $n; mapfile -t arr < f; echo ${#arr[@]}; IFS= read -rd '' all < f; echo "${#all}"
#### q8
f() { return $1; }; for i in 0 1 255 256 -1; do f $i; echo $?; done
#### q9
echo $((10#08)) $((0x1F)) $((8#17)) $((36#z)) $((1e3)) 2>&1
#### q10
echo $((08)); echo next
#### q11
v=abc; echo ${v:?msg}; (echo ${u:?msg}; echo no); echo $?; (echo ${u?}); echo ${u:-d} ${u:=e} $u ${u:+f}
#### q12
s='a,b,c'; IFS=, read -r x y z <<< "$s"; echo $z$y$x; IFS=, ; set -- $s; echo $#; echo "$*"; unset IFS; echo "$*"
#### q13
echo "$(for i in 1 2 3; do echo $i; [ $i = 2 ] && break; done)"; x=$(while :; do echo once; break; done); echo $x
#### q14
f() { echo "args: $#"; for a; do echo "<$a>"; done; }; f "" "a b" '' c; f "$@"; f $nosuch "$nosuch"; f "${a[@]}"
#### q15
set -f; x='*'; echo $x; set +f; touch_() { : > "$1"; }; touch_ 'a b'; for f in *; do echo "[$f]"; done; ls_() { echo *; }; ls_
#### q16
case "$(echo hello)" in h?llo) echo 1;; esac; case x in [[:alpha:]]) echo alpha;; esac; case 5 in [0-9]) echo digit;; esac; case '*' in '*') echo star;; esac; case ab in a\b) echo esc;; esac
#### q17
a=1; b=2; ((a==1 && b==2)) && echo both; ((a>b)) || echo no; if ((a++ < 5)); then echo $a; fi; ((b+=5)); echo $b; echo $((a,b))
#### q18
f() { local i; for ((i=0;i<3;i++)); do [ $i = 1 ] && continue; echo $i; done; }; f; echo ${i-unset}
#### q19
str="hello world"; echo ${str//o/0}; echo ${str/#hello/bye}; echo ${str/%world/there}; echo ${str^^}; echo ${str:6}; echo ${str: -5:3}; echo ${#str}; echo ${str%% *}
#### q20
echo a{b,c}d{e,f} {1..3}{a,b} {z..x} {5..1..2} a{,b} {a} {} "{a,b}" {a,b}{ \{a,b\}
#### q21
eval "$(echo 'x=1; y=2')"; echo $x$y; source <(echo 'z=3'); echo $z; . /dev/stdin <<< 'w=4'; echo $w
#### q22
trap 'echo caught; exit 3' TERM; (sleep 0.1; kill -TERM $$) & while :; do sleep 0.05; done
#### q23
{ echo a; sleep 0.1; echo b; } | while read x; do echo "got $x"; done; echo end
#### q24
mkfifo p; echo data > p & cat p; wait; (echo 1; echo 2) > p & cat p; wait 2>/dev/null; echo done
#### q25
exec 3<> p2; echo x >&3; cat p2
#### q26
f() { echo $BASHPID; }; a=$(f); b=$(f); [ $a != $b ] && echo differ; [ $$ = $BASHPID ] && echo main; (echo $(( BASHPID != $$ )))
#### q27
a=$(echo x; exit 2) b=$?; echo $a $b $?; c=$(true)$(false); echo $?
#### q28
if ! x=$(false); then echo failed; fi; until x=$(echo go); do :; done; echo $x; while read -r l; do echo $l; break; done <<< $'1\n2'
#### q29
[ -t 0 ] || echo notty; [ -p /dev/stdin ] && echo pipe; [ -e /dev/null ] && echo null; [ -c /dev/null ] && echo char; [ -r . -a -w . ] && echo rw; [ a -nt b ]; echo $?
#### q30
: ${a:=1} ${b:=2}; echo $a$b; true ${c:=3}; echo $c; echo "${d:=x y}" $d
#### q31
echo "a
b" | { read x; read y; echo "$y $x"; }; echo -e 'a\tb\nc'; echo -n x; echo; echo -E 'a\tb'; echo -ne '\x41\n'; echo - -x --
#### q32
f() { [ $# -eq 0 ] && return 1; shift; f "$@" && return 0; echo "depth $#"; }; f a b c; echo $?
#### q33
i=5; while ((i--)); do ((i==2)) && break; echo $i; done; echo out $i; for ((;;)); do ((++i > 5)) && break; done; echo $i
#### q34
declare -i n=5; n+=3; echo $n; n=n*2; echo $n; declare -u up=abc; echo $up; declare -l lo=ABC; echo $lo; declare -x ex=1; bash -c 'echo $ex'
#### q35
x=outer; f() { local x=f; g; }; g() { echo $x; x=changed; h; }; h() { unset x; echo ${x-gone}; }; f; echo $x
#### q36
time_() { local s=$SECONDS; :; echo $((SECONDS-s)); }; time_; SECONDS=100; echo $SECONDS; echo $((EPOCHSECONDS > 1600000000)); printf '%(%Y)T\n' 0
#### q37
echo ${PATH:+set}; (PATH=/nosuch; nosuch; cat /dev/null); echo $?; PATH=/nosuch; echo builtin works; /bin/cat /dev/null; echo $?
#### q38
function outer { function inner { echo inner; }; inner; }; outer; inner; unset -f outer; inner; declare -F
#### q39
echo 1 | tee_() { cat; }; tee_ < /dev/null; echo 2 | (cat; echo 3); { cat; } <<< 4; ( cat ) < <(echo 5)
#### q40
x="a b c"; for w in $x; do echo -n "$w,"; done; echo; for w in "$x"; do echo "$w"; done; y=($x); echo ${#y[@]} "${y[1]}"
