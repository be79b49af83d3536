#### printf 1
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d 12abc
#### printf 2
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d ''
#### printf 3
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d 99999999999999999999
#### printf 4
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d 08
#### printf 5
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d 010
#### printf 6
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d 0x1f
#### printf 7
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d "'a"
#### printf 8
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d '"é'
#### printf 9
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d "'"
#### printf 10
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d ' 5'
#### printf 11
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d '5 '
#### printf 12
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d --
#### printf 13
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d abc
#### printf 14
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%d %d' 1
#### printf 15
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%s-' a b c
#### printf 16
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p 'x'  a b
#### printf 17
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%d%%' 5
#### printf 18
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %
#### printf 19
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %z 1
#### printf 20
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p 'a%zb' 1
#### printf 21
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%5d|%-5d|%05d|%+d|% d|%x|%X|%o|%#x|%#o' 1 2 3 4 5 255 255 8 255 8
#### printf 22
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%*d' 5 3
#### printf 23
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%-*d|' 5 3
#### printf 24
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%*d' -5 3
#### printf 25
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%.*f' 2 3.14159
#### printf 26
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%.3d' 5
#### printf 27
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%u' -1
#### printf 28
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%x' -1
#### printf 29
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %i 3
#### printf 30
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%5s|%-5s|%.2s|%5.1s' ab cd efg hij
#### printf 31
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%5s|%.1s|%c' é éa éb
#### printf 32
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %c ''
#### printf 33
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %c abc
#### printf 34
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%b' 'a\tb\0101\x41\u00e9\c' x
#### printf 35
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%b|' 'a\101' '\1012' '\01012' '\q'
#### printf 36
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '\101\x41\u00e9\0101\q\"'
#### printf 37
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%q %q' 'a b' ''
#### printf 38
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%5q|%-8q|' ab 'c d'
#### printf 39
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%.2q|%.2Q' 'a b' 'a b'
#### printf 40
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%s'
#### printf 41
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%d'
#### printf 42
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%f %e %g %a' 1.5 1.5 1.5 1.5
#### printf 43
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%f' abc
#### printf 44
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%f' 1e400
#### printf 45
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%f' inf
#### printf 46
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %f nan
#### printf 47
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%.20f' 0.1
#### printf 48
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%g %g %g' 1e10 123456789 0.0001
#### printf 49
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%#g %G' 1.5 1e-10
#### printf 50
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%.0f %.0f %.0f' 0.5 1.5 2.5
#### printf 51
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%10.3f|%-10.2e|%+f' 3.14159 2.5 1
#### printf 52
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p "%'d" 1234567
#### printf 53
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%s\n' -1
#### printf 54
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '\c'
#### printf 55
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%(%Y-%m-%d %H:%M:%S)T' 0
#### printf 56
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%(%s)T' -1 >/dev/null
#### printf 58
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%()T' 0
#### printf 59
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%-5c|' a
#### printf 60
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%ld %lld %hd' 1 2 3
#### printf 61
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%5%|'
#### printf 62
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%.10d' 5
#### printf 63
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '% 5d' 3
#### printf 64
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%+5d' 3
#### printf 65
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%08.3f' 3.14159
#### printf 66
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%-05d|' 3
#### printf 67
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%e' 0
#### printf 68
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%g' 100000
#### printf 69
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%g' 1000000
#### printf 70
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %x 0xFFFFFFFFFFFFFFFF
#### printf 71
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d 0xFFFFFFFFFFFFFFFF
#### printf 72
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %d -9223372036854775809
#### printf 73
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %s a%sb
#### printf 74
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%s %s\n' a b c
#### printf 75
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%b' 'x\cy'
#### printf 76
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p 'a\x'
#### printf 77
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '\u'
#### printf 78
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '\U0001F600'
#### printf 79
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%d' 1.5
#### printf 80
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%f' 1,5
#### printf 81
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%f' 0x1p3
#### printf 82
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p %f "'a"
#### printf 83
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%n'
#### printf 84
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%y'
#### printf 85
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%5'
#### printf 86
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
p '%lq' a
#### printf 88
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf
#### printf 89
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo $?
#### printf 90
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf -v
#### printf 91
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo $?
#### printf 92
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf -v 1x a
#### printf 93
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo $?
#### printf 94
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf -v x %d 5
#### printf 95
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo "$x"
#### printf 96
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf -v a[2] %s q
#### printf 97
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
declare -p a
#### printf 98
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf -- '%s\n' a
#### printf 99
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf -x
#### printf 100
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo $?
#### printf 101
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf -v x '%s'
#### printf 102
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo "[$x]"
#### printf 103
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf '%s\n' "${e[@]}"
#### printf 104
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf '%d\n' ''
#### printf 107
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf '%s %q\n' "$(printf 'a\001')" $'\x80'
#### printf 108
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf '%-10b|%5b|\n' ab cd
#### printf 109
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf '%.3b|\n' abcdef
#### printf 110
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf '%Lf\n' 1.5
#### printf 111
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf '%a %a %a\n' 0.1 1e10 0
#### printf 112
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
printf '%.2a %A\n' 0.1 255.5
#### printf 113
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -n a
#### printf 114
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -e 'a\tb\x41\0101\101\u00e9\c' x
#### printf 115
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo
#### printf 116
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -E 'a\tb'
#### printf 117
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -ne 'x\n'
#### printf 118
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -nx
#### printf 119
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -- a
#### printf 121
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -e 'a\'
#### printf 122
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -en
#### printf 123
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -e -n b
#### printf 124
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo
#### printf 125
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo - a
#### printf 126
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo -nE 'a\t'
#### printf 127
export LC_ALL=C.UTF-8
p(){ printf "$@"; echo "|$?"; }
echo
