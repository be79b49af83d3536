#### bytes 1
LC_ALL=C; x=é; echo ${#x} ${x:0:1} | od -c 2>/dev/null | head -c 0; echo ${#x}; [[ é == ? ]]; echo $?; [[ é == ?? ]]; echo $?; echo ${x/?/a}x; case é in ?) echo one;; ??) echo two;; esac
#### bytes 2
LC_ALL=C.UTF-8; x=é; echo ${#x}; LC_ALL=C; echo ${#x}; unset LC_ALL; LANG=C.UTF-8; echo ${#x}; LC_CTYPE=C; echo ${#x}
#### bytes 3
LC_ALL=C.UTF-8; x=$'\xff\xfe'; echo ${#x}; x=$'a\xffb'; echo ${#x} ${#x}; [[ $x == a?b ]]; echo $?; y=${x/?/z}; echo ${#y}; x=日本; echo ${x^^} ${x:1} ${x%?} ${x#?} "${x//?/.}" ${#x}; printf '%q\n' 日本 $'\xff' 'é b'; echo ${x@Q}
#### bytes 4
LC_ALL=C.UTF-8; x=ñandú; echo ${x^} ${x^^} ${x,,} ${x~~}; [[ ñ == [[:alpha:]] ]]; echo $?; [[ É == [[:upper:]] ]]; echo $?; [[ é == [a-z] ]]; echo $?; [[ € == [[:punct:]] ]]; echo $?; x=ÀÉ; echo ${x,,} ${x,}; declare -l l=ÀB; echo $l; declare -u u=éa; echo $u; declare -c c=éa; echo $c
