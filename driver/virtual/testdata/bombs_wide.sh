# As bombs.sh, but written without looking at it. They found nothing more.
x=$(head -c 15000000 /dev/zero | tr '\0' a); for i in {1..10}; do history -s "$x$i"; done; history | tail -c 5
x=$(head -c 12000000 /dev/zero | tr '\0' a); declare -p x | wc -c
x=$(head -c 12000000 /dev/zero | tr '\0' "'"); declare -p x | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' '\n'); declare -p x | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' '\001'); echo "${x@Q}" | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' '\001'); set | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' '\001'); export x; export -p | wc -c
x=$(head -c 15000000 /dev/zero | tr '\0' a); export x; env | wc -c
x=$(head -c 15000000 /dev/zero | tr '\0' a); export x; bash -c 'y=$x$x; bash -c "z=\$x; env | wc -c"'
x=$(head -c 9000000 /dev/zero | tr '\0' '\\'); echo "${x@E}" | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); echo "${x@U}${x@u}${x@L}" | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); echo "${x^^}${x,,}${x^}" | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); echo "${x@P}" | wc -c
x=$(head -c 2000000 /dev/zero | tr '\0' '$'); PS4=$x; set -x; true; true
x=$(head -c 4000000 /dev/zero | tr '\0' 'a'); set -x; for i in 1 2 3 4; do echo $x > /dev/null; done 2>&1 | wc -c
x=$(yes '\w' | head -n 1000000 | tr -d '\n'); echo "${x@P}" | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' ' '); set -- $x; echo $#
x=$(yes a | head -c 6000000); a=($x); b=("${a[@]}"); c=("${b[@]}"); echo ${#c[@]}
x=$(yes a | head -c 4000000); a=($x); echo "${a[*]}" | wc -c; echo "${a[@]/a/bbbbbbbbbbbbbbbb}" | wc -c
x=$(yes a | head -c 4000000); a=($x); echo "${!a[@]}" | wc -c
declare -A h; for ((i=0;i<3000000;i++)); do h[$i]=$i; done; echo ${#h[@]}
declare -A h; k=$(head -c 1000000 /dev/zero | tr '\0' k); for ((i=0;i<100;i++)); do h[$k$i]=1; done; echo "${!h[@]}" | wc -c
a[1000000000]=1; a[2000000000]=1; for ((i=0;i<2000000;i++)); do a[i*1000]=x; done; echo ${#a[@]}
for ((i=0;i<1000000;i++)); do eval "v$i=aaaaaaaaaaaaaaaaaaaaaaaaaaa"; done; set | wc -c
for ((i=0;i<500000;i++)); do eval "f$i() { echo a b c; }"; done; declare -F | wc -l
for ((i=0;i<500000;i++)); do alias a$i=bbbbbbbbbbbbbbbbbbbbbbbbb; done; alias | wc -l
for ((i=0;i<500000;i++)); do trap "echo $i aaaaaaaaaaaaaaaaaaaa" USR1; done; trap -p
x=$(head -c 9000000 /dev/zero | tr '\0' '#'); trap "$x" EXIT; trap "$x" USR1; trap "$x" USR2; trap "$x" HUP; trap -p | wc -c
x=$(head -c 20000000 /dev/zero | tr '\0' ';' ); trap "true $x" EXIT
f() { local x=$1$1; f "$x"; }; f aaaaaaaaaaaaaaaa
f() { local a=("$@" "$@"); f "${a[@]}"; }; f a b c
f() { echo "$(f "$1$1")"; }; f aaaaaaaa
f() { f | f; }; f
f() { cat <<< "$1" | f "$1$1"; }; f aaaaaaaa
x=aaaaaaaaaaaaaaaa; while :; do read -r y <<< "$x"; x=$y$y; done
x=a; while :; do x=$(printf '%s%s' "$x" "$x"); done
x=a; while :; do printf -v x '%s%s%s' "$x" "$x" "$x"; done
x=a; while :; do x+=$x; y+=$x; z+=$y; done
printf -v x '%*s' 30000000 a; printf -v y '%s%s%s' "$x" "$x" "$x"; echo ${#y}
printf '%-60000000s|' 7 | wc -c
printf '%.60000000f' 1.5 | wc -c
printf '%60000000.50000000e' 1.5 | wc -c
printf '%s' {1..3000000} | wc -c
printf '%q' "$(head -c 12000000 /dev/zero | tr '\0' '\002')" | wc -c
printf '%b' "$(yes '\x41' | head -c 20000000)" | wc -c
printf "$(yes '%s' | head -c 9000000)" a | wc -c
printf "$(yes '\n' | head -c 20000000 | tr -d '\n')" | wc -c
printf '%(%A%A%A%A%A)T%.0s' {1..1000000} | wc -c
f=$(yes '%A' | head -c 3000000 | tr -d '\n'); printf "%($f)T" 0 | wc -c
date "+$(yes '%N' | head -c 9000000 | tr -d '\n')" | wc -c
date '+%50000000A' | wc -c
date '+%060000000d' | wc -c
echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} | wc -c
echo {000000000000000000000000000001..3000000} | wc -c
echo {1..100000000..3} | wc
x=$(head -c 500000 /dev/zero | tr '\0' a); eval "echo {1..200}$x" | wc -c
x=$(head -c 300000 /dev/zero | tr '\0' ','); eval "echo {$x}{a,b,c}" | wc -c
for i in {1..5000000}; do :; done
case $(head -c 20000000 /dev/zero | tr '\0' a) in *a*a*a*b) echo y;; esac
[[ $(head -c 9000000 /dev/zero | tr '\0' a) =~ (a*)*b ]]; echo $?
[[ $(head -c 9000000 /dev/zero | tr '\0' a) =~ ^(a)(a)(a)(a)(.*)$ ]]; echo ${#BASH_REMATCH[5]}
r=$(yes '(a|b)' | head -c 900000 | tr -d '\n'); [[ a =~ $r ]]; echo $?
r=$(yes 'a{1,200}' | head -c 9000 | tr -d '\n'); [[ a =~ $r ]]; echo $?
r=$(yes '[a-z]' | head -c 3000000 | tr -d '\n'); [[ a =~ $r ]]; echo $?
p=$(yes '?(a|b)' | head -c 900000 | tr -d '\n'); shopt -s extglob; case aaaa in $p) echo y;; esac
p=$(yes '*' | head -c 9000000 | tr -d '\n'); case $(head -c 100000 /dev/zero | tr '\0' a) in ${p}b) echo y;; esac
p=$(yes '[a-z]' | head -c 9000000 | tr -d '\n'); x=$p; echo ${x#$p} | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); echo ${x//a/bbbbbbbbbb} | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); echo ${x//a?/} ${x//?/xx} | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); y=${x/#a/$x}; z=${y/%a/$y}; echo ${#z}
x=$(head -c 9000000 /dev/zero | tr '\0' a); for ((i=0;i<9000000;i+=100)); do y=${x:i}; done
head -c 30000000 /dev/zero | tr '\0' a | { read -r x; echo ${#x}; }
head -c 30000000 /dev/zero | tr '\0' a | { read -d b -r x; read -N 30000000 y; echo ${#x}; }
yes | { read -N 100000000 x; echo ${#x}; }
yes | mapfile a
yes '' | mapfile -t a
yes | mapfile -n 3000000 -O 1000000 a; echo ${#a[@]}
yes $(head -c 100000 /dev/zero | tr '\0' a) | mapfile -t a
cb() { x+=$2; }; yes | mapfile -C cb -c 1 a
head -c 60000000 /dev/zero | tr '\0' a | mapfile -d b a
select x in {1..2000000}; do break; done < <(echo 1) 2>&1 | wc -c
getopts "$(head -c 30000000 /dev/zero | tr '\0' a)" x -a; echo $x
cat << E | wc -c
x=$(seq 1 1500000); cat <<< "$x$x$x" | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); cat <<< "$x" <<< "$x" <<< "$x" <<< "$x" <<< "$x"  <<< "$x" <<< "$x" <<< "$x"| wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); cat <(echo $x) <(echo $x) <(echo $x) <(echo $x) <(echo $x) <(echo $x) | wc -c
for i in {1..200}; do sleep 10 <<< "$(head -c 900000 /dev/zero | tr '\0' a)" & done; wait
for i in {1..200}; do { x=$(head -c 900000 /dev/zero | tr '\0' a); sleep 3; } & done; wait
x=$(head -c 5000000 /dev/zero | tr '\0' a); for i in {1..100}; do (y=$x$x; sleep 3) & done; wait
eval "$(yes 'x=1;' | head -c 9000000)"
eval "$(yes 'echo a b c d e f > /dev/null' | head -c 9000000 | head -n -1)"
eval "$(yes '((a=1+2*3))' | head -c 6000000 | head -n -1)"
eval "a=($(yes '$x' | head -c 9000000 | tr '\n' ' '))"
eval "echo $(yes '"a"$b' | head -c 9000000 | tr '\n' ' ')" | wc -c
yes 'if a; then b; fi' | head -c 9000000 | head -n -1 > s; bash -n s
yes 'case a in b) c;; esac' | head -c 9000000 | head -n -1 > s; bash -n s
yes 'f() { a; }' | head -c 9000000 | head -n -1 > s; bash s; declare -f | wc -c
eval "f() { $(yes ': a b c;' | head -c 6000000) }"; declare -f f | wc -c
eval "f() { $(yes ': a b c;' | head -c 3000000) }"; export -f f; bash -c 'declare -f f | wc -c'
echo $(( $(yes '1+' | head -c 6000000 | tr -d '\n')1 ))
x=$(yes '1,' | head -c 6000000 | tr -d '\n')1; echo $((x))
x=x; echo $((x)) ; a=b; b=a; echo $((a))
let $(yes 'a=1' | head -c 9000000 | tr '\n' ' '); echo $a
echo $((2**62)) $((10#$(head -c 30000000 /dev/zero | tr '\0' 1)))
awk 'BEGIN { x="a"; while (1) x = x x }'
awk 'BEGIN { while (1) a[i++] = "aaaaaaaaaaaaaaaaaaaaaa" i }'
awk 'BEGIN { while (1) a[i++,j++] = i }'
awk 'BEGIN { x=sprintf("%30000000s","a"); y=x x x; print length(y) }'
awk 'BEGIN { x=sprintf("%10000000s","a"); gsub(/ /,"bbbbbbbbbb",x); print length(x) }'
awk 'BEGIN { x=sprintf("%10000000s","a"); gsub(/ /,"&&&&&&&&&&",x); print length(x) }'
awk 'BEGIN { x=sprintf("%10000000s","a"); n=split(x,a,""); print n }'
awk 'BEGIN { x=sprintf("%9000000s","a"); $0=x; $900000=1; print length($0) }'
awk 'BEGIN { $5000000="a"; print length($0) }'
awk 'BEGIN { OFS=sprintf("%1000s","a"); $50000="a"; print length($0) }'
awk 'BEGIN { CONVFMT="%.30000000f"; x = 1.5 ""; y = 2.5 ""; print length(x y) }'
awk 'BEGIN { OFMT="%.30000000f"; print 1.5, 2.5, 3.5 }' | wc -c
awk 'BEGIN { while (("seq 1 3000000" | getline x) > 0) a[n++]=x; print n }'
awk 'BEGIN { for(;;) print "aaaaaaaaaaaaaaaa" | ("cat > /dev/null; true " i++) }'
awk 'BEGIN { for(;;) print "aaaaaaaaaaaaaaaa" > ("f" i++) }'
awk 'function f(x) { return f(x x) } BEGIN { f("aaaaaaaa") }'
awk 'function f(a,  b) { b[1]=sprintf("%1000000s",1); f(b) } BEGIN { f() }'
awk 'BEGIN { x=sprintf("%9000000s","a"); for (i=0;i<100;i++) a[i]=toupper(x) i }'
awk 'BEGIN { x=sprintf("%9000000s","a"); for (i=0;i<100;i++) a[i]=substr(x,i+1) }'
head -c 60000000 /dev/zero | tr '\0' a | awk '{ print length($0) }'
head -c 60000000 /dev/zero | tr '\0' a | awk -v RS=b '{ print length($0) }'
head -c 60000000 /dev/zero | tr '\0' a | awk -v RS='(b|c)+' '{ print length($0) }'
yes a | head -c 20000000 | tr '\n' ' ' | awk '{ print NF; $3="x"; print NF }'
yes a | head -c 20000000 | awk -v RS= '{ print NF }'
awk "BEGIN { $(yes 'x=1;' | head -c 6000000) }"
awk "BEGIN { x = $(yes '"a" ' | head -c 6000000 | tr '\n' ' ') \"\"; print length(x) }"
awk "/$(yes 'a{1,9}' | head -c 60000 | tr -d '\n')/" /etc/passwd
awk 'BEGIN { r="(a|b)"; while (1) { r = r r; if ("aaa" ~ r) n++ } }'
yes aaaa | sed ':a;N;ba'
yes aaaa | sed -n 'H;g;H;g'
echo a | sed ':a;s/a/aa/g;ba'
echo a | sed ':a;G;h;ba'
echo a | sed ':a;s/.*/&&&&/;h;G;G;x;ba'
echo a | sed -E ':a;s/(.*)/\1\1\U\1/;ba'
head -c 60000000 /dev/zero | tr '\0' a | sed 's/a/bb/g' | wc -c
head -c 9000000 /dev/zero | tr '\0' '\001' | sed -n l | wc -c
head -c 9000000 /dev/zero | tr '\0' a | sed 'y/a/\n/;s/\n/\n\n/g' | wc -c
sed "$(yes 's/a/b/' | head -c 3000000)" /etc/passwd
sed "a$(head -c 20000000 /dev/zero | tr '\0' 'b')" /etc/passwd | wc -c
yes a | sed '1~2!G;h;$!d'
seq 1 9000000 | sed -n '$p;1!G;h'
for i in {1..400}; do echo "w f$i"; done > s; yes $(head -c 10000 /dev/zero | tr '\0' a) | sed -f s | head -c 30000000 | wc -c
jq -n '[range(10000000)] | length'
jq -n '[limit(100000000; repeat("aaaaaaaaaa"))] | length'
jq -n 'def f: [., .] | f; 1 | f'
jq -n '"a" | until(false; . + .)'
jq -n '"a" * 100000000 | length'
jq -n '[range(1000000)] | combinations' | head -1
jq -n '[[range(300)],[range(300)],[range(300)]] | [combinations] | length'
jq -n 'reduce range(100000000) as $i ([]; . + [$i]) | length'
jq -n 'reduce range(100000000) as $i ({}; .[$i|tostring] = $i) | length'
jq -n '[range(1000000)] | group_by(.) | map({a: .}) | tojson | length'
jq -n '[range(2000000)] | tojson | fromjson | length'
jq -n '"a" * 9000000 | explode | implode | length'
jq -n '"a" * 9000000 | [match("a"; "g")] | length'
jq -n '"a" * 9000000 | gsub("a"; "bb") | length'
jq -n '"a" * 9000000 | [splits("a")] | length'
jq -n '"a" * 9000000 | split("") | length'
jq -n '"a" * 9000000 | ascii_upcase + ascii_downcase + @base64 + @uri + @html + @sh + @json + @text | length'
jq -n '"&" * 9000000 | @html | @html | length'
jq -n '[range(2000000)] | @csv | length'
jq -n '[range(2000000)] | @tsv, @sh' | wc -c
jq -n '[range(2000000)] | transpose? // length'
jq -n '[[range(1000000)]] | transpose | length'
jq -n '[paths(..)]; [range(1000000)|[.]] | [paths] | length'
jq -n '[range(1000000)|[.]] | [paths] | length'
jq -n '[range(1000000)] | [leaf_paths] | length'
jq -n '[range(1000000)] | to_entries | length'
jq -n '[range(1000000)] | [.[:-1], .[1:], reverse, sort, unique] | map(length)'
jq -n 'setpath([100000000]; 1) | length'
jq -n '[] | .[50000000] = 1 | length'
jq -n '[1] | .[2:2] = [range(9000000)] | length'
jq -n '{} | [recurse(if . == null then empty else [.] end)] | length'
jq -n '[range(300000)] | tostream' | wc -c
jq -n '[range(1000000)] | [tostream] | fromstream(.[]) | length'
jq -n 'input_line_number, ([inputs] | length)' <(seq 1 3000000)
seq 1 3000000 | jq -s 'length'
seq 1 3000000 | jq -R . | jq -s 'length'
head -c 30000000 /dev/zero | tr '\0' a | jq -Rs length
head -c 30000000 /dev/zero | tr '\0' '[' | jq .
(printf '['; yes '[],' | head -c 9000000 | tr -d '\n'; printf '0]') | jq length
(printf '['; yes '{},' | head -c 9000000 | tr -d '\n'; printf '0]') | jq length
(printf '{'; seq -f '"%.0f":1,' 1 1000000 | tr -d '\n'; printf '"a":0}') | jq length
jq -n --arg a "$(head -c 15000000 /dev/zero | tr '\0' a)" '[$a,$a+$a,$a+$a+$a]|map(length)'
jq -n '[limit(3000000; def f: ., f; 1|f)] | sort_by(-.) | length'
jq -n '[range(500000)|{a:., b:"x\(.)"}] | group_by(.a) | length'
jq -n '[range(500000)|{a:., b:"x\(.)"}] | INDEX(.a) | length'
jq -n 'label $f | foreach range(100000000) as $i ([]; . + [$i, $i]; if length > 90000000 then ., break $f else empty end)'
jq -n '$__prog_args' ; jq -n 'ltrimstr("a") as $x | [range(100000)|[range(100)]] | flatten | length'
jq -n '[range(100000)] | walk(if type=="number" then [.,.,.,.] else . end) | tojson | length'
jq -n '"a" * 3000000 | [range(length)] as $r | $r | length' ; jq -n '[range(3000000)] | indices(1) | length'
jq -n '"a" * 9000000 | indices("a") | length'
jq -n '"a,b" * 3000000 | split(",") | join("xxxxxxxx") | length'
jq -n '"a" * 9000000 | test("(a*)*b")'
jq -n '"a" * 3000000 | [scan("(a)(a)?")] | length'
jq -n '"a" * 3000000 | [capture("(?<x>a)"; "g")] | length'
jq -n '[range(1000000)|tostring] | add | length'
jq -n 'now | strftime("%A" * 3000000) | length'
jq -n '"x" | strptime("%A" * 3000000)'
jq -n '[splits("a";"b")]?, (env|tojson|length), ($ENV|length), ("\("a"*30000000)\("b"*30000000)"|length)'
head -c 30000000 /dev/zero | tr '\0' a | sort | wc -c
seq 1 3000000 | sort -r | tail -1
seq 1 3000000 | sort -n -k1,1 -k1,1r -u | tail -1
seq 1 3000000 | shuf | tail -1
shuf -i 1-100000000 | tail -1
shuf -r -n 100000000 -e a b | wc -l
seq 1 3000000 | tac | tail -1
head -c 60000000 /dev/zero | tac | wc -c
head -c 60000000 /dev/zero | rev | wc -c
head -c 60000000 /dev/zero | tr '\0' a | fold -w 1 | wc -l
head -c 60000000 /dev/zero | tr '\0' a | fmt | wc -c
head -c 9000000 /dev/zero | tr '\0' '\t' | expand -t 1000 | wc -c
head -c 9000000 /dev/zero | tr '\0' ' ' | unexpand -a -t 2 | wc -c
seq 1 1000000 | paste -s | wc -c
paste $(for i in {1..200}; do echo -n '/etc/passwd '; done) | wc -c
seq 1 1000000 | column | wc -c
seq 1 300000 | tr '\n' ' ' | column -t | wc -c
yes "a b c d e f" | head -n 400000 | column -t | wc -c
(head -c 3000000 /dev/zero | tr '\0' a; echo; yes a | head -n 1000) | column -t | wc -c
seq 1 1000000 | pr -3 -l 100000 | wc -c
seq 1 1000000 | nl -w 1000 | wc -c
seq 1 3000000 | xargs echo | wc -c
seq 1 1000000 | xargs -n 1 -I{} echo {}{}{}{}{} | wc -c
head -c 30000000 /dev/zero | tr '\0' a | xargs echo | wc -c
head -c 3000000 /dev/zero | tr '\0' a | xargs -I{} echo {}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{} | wc -c
seq 1 100000 | xargs -P 100 -n 1 sh -c 'x=$(head -c 3000000 /dev/zero | tr "\0" a); sleep 1'
seq -f "%1000000.0f" 1 100 | wc -c
seq -s "$(head -c 9000000 /dev/zero | tr '\0' a)" 1 30 | wc -c
seq -w 1 30000000 | tail -c 5
seq 1 0.0000000000001 2 | tail -1
diff <(seq 1 1000000) <(seq 2 1000001) | wc -l
diff <(seq 1 1000000) <(seq 1 2 2000000) | wc -l
diff <(head -c 20000000 /dev/zero | tr '\0' a) <(head -c 20000000 /dev/zero | tr '\0' b) | wc -c
diff -y <(seq 1 300000) <(seq 2 300001) | wc -c
diff -u <(yes a | head -n 2000000) <(yes b | head -n 2000000) | wc -c
comm <(seq 1 3000000) <(seq 1 3000000) | wc -l
join <(yes a | head -n 5000) <(yes a | head -n 5000) | wc -l
cmp -l <(yes a | head -c 9000000) <(yes b | head -c 9000000) | wc -l
uniq -c <(head -c 60000000 /dev/zero) | wc -c
head -c 60000000 /dev/zero | tr '\0' a | uniq | wc -c
head -c 60000000 /dev/zero | tr '\0' a | cut -c 1-50000000 | wc -c
cut -c $(seq -s, 1 2 1000000) /etc/passwd | wc -c
yes a | head -c 20000000 | tr '\n' ' ' | cut -d' ' -f1-9000000 --output-delimiter=xxxxxxx | wc -c
tr 'a' '[b*100000000]' < /etc/passwd | wc -c
tr '[a*100000000]b' 'c' < /etc/passwd | wc -c
head -c 60000000 /dev/zero | base64 -w 0 | base64 -d | wc -c
head -c 9000000 /dev/zero | base64 -w 1 | wc -c
head -c 30000000 /dev/zero | od -An -v -w1000000 | wc -c
head -c 30000000 /dev/zero | xxd -p -c 30000000 | wc -c
head -c 30000000 /dev/zero | xxd | xxd -r | wc -c
head -c 30000000 /dev/zero | hexdump -v -e '1000000/1 "%02x"' | wc -c
head -c 60000000 /dev/zero | strings | wc -c
head -c 60000000 /dev/zero | tr '\0' a | strings | wc -c
head -c 60000000 /dev/zero | split -b 1 - x; ls | wc -l
seq 1 1000000 | split -l 1 - x; ls | wc -l
head -c 10000000 /dev/zero | split -n 1000000 - x; ls | wc -l
seq 1 100000 | csplit -s - '/0/' '{*}'; ls | wc -l
head -c 60000000 /dev/zero | tr '\0' a | grep -o a | wc -l
head -c 60000000 /dev/zero | tr '\0' a | grep -c b
seq 1 3000000 | grep -B 100000000 3000000 | wc -l
seq 1 3000000 | grep -A 100000000 1 | wc -l
grep -e "$(seq 1 500000)" /etc/passwd | wc -l
grep -E "$(seq -s '|' 1 300000)" /etc/passwd | wc -l
grep -P "$(yes '(?=a)' | head -c 900000 | tr -d '\n')" /etc/passwd | wc -l
grep -w -i -f <(seq 1 500000) /etc/passwd | wc -l
grep -E '(((((a{1,50}){1,50}){1,50}){1,50}){1,50}' /etc/passwd; grep -E '((((a{1,90}){1,90}){1,90}){1,90})' /etc/passwd
grep -E "[[:alpha:]]{1000}{1000}" /etc/passwd; grep -E '\w{1,1000}\W{1,1000}x{1,1000}' /etc/passwd
grep -rn a / 2>/dev/null | wc -c
find / -printf "$(yes '%p' | head -c 900000 | tr -d '\n')\n" | wc -c
find / -printf '%1000000p\n' | wc -c
find / -regex "$(yes '(a|b)' | head -c 900000 | tr -d '\n')" | wc -l
find / -exec echo {} {} {} {} \; | wc -c
find / / / / / / / / / / -exec echo {} + | wc -c
mkdir d; for i in {1..9000}; do : > d/$i; done; echo d/* d/* d/* d/*/* | wc -c
for i in {1..9000}; do : > $i; done; shopt -s globstar extglob; echo **/**/** @(*|*)@(*|*) | wc -c
for i in {1..5000}; do : > $i; done; a=(* * * * * * * * * * * * * * * * * * * *); b=("${a[@]}" "${a[@]}" "${a[@]}"); echo ${#b[@]}
for i in {1..9000}; do : > $(printf '%0250d' $i); done; a=(* * * * * * * * *); ls -lR . . . . . | wc -c; echo ${#a[@]}
tar cf - / 2>/dev/null | wc -c; tar cf - / / / / 2>/dev/null | gzip | wc -c
head -c 60000000 /dev/zero | gzip | gunzip | wc -c
head -c 100000000 /dev/zero | gzip -9 > z.gz; cp z.gz y.gz; gunzip -k z.gz; zcat y.gz y.gz y.gz | tr '\0' a | wc -c; x=$(zcat y.gz | tr '\0' a)
head -c 100000000 /dev/zero | gzip | gzip | gzip > z; x=$(cat z | gunzip | gunzip | gunzip | tr '\0' a); echo ${#x}
head -c 10000000 /dev/zero > f; zip z.zip f; rm f; x=$(for i in {1..20}; do unzip -p z.zip; done | tr '\0' a); echo ${#x}
head -c 60000000 /dev/zero | bzip2 | bunzip2 | wc -c; head -c 60000000 /dev/zero | xz | unxz | wc -c
head -c 60000000 /dev/zero | zstd | zstd -d | wc -c
echo '2^99999999' | bc | wc -c
echo 'scale=9999999; 1/3' | bc | wc -c
echo 'define f(x) { return f(x)+f(x); } f(1)' | bc
echo 'for(i=0;i<99999999;i++) a[i]=i; 1' | bc
echo 'x=9; while(1) x=x*x' | bc
echo "$(yes '1+' | head -c 3000000 | tr -d '\n')1" | bc
echo 'obase=2; 7^3000000' | bc | wc -c
echo 'scale=20000; e(1); s(1); a(1)*4' | bc -l | wc -c
dc -e '2 99999999 ^ p' | wc -c
dc -e '[d 1 + lax] sa 1 lax'
dc -e '[d * lax] sa 9 lax'
expr $(head -c 3000000 /dev/zero | tr '\0' 9) '*' $(head -c 3000000 /dev/zero | tr '\0' 9) | wc -c
expr "$(head -c 9000000 /dev/zero | tr '\0' a)" : '\(a*\)' | wc -c
factor $(head -c 300 /dev/zero | tr '\0' 7)
numfmt --to=iec --padding=60000000 5 | wc -c
numfmt --format='%060000000f' 5 | wc -c
stat --printf='%60000000n' /etc/passwd | wc -c
tee $(for i in {1..200}; do echo f$i; done) < <(yes) > /dev/null
dd if=/dev/zero bs=100M count=5 | wc -c
dd if=/dev/zero of=f bs=1 seek=1T count=1; ls -l f
truncate -s 1T f; cat f | tr '\0' a | head -c 60000000 | wc -c
truncate -s 10M f; x=$(cat f f f f f f f | tr '\0' a); sort f f f | wc -c
truncate -s 9M f; tac f | wc -c; rev f | wc -c; awk '{print length}' f; sed -n p f | wc -c; jq -R length f
cat > s << 'X'; for i in {1..60}; do bash s $i & done; wait
ln -s . l; ls -R l/l/l/l/l/l/l/ | wc; find -L . | wc -l
mkdir -p $(printf 'd/%.0s' {1..2000}); find . | wc -c; ls -R | wc -c; tar cf - d | wc -c
yes | head -c 60000000 | tee >(cat > /dev/null) >(sort) >(tac) >(sort -r) > /dev/null
md5sum <(head -c 300000000 /dev/zero); sha256sum <(head -c 300000000 /dev/zero)
head -c 60000000 /dev/zero | tr '\0' '\n' | nl | tail -1
yes 'a=b' | head -c 9000000 | xargs env | tail -1
compgen -W "$(seq 1 1000000)" | wc -l
complete -W "$(head -c 20000000 /dev/zero | tr '\0' a)" foo; complete -p | wc -c
x=$(seq 1 1000000); fc -l; history -s $x; history | wc -c; history -c
hash $(seq 1 1000000) 2>&1 | wc -c
type $(seq 1 500000) 2>&1 | wc -c
unset $(seq -f 'a%.0f' 1 1000000); ulimit -a | wc -c
export $(seq -f 'a%.0f=1' 1 1000000); env | wc -c
readonly $(seq -f 'a%.0f=1' 1 1000000); readonly -p | wc -c
local_f() { local $(seq -f 'a%.0f=1' 1 500000); local -p | wc -c; }; local_f
declare -n r=x; x=$(head -c 9000000 /dev/zero | tr '\0' a); r+=$r$r; echo ${#r}
pushd / > /dev/null; for ((i=0;i<1000000;i++)); do pushd -n /tmp > /dev/null; done; dirs | wc -c
for ((i=0;i<1000000;i++)); do DIRSTACK+=(/tmp); done; dirs | wc -c
coproc { yes; }; read -N 50000000 x <&${COPROC[0]}; echo ${#x}
exec 3< <(yes); for ((i=4;i<1000;i++)); do eval "exec $i<&3"; done; ls /proc/self/fd | wc -l
x=$(head -c 9000000 /dev/zero | tr '\0' a); test "$x$x" = "$x$x" -a "$x$x" != b; echo $?
test $(yes '( a -o' | head -n 100000) a $(yes ')' | head -n 100000); echo $?
[[ $(yes '!' | head -c 100 | tr '\n' ' ') a ]]; x=$(yes '(' | head -c 3000000 | tr -d '\n'); eval "[[ $x"
timeout 1 yes | head -c 60000000 | wc -c; watch -n 0 true 2>&1 | head -c 10
tput -S 2>&1 < /dev/zero | head -c 10; look a 2>&1 | head -1; tsort <(seq 1 1000000) | wc -l
(seq 1 1000000 | sed 's/.*/& &1/') | tsort | wc -l
ptx /etc/passwd 2>&1 | head -1; seq 1 500000 | sed 's/$/ a b c d/' | join - <(seq 1 500000) | wc -l
rg a / 2>&1 | wc -c; tree / 2>&1 | wc -c; du -a / | wc -c
envsubst < <(yes '$x' | head -c 9000000) 2>&1 | wc -c
iconv -f latin1 -t utf8 <(head -c 30000000 /dev/zero | tr '\0' '\377') 2>&1 | wc -c
head -c 30000000 /dev/zero | tr '\0' a | iconv -f utf8 -t utf16 2>&1 | wc -c
patch -p0 < <(echo '--- a'; echo '+++ a'; echo '@@ -0,0 +1,100000000 @@'; yes + | head -n 3000000) 2>&1 | head -c 100
