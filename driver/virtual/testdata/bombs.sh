# One command in each line. TestBombsStayWithinTheLimit runs each in a process of its own.
seq 1 1300000 > p; grep -c -F -f p /etc/passwd
seq 1 100000 > p; grep -c -F -f p p
seq 1 100000 > p; grep -c -f p p
seq 100000 200000 > p; seq 1 300000 | grep -c -x -F -f p
x=$(head -c 20000000 /dev/zero | tr '\0' "'"); y=${x@Q}; echo ${#y}
x=$(head -c 20000000 /dev/zero | tr '\0' "'"); printf %q "$x" | wc -c
x=$(head -c 10000000 /dev/zero | tr '\0' "a"); y=${x//a/bbbbbbbbbbbbbbbbbbbb}; echo ${#y}
for i in {1..700000}; do echo "s/a$i/b/"; done > s; echo x | sed -f s
seq 1 700000 | sed 's,.*,s/a&/b/,' > s; echo x | sed -f s
seq 1 700000 | sed 's,.*,p,' > s; echo x | sed -f s | wc -c
seq 1 3000000 > f; csplit -z -s f '/9/' '{*}'; ls | wc -l
head -c 30000000 /dev/zero | tr '\0' 'a' > f; csplit -s f 1; ls | wc -l
head -c 10000000 /dev/zero | tr '\0' a | awk '{gsub(/a/,"bbbbbbbbbbbbbbbbbbbbbbbbbbbbb"); print length($0)}'
awk 'BEGIN{x="a"; while(1) x = x x; }'
echo {1..100000}{1..100000} | wc -c
echo {a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} | wc -c
jq -n '[range(100000000)] | length'
jq -n '[range(0;100000000)|tostring] | length'
echo x > f; tee -a f f f < f | wc -c
yes | tee a b c d > /dev/null
x=$(head -c 30000000 /dev/zero | tr '\0' x); a=($x $x $x $x $x); echo ${#a[@]}
x=$(head -c 6000000 /dev/zero | tr '\0' ' '); set -- $x; y=${x// /a }; set -- $y; echo $#
printf '%s\n' {1..3000000} | sort -R | wc -l
printf '%0100000000d\n' 1 | wc -c
printf '%*d' 200000000 1 | wc -c
jq -n '"x" * 1000000000 | length'
jq -n 'reduce range(100000000) as $i (""; . + "abcdefgh") | length'
x=a; while :; do x=$x$x; done
a=(); while :; do a+=(1 2 3 4 5 6 7 8); done
declare -A m; i=0; while :; do m[$i]=$i; ((i++)); done
awk 'BEGIN{while(1) a[i++]=i}'
seq 1 100000000 | tac | head -1
seq 1 100000000 | sort | head -1
seq 1 100000000 | awk '{a[$0]=1} END{print length(a)}'
seq 1 100000000 | uniq -c | shuf | head -1
yes | tr -d '\n' | sed s/y/n/ | head -c 3
yes | tr -d '\n' | grep -o z
yes | tr -d '\n' | cut -c1
yes | tr -d '\n' | rev | head -c 3
yes | tr -d '\n' | fold -w 3 | head -1
head -c 100000000 /dev/zero | base64 | base64 -d | gzip | gunzip | wc -c
head -c 50000000 /dev/zero > z; gzip -k z; for i in 1 2 3 4 5; do gunzip -c z.gz; done | xz | wc -c
head -c 30000000 /dev/zero > z; diff z <(tr '\0' a < z) | wc -c
seq 1 2000000 > a; seq 2 2 4000000 > b; diff a b | wc -l
seq 1 2000000 > a; comm a a | wc -l
seq 1 2000000 > a; join a a | wc -l
seq 1 2000000 > a; paste -s a | wc -c
seq 1 2000000 | xargs echo | wc -c
seq 1 2000000 | column -t | tail -1
seq 1 2000000 | pr -5 | tail -1
seq 1 2000000 | tsort | tail -1
seq 1 2000000 | nl | tail -1
mapfile a < <(yes | head -c 100000000); echo ${#a[@]}
read -r -d '' x < <(yes); echo ${#x}
read -n 100000000 x < <(yes | tr -d '\n'); echo ${#x}
x=$(yes); echo ${#x}
cat <<< "$(yes | head -c 60000000)" | wc -c
printf -v x '%s' {1..2000000}; echo ${#x}
history -s "$(head -c 10000000 /dev/zero | tr '\0' a)"; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do history -s "$(head -c 10000000 /dev/zero | tr '\0' a)"; done; history | wc -c
eval "$(yes 'x=1;' | head -c 20000000)"
bash -c "$(yes ':;' | head -c 20000000)"
x=$(seq 1 500000); case 5 in $(echo $x | tr ' ' '|')) ;; esac
expr "$(head -c 20000000 /dev/zero | tr '\0' a)" : '\(.*\)' | wc -c
bc <<< '10^10000000' | wc -c
dc -e '10 10000000 ^ p' | wc -c
awk 'BEGIN{printf "%200000000d", 1}' | wc -c
awk 'BEGIN{x=sprintf("%50000000s","a"); n=split(x,a,""); print n}'
awk 'BEGIN{x=sprintf("%50000000s","a"); gsub(/ /,"&&&&&&&&",x); print length(x)}'
head -c 40000000 /dev/zero | od -A d -t x1z | tail -1
head -c 40000000 /dev/zero | xxd -p | wc -c
find / -printf '%100000000p' | wc -c
tar cf - /etc /usr | tar tvf - | wc -l
head -c 30000000 /dev/zero > z; cat z z z z z z z z > y; ls -l y
head -c 30000000 /dev/zero | sed ':a;N;$!ba;s/\x0/aaaaaaaa/g' | wc -c
yes | sed ':a;N;ba' | wc -c
yes | sed -n 'H;${x;p}' | wc -c
yes | sed 'G;h' | wc -c
jq -n '[limit(100000000; repeat(1))] | length'
jq -n '[range(3000000)] | map(tostring) | join(",") | length'
jq -n 'def f: [., .]; 0 | until(false; f)'
yes '{"a":1}' | jq -s length
yes '[' | tr -d '\n' | jq .
yes | tr -d '\n' | jq -R length
echo '"'$(head -c 20000000 /dev/zero | tr '\0' a)'"' | jq 'explode|length'
jq -n '"a"*10000000 | split("") | length'
jq -n '"a"*10000000 | [match("a";"g")] | length'
jq -n '"a"*5000000 | gsub("a";"bbbbbbbbbb") | length'
jq -n '"a"*5000000 | @base64 | @uri | @sh | @json | length'
jq -n '[range(1000000)] | @csv | length'
jq -n '[range(300000)] | combinations | length'
jq -n '[range(1000000)] | sort_by(-.) | group_by(.%7) | length'
yes | head -n 500000 > f; join f f | wc
mapfile -t a < <(head -c 200000000 /dev/zero | tr '\0' x); echo ${#a[@]}
x=$(jq -n 'range(30000552)' | tr -c x y); history -s "$x"; history | wc
x=$(yes a | head -c 9000000); set -- $x; echo $#; shift; echo $#
printf -v x '%.*d' 60000000 7; echo ${#x}
printf '%060000000d' 7 | wc -c
date "+$(yes '%A%c' | head -c 6000000 | tr -d '\n')" | wc -c
x=$(head -c 9000000 /dev/zero | tr '\0' a); IFS=a; set -- $x; echo $#
x=$(head -c 3000000 /dev/zero | tr '\0' :); IFS=:; read -ra a <<< "$x"; echo ${#a[@]}
awk 'BEGIN { x=sprintf("%10000000s","a"); n=split(x,a," "); gsub(/ /,"b ",x); n=split(x,a); print n }'
sed "s/a/$(head -c 9000000 /dev/zero | tr '\0' '&')/" <<< aaaaaaaaa | wc -c
jq -n '"\u0001" * 9000000 | @json | @json | length'
jq -n "$(yes '1,' | head -c 3000000 | tr -d '\n')1" | wc -c
jq -n "[$(yes '{a:1},' | head -c 6000000 | tr -d '\n')1] | length"
seq 1 1000000 | paste -s -d "$(head -c 9000000 /dev/zero | tr '\0' ab)" | wc -c
seq 1 $(head -c 9000000 /dev/zero | tr '\0' 9) | head -1
tr $(head -c 9000000 /dev/zero | tr '\0' a) b < /etc/passwd | wc -c
stat -c "$(yes %n | head -c 9000000 | tr -d '\n')" /etc/passwd | wc -c
ls -l --time-style="+$(yes %A | head -c 3000000 | tr -d '\n')" / | wc -c
x=$(head -c 500000 /dev/zero | tr '\0' a) envsubst < <(yes '$x$x$x' | head -n 100 | tr -d '\n') 2>&1 | wc -c
date "+$(yes '%4096A' | head -c 600000 | tr -d '\n')" | wc -c
ls -l --time-style="+$(yes '%4096A' | head -c 300000 | tr -d '\n')" / | wc -c
seq 1e-999999999 1
seq 1 1e-999999999 2 | head -c 100
tr $(yes '\001-\377' | head -c 3000000 | tr -d '\n') b < /etc/passwd | wc -c
tr $(yes '[:alnum:]' | head -c 3000000 | tr -d '\n') b < /etc/passwd | wc -c
sed "y/$(head -c 9000000 /dev/zero | tr '\0' a)/$(head -c 9000000 /dev/zero | tr '\0' b)/" /etc/passwd
awk 'BEGIN { print length(strftime(sprintf("%3000000s","") "%A")) }'
awk "BEGIN { print length(strftime(\"$(yes '%A%c' | head -c 3000000 | tr -d '\n')\")) }"
awk 'BEGIN { x=sprintf("%9000000s","a"); gsub(/ /,"b,",x); n=split(x,a,/,/,s); print n }'
awk 'BEGIN { x=sprintf("%9000000s","a"); n=patsplit(x,a,/ /); print n }'
jq -n '"\(("a"*20000000))" | tojson, tojson' | wc -c
jq -n '[range(200000)|"\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001\u0001"*5]' | wc -c
jq -n '"a"*30000000' | wc -c
numfmt --format="%$(head -c 30000 /dev/zero | tr '\0' 9)f" 5
printf "%$(head -c 300000 /dev/zero | tr '\0' 9)d" 5
find / -printf '%4096A@%4096T+%4096Ck' | wc -c
x=$(head -c 30000000 /dev/zero | tr '\0' y); history -s "$x"; history | wc
head -c 10000000 /dev/zero | tr '\0' '\n' > h; history -r h; history | wc -l
x=$(head -c 9000000 /dev/zero | tr '\0' y); history -s "$x" "$x"; history -p "$x$x" | wc -c; history -w h
stat -c "$(yes '%60000n' | head -c 60000 | tr -d '\n')" /etc/passwd | wc -c
tar "$(head -c 6000000 /dev/zero | tr '\0' '[')"
tar "$(head -c 6000000 /dev/zero | tr '\0' v)"
ls -$(head -c 9000000 /dev/zero | tr '\0' l)
sort $(yes -- -rrrrrrrrrrrrrrrr | head -n 300000) /etc/passwd
tar tf /etc/passwd $(yes a | head -n 1000000) 2>&1 | wc -c
