# A fresh Debian: from nothing to a sandbox, and back to nothing.
set -eux
find / -xdev ! -path '/var/lib/dpkg*' ! -path '/var/log/*' ! -path '/var/cache/*' ! -path '/tmp*' | sort >/tmp/before
dpkg --install /tmp/atoll.deb
atoll version
test "$(atoll run -- sh -c 'echo hi | tr a-z A-Z')" = HI
export ATOLL_HOME=/var/lib/atoll
atoll create --name box --driver namespace
test "$(atoll exec box -- sh -c 'echo $((6 * 7))')" = 42
atoll rm box
test -s /usr/share/man/man1/atoll-serve.1.gz
bash -c 'source /usr/share/bash-completion/completions/atoll; complete -p atoll'
dpkg --install /tmp/atoll.deb # an upgrade
test -d /var/lib/atoll
dpkg --remove atoll
test -d /var/lib/atoll # until it is purged
dpkg --purge atoll
find / -xdev ! -path '/var/lib/dpkg*' ! -path '/var/log/*' ! -path '/var/cache/*' ! -path '/tmp*' | sort >/tmp/after
diff /tmp/before /tmp/after
