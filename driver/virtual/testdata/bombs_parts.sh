# Parts of long texts: each is small, and must not keep its text in memory.
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x)$i; a[i]=${b:0:1}; done
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x)$i; a[i]=${b#???????}; a[i]=${a[i]%%x*}; c[i]=${b##*x}; done
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x)$i; [[ $b =~ (x)x. ]]; a[i]=${BASH_REMATCH[1]}; unset BASH_REMATCH; done
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x); declare "z$i=$b"; declare "z$i="; alias "l$i=$b"; alias "l$i="; done
x=$(yes | head -n 60); f() { local y=$x$1; f "$y"; }; for i in 1 2 3; do eval 'f a'; done 2>/dev/null; jq -n 'def f: [.,.]|f; 1|f' 2>/dev/null
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x); eval "f$i() { :; }; : $b"; done
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x); eval "{ v$i=s; ((n$i=1)); for c$i in 1 2; do :; done; a+=(x$i); declare -A h; h[k$i]=w; export e$i=x; : $b; }"; done
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x); echo "g$i() { echo \$1; }; z$i=q #$b" > s; . ./s; done
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x); eval "k$i() { :; } <<X"$'\n'"doc"$'\n'"X"$'\n'": $b"; done 2>/dev/null
for ((i=0;i<150;i++)); do b=$(head -c 1000000 /dev/zero | tr '\0' x); for w in a$i $b; do [ ${#w} -lt 9 ] && c[i]=$w; done; read -r -a arr <<<"k $b"; e[i]=${arr[0]}; arr=(); done
yes abc | head -c 9000774 | shuf >/dev/null
