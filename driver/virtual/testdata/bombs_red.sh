# Commands that were written without a look at the other lists: each once exceeded the limits.
seq 1 1500000 > f; jq -n --slurpfile a f --slurpfile b f --slurpfile c f '$a|length'
jq -n --indent 7 'reduce range(9000) as $i (1;[.])' | wc -c
a=({1..700000}); IFS=,; x="${a[*]}"; y="${a[*]}"; z="${a[*]/#/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}"; echo ${#z}
export x=$(head -c 5000000 /dev/zero|tr '\0' a); for i in {1..30}; do (bash -c 'sleep 3' &) ; done; wait; sleep 2
x=$(head -c 5000000 /dev/zero|tr '\0' a); for i in {1..40}; do sleep 3 "$x" & done; wait
compgen -W "$(seq 1 1500000)" | wc; compgen -A command -P "$(head -c 1000000 /dev/zero|tr '\0' a)" | wc -c
set -x; x=$(head -c 30000000 /dev/zero|tr '\0' "'"); : "$x"
(echo '--- a'; echo '+++ a'; echo '@@ -0,0 +1,1000000000 @@'; yes '+aaaa' | head -c 11000000) > p; : > a; patch a p
head -c 60000000 /dev/zero | tr '\0' ' ' | unexpand -a -t 100000000 | wc -c
seq 1 300000 | column -c 100000000 | wc -c; head -c 5000000 /dev/zero|tr '\0' , | column -t -s, | wc -c
od -t "$(yes x1 | head -c 4000000|tr -d '\n')" /etc/passwd | wc -c
yes | head -n -100000000 | wc; yes | head -c -100000000 | head -c 1000; head -c 200000000 /dev/zero | head -c -90000000 | wc -c
head -c 200000000 /dev/zero | tail -c 190000000 | wc -c; yes | head -c 200000000 | tail -n 90000000 | wc; head -c 200000000 /dev/zero| tail -n 1 | wc -c
echo a | xargs -I a echo $(head -c 3000000 /dev/zero|tr '\0' a) | wc -c; head -c 100000 /dev/zero|tr '\0' b | xargs -I x echo $(yes x|head -c 100000|tr -d '\n') | wc -c
for i in {1..40}; do trap ": $(head -c 4000000 /dev/zero|tr '\0' a)$i" USR1; (sleep 3; echo) & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; export x; sleep 3 & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; set -- "$x"; x=; (sleep 3; echo ${#1}) & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; alias x="$x"; x=; (sleep 3; echo) & done; wait
for i in {1..16}; do printf -v x '%9000000s' $i; hash -p "/$x" foo;  (sleep 3) & done; wait
for ((i=0;i<50000;i++)); do declare v$i=1; done; for ((i=0;i<200;i++)); do sleep 100 & x=$i; done; wait
shopt -s expand_aliases; for ((i=0;i<20000;i++)); do alias a$i=1; done; for ((i=0;i<200;i++)); do sleep 100 & alias b=$i; done; wait
f=$(printf ':;%.0s' {1..100000}); for ((i=0;i<1000;i++)); do eval "f$i() { $f }"; done
for ((i=0;i<15000;i++)); do complete -W a a$i; done; for ((i=0;i<200;i++)); do sleep 100 & complete -W a b$i; done; wait
head -c 9000885 /dev/zero | numfmt --to=si | wc -c
head -c 9000885 /dev/zero | factor 2>&1 | wc -c
for i in {1..60}; do eval "v$i='v$((i+1))+v$((i+1))'"; done; v61=1; let v1; echo $((v1)) ${a[v1]}
exec bash -c 'exec bash -c "$0" "$0"' 'exec bash -c "$0" "$0"'
d=$(printf "%0200d" 0); for i in {1..15}; do mkdir $d; cd $d; done; y=$(printf '\\w%.0s' {1..1000000}); x=${y@P}; echo ${#x}
y="\\D{$(printf '%%c%.0s' {1..1000000})}"; x=${y@P}; echo ${#x}
t=$(printf ': ;%.0s' {1..10000}); for i in {1..100}; do (eval "{ sleep 100; $t } &"; sleep 100) & done; wait
w=$(head -c 9000000 /dev/zero | tr '\0' '\1'); touch -t "$w" x 2>&1 | wc -c; find "$w" 2>&1 | wc -c
ls --time-style="$(head -c 9000000 /dev/zero | tr '\0' '\1')" 2>&1 | wc -c
w=$(head -c 9000000 /dev/zero | tr '\0' '\1'); head -n "$w" 2>&1 | wc -c; chmod "$w" x 2>&1 | wc -c; date -d "$w" 2>&1 | wc -c
split -b "$(head -c 9000000 /dev/zero | tr '\0' '\1')" 2>&1 | wc -c; sleep "$(head -c 9000000 /dev/zero | tr '\0' '\1')" 2>&1 | wc -c
x=$(head -c 30000000 /dev/zero | tr '\0' a); alias z="$x"
x=$(head -c 31500000 /dev/zero | tr '\0' a); alias z="$x"
x=$(printf '%09000000d' 1); while :; do ((x)); [ $x -eq 2 ]; printf -v y '%d' $x; done 2>/dev/null
x=$(printf 'z%09000000d' 1); while :; do unset $x; declare $x; [[ -v $x ]]; : ${!x}; done 2>/dev/null
x=$(printf '%07000000d' 1); declare -u u; while :; do u=$x; done
env $(printf 'env %.0s' {1..200000}) true; nice $(printf 'nice %.0s' {1..200000}) true
for i in {1..40}; do ln -s "$(printf './%.0s' {1..1900})x$((i-1))" x$i; done; mkdir x0; for((;;)); do test -e x40/x40; done
HOSTNAME=$(printf %03000000d 1); y=$(printf '\\H%.0s' {1..20000}); z=${y@P}
yes | tr -d '\n' | strings -n 1000000000
seq -s, 300899 | jq -R -s 'split("")' > /dev/null
