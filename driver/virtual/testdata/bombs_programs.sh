# One command in each line. TestProgramBombsStayWithinTheLimit runs each in a process of its own.
{ echo 'all: ;'; seq 1 2000 | tr '\n' ' '; echo -n ': %: '; for i in {1..2000}; do echo -n "%.abcdefghijklmnopqrstuvwxyz$i "; done; echo; } > m; make -f m
{ for i in {1..20000}; do echo -n "t$i "; done; echo ':'; for i in {1..3000}; do printf '\t@:\n'; done; } > m; make -f m
{ printf 'a\nx\n.\n'; for i in {1..40}; do printf ',t$\n'; done; echo ,p; } | ed | wc -l
{ printf 'a\n'; head -c 1000000 /dev/zero | tr '\0' a; printf '\n.\ns/a/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb/g\np\n'; } | ed -s | wc -c
{ printf 'a\n'; head -c 10000000 /dev/zero | tr '\0' '\1'; printf '\n.\nl\n'; } | ed -s | wc -c
{ printf 'a\n'; yes; } | ed -s
{ printf 'a\n'; seq 1 100000; printf '.\n,s/$/x/\n1p\n'; } | ed -s
yes | head -c 11000000 | openssl base64 -d | wc -c
seq 1 100000000 | parallel echo | tail -1
seq 1 200000 | parallel -N 200000 echo {}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{}{} | wc -c
yes | parallel --dry-run -X echo | head -c 100
git init -q r; cd r; yes 'a b c d e f g h' | head -c 4000000 > t; git add t; git -c user.name=a -c user.email=a@b commit -qm x; yes 'h g f e d c b a' | head -c 4000000 > t; git diff --word-diff | wc -c
git init -q r; cd r; yes '100644 blob e69de29bb2d1d6434b8b29ae775ad8c2e48c5391	z' | git mktree --missing
git init -q r; cd r; t=$(seq 1 200000 | sed 's/.*/100644 blob e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\t&/' | git mktree --missing); c=$(git -c user.name=a -c user.email=a@b commit-tree -m x $t); git update-ref refs/heads/x $c; git rev-list --objects --all | wc -l; git fsck
yes | git stripspace | wc -c
