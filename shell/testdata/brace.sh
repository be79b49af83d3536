#### brace 1
echo {a,b,c} {1..5} {5..1} {1..10..3} {10..1..3} {a..e} {e..a} {a..j..3} {01..10..4} {-3..3} {1..3}{a,b}
#### brace 2
echo {a,{b,c}d,e} x{1,2}y{3,4}z {,a} a{,b}c {a} {} {a,b {a..} {..3} {1..a} {a,} {1..2..0} {1..3..-1} {3..1..-1}
#### brace 3
echo {A..c..20} {Z..a} {-01..2} {001..3} {1..03} {+1..3} {1..3..2}{x,y} {{1..3},{a..c}} {a,b}{c,d}{e,f}
#### brace 4
echo "{a,b}" {"a","b c"} {a,'b,c'} {a\,b,c} \{a,b} {a,b\} {'a'..c} {1..$x} $x{a,b} {$x,y}z
#### brace 5
x=1; xa=5; xb=6; echo $x{a,b} ${x}{a,b} "$x"{a,b} {$x,2} {$x..3} a{$x,$x$x}
#### brace 6
echo {a,b}$((1+1)) $(echo {p,q}){r,s} `echo x`{1,2} {~,/x}/y ~{a,b} {a,b}=~ 
#### brace 7
for i in {1..3} {x,y}; do echo -n "$i "; done; echo; a=({1..4}); echo ${#a[@]} ${a[*]}; case {a,b} in "{a,b}") echo lit;; esac
#### brace 8
set +B; echo {a,b} {1..3}; set -B; echo {a,b}
#### brace 9
echo {{a,b} {a,b}} {{a,b}} {a{1,2}b} {a,b}} {a,{b} {,,} x{,,}y {a,b,} ${x:-{a,b}} a{b,c
#### brace 10
echo {1..5..2} {5..1..2} {1..1} {a..a} {9..11} {098..102} {-5..-1..2} {-10..10..5} {0..0} {z..x} {00..2}
#### brace 11
v={a,b}; echo $v; export w={a,b}; echo $w; declare y={c,d} 2>&1; echo $y; z=x{1,2}; echo $z
#### brace 12
echo {9223372036854775806..9223372036854775807} {1..2}{3..4}{5..6} {a,b}/{c,d}.{e,f}
#### brace 13
echo {1..3}, {a,b},c {a..c}{1..2}, pre{a,b}post,x {"a b",c}d {a,b}"{c,d}" $'{a,b}' {$'a\tb',c}
#### brace 14
echo {a..z} {A..Z..5} {a..Z} 2>&1 | cat
#### brace 15
echo {x,y}{1..3..2} {{x,y},z}{1,2} {1..2}{,a} {,a}{,b}
