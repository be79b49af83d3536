# Commands that try to use much memory, written without a look at the other lists.
echo '9^9999999' | bc | wc -c
echo 'scale=9000000; 1/3' | bc | wc -c
echo 'for(i=0;i<100000000;i++) a[i]=i' | bc
echo 'x=2; while(1) x=x*x' | bc
echo 'define f(n){ return f(n+1); } f(1)' | bc
echo 'scale=3000000; sqrt(2)' | bc | wc -c
echo 'obase=2; 2^20000000' | bc | wc -c
head -c 9000000 /dev/zero | tr '\0' 9 | bc | wc -c
echo '1 [d+ d 0 r !<m] sm [d lx x] sx [1 1 1 1 lax] sa lax x' | dc
dc -e '[aaaaaaaaaaaaaaaa] sa [la la lxx] sx lxx'
dc -e '9 9999999 ^ p' | wc -c
dc -e '[1 2 3 4 5 6 7 8 9 z lxx] sx lxx'
dc -e '[lz 1+ sz lz lz :a lxx]sx lxx'
dc -e '[9 a Z lxx] sx lxx'
jq -n '[limit(100000000; repeat(1))] | length'
jq -n '[recurse(.+1; . < 100000000)] | length'
jq -n '"abc" * 100000000 | length'
jq -n '[range(20000000)|65]|implode|length'
jq -n '[range(5000000)] as $a | [paths] | length'
jq -n 'null | .[100000000] = 1 | length'
jq -n 'null | .[500000000] = 1 | length'
jq -n '[range(3000000)] | tojson | tojson | tojson | length'
jq -n '"a"*300000 | gsub("";"bbbbbbbbbbbbbbbbbbbbbbbbbb") | length'
jq -n '"a"*1000000 | [match("a";"g")] | length'
jq -n '"a"*2000000 | [scan(".")] | length'
jq -n '("(a{1000}){1000}") as $r | "a"|test($r)'
jq -n '[range(2000000)]|group_by(.)|length'
jq -n '[[range(300)],[range(300)],[range(300)]]|[combinations]|length'
jq -n '[range(1000000)|tostring]|join(",")|split(",")|map(explode)|flatten|length'
jq -n 'reduce range(10000000) as $i ({}; .[$i|tostring]=$i)|length'
jq -n '[foreach range(10000000) as $i ([]; .+[$i]; length)]|length'
yes '[1,2,3]' | head -c 9000000 | jq -s 'length'
jq -n 'reduce range(1000000) as $i (null; [.])|tojson|length'
(head -c 500000 /dev/zero | tr '\0' '['; head -c 500000 /dev/zero | tr '\0' ']') | jq -c . | wc -c
jq -n '[range(3000)|[range(3000)]]|transpose|length'
jq -n '[range(1500000)]|@csv,@tsv,@html,@sh|length'
jq -n '"a"*9000000|@base64|@base64|@uri|length'
jq -n '("%c"*1000000) as $f|now|strftime($f)|length'
jq -n 'def f: [.,.]; reduce range(64) as $i (1; f)|tojson|length'
jq -n 'def f: [.,.]; reduce range(64) as $i (1; f)|flatten|length'
jq -n 'reduce range(64) as $i (1; [.,.])|[..]|length'
jq -n 'reduce range(40) as $i ("x"; .+.)|length'
jq -n --args '$ARGS|tojson|length' $(seq 1 300000)
jq -n '[label $x|range(1e9)|if .>2e7 then break $x else . end]|length'
head -c 10000000 /dev/zero | tr '\0' 1 | jq . | wc -c
echo 1e1000000000 | jq . ; echo '1E-999999999'|jq '.*1'
jq -n '[1]|until(length>1e9; .+.)|length'
jq -n '"a,"*2000000|[splits(",")]|length'
jq -n '[range(1;2000000)]|implode|ascii_downcase|length'
jq -n '[range(2000000)]|[tostream]|length'
jq -c --stream -n '[inputs]|length' < <(seq -s, 1 1000000 | sed 's/^/[/;s/$/]/')
jq -n '[range(1000000)] as $p|try getpath($p) catch 1|length'
jq -n '[range(1000000)|0] as $p|null|setpath($p;1)|tojson|length'
head -c 12000000 /dev/zero|tr '\0' a > f; jq -n --rawfile a f --rawfile b f --rawfile c f --rawfile d f --rawfile e f --rawfile g f '$a|length'
jq --tab -n 'reduce range(9000) as $i (1;[.,1])' | wc -c
jq -n '[range(1000000)|{a:(-.),b:"x\(.)"}]|sort_by(.a,.b)|length'
jq -n '[range(1500000)|tostring]|unique_by(length)|length'
jq -n '"a"*5000000|indices("a")|length'
jq -n '[range(3000000)|1]|indices(1)|length'
jq -n '"a"*300000|[capture("(?<x>.)";"g")]|length'
jq -n '[range(300000)|"x"*20]|add|length'
jq -n '[range(300000)|{("k\(.)"):1}]|add|keys|length'
jq -n '[range(300000)|{key:"k\(.)",value:.}]|from_entries|with_entries(.value+=1)|length'
jq -n '[range(1000000)]|walk(.)|length'
jq -n '[range(1000000)]|[.[]|[.,.,.]]|map(add)|length'
jq -n '"ab"*1000000|split("a";null)|length'
jq -n '[range(500000)|tojson|tojson|tojson]|tojson|fromjson|length'
(for i in {1..100000}; do echo "# $i"; done; echo 1) > f; jq -n -f f
(printf '1'; for i in {1..300000}; do printf '+1'; done) > f; jq -n -f f
(printf '.'; for i in {1..300000}; do printf '|.'; done) > f; jq -n -f f
(for i in {1..200000}; do echo "def f$i: $i;"; done; echo f1) > f; jq -n -f f
(printf '['; seq -s, 1 900000; printf ']') > f; jq -n -f f | wc -c
(printf '"'; for i in {1..200000}; do printf 'a\\(1)'; done; printf '"') > f; jq -n -f f | wc -c
awk 'BEGIN{s=sprintf("%50000000s","x"); print length(s)}'
awk 'BEGIN{s=sprintf("%.50000000f",1); print length(s)}'
awk 'BEGIN{while(1) s=s sprintf("%*s",1000000,"x")}'
awk 'BEGIN{f="";for(i=0;i<22;i++)f=(f==""?"%1000s":f f); s=sprintf(f,1,2,3); print length(s)}'
awk 'BEGIN{s="x";while(1)s=s s}'
awk 'BEGIN{while(1)a[i++]=i}'
awk 'BEGIN{while(1)a[i++,i]=1}'
awk 'BEGIN{$100000000="x"; print length($0)}'
awk 'BEGIN{NF=50000000; print length($0)}'
awk 'BEGIN{OFS=sprintf("%1000000s","x");NF=100; $1=1; print length($0)}'
awk 'BEGIN{s=sprintf("%9000000s","x");n=split(s,a,"");print n}'
awk 'BEGIN{s=sprintf("%9000000s","x");n=split(s,a,/ /,seps);print n}'
awk 'BEGIN{s=sprintf("%100000s","x");r=s;gsub(/ /,r,s);print length(s)}'
awk 'BEGIN{s=sprintf("%100000s","x");r=s;print length(gensub(/ /,r,"g",s))}'
awk 'BEGIN{s=sprintf("%3000000s","x");print length(gensub(/.*/,"\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0","g",s))}'
awk 'BEGIN{s=sprintf("%20000000s","x");a=toupper(s);b=tolower(s);c=toupper(s);print length(c)}'
awk 'BEGIN{s=sprintf("%20000000s","x");for(i=0;i<1000;i++)a[i]=substr(s,i);print length(a)}'
awk 'BEGIN{s=sprintf("%20000000s","x");for(i=0;i<1000;i++){a[i]=substr(s,2) "";}print length(a)}'
yes | awk '{while((getline l)>0)s=s l}'
yes | tr -d '\n' | head -c 100000000 | awk 'BEGIN{RS="z"}{print length($0)}'
yes | tr -d '\n' | head -c 100000000 | awk 'BEGIN{RS="zz+"}{print length($0)}'
awk 'BEGIN{for(i=0;i<100000;i++)print i | ("cat -" i)}'
awk 'BEGIN{for(i=0;i<1000000;i++)print i > ("f" i)}'
awk 'BEGIN{"yes | head -c 100000000 | tr -d \"\\n\"" | getline x; print length(x)}'
awk 'function f(n){return f(n+1)+1} BEGIN{print f(1)}'
awk 'function f(n,a,b,c,d,e){a[1]=n;return f(n+1)+1} BEGIN{print f(1)}'
awk 'function f(n, a){for(i=0;i<1000;i++)a[i]=i; return f(n+1)+1} BEGIN{print f(1)}'
awk 'BEGIN{r="a";for(i=0;i<24;i++)r=r "|" r; print match("b",r)}'
awk 'BEGIN{for(i=0;i<1000000;i++){r="a{" (i%1000) "}" i; if("b"~r)print}}'
awk 'BEGIN{s=sprintf("%1000s","");gsub(/ /,"a?",s);for(i=0;i<100000;i++){if("b"~(s i))print}}'
awk 'BEGIN{for(i=0;i<500000;i++)a[i]=i "";n=asort(a,b);asorti(a,c);print n}'
awk 'BEGIN{for(i=0;i<3000000;i++)ENVIRON[i]="x"}'
awk 'BEGIN{x="a";for(i=0;i<30;i++){x=x x; y[i]=x}}'
awk 'BEGIN{s=sprintf("%3000000s","x");n=patsplit(s,a,/./,q);print n}'
awk 'BEGIN{s=sprintf("%30000000s","1");x=s+0;y=strtonum(s);print x,y}'
head -c 9000000 /dev/zero | tr '\0' a | awk 'BEGIN{FIELDWIDTHS="1 1 1 1 1 1 1 *"}{print NF}'
head -c 5000000 /dev/zero | tr '\0' a | awk 'BEGIN{FPAT="a"}{print NF}'
head -c 5000000 /dev/zero | tr '\0' a | awk 'BEGIN{FS=""}{print NF}'
head -c 9000000 /dev/zero | tr '\0' ' ' | sed 's/ /a /g' | awk '{for(i=1;i<=NF;i++)s=s $i; print length(s)}'
awk 'BEGIN{$0=sprintf("%5000000s","x");gsub(/ /,"a ");$3=$3;for(i=1;i<NF;i++){$i=$i "bbbbbbbb"; if(i%100==0)x=$0}}'
awk 'BEGIN{while(1){for(i=0;i<100000;i++)a[i]=sprintf("%100s",i);delete a}}'
(printf 'BEGIN{x=1'; for i in {1..300000}; do printf '+1'; done; echo '}') > f; awk -f f
awk 'BEGIN{printf "BEGIN{"; for(i=0;i<900000;i++)printf "x[%d]=1;",i; print "}"}' > f; awk -f f
awk 'BEGIN{for(i=0;i<700000;i++)printf "/a%d/{x++}\n",i}' > f; echo a | awk -f f
(printf 'BEGIN{x="'; head -c 10000000 /dev/zero | tr '\0' a; echo '";print length(x)}') > f; awk -f f -f /dev/null
awk 'BEGIN{printf "BEGIN{x=";for(i=0;i<1500000;i++)printf "\"a\" ";print "}"}' > f; awk -f f
x=$(head -c 9000000 /dev/zero | tr '\0' a); awk -v "a=$x" -v "b=$x" -v "c=$x" 'BEGIN{print length(a b c)}'
awk 'BEGIN{print ARGC}' $(seq 1 700000)
awk 'BEGIN{for(i=0;i<4000000;i++)ARGV[i]="x";ARGC=4000000}'
awk 'BEGIN{s=sprintf("%5000000s","x");gsub(/ /,"ſ",s);s=toupper(s);print length(s)}'
awk 'BEGIN{IGNORECASE=1;s=sprintf("%9000000s","x");print match(s,/X/)}'
awk 'BEGIN{s=sprintf("%9000000s","é");for(i=0;i<200;i++)t=t index(s,"é")}'
awk 'BEGIN{s=sprintf("%9000000s","é");print substr(s,4000000,4000000)}' | wc -c
awk 'BEGIN{for(;;)printf "%c",65}' | head -c 100000000 | wc -c
awk 'BEGIN{ORS=sprintf("%30000000s","x"); print 1; print 2}' | wc -c
awk 'BEGIN{SUBSEP=sprintf("%10000000s","x"); for(i=0;i<100;i++)a[i,i,i]=1}'
awk 'BEGIN{CONVFMT="%.9000000f"; for(i=0;i<100;i++){x=i+.5; a[i]=x ""}}'
awk 'BEGIN{OFMT="%90000000f"; print 1.5}' | wc -c
awk 'BEGIN{f=sprintf("%20000000s","x");gsub(/ /,"%c",f);print length(strftime(f))}'
awk 'BEGIN{x=sprintf("%9000000d",1)+0;print x;printf "%i %d %x\n", 2^1000,2^1000,2^1000}'
awk 'BEGIN{for(i=0;i<300000;i++)a[i][i][i]=1}'
awk 'BEGIN{for(;;)if(a[i++]==""){}}'
awk 'BEGIN{while(1){n++;split("a b c d e f g h i j k l m n o p",b[n])}}'
yes abcdefghijklmnopqrstuvwxyz | awk '{while((getline a[i++])>0);}'
awk 'BEGIN{s="x";while(length(s)<20000000)s=s s;for(i=0;i<50;i++)print substr(s,-1)}' | wc -c
awk 'BEGIN{s="";for(i=0;i<3000000;i++)s=s "x"; print length(s)}'
awk 'BEGIN{r="(a|b)*a";for(i=0;i<20;i++)r=r "(a|b)";s="";srand(1);for(i=0;i<300000;i++)s=s (rand()<.5?"a":"b");print match(s,r "$c")}'
awk 'BEGIN{srand(1);for(j=0;j<100;j++){for(i=0;i<80000;i++)printf (rand()<.5?"a":"b");print ""}}' > f; grep -cE '(a|b)*a(a|b){18}c' f
grep -E "$(printf '[%s]' {a..z}{a..z}{a..z} )" /etc/passwd
grep -E '((((((((a{9}){9}){9}){9}){9}){9}){9}){9})' /etc/passwd
grep -E "$(seq -s '|' 1 400000)" /etc/passwd
grep -iE "$(seq -s '|' 1 300000|sed 's/1/[a-z]/g')" /etc/passwd
grep -P '(a+)+$' <<< aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab
grep -E '(.*)(.*)(.*)(.*)(.*)\1\2\3\4\5x' <<< aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
head -c 12000000 /dev/zero | tr '\0' a | grep -o a | wc -l
yes | head -c 100000000 | grep -B 100000000 x
yes | head -c 100000000 | grep -C 100000000 -m1 x
yes | head -c 30000000 | grep -A 100000000 y | wc -l
set --; for i in {1..200000}; do a+=(-e "p$i"); done; grep "${a[@]}" /etc/passwd
seq 1 400000 | sed 's/$/[ab]*x/' > p; grep -f p /etc/passwd
seq 1 1000000 > p; grep -w -f p /etc/passwd
seq 1 1000000 > p; grep -x -i -F -f p /etc/passwd
for i in {1..100000}; do a+=(--include="*$i"); done; grep -r "${a[@]}" x /etc
yes | head -c 100000000 | rg -B 100000000 x
yes | head -c 10000000 > f; rg --json y f | wc -c
rg "$(seq -s '|' 1 400000)" /etc/passwd
yes | head -c 9000000 > f; rg -r "$(head -c 1000000 /dev/zero|tr '\0' x)" y f | wc -c
mkdir d; cd d; for i in {1..20000}; do : > $i; done; rg --files | wc -l; rg --sort path --files | wc -l
x=$(head -c 20000000 /dev/zero|tr '\0' a); cat <<<"$x$x" | cat <<<"$x$x" | wc -c
trap 'x=$x$x$x; true' DEBUG; x=aaaaaaaaaa; for i in {1..100}; do :; done
t=:; while :; do t="$t;$t"; trap "$t" USR1; done
trap 'trap "$(trap -p)" EXIT' EXIT; f(){ trap "f; f" USR1; kill -USR1 $$; f; }; f
trap "$(yes : | head -n 2000000)" EXIT
x=:; for i in {1..40}; do x="eval '$x'"; x=${x//\'/\'\\\'\'}; done; eval "$x"
eval "$(yes 'x+=aaaaaaaaaaaaaaa' | head -n 900000)"
n=$'\n'; eval "f(){ $(yes ':' | head -n 1500000)$n}"; declare -f f | wc -c
f(){ :; }; for i in {1..300000}; do eval "f$i(){ :; }"; done; declare -F | wc
shopt -s expand_aliases; for i in {1..400000}; do alias a$i="echo aaaaaaaaaaaaa"; done; alias | wc
echo {1..100}{1..100}{1..100}{1..100} | wc -c
echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} | wc -c
echo {0000000000000000000000000000000000000000000000000000000000000000001..2000000} | wc -c
x=$(printf '{%.0s' {1..100000}); eval "echo $x a,b"
eval "echo {$(seq -s, 1 1500000)}" | wc -c
for i in {1..100000000}; do :; done
mkdir d; cd d; for i in {1..9000}; do : > $i; done; echo */../*/../* | wc -c; a=(* * * * * * * * * * * * * * * * * *); echo ${#a[@]}; echo /*/*/*/../../*/*/../../*/* | wc
shopt -s globstar; mkdir -p a/b/c/d/e/f/g; ln -s .. a/x; echo **/**/**/**/**/**/** | wc -c
mkdir a; for i in {1..100}; do ln -s . a/l$i; done; echo a/*/*/*/* | wc -c
a[9223372036854775807]=1; a[-1]=2; for((i=0;i<100000000;i++)); do a[i*1000]=1; done
while :; do a+=("${a[@]}" x); done
a=({1..1000000}); b=("${a[@]:1}"); c=("${a[@]:2}"); echo ${#c[@]}
a=({1..900000}); b=("${!a[@]}"); c=(${!a[@]}); echo ${#c[@]}
a=({1..900000}); echo "${a[@]@Q}" | wc -c; echo "${a[@]@A}" | wc -c; echo "${a[@]@K}"|wc -c
declare -A a; for((;;)); do a[$((i++))]=$i; done
declare -A a; k=$(head -c 1000000 /dev/zero|tr '\0' a); for((;;)); do a[$k$((i++))]=1; done
declare -A a; for i in {1..100000}; do a[$i]=$i; done; b=("${a[@]}" "${!a[@]}" "${a[@]}" "${!a[@]}"); declare -p a | wc -c; for((;;)); do c+=("${b[@]}"); done
x=$(head -c 20000000 /dev/urandom | tr '\0' a); declare -p x | wc -c
for i in {1..300000}; do declare "v$i=aaaaaaaaaaaa"; done; set | wc
for i in {1..1000}; do export "v$i=$(printf %100000s x)"; done; env | wc -c
a=({1..500000}); for i in {1..40}; do ( a+=(x); sleep 2 ) & done; wait
x=$(head -c 9000000 /dev/zero|tr '\0' a); for i in {1..40}; do ( x=${x}b; sleep 2 ) & done; wait
f(){ local x=$1$1; f "$x"; }; f aaaaaaaaaa
f(){ local a=({1..1000}); f; }; f
f(){ f "$@" x; }; f
f(){ f <<< "$1$1" "$1"; }; f $(head -c 100000 /dev/zero|tr '\0' a)
f(){ x=$(f); }; f
f(){ f | f; }; f
printf -v x '%50000000s' y; printf -v z '%s%s%s' "$x" "$x" "$x"
x=$(head -c 10000000 /dev/zero|tr '\0' "'"); printf -v y %q "$x"; printf -v z %q "$y"; echo ${#z}
x=$(yes '\\0101' | head -c 20000000 | tr -d '\n'); printf '%b' "$x" | wc -c; printf -v y '%b%b' "$x" "$x"; echo ${#y}
printf '%s %s %s\n' {1..2000000} | wc -c
f=$(yes %s | head -c 10000000|tr -d '\n'); printf -v x "$f" a b; echo ${#x}
printf -v x "%($(yes %c|head -c 3000000|tr -d '\n'))T" -1; echo ${#x}
printf '%.90000000d\n' 1 | wc -c
printf '%.90000000f\n' 1e300 | wc -c; printf '%Lf' 1e4000 | wc -c;  printf '%a' 1e4000
x=$(yes '\x41' | head -c 20000000|tr -d '\n'); echo -e "$x$x" | wc -c
eval "x=\$'$(yes '\x41\n'|head -c 15000000|tr -d '\n')'"; echo ${#x}
x=$(head -c 3000000 /dev/zero|tr '\0' a); y=${x//a/$x}; echo ${#y}
shopt -s patsub_replacement; x=$(head -c 30000 /dev/zero|tr '\0' a); y=${x//?/&$x&}; echo ${#y}
x=$(head -c 300000 /dev/zero|tr '\0' a); y=${x//*(a)b/c}; y=${x%%*(*(a))b}; echo ${#y}
shopt -s extglob; x=$(head -c 3000 /dev/zero|tr '\0' a); [[ $x == +(+(+(+(a))))b ]]
shopt -s extglob; p=$(seq -s '|' 1 600000); [[ 77 == @($p) ]] && echo y; [[ 77 == !($p) ]] && echo n
eval "case x in $(for i in {1..200000}; do echo "$i|a$i) :;;"; done) esac"
[[ aaa =~ $(printf '(%.0s' {1..3000}) ]]; [[ aaa =~ (a{1,255}){1,255}{1,255} ]]; x=$(printf '(a)%.0s' {1..50000}); [[ aaa =~ $x ]]
x=$(head -c 10000000 /dev/zero|tr '\0' a); [[ $x =~ ((((((((.*)))))))) ]]; echo ${#BASH_REMATCH[@]}
echo $(( $(yes 1+ | head -c 10000000|tr -d '\n') 1 ))
echo $(( $(head -c 1000000 /dev/zero|tr '\0' '(') 1 ))
a=b; b=a; echo $((a)); x='x+x'; echo $((x)); y=1; for i in {1..40}; do y="($y+$y)"; done; echo $((y))
yes | tr -d '\n' | read -r x
yes | read -r -N 100000000 x; echo ${#x}
yes | head -c 20000000 | tr '\n' ' ' | { read -r -a a; echo ${#a[@]}; }
yes | tr '\n' ' ' | head -c 9000000 | { read -r $(printf 'v%d ' {1..100000}); echo $v1; }
yes | mapfile -c 1 -C 'a+=(1) x+=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; :' q
mapfile -O 2000000000 a < <(yes)
x=$(head -c 20000000 /dev/zero|tr '\0' ,); IFS=,; set -- $x; echo $#
IFS=$(printf '\\%o' {1..255} | xargs -0 printf); x=$(head -c 9000000 /dev/urandom|tr -d '\0'); a=($x $x $x); echo ${#a[@]}
x=$(echo $(echo $(yes | head -c 60000000))); echo ${#x}
for i in {1..1000}; do exec {fd}< <(yes); done
cat <(yes) <(yes) <(yes) | head -c 100000000| tac | wc
for i in {1..200}; do coproc c$i { sleep 100; } 2>/dev/null; done
for((;;)); do exec {fd}<>/dev/null; done
for i in {1..300}; do yes | sleep 3 & done; wait
for i in {1..100}; do exec {fd}<> <(:); done; mkfifo p; exec 9<>p; yes >&9
set -o history; for((;;)); do history -s "$(head -c 1000000 /dev/zero|tr '\0' a)$((i++))"; done
yes aaaaaaaa | head -c 12000000 > h; set -o history; for i in {1..30}; do history -r h; done; history | wc
for((;;)); do hash -p /bin/ls x$((i++)); done
for((;;)); do pushd / >/dev/null; done
for((;;)); do complete -W "x$i" c$((i++)); done
while getopts "$(head -c 9000000 /dev/zero|tr '\0' a)" o -aaaaaaaa; do :; done; echo $OPTIND
select x in {1..300000}; do break; done <<< 1 2>&1 | wc -c
set -x; PS4=$(head -c 9000000 /dev/zero|tr '\0' a); : ; : ; :
PS4='$(set -x; :)'; set -x; :
set -v; eval "$(yes ': aaaaaaaaaaa' | head -c 10000000)"
x=$(head -c 30000000 /dev/zero|tr '\0' a); echo ${x^^} ${x~~} ${x@U} | wc -c
x=$(yes '\w\d' | head -c 9000000 | tr -d '\n'); y=${x@P}; echo ${#y}
x=$(yes '\x41' | head -c 20000000 | tr -d '\n'); y=${x@E}; z=${x@E}; echo ${#y}
declare -n r=x; x=$(head -c 30000000 /dev/zero|tr '\0' a); r+=$r; r+=$r
for((;;)); do x+=$RANDOM$SRANDOM; done
x=${BASH_COMMAND}; f(){ x="$x$BASH_COMMAND${FUNCNAME[*]}"; f aaaaaaaaaaaaaaaaaaaaaaaaaa; }; f
f(){ [ ${#FUNCNAME[@]} -gt 900 ] && { for((;;)); do x+="${FUNCNAME[*]}${BASH_SOURCE[*]}${BASH_LINENO[*]}"; done; }; f; }; f
echo '. ./s $1$1' > s; . ./s aaaaaaaaaa
bash -c 'bash -c "$1" x "$1$1"' x "$(head -c 20000000 /dev/zero|tr '\0' ' ')"
(printf 'echo '; head -c 11900000 /dev/zero|tr '\0' a) > s; bash s | wc -c; . ./s | wc -c
(head -c 3000000 /dev/zero|tr '\0' '(') > s; bash s
yes '$(' | head -c 3000000|tr -d '\n' > s; bash s
yes '"${x:-' | head -c 3000000|tr -d '\n' > s; bash s
yes a | head -c 11000000 | tr '\n' ' ' > s; bash s
yes 'a=' | head -c 11000000 | tr '\n' ' ' > s; bash s
yes '>x' | head -c 11000000 | tr '\n' ' ' > s; bash s
yes 'cat <<E' | head -c 3000000 > s; bash s
(yes ': |' | head -c 9000000; echo :) > s; bash s
(yes ': &&' | head -c 9000000; echo :) > s; bash s
(echo 'case x in'; yes 'a|a|a) : ;;' | head -c 9000000; echo esac) > s; bash s
yes "''" | head -c 11000000 | tr -d '\n' > s; bash s
yes '$a' | head -c 11000000 | tr -d '\n' > s; bash s
yes 'if :; then' | head -c 3000000 > s; bash s
yes 'a b c d e f' | head -c 11000000 > s; bash -n s
yes | head -c 200000000 | sort | wc
yes 'a b c d e f' | head -c 12000000 > f; sort -k6,6 -k5,5n -k4,4h -k3,3V -k2,2M f | tail -1; sort -R f | tail -1
sort $(printf -- '-k%d ' {1..300000}) /etc/passwd
head -c 12000000 /dev/zero | tr '\0' '\n' > f; sort $(yes f | head -n 100) | wc; sort -m $(yes f | head -n 1000) | wc
head -c 30000000 /dev/zero | tr '\0' a | sort | sort -u | sort -f | wc -c
seq 1 100000 | sort --debug | wc
yes | head -c 50000000 | uniq --group | wc
head -c 40000000 /dev/zero | uniq -i | uniq -c | wc -c
yes | head -c 200000000 | tac -s y | wc
seq 1 2000000 | tac -r -s '[0-9]*' | wc
shuf -r -n 100000000 -e a b c | tail -1; shuf -i 1-100000000 | tail -1
shuf -n 90000000 -i 1-1000000000 | tail -1
head -c 4000000 /dev/zero | tr '\0' a > f;  paste $(yes f | head -n 300) | wc -c
paste -d "$(head -c 9000000 /dev/zero|tr '\0' a)" /etc/passwd /etc/passwd | wc
seq 1 20000000 | paste -s | wc
yes 'a b' | head -c 4000000 > f; join f f | head -c 100000000 | wc -c
join -o "$(yes 1.1 | head -n 1000000 | paste -sd,)" /etc/passwd /etc/passwd | wc -c
comm <(head -c 90000000 /dev/zero) <(head -c 90000000 /dev/zero) | wc -c
seq 1 500000 > a; seq 1 2 900000 > b; diff a b | wc
shuf -i 1-300000 > a; shuf -i 1-300000 > b; diff a b | wc; diff -y a b | wc; diff -u a b | wc
diff -y -W 100000000 /etc/passwd /etc/group | wc -c
seq 1 300000 > a; sed 's/7/x/' a > b; diff -U 100000000 a b | wc; diff -c a b|wc
mkdir a b; for i in {1..2000}; do seq 1 100 > a/$i; seq 2 101 > b/$i; done; diff -r -N a b | wc
head -c 5000000 /dev/zero | tr '\0' a > a; (cat a; echo b) > b; diff -w -i -B a b | wc -c
diff --line-format="$(yes %L | head -c 1000000 | tr -d '\n')" /etc/passwd /etc/group | wc -c
x=$(head -c 10000000 /dev/zero|tr '\0' a); diff -u --label "$x" --label "$x" /etc/passwd /etc/group | wc -c
diff -I "$(seq -s '\|' 1 300000)" /etc/passwd /etc/group | wc
head -c 5000000 /dev/zero > a; head -c 5000000 /dev/urandom > b; cmp -l a b | wc
seq 1 400000 > a; sed 's/$/x/' a > b; diff -u a b > p; patch a p; wc a
seq 1 300000 > a; (echo '--- a'; echo '+++ a'; for i in {1..3000}; do echo "@@ -$i,1 +$i,1 @@"; echo "-zz$i"; echo "+y"; done) > p; patch a p | wc
(for i in {1..100000}; do echo "--- f$i"; echo "+++ f$i"; echo '@@ -0,0 +1 @@'; echo +x; done) > p; patch -p0 < p | wc
yes | head -c 50000000 | sed -n 'H;${x;s/\n/,/g;p}' | wc -c
echo a | sed ':a;G;h;ta;ba'
echo a | sed ':a;s/.*/&&/;ta'
head -c 1000000 /dev/zero | tr '\0' a | sed 's/a/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/g' | wc -c
head -c 20000000 /dev/zero | tr '\0' a | sed 's/.*/\U&\L&\u&/' | wc -c
sed "y/$(printf 'é%.0s' {1..300000})/$(printf 'e%.0s' {1..300000})/" /etc/passwd | wc
sed "i $(head -c 10000000 /dev/zero|tr '\0' a)" /etc/passwd | wc -c
yes a | head -n 1000000 | sed '1~1a x' | wc
sed "$(for i in {1..300000}; do echo '1a x'; done)" /etc/passwd | wc
head -c 9000000 /dev/zero > f; sed 'r f' /etc/passwd | wc -c; sed "$(yes 'r f' | head -n 200000)" /etc/passwd | head -c 100000000 | wc -c
sed "$(for i in {1..100000}; do echo "w f$i"; done)" /etc/passwd | wc
sed "$(for i in {1..400000}; do echo ":l$i"; done)" /etc/passwd | wc
sed "$(head -c 1000000 /dev/zero|tr '\0' '{')" /etc/passwd
echo a | sed 'G;s/^/a\n/;D'
yes | sed 'N;N;N;:a;N;ba'
head -c 20000000 /dev/zero | sed -n l 0 | wc -c
head -c 20000000 /dev/zero | sed -n 'l 1' | wc -c
yes | sed = | head -c 100000000 | wc -c
head -c 10000000 /dev/zero | tr '\0' a | sed 's/a/b/9999999g' | wc -c
sed 's/.*/echo &/e' /etc/passwd | wc; sed '1e yes' /etc/passwd | head -c 1000000000 | wc -c
echo yes | sed 's/.*/&/e' | wc -c
sed "s/.*/$(yes '&' | head -c 2000000|tr -d '\n')/" /etc/passwd | wc -c
yes | sed -z 's/y/n/g' | head -c 100
for i in {1..2000}; do echo $i > f$i; done; sed -i.bak 's/./&&/' f*; ls | wc
tr "$(head -c 10000000 /dev/zero|tr '\0' a)" b < /etc/passwd | wc
tr a '[b*1000000000]' < /etc/passwd | wc; tr 'a-z' '[x*]' < /etc/passwd|wc; echo | tr '[a*07777777777777]' b
cut -c "$(seq -s, 1 2 1500000)" /etc/passwd | wc
head -c 60000000 /dev/zero | cut -b 1-,2- | cut -d: -f1 | wc -c
head -c 5000000 /dev/zero|tr '\0' : | cut -d: -f1- --output-delimiter="$(head -c 1000000 /dev/zero|tr '\0' a)" | head -c 100000000 | wc -c
head -c 60000000 /dev/zero | tr '\0' a | fold -s -w 1000000000 | wc -c
head -c 40000000 /dev/zero | tr '\0' a | fmt | wc -c; yes a | head -c 30000000 | fmt -w 2500 | wc
pr -w 100000000 -m /etc/passwd /etc/group | head -c 100000000 | wc -c
pr -1000 -w 100000 /etc/passwd | wc; yes | head -c 20000000 | pr -2 -l 100000000 | wc; pr -l 2000000000 /etc/passwd | head -c 100000000 | wc -c
pr -h "$(head -c 10000000 /dev/zero|tr '\0' a)" /etc/passwd | wc -c; pr -o 90000000 /etc/passwd | head -c 100000000 | wc -c
seq 10 | tr '\n' '\t' | pr -e100000000 | head -c 100000000 | wc -c
seq 1 10 | nl -w 90000000 | wc -c; seq 1 10 | nl -s "$(head -c 10000000 /dev/zero|tr '\0' a)" | wc -c
nl -b p"$(seq -s '\|' 1 300000)" /etc/passwd | wc
yes $'\t' | head -n 1000 | expand -t 1000000 | head -c 1000000000 | wc -c; expand -t "$(seq -s, 1 1000000)" /etc/passwd | wc
seq -s, 1 100 | column -t -s, -o "$(head -c 10000000 /dev/zero|tr '\0' a)" | wc -c
(head -c 1000000 /dev/zero|tr '\0' a; echo; yes a | head -n 100000) | column -t | head -c 100000000 | wc -c
seq 1 300000 | column -J -N a | wc
(head -c 3000000 /dev/zero|tr '\0' a; echo ' b'; yes 'a b' | head -n 100000) | column -t | head -c 100000000 | wc -c
od -w100000000 /etc/passwd | wc -c; head -c 60000000 /dev/zero | od -w60000000 | wc -c
od -j 100000000000 /dev/zero; od -S 100000000 /dev/zero; strings -n 100000000 /dev/zero
head -c 30000000 /dev/zero| xxd -c 250 -b | wc -c;  xxd -p -c 60000000 < <(head -c 60000000 /dev/zero) | wc -c
echo '7fffffff: 41' | xxd -r | head -c 100000000 | wc -c; echo 'ffffff: 41' | xxd -r - out
head -c 9000000 /dev/zero > f; xxd -i f | wc -c
hexdump -e '100000000/1 "%02x"' /dev/zero | head -c 10; hexdump -e "$(yes '1/1 "%02x" ' | head -c 5000000 | tr -d '\n')" /etc/passwd | wc -c; hexdump -e '"%90000000d"' /etc/passwd|head -c 1000000000|wc -c
head -c 60000000 /dev/zero | basenc --base2msbf | wc -c; head -c 60000000 /dev/zero | basenc --z85 -w0 | wc -c; base64 -w 1000000000 /dev/zero | head -c 100000000 | wc -c
yes | tr -d '\n' | head -c 90000000 | base64 -d | wc -c; yes % | base64 -di | wc -c
yes | head -c 5000000 > f; split -n 100000 f; split -b 1 f; split -l 1 -a 8 f; ls | wc
yes | head -c 5000000 | split -l 1 --filter 'cat >/dev/null'; split -n l/1000000 /etc/passwd; split -n r/3000000 /etc/passwd
csplit -n 100000000 /etc/passwd 1; csplit -f "$(head -c 10000000 /dev/zero|tr '\0' a)" /etc/passwd 2;  csplit -b %090000000d /etc/passwd 2
seq 1 300000 | csplit -s - '/1/' '{*}'; seq 1 300000| csplit - $(seq 1 300000) | wc
head -c 100000000 /dev/zero | wc -L; wc --files0-from=<(yes /etc/passwd | tr '\n' '\0' | head -c 10000000) | tail -1
numfmt --padding=90000000 1 | wc -c; numfmt --format '%90000000f' 1 | wc -c; yes 1 | tr '\n' ' ' | head -c 10000000 | numfmt --field=- | wc -c; numfmt --suffix "$(head -c 10000000 /dev/zero|tr '\0' a)" {1..100}|wc -c
seq -w 1 1e50 | head -c 100000000 | wc -c; seq -f "%0900000000f" 3 | wc -c; seq -s "$(head -c 30000000 /dev/zero|tr '\0' a)" 100 | wc -c
factor $(head -c 100000 /dev/zero|tr '\0' 7); seq 1 10000000|factor|wc
seq 1 2000000 | tsort | wc; yes 'a b' | head -c 10000000 | tsort | wc
[ $(printf '! %.0s' {1..500000}) x ]; test $(printf '( %.0s' {1..300000}) x
date +"$(yes %c | head -c 10000000 | tr -d '\n')" | wc -c; date -f <(yes now | head -n 1000000) | wc; date +%90000000N | wc -c; date +%090000000Y|wc -c
cal -n 1000000 | wc -c; cal -Y 9999; ncal -A 10000000 | head -c 1000
head -c 60000000 /dev/zero | iconv -t UTF-32 | wc -c; head -c 60000000 /dev/urandom | iconv -c -f utf-7 | wc -c
export X=$(head -c 5000000 /dev/zero|tr '\0' a); yes '$X$X$X$X' | head -n 10 | envsubst | wc -c
yes | xargs -s 100000000 -n 100000000 echo | head -c 10; seq 1 100000 | xargs -I{} echo {}{}{}{}{}{} | wc; yes | head -c 100000 | xargs -P 1000 -n 1 sleep
head -c 90000000 /dev/zero | xargs -0 -L 10000000 echo | wc -c; head -c 90000000 /dev/zero|tr '\0' a | xargs -d x echo | wc -c
find / $(yes -name | head -n 300000 | sed 's/$/ x -o/') -name y | wc;  find / $(yes '(' | head -n 300000) -name x
find / -printf "$(yes %p | head -c 3000000|tr -d '\n')" | wc -c; find / -printf '%90000000p' | head -c 1000000000 | wc -c
find / -exec echo $(yes '{}' | head -n 100000) \; | head -c 1000000000 | wc -c; find / -exec echo {} + | wc
find / -regex "$(seq -s '\|' 1 400000)" | wc
ls -l --time-style="+$(yes %c|head -c 3000000|tr -d '\n')" / | wc -c; ls -I "$(head -c 10000000 /dev/zero|tr '\0' '*')b" /; ls --block-size=1 -l / | wc
stat -c "$(yes %n | head -c 3000000|tr -d '\n')" /etc/passwd{,,,,,,,,,,} | wc -c; stat -c %90000000n / | wc -c; stat --printf "$(head -c 9000000 /dev/zero|tr '\0' '\\')" /|wc -c
mkdir -p $(printf 'a/%.0s' {1..2000}); du -a / | wc; tree / | wc; tree -J / | wc; find / | wc; ls -R / |wc
env $(for i in {1..300000}; do echo a$i=1; done) printenv | wc; env -S "$(yes a= | head -c 9000000|tr '\n' ' ') true"
getopt -o "$(head -c 5000000 /dev/zero|tr '\0' a)" -- $(seq 1 300000) | wc; getopt -l "$(seq -s, 1 500000)" -o x -- --1 | wc
tput cup 100000000 100000000 | wc -c; tput rep a 100000000|wc -c; printf '%s' $(tput ich 10000000) | wc -c
f=true; for i in {1..20000}; do f="env $f"; done; $f; timeout 100 timeout 100 yes > /dev/null
yes $(seq 1 600000) | head -c 100000000 | wc -c; yes "$(head -c 20000000 /dev/zero|tr '\0' a)" | head -c 100000000|wc -c
yes | head -c 2000000 | tee $(seq 1 5000) > /dev/null; yes | tee /dev/stdout /dev/stdout /dev/stdout | head -c 1000000000 | wc -c
echo a > f; tee -a f < f; cat f | tee f f f f f | wc -c
dd if=/dev/zero bs=1G count=1 of=/dev/null; dd if=/dev/zero ibs=1 obs=500M count=600M of=/dev/null; dd if=/dev/zero bs=500M conv=sync,block,ucase cbs=100M count=1 | wc -c
yes | head -c 10000 | dd cbs=10000000 conv=block | head -c 1000000000 | wc -c; yes | dd cbs=300000000 conv=unblock | head -c 10
truncate -s 1000G f; ls -l f; cat f | head -c 100000000 | wc -c; cp f g; tar cf - f | head -c 100000000 | wc -c; gzip -k f;
sha256sum $(yes /etc/passwd | head -n 300000) | wc; md5sum -c <(yes 'd41d8cd98f00b204e9800998ecf8427e  /x' | head -c 10000000) 2>&1 | wc
uuidgen -C x; mcookie -m 100000000000 -f /dev/zero; mktemp "$(head -c 5000000 /dev/zero|tr '\0' X)"; mktemp -d -p "$(head -c 5000000 /dev/zero|tr '\0' /)"
realpath $(printf '../%.0s' {1..1000000}) ; readlink -f "$(head -c 5000000 /dev/zero|tr '\0' /)"; realpath --relative-to=$(printf 'a/%.0s' {1..500000}) / | wc -c; basename -a $(seq 1 300000) | wc; dirname $(seq 1 300000)|wc
man $(seq 1 100000) 2>&1 | wc; which -a $(seq 1 300000) 2>&1| wc
kill -9 $(seq 100000 500000) 2>&1 | wc; pgrep "$(seq -s '|' 1 400000)"; ps -o $(printf 'pid,%.0s' {1..300000})pid | wc -c
find / | cpio -o 2>/dev/null | wc -c; head -c 9000000 /dev/urandom | cpio -t 2>&1 | tail -1; printf '0707010000000000000000000000000000000000000000000000007fffffff00000000000000000000000000000000000000017fffffff00000000' | cpio -i
find / | cpio -o 2>/dev/null | wc -c; head -c 9000000 /dev/urandom | cpio -t 2>&1 | tail -1
mkdir d; for i in {1..9000}; do : > d/$i; done; tar cf t d; tar tvf t | wc; tar czf t.gz d; tar xzf t.gz -C / 2>&1 | wc
head -c 1000000000 /dev/zero | gzip -9 | gzip -9 > b.gz; zcat b.gz | zcat | head -c 2000000000 | wc -c; zcat b.gz | zcat | tail -n 1 | wc
tar --format=pax --pax-option="comment:=$(head -c 10000000 /dev/zero|tr '\0' a)" -cf t /etc/passwd; ls -l t
n=$(printf 'a/%.0s' {1..2000}); mkdir -p $n; tar cf t a; tar tf t | wc -c; tar xf t --transform="s/a/$(head -c 100000 /dev/zero|tr '\0' b)/g" | wc
tar cf - /etc --transform="s/e/$(head -c 3000000 /dev/zero|tr '\0' b)/g" 2>&1| wc -c
tar cf - /etc --exclude-from=<(seq 1 900000) | wc -c
tar cf - -T <(yes /etc/passwd | head -n 1000000) 2>/dev/null | wc -c
printf '%s' "$(head -c 100000 /dev/zero | tr '\0' 7)" | tar tf - ; (head -c 124 /dev/zero | tr '\0' a; printf '77777777777'; head -c 400 /dev/zero) | tar xf -
head -c 11000000 /dev/zero > f; zip -q z f f; for i in 1 2 3 4 5 6; do cp z z$i; zip -q y z$i; done; unzip -p y | wc -c; unzip -p z f f f f|wc -c; unzip -l $(yes z | head -n 1) $(yes f | head -n 300000) | wc
for i in {1..9000}; do : > $i; done; zip -q z *; unzip -l z | wc; unzip -o -q z -d x; zip -@ -q w < <(yes 1 | head -n 1000000)
head -c 500000000 /dev/zero | bzip2 > b; bzcat b | wc -c; bzcat b | tail -c 100000000 | wc -c
for i in {1..3000}; do echo $i > f$i; done; gzip f*; gunzip f*; gzip -l f* | wc; gzip -c $(yes f1 | head -n 300000) | wc -c
head -c 30000000 /dev/urandom | gzip | gzip | gzip | bzip2 | wc -c
for i in {1..40}; do (head -c 3000000 /dev/urandom | gzip; sleep 2) >/dev/null & done; wait
for i in {1..40}; do (yes | bzip2; sleep 2) >/dev/null & done; wait
for i in {1..60}; do (yes | head -c 1500000 | sort >/dev/null; sleep 2)  & done; wait
for i in {1..60}; do awk 'BEGIN{while(i<20000)a[i++]=i;system("sleep 2")}'  & done; wait
for i in {1..60}; do jq -n '[range(20000)]|length, (input|1)' < <(sleep 2)  & done; wait
for i in {1..2000}; do sleep 3 & done 2>/dev/null; wait
for i in {1..60}; do (sleep 2; echo a) | grep -E '(a{1,200}b{1,200}){1,3}' & done; wait
for i in {1..200}; do bash -c 'x=$(sleep 2)' & done 2>/dev/null; wait
for i in {1..60}; do sed 's/x/y/;$!{h;G}' < <(head -c 300000 /dev/zero; sleep 2) >/dev/null & done; wait
for i in {1..60}; do iconv -t utf-16 < <(head -c 300000 /dev/zero; sleep 2) >/dev/null & done; wait
seq 1 30000 > a; seq 2 30001 > b; for i in {1..40}; do diff a b >/dev/null & done; wait
head -c 1000000 /dev/urandom > f; zip -q z f; for i in {1..60}; do unzip -p z | (sleep 2; cat) >/dev/null & done; wait
for i in {1..60}; do tac < <(head -c 1200000 /dev/zero; sleep 2) | tac | tac >/dev/null & done; wait
for i in {1..200}; do yes | cat | cat | cat | cat | sleep 2 & done 2>/dev/null; wait
x=$(head -c 1000000 /dev/zero|tr '\0' a); for i in {1..60}; do sleep 2 <<< "$x$x" & done; wait
yes ': aaaaaaaaaaaaa' | head -c 800000 > s; for i in {1..60}; do (. ./s; sleep 2) & done; wait
x=$(head -c 100000 /dev/zero|tr '\0' a); for i in {1..100}; do sleep 3 $x $x $x $x & done; wait
mkdir d; for i in {1..5000}; do : > d/$i; done; for i in {1..60}; do find / -print | (sleep 2; cat) > /dev/null & done; wait
mkdir d; for i in {1..5000}; do : > d/$i; done; for i in {1..60}; do ls -l d  | (sleep 2; cat) > /dev/null & done; wait
mkdir d; for i in {1..5000}; do : > d/$i; done; for i in {1..60}; do (a=(d/*); sleep 2) & done; wait
for i in {1..40}; do export x=$(head -c 4000000 /dev/zero|tr '\0' a)$i; sleep 3 & done; wait
for i in {1..40}; do x=$(head -c 4000000 /dev/zero|tr '\0' a)$i; (sleep 3; echo ${#x}) & done; wait
for i in {1..40}; do a=({1..90000}); (sleep 3; echo ${#a}) & done; wait
n=$'\n'; b=$(yes : | head -c 100000); for i in {1..40}; do eval "f(){ $b$n}"; (sleep 3; f) & done; wait
for i in {1..40}; do set -- $(head -c 4000000 /dev/zero|tr '\0' a)$i; (sleep 3; echo ${#1}) & done; wait
f(){ (sleep 3; echo ${#1}) & }; for i in {1..40}; do f "$(head -c 4000000 /dev/zero|tr '\0' a)$i"; done; wait
for i in {1..40}; do (sleep 3; : ) <<< "$(head -c 4000000 /dev/zero|tr '\0' a)$i" & done; wait
for i in {1..40}; do alias x="$(head -c 4000000 /dev/zero|tr '\0' a)$i"; (sleep 3; echo) & done; wait
f(){ local y=$(head -c 4000000 /dev/zero|tr '\0' a)$1; (sleep 3; echo ${#y}) & }; for i in {1..40}; do f $i; done; wait
for i in {1..40}; do for y in $(head -c 4000000 /dev/zero|tr '\0' a)$i; do (sleep 3; echo ${#y}) & done; done; wait
for i in {1..40}; do (for y in {1..200000}; do sleep 3; done) & done; wait
for i in {1..40}; do (case $(head -c 4000000 /dev/zero|tr '\0' a) in *) sleep 3;; esac) & done; wait
for i in {1..40}; do ([[ $(head -c 4000000 /dev/zero|tr '\0' a) == $(sleep 3) ]]) & done; wait
for i in {1..40}; do x=$(head -c 4000000 /dev/zero|tr '\0' a) sleep 3 & done; wait
f(){ sleep 3; }; for i in {1..40}; do (x=$(head -c 4000000 /dev/zero|tr '\0' a) f) & done; wait
for i in {1..40}; do (eval "sleep 3; : $(head -c 1000000 /dev/zero|tr '\0' a)") & done; wait
for i in {1..40}; do bash -c "sleep 3; : $(head -c 1000000 /dev/zero|tr '\0' a)" & done; wait
for i in {1..40}; do (eval "sleep 3; : $(yes a|head -c 300000|tr '\n' ' ')") & done; wait
for i in {1..40}; do (printf -v x %4000000s a; sleep 3) & done; wait
for i in {1..40}; do (mapfile a < <(yes|head -c 300000); sleep 3) & done; wait
for i in {1..40}; do ([[ a =~ (a{1,200}){1,100} ]]; sleep 3) & done; wait
f(){ echo "$(head -c 3000000 /dev/zero|tr '\0' a)$( [ $1 -gt 0 ] && f $(($1-1)) )"; }; f 40 | wc -c
for i in {1..40}; do (exec sleep 3 "$(head -c 4000000 /dev/zero|tr '\0' a)") & done; wait
set -o history; for i in {1..40}; do history -s "$(head -c 4000000 /dev/zero|tr '\0' a)$i"; history -c; (sleep 3) & done; wait
for i in {1..40}; do (x=$(printf '/%.0s' {1..4000000}); cd "$x"; sleep 3)& done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; (sleep 3; echo ${#x}) & done; wait
f(){ (sleep 3; echo ${#1}) & }; for i in {1..16}; do printf -v x '%9000000s' $i; f "$x"; done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; trap "$x" USR1; x=; (sleep 3; echo) & done; wait
f(){ local y; printf -v y '%9000000s' $1; (sleep 3; echo ${#y}) & }; for i in {1..16}; do f $i; done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; for y in "$x"; do (sleep 3; echo ${#y}) & done; done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; : "$x"; (sleep 3; : $_) & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; PS4=$x; IFS=$x; (sleep 3) & done; wait
set -o history; for i in {1..16}; do printf -v x '%9000000s' $i; history -s "$x"; history -c; (sleep 3) & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; complete -W "$x" foo;  (sleep 3) & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; : "$x" & done; wait
for i in {1..300}; do eval "sleep 3 $(printf '%0100000d' 0) &"; done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; bash -c 'sleep 3' "$x" & x=; done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; sleep 3 <<< "$x" & x=; done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; [[ $x =~ .* ]]; x=; (sleep 3) & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; declare -A a; a[$x]=1; unset a; (sleep 3) & done; wait
for i in {1..16}; do printf -v x '/%.0s' {1..1000000}; pushd "$x" >/dev/null; (sleep 3) & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; (exec -a "$x" sleep 3) & x=; done; wait
for i in {1..40}; do printf -v x '%4000000s' $i; sleep 3 "$x" & done; wait
n=$'\n'; b=$(printf ':\n%.0s' {1..40000}); for i in {1..30}; do eval "f(){ $b$n}"; (sleep 3; f) & done; wait
a=($(seq 100000)); x=$(printf 'a%.0s' {1..10000}); b=("${a[@]/#/$x}"); echo ${#b[@]}
a=($(seq 300000)); x=$(printf 'a%.0s' {1..4000}); echo "${a[*]/%/$x}" | wc -c
x=$(head -c 14000000 /dev/zero | tr '\0' a); y=${x/#/$x}; z=${x/%/$x}; echo ${#y} ${#z}
declare -n x='a[$(yes)]'; x=1
echo $(( $(yes) ))
eval "$(printf ': | %.0s' {1..100000}) :"
git init -q r; cd r; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m "$(head -c 9000000 /dev/zero | tr '\0' a)"; git log --format='%s%b%B%f%w(1,2,3)%B' | wc -c
git init -q r; cd r; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m "$(printf 'a%.0s' {1..5000})"; git log --format="$(yes %B | head -c 200000)" | wc -c
p="BEGIN{x=$(printf '1 %.0s' {1..400000})}"; for i in {1..20}; do awk "$p" & done; wait
COLUMNS=1000000000; select x in $(seq 10000) $(printf 'a%.0s' {1..100000}); do :; done </dev/null
select x in $(seq 1 1000000); do :; done < <(yes 1)
