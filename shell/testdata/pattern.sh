#### pattern 1
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[z-a]' z
#### pattern 2
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[z-a]' a
#### pattern 3
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[z-ab]' b
#### pattern 4
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:foo:]]' a
#### pattern 5
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:foo:]a]' a
#### pattern 6
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a-]' -
#### pattern 7
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[\]]' ']'
#### pattern 8
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[!]]' a
#### pattern 9
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[!]]' ']'
#### pattern 10
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a' '[a'
#### pattern 11
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[.a.]]' a
#### pattern 12
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[=a=]]' a
#### pattern 13
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:alpha]' a
#### pattern 14
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:alpha]' :
#### pattern 15
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:alpha:' '[[:alpha:'
#### pattern 16
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[.space.]]' ' '
#### pattern 17
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[.-.]]' -
#### pattern 18
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a-[.c.]]' b
#### pattern 19
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[]' '[]'
#### pattern 20
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[]]' ']'
#### pattern 21
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[!' '[!'
#### pattern 22
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '\' '\'
#### pattern 23
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t 'a\' 'a\'
#### pattern 25
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a\-c]' b
#### pattern 26
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a\-c]' -
#### pattern 27
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a-\c]' b
#### pattern 28
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:alpha:][:digit:]]' 5
#### pattern 29
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[^a]' b
#### pattern 30
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[^a]' ^
#### pattern 31
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a/b]' /
#### pattern 32
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t 'é' 'é'
#### pattern 33
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '?' 'é'
#### pattern 34
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[é]' 'é'
#### pattern 35
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[à-ï]' 'é'
#### pattern 36
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:alpha:]]' 'é'
#### pattern 37
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:upper:]]' 'É'
#### pattern 38
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:word:]]' '_'
#### pattern 39
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:ascii:]]' a
#### pattern 40
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[--0]' .
#### pattern 41
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a-c-e]' d
#### pattern 42
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a-c-e]' -
#### pattern 43
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[%--]' '&'
#### pattern 44
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[' '[['
#### pattern 45
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[]' '['
#### pattern 46
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a]]' 'a]'
#### pattern 47
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '*[' 'x['
#### pattern 48
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[:alpha:]-z]' '-'
#### pattern 49
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[a-[:alpha:]]' 'b'
#### pattern 50
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[.foo.]]' f
#### pattern 51
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[[.hyphen.]]' -
#### pattern 52
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[\\a]' '\'
#### pattern 53
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[x\]y]' ']'
#### pattern 54
export LC_ALL=C.UTF-8
t(){ case $2 in $1) echo "Y $1 | $2";; *) echo "n $1 | $2";; esac; }
t '[x\]y]' '\'
