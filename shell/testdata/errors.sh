#### x4
set -x; echo b | cat
#### sigpipe
yes | head -1; echo ${PIPESTATUS[@]}; (yes; echo never >&2) | head -1; trap '' PIPE; (yes 2>/dev/null; echo $? >&2) | head -1
#### builtin sigpipe
(while :; do echo y; done; echo no >&2) | head -1; echo "${PIPESTATUS[0]}"
#### cat self
echo a > f; cat f f > g; cat g; cat < f > h; cat h
#### unset func
f() { echo f; }; unset f; f; echo $?; x=1; f() { :; }; unset -f f; unset -v x; echo ${x-unset}; readonly -f nosuch; echo $?
#### readonly func
f() { echo 1; }; readonly -f f; f() { echo 2; }; echo $?; f; unset -f f; echo $?
#### export func
f() { echo exported $1; }; export -f f; bash -c 'f x'; bash -c 'type -t f'; export -n f; export -nf f; bash -c 'f x'; echo $?
#### function keyword edge
function a { echo a; }; function b() { echo b; }; function c
{
echo c
}
a; b; c; d() { echo d; } ; d
#### func redirect undone
f() { echo x; return 3; }; f > o; echo $?; cat o; f() { exec 3>&1; }; f; echo y >&3
#### func local scope
x=g; f() { local x=l; g; echo $x; }; g() { echo $x; x=m; }; f; echo $x
#### nested break continue
for a in 1 2 3; do for b in x y z; do [ $b = y ] && continue 2; [ $a = 3 ] && break 2; echo $a$b; done; done; echo end
#### loop redirect vars
i=0; while read l; do i=$((i+1)); done < <(echo a; echo b); echo $i; echo a | { read v; echo $v; }
#### while pipe in
n=0; cat <<E | while read x; do n=$((n+1)); echo $n $x; done; echo $n
a
b
E
#### empty things
; echo $?
#### empty2
{ }
#### empty3
if ; then :; fi
#### empty sub
()
#### bad for
for 1a in x; do :; done
#### bad for2
for x in a; do done
#### bad func
f() echo a
#### bad case
case x in a) echo
#### bad redirect
echo >
#### bad pipe
echo a | | b
#### bad amp
& echo
#### bad fi
fi
#### bad subst
echo ${x
#### bad subst2
echo ${x y}; echo next
echo line2
#### bad arith
echo $((1+)); echo next
echo line2
#### bad arith2
((1+)); echo $?
#### unclosed
echo "abc
#### unclosed2
echo $((1
#### continue line
echo a\
b; echo "a\
b"; echo 'a\
b'
#### comment end
echo a # comment \
echo b
#### brace words
echo }; echo {; echo a}b; { echo a; }; echo {}
#### reserved as args
echo if then else fi do done case esac while for in function time select coproc until { } ! [[ ]]
#### reserved quoted
\if true 2>/dev/null; echo $?; 'fi'; echo $?; "for" 2>/dev/null; echo $?
#### time nested
time -p echo a 2>/dev/null | cat; { time echo x; } 2> t; read -r b < t; echo "[$b]"; ! time true 2>/dev/null; echo $?
#### bang
! ; echo $?; ! true | true; echo $?
#### double semi
case a in a) echo 1 ;; esac; case b in (a|b) echo paren;; esac; case "a b" in "a b") echo q;; esac; case x in $(echo x)) echo s;; esac
#### many heredocs
cat <<A; cat <<B
1
A
2
B
cat <<A - <<B
x
A
y
B
