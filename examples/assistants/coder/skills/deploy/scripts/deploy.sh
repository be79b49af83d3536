#!/bin/sh
# Packs the directory that it is run in, without version control and secrets.
set -eu
out=${1:?usage: deploy.sh OUT.tar.gz}
tar -cz --exclude=.git --exclude=.env --exclude=node_modules --exclude="$out" -f "$out" .
sha256sum "$out"
