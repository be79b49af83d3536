#### special 1
f(){ echo ${FUNCNAME[0]} ${FUNCNAME[1]} ${#FUNCNAME[@]} ${BASH_LINENO[0]}; g; }; g(){ echo ${FUNCNAME[@]} ; }; f; echo "[${FUNCNAME[0]}]" "[$FUNCNAME]"
#### special 2
echo $LINENO; echo $LINENO
#### special 3
f(){ echo $LINENO; }; f; echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL)); echo $(echo $BASH_SUBSHELL); { echo $BASH_SUBSHELL; } | cat
#### special 4
RANDOM=42; echo $RANDOM $RANDOM $RANDOM; RANDOM=1; echo $((RANDOM)) $((RANDOM%10)); RANDOM=2147483647; echo $RANDOM; RANDOM=0; echo $RANDOM; RANDOM=-5; echo $RANDOM; RANDOM=4294967295; echo $RANDOM
#### special 5
unset RANDOM; RANDOM=5; echo $RANDOM; declare -p RANDOM; SECONDS=100; echo $SECONDS; unset SECONDS; echo "[$SECONDS]"; unset LINENO; echo "[$LINENO]"; [[ $EPOCHSECONDS =~ ^[0-9]{10}$ ]] && echo ok; [[ $EPOCHREALTIME =~ ^[0-9]{10}\.[0-9]{6}$ ]] && echo ok
#### special 6
echo $BASH_VERSION ${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]} $OSTYPE $HOSTTYPE $MACHTYPE $UID $EUID; echo "$IFS" | cat -A 2>/dev/null | head -c 0; echo ${#IFS} "${PS4@Q}" $OPTIND $OPTERR
#### special 7
true | false | true; echo ${PIPESTATUS[@]}; false; echo ${PIPESTATUS[0]}; (exit 3) | (exit 4); echo "${PIPESTATUS[*]}" ${#PIPESTATUS[@]}; ! true; echo ${PIPESTATUS[@]}; x=1; echo ${PIPESTATUS[@]}
#### special 8
echo a b c; echo $_; : x y; echo $_; f(){ :; }; f q r; echo $_; x=5; echo "[$_]"; [[ a == a ]]; echo $_
#### special 10
echo "${BASH_SOURCE[@]}|${BASH_SOURCE[0]}"; f(){ echo "${BASH_SOURCE[0]}"; }; f; cd /; cd tmp; echo $PWD $OLDPWD; pushd / >/dev/null; echo ${DIRSTACK[@]}; echo ${GROUPS[0]}
#### special 11
echo $BASH_COMMAND; trap 'echo "cmd: $BASH_COMMAND"' ERR; false; x=1 y=2 false; trap - ERR; alias ll='ls -l'; echo "${BASH_ALIASES[ll]}"; BASH_ALIASES[zz]='echo hi'; alias zz; hash -r; echo ${#BASH_CMDS[@]}
#### special 12
SECONDS=5; sleep 0; echo $((SECONDS>=5)); declare -i n; n=5/2; echo $n; n+=1; echo $n; n=abc; echo $n; declare -i a; a[0]=1+1; a[1]=2*3; echo ${a[@]}; a+=(5+5); echo ${a[@]}; declare -l low; low=ABC; echo $low; low+=DEF; echo $low; declare -u up=xyz; echo $up; declare -c c=hello; echo $c
#### special 13
BASH_ARGV0=newname; echo $0; OPTIND=5; echo $OPTIND; unset OPTIND; echo "[$OPTIND]"; unset IFS; echo "[${IFS-unset}]"; x="a b"; set -- $x; echo $#; unset PATH; echo "[$PATH]"; FUNCNAME=x; echo "[$FUNCNAME]"; GROUPS=5; echo $?
#### special 14
env -i bash -c 'echo $PATH' >/dev/null 2>&1; a=1; export a; a=2; env | { while read -r l; do case $l in a=*) echo $l;; esac; done; }; b=3 env | { while read -r l; do case $l in b=*) echo $l;; esac; done; }; unset a; env | { while read -r l; do case $l in a=*) echo $l;; esac; done; }; export -n b; set -a; q=1; set +a; r=2; env | { while read -r l; do case $l in [qr]=*) echo $l;; esac; done; }
#### special 15
x='a b' y=$x z="$y"; echo "$z"; a=1 b=$((a+1)) c=$b; echo $a$b$c; x=1 x=2; echo $x; x=(1) y=2; echo $x$y; a=b=c; echo $a; a==; echo $a; x+=y; echo $x; _1=x; echo $_1; x=; echo "[$x]"; x=~; [ $x = $HOME ] && echo home
#### special 16
set -- a b; shift; echo $1; shift 2; echo $? $1; set -- "a b" c; for x; do echo "$x"; done; set a; echo $1; set -- -n; echo "$1"; set --; echo $#; f(){ set -- q; echo $1; }; set -- orig; f; echo $1; echo "${@:0}"
