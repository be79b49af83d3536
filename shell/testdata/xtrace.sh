#### trace 1
set -x; x=1; y="a b"; z=; a=(1 "2 3" 4); a[1]=x; a+=(5); declare -i n=1+1; export e=v; local_=1 true; readonly r=1; ((x++)); [[ $x == 2 ]]; [ a = b ]; case a in a) :;; esac; for i in 1 2; do :; done; echo "$y" 'q' "" \$ $'a\nb'; f(){ local q=$1; }; f z
#### trace 2
set -x; [[ -n a && "b c" == b* || -f x ]]; [[ ! a -lt b ]]; [[ a =~ ^a ]]; x+=1; declare -A h=([a]=1); h[b]=2; let x=1; : ${x:=3} $(echo sub) `echo bq`; echo $((1+1)); y=$(echo q); { echo grp; } 2>/dev/null; PS4='> '; echo after; PS4='$x: '; echo q; unset x
#### trace 3
set -x; echo a | cat; (echo sub); if true; then echo t; fi; while false; do :; done; x=y z=w echo pre; function g { echo $1; }; g "a b"; eval 'echo ev'; set +x; echo quiet
#### trace 4
PS4='+${LINENO}: '; set -x; echo a
#### trace 5
BASH_XTRACEFD=1; set -x; echo hi; set +x
