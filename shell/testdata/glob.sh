#### glob 1
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
echo *; echo *.txt; echo .*; echo d/*; echo */*; echo */*/*; echo */; echo ./*; echo d/../*.txt
#### glob 2
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
echo ?.txt [ab].txt [!a].txt [a-c]* *[!t] nomatch* "*.txt" \*star '*'* \\*
#### glob 3
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
shopt -s nullglob; echo nomatch* x; a=(nomatch*); echo ${#a[@]}; shopt -u nullglob; a=(nomatch*); echo ${#a[@]}
#### glob 4
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
shopt -s failglob; echo nomatch*; echo after $?; echo next $?
#### glob 5
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
shopt -s failglob; echo nomatch*
#### glob 6
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
shopt -s dotglob; echo *; echo */*; shopt -u globskipdots; echo .*; shopt -s globskipdots
#### glob 7
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
shopt -s nocaseglob; echo *.txt A*; shopt -u nocaseglob; shopt -s extglob; echo !(*.txt) @(a|b).txt *(a).txt +(?).txt ?(x)a.txt !(a*|b*)
#### glob 8
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
shopt -s globstar; echo **; echo **/; echo **/*.txt; echo d/**; echo d/**/; echo **/e/**; echo d/**/*.txt; echo ./**/y*
#### glob 9
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
shopt -s globstar dotglob; echo **; echo .h/**
#### glob 10
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
GLOBIGNORE='*.txt:sp*'; echo *; unset GLOBIGNORE; echo *; GLOBIGNORE=x; echo *
#### glob 11
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
set -f; echo *.txt; set +f; echo *.txt; x='*.txt'; echo $x "$x"; y='sp*'; echo $y; for f in $x; do echo "<$f>"; done
#### glob 12
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
x=a; echo $x.tx? "$x"*; echo "a"*; echo 'sp ace'* sp\ ace*; z='[ab]'; echo $z.txt "$z".txt; w='\*star'; echo $w; v='a\.txt'; echo $v; u='a\*'; echo $u
#### glob 13
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
case a.txt in *.txt) echo m;; esac; [[ a.txt == *.txt ]] && echo m; echo $(echo *.txt); cat < a.t* && echo ok; cat < *.txt
#### glob 14
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
echo d/e/*.txt d/*/*.txt /tm[p] /tmp/../tm? d//*.txt d/./e/* */e/f/*; echo br[[]a]ck br\[a\]* 'br[a]'*; echo [[:lower:]].txt [[:upper:]]* [a
#### glob 15
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
true; echo lnk/* */x.txt lnk*; shopt -s globstar; echo **/x.txt; echo lnk/**
#### glob 16
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
echo {a,b}.t* {a,c}.TX?; echo *.{txt,TXT}; x='{a,b}.txt'; echo $x; echo ~/*.txt; set -- *.txt; echo $#; IFS=.; echo *.txt; x=*.txt; echo $x
#### glob 17
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
printf '%s\n' *; a=(*); echo ${#a[@]}; echo ${a[@]:0:2}; unset 'a[*]'; echo "${a[0]}"; echo *[]]* *[\]]* [!.]* .[!.]*
#### glob 18
mkdir -p d/e/f d2 .h/x; : > a.txt; : > b.txt; : > c.TXT; : > .hid; : > d/x.txt; : > d/e/y.txt; : > d/e/f/z.txt; : > 'sp ace'; : > 'br[a]ck'; : > '*star'
echo */. ./.* d/.. d/.*; compgen -G '*.txt'; echo a*/ *\ * *' '* ?' '* "sp "*
