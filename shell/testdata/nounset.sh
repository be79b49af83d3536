#### setu 1
set -u; echo ${x-a} ${x:-b} "${x+c}" ${#@} $# $* "$@" ${@} ok; echo $x; echo notreached
#### setu 2
set -u; a=(1); echo ${a[0]} ${a[@]} ${#a[@]} ${a[1]-d}; echo ${a[1]}; echo no
#### setu 3
set -u; echo "${a[@]}" ${#a[@]}; b=(); echo "${b[@]}" "${b[*]}" ok; echo ${b[0]}; echo no
#### setu 4
set -u; (echo $1); echo "s $?"; (echo ${#x}); echo "s $?"; (echo ${x#y}); echo "s $?"; (: $((x+1))); echo "s $?"; (echo ${!x}); echo "s $?"
#### setu 5
set -u; x=; echo "[$x]"; unset x; y=${x:-def}; echo $y; f(){ local z; echo ${z-unset}; echo $z; echo no; }; f; echo after
#### setu 6
set -u; for i in "$@"; do echo $i; done; echo ${!nope*} ok; [[ -v x ]] || echo unset; [[ -n ${x-} ]] || echo e; echo $((${x:-3}+1)); eval 'echo $x'; echo no
#### setu 7
set -u; trap 'echo exit $?' EXIT; echo $x
#### setu 8
set -eu; x=$(echo $nope); echo no
#### setu 9
set -u; declare -A h=([a]=1); echo ${h[a]} ${h[b]-none}; echo ${h[b]}; echo no
#### setu 10
set -u; declare -n r=t; t=1; echo $r; unset t; echo ${r-u}; echo $r
#### setu 11
: ${x?}; echo no
#### setu 12
echo ${x:?message here}; echo no
#### setu 13
x=; echo ${x?set} ok; echo ${x:?}; echo no
#### setu 14
(exit 3); echo ${x:=$?} $?; readonly q=1; echo ${q:=2}; : ${q2:=5}; echo $q2; readonly e=; echo ${e:=x}; echo next
