package git

import (
	"github.com/atoll-sandbox/atoll/internal/suggest"
	"github.com/atoll-sandbox/atoll/shell/command/program"
)

const usage = `Usage: git [-C DIRECTORY] [-c NAME=VALUE] [--git-dir DIRECTORY] [--work-tree DIRECTORY] COMMAND [ARG]...
Track versions of files. Repositories are those of git 2.39: either can read what the other has written.

  init [-b BRANCH] [--bare] [DIRECTORY]
  clone [-b BRANCH] [--bare] [--depth N] URL [DIRECTORY]
  add [-A] [-u] [-f] [-n] PATH..., rm [--cached] [-r] [-f] PATH..., mv FROM... TO
  status [-s] [-b] [--porcelain[=v2]] [--ignored] [-z]
  diff [--cached] [--stat] [--name-only] [--name-status] [--numstat] [-U N] [-w] [-R] [REVISION...] [-- PATH...]
  diff --no-index PATH PATH, diff --check, diff --dirstat, diff --output=FILE
  commit [-a] [-m MESSAGE] [-F FILE] [--amend] [--no-edit] [--author=NAME] [--date=DATE] [--fixup=REVISION] [-s] [PATH...]
  log [-n N] [--oneline] [--graph] [-p] [--stat] [--format=FORMAT] [--author=] [--grep=] [--since=] [-S TEXT] [--follow]
      [--all] [RANGE] [-- PATH...], show, shortlog [-sne], reflog, blame [-L FROM,TO] FILE, describe [--tags]
  branch [-a] [-v] [-d] [-m] [-u UPSTREAM] [NAME [REVISION]], tag [-a -m MESSAGE] [-d] [-l] [NAME [REVISION]]
  switch [-c] BRANCH, checkout [-b] BRANCH, checkout [REVISION] -- PATH..., restore [--staged] [--source=REVISION] PATH...
  reset [--soft|--mixed|--hard] [REVISION] [PATH...], clean [-f] [-d] [-x] [-n]
  merge [--no-ff] [--squash] [--no-commit] [-X ours|theirs] BRANCH, merge --abort|--continue
  cherry-pick [-n] [-x] [-m N] REVISION..., revert [-n] [-m N] REVISION..., each with --abort|--continue|--skip
  rebase [-i] [--onto REVISION] [--root] [-x COMMAND] [--autostash] [--autosquash] [UPSTREAM [BRANCH]],
      rebase --abort|--continue|--skip|--edit-todo|--quit
  stash [push [-m MESSAGE] [-u] [-k]|list|show|pop|apply|drop|branch|clear]
  remote [-v] [add|remove|rename|get-url|set-url|show|prune], fetch, pull [--rebase|--ff-only], push [-u] [-f] [-d], ls-remote
  apply [-R] [--check] [--index] [--3way] [--reject] [--directory=DIR] [FILE...], am [-3] FILE...,
  format-patch [-o DIRECTORY] [--stdout] [-v N] [--cover-letter] RANGE
  grep [-n] [-l] [-c] [-i] [-w] [-E|-F|-P] [-e] PATTERN [REVISION...] [-- PATH...], bisect [start|good|bad|skip|run COMMAND|reset|log|replay|view]
  worktree [add|list|remove|prune|lock|unlock|move|repair], config, rev-parse, rev-list, ls-files, ls-tree, cat-file, hash-object, write-tree,
  merge-base, for-each-ref, show-ref, symbolic-ref, update-ref, check-ignore, check-attr, gc, fsck, count-objects,
  diff-index, diff-files, diff-tree, commit-tree, mktree, merge-tree, update-index, read-tree, checkout-index, cherry, stripspace,
  name-rev, merge-file, whatchanged,
  interpret-trailers [--trailer KEY=VALUE] [--in-place] [--parse] [FILE...], var, submodule status,
  sparse-checkout [set|add|list|disable|reapply] [DIRECTORY...], verify-pack [-v] PACK...,
  notes [add [-f] -m MESSAGE|append -m MESSAGE|show|list|copy|remove] [REVISION], bundle [create FILE RANGE|verify|list-heads|unbundle FILE]
  archive [--format=tar|tgz|zip] [--prefix=DIR/] [-o FILE] REVISION [PATH...], with export-ignore

Remotes are paths, file://, http:// and https:// with the network that the sandbox allows; a credential is that of the
network's rules, or USER:TOKEN in the URL. Editors are those of GIT_EDITOR, GIT_SEQUENCE_EDITOR, core.editor and EDITOR; hooks
are those of .git/hooks or core.hooksPath. No filter, pager, credential helper or other program is started. There are no
submodules, no signatures and no merges of several branches at once.
`

// Commands returns git.
func Commands() []program.Command {
	return []program.Command{{Name: "git", Short: "track versions of files", Usage: usage, Run: program.FlushOutput(runGit, 1)}}
}

// subcommand is a command of git: its options and its function.
type subcommand struct {
	options string
	run     func(c *call) error
	alone   func(c *call) error // instead of run: needs no repository
	work    bool                // needs a working tree
}

// subcommands returns the commands of git.
func subcommands() map[string]subcommand {
	return map[string]subcommand{
		"init":               {options: "-b= --initial-branch= -q --quiet --bare", alone: (*call).initRepository},
		"version":            {alone: func(c *call) error { return runVersion(c.p) }},
		"add":                {options: "-A --all -u --update -f --force -v --verbose -N --intent-to-add -n --dry-run ", run: (*call).addPaths, work: true},
		"stage":              {options: "-A --all -u --update -f --force -v --verbose", run: (*call).addPaths, work: true},
		"rm":                 {options: "--cached -r -f --force -q --quiet -n --dry-run --ignore-unmatch", run: (*call).removeFiles, work: true},
		"mv":                 {options: "-f --force -k -v --verbose -n --dry-run", run: (*call).renameFile, work: true},
		"status":             {options: "-s --short --porcelain --porcelain= --porcelain=v1 --porcelain=v2 -b --branch -uno -uall -unormal -u --untracked-files= --untracked-files --long -z --ignored --ignored= --no-renames --ahead-behind -v --no-column", run: (*call).printStatus, work: true},
		"diff":               {options: "--output= --check --dirstat --dirstat= --cached --staged --quiet --exit-code --merge-base --no-index --cc -c --ours --theirs --ignore-submodules " + diffOptions, run: (*call).printDiff},
		"diff-index":         {options: "--output= --check --dirstat --dirstat= --cached --quiet --exit-code --merge-base -m --ignore-submodules --ignore-submodules= " + diffOptions, run: (*call).diffIndex},
		"diff-files":         {options: "--output= --check --dirstat --dirstat= --quiet --exit-code -q --ignore-submodules --ignore-submodules= " + diffOptions, run: (*call).diffFiles, work: true},
		"diff-tree":          {options: "-r -t -m --root --stdin --no-commit-id --quiet --exit-code " + diffOptions, run: (*call).diffTree},
		"cherry":             {options: "-v --verbose", run: (*call).printCherry},
		"commit-tree":        {options: "-p= -m= -F=", run: (*call).writeTreeCommit},
		"merge-tree":         {options: "--write-tree --name-only --messages --no-messages --allow-unrelated-histories", run: (*call).mergeTrees},
		"bundle":             {options: "-q --quiet --progress --all --branches --tags --remotes", run: (*call).manageBundles},
		"name-rev":           {options: "--tags --all --name-only --always --no-undefined --refs= --exclude= --stdin --annotate-stdin", run: (*call).nameRevisions},
		"merge-file":         {options: "-p --stdout -q --quiet -L= --diff3 --zdiff3 --ours --theirs", alone: (*call).mergeThreeFiles},
		"whatchanged":        {options: logOptions + diffOptions, run: (*call).printWhatChanged},
		"notes":              {options: "--ref= -m= --message= -F= --file= -f --force --ignore-missing", run: (*call).manageNotes},
		"var":                {run: (*call).printVariable},
		"mktree":             {options: "-z --missing", run: (*call).makeTree},
		"count-objects":      {options: "-v --verbose", run: (*call).countObjects},
		"fsck":               {options: "--full --no-dangling --progress --no-progress", run: (*call).checkObjects},
		"pack-refs":          {options: "--all --no-prune --prune", run: (*call).keepRefs},
		"maintenance":        {options: "--auto --quiet", run: (*call).collectGarbage},
		"submodule":          {options: "-*", run: (*call).manageSubmodules},
		"stripspace":         {options: "-s --strip-comments -c --comment-lines", alone: (*call).stripSpace},
		"update-index":       {options: "-*", run: (*call).updateIndex, work: true},
		"commit":             {options: "-a --all -m= --message= -q --quiet --amend --no-edit --allow-empty -F= --file= --author= --date= -n --no-verify --no-gpg-sign --allow-empty-message -C= -c= --reuse-message= --reedit-message= -e --edit --reset-author --fixup= --squash= -s --signoff --dry-run --short --porcelain -v --verbose -i --include -o --only --trailer= --no-status --no-post-rewrite", run: (*call).createCommit, work: true},
		"log":                {options: logOptions + diffOptions, run: (*call).printLog},
		"show":               {options: logOptions + diffOptions, run: (*call).showRevision},
		"rev-list":           {options: logOptions + " --objects ", run: (*call).listRevisions},
		"branch":             {options: "-a --all -r --remotes -d -D --delete -l --list --show-current -m -M --move -c -C --copy -f --force -q --quiet -v -vv --verbose -u= --set-upstream-to= --unset-upstream --contains --contains= --merged --merged= --no-merged --no-merged= --format= --sort= --no-track -t --track --no-color --no-column", run: (*call).manageBranches},
		"switch":             {options: "-c= --create= -C= --force-create= -q --quiet --detach -d -f --force --discard-changes --orphan= -t --track --no-track --guess --no-guess --no-progress --progress", run: (*call).switchBranch, work: true},
		"checkout":           {options: "-b= -B= -q --quiet --detach -d -f --force --ours --theirs --orphan= -t --track --no-track --guess --no-guess --no-progress --progress -m --merge --conflict=", run: (*call).checkOutOperands, work: true},
		"restore":            {options: "--staged -S --worktree -W --source= -s= -q --quiet --ours --theirs -m --merge --conflict=", run: (*call).restoreOperands, work: true},
		"reset":              {options: "--soft --mixed --hard --keep --merge -q --quiet --no-refresh", run: (*call).resetHead},
		"merge":              {options: "--ff-only --ff --no-ff -m= --message= -F= --file= -q --quiet --no-edit --edit -e --abort --continue --quit --squash --no-squash --no-commit --commit -s= --strategy= -X= --strategy-option= --allow-unrelated-histories --stat --no-stat -n -v --verbose --no-verify --signoff --no-gpg-sign --no-log --no-autostash --progress --no-progress", run: (*call).mergeBranch, work: true},
		"tag":                {options: "-d --delete -l --list -f --force -a --annotate -m= --message= -F= --file= -n -n= --sort= --contains --contains= --merged --merged= --points-at= --format= -s --sign -u= -v --no-sign ", run: (*call).manageTags},
		"rev-parse":          {options: "--show-toplevel --git-dir --git-common-dir --abbrev-ref --abbrev-ref= --short --short= --verify -q --quiet --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --absolute-git-dir --show-prefix --show-cdup --show-object-format --symbolic-full-name --git-path= --all --branches --tags --remotes --default= --end-of-options", run: (*call).printRevisions},
		"ls-files":           {options: "-s --stage -c --cached -o --others --exclude-standard -m --modified -d --deleted -u --unmerged -z -i --ignored --directory --full-name --error-unmatch -t -v --eol --deduplicate ", run: (*call).listFiles},
		"ls-tree":            {options: "-r -d -t -l --long -z --name-only --name-status --object-only --full-name --full-tree --abbrev --abbrev=", run: (*call).listTree},
		"cat-file":           {options: "-p -t -s -e --batch --batch= --batch-check --batch-check=", run: (*call).printObject},
		"config":             {options: "--global --local --worktree --file= -f= --get --get-all --get-regexp --list -l --unset --unset-all --add --replace-all --remove-section --rename-section --bool --int --bool-or-int --path --type= --no-type --default= --fixed-value --show-origin --show-scope --includes -z --null --name-only -e --edit", run: (*call).manageConfig},
		"merge-base":         {options: "-a --all --is-ancestor ", run: (*call).printMergeBases},
		"for-each-ref":       {options: "--format= --sort= --count= --points-at= --contains= --merged=", run: (*call).printRefs},
		"hash-object":        {options: "-w --stdin --stdin-paths -t= --no-filters ", run: (*call).hashFiles},
		"write-tree":         {run: (*call).printWrittenTree},
		"symbolic-ref":       {options: "-q --quiet --short -d --delete -m=", run: (*call).manageSymbolicRef},
		"show-ref":           {options: "--heads --tags -q --quiet --verify -d --dereference ", run: (*call).showRefs},
		"update-ref":         {options: "-d -m= --no-deref", run: (*call).updateRef},
		"reflog":             {options: "--expire= --expire-unreachable= --updateref --dry-run " + logOptions + diffOptions, run: (*call).manageReflog},
		"remote":             {options: "-v --verbose --push --all -f --fetch -t= -m= --tags --no-tags -n", run: (*call).manageRemotes},
		"clone":              {options: "-b= --branch= --bare --mirror -o= --origin= -q --quiet -n --no-checkout --depth= --single-branch --no-single-branch --no-tags -l --local --no-hardlinks -v --verbose --progress -c= -j= --jobs=", alone: (*call).cloneRepository},
		"fetch":              {options: "--all -p --prune -t --tags --no-tags -q --quiet -v --verbose -f --force --depth= --unshallow -u --update-head-ok --progress --no-progress --dry-run -j= --jobs= --no-recurse-submodules", run: (*call).fetchRemotes},
		"pull":               {options: "--rebase --rebase= -r --no-rebase --ff-only --ff --no-ff -q --quiet -v --verbose --all -p --prune -t --tags --no-tags -f --force --depth= --unshallow --no-edit --squash --no-commit --commit -s= --strategy= -X= --strategy-option= --allow-unrelated-histories --stat --no-stat -n --autostash --no-autostash --progress --no-progress ", run: (*call).pullBranch, work: true},
		"push":               {options: "-u --set-upstream -f --force --force-with-lease --force-with-lease= --force-if-includes -d --delete --all --tags --mirror -q --quiet -v --verbose -n --dry-run --porcelain --progress --no-progress --no-verify --thin --no-thin", run: (*call).pushBranches},
		"ls-remote":          {options: "-h --heads -t --tags --refs -q --quiet --exit-code --symref --sort=", run: (*call).listRemote},
		"cherry-pick":        {options: "-n --no-commit -x -m= --mainline= -s --signoff --ff --allow-empty --keep-redundant-commits --allow-empty-message -X= --strategy-option= --strategy= --abort --continue --skip --quit --no-edit --edit -e", run: (*call).cherryPick, work: true},
		"revert":             {options: "-n --no-commit -m= --mainline= -s --signoff -X= --strategy-option= --strategy= --abort --continue --skip --quit --no-edit --edit -e", run: (*call).revertCommits, work: true},
		"rebase":             {options: "--onto= --keep-base --abort --continue --skip --quit --edit-todo --show-current-patch -x= --exec= --reschedule-failed-exec --no-reschedule-failed-exec -i --interactive --autosquash --no-autosquash -f --force-rebase --no-ff -q --quiet -X= --strategy-option= --strategy= -s= --root --autostash --no-autostash --no-reapply-cherry-picks --no-verify --stat --no-stat -n --keep-empty -m --merge ", run: (*call).rebaseBranch, work: true},
		"stash":              {options: "-m= --message= -u --include-untracked -a --all -k --keep-index --no-keep-index -q --quiet --index -S --staged -n= --max-count= --skip= --oneline --format= --pretty= --pretty --decorate --decorate= --no-decorate --since= --after= --until= --before= --author= --grep= --date= --abbrev-commit --no-abbrev-commit " + diffOptions, run: (*call).manageStash, work: true},
		"blame":              {options: "-L= -l -s -e --show-email -f --show-name -p --porcelain --line-porcelain -w --root --date= -t -n -c -M -C -b", run: (*call).printBlame, work: true},
		"grep":               {options: "-n --line-number -l --files-with-matches --name-only -L --files-without-match -c --count -i --ignore-case -w --word-regexp -v --invert-match -h -H -e= -E --extended-regexp -G --basic-regexp -F --fixed-strings -P --perl-regexp -q --quiet -A= -B= -C= --cached --untracked --no-index -I -a --text -o --only-matching --heading --break -z --and --all-match --no-color -r --recursive --full-name -p -W", run: (*call).grepFiles},
		"clean":              {options: "-f --force -n --dry-run -d -x -X -q --quiet -e= --exclude=", run: (*call).cleanFiles, work: true},
		"check-attr":         {options: "-a --all --stdin -z", run: (*call).checkAttributes},
		"archive":            {options: "--format= --prefix= -o= --output= -l --list -v --verbose", run: (*call).archiveTree},
		"gc":                 {options: "--auto --aggressive --prune --prune= --no-prune -q --quiet --force", run: (*call).collectGarbage},
		"prune":              {options: "-n --dry-run -v --verbose --progress --expire=", run: (*call).collectGarbage},
		"repack":             {options: "-a -A -d -l -f -F -q --quiet -k", run: (*call).collectGarbage},
		"check-ignore":       {options: "-q --quiet -v --verbose -n --non-matching --stdin -z --no-index", run: (*call).checkIgnored, work: true},
		"describe":           {options: "--tags --all --always --long --abbrev= --exact-match --dirty --dirty= --match= --exclude= --first-parent --contains ", run: (*call).describeCommit},
		"shortlog":           {options: "-s --summary -n --numbered -e --email -c --committer --no-merges --merges --all --since= --until= --author= --grep= --format=", run: (*call).printShortlog},
		"apply":              {options: "-p= -C= -R --reverse --reject -3 --3way --directory= --include= --exclude= --unidiff-zero --recount --whitespace= --ignore-whitespace --ignore-space-change --apply --check --index --cached --stat --numstat --summary -v --verbose -q --quiet --allow-empty ", run: (*call).applyPatches, work: true},
		"format-patch":       {options: "-n= -v= --reroll-count= --subject-prefix= --rfc --cover-letter --signature= --no-signature --suffix= -q --quiet -o= --output-directory= --stdout --root -N --no-numbered --numbered -k --keep-subject --start-number= --no-stat -s --signoff " + diffOptions, run: (*call).formatPatches},
		"am":                 {options: "-3 --3way --no-3way -s --signoff -q --quiet --abort --continue --skip --resolved -r --quit -k --keep --no-gpg-sign ", run: (*call).applyMails, work: true},
		"bisect":             {options: "-*", run: (*call).bisectCommits, work: true},
		"worktree":           {options: "-f --force --detach -d -b= -B= -q --quiet --porcelain -z -v --verbose --lock --reason= -n --dry-run --expire= --checkout --no-checkout --track --no-track", run: (*call).manageWorkTrees},
		"interpret-trailers": {options: "--in-place --trim-empty --trailer= --only-trailers --only-input --unfold --parse --no-divider", alone: (*call).interpretTrailers},
		"read-tree":          {options: "-m --reset -u -i -n --dry-run -v -q --quiet --prefix= --empty --aggressive", run: (*call).readTrees},
		"checkout-index":     {options: "-a --all -f --force -q --quiet -u --index -n --no-create --prefix= --stdin -z", run: (*call).checkOutIndex, work: true},
		"sparse-checkout":    {options: "--cone --stdin --skip-checks", run: (*call).manageSparse, work: true},
		"verify-pack":        {options: "-v --verbose -s --stat-only", run: (*call).verifyPacks},
	}
}

// substitutes are what to use instead of the commands that this git does not have.
func substitutes() map[string]string {
	return map[string]string{
		"lfs": "fetch large files with curl", "svn": "clone a git repository of it", "p4": "clone a git repository of it",
		"gui": "use git status, git add and git commit", "citool": "use git status, git add and git commit", "difftool": "use git diff", "mergetool": "edit the files with conflicts, and run git add",
		"gitk": "use git log --graph --oneline --all", "instaweb": "use git log and git show", "daemon": "clone from a path or over https", "send-email": "write the patches with git format-patch",
		"request-pull":  "use git log and git diff with the range",
		"filter-branch": "use git rebase, or git checkout --orphan and commit", "filter-repo": "use git rebase, or git checkout --orphan and commit",
		"rerere": "resolve the conflicts again", "replace": "use git rebase",
		"range-diff": "use git diff between both branches",
		"annotate":   "use git blame", "verify-commit": "there are no signatures here", "verify-tag": "there are no signatures here", "credential": "put USER:TOKEN into the URL, or let the network rules of the sandbox add one",
		"mktag": "use git tag -a", "show-branch": "use git log --graph --oneline --all", "fast-export": "use git bundle", "patch-id": "use git cherry",
	}
}

// errUnknownCommand returns the error for a command that this git does not have.
func errUnknownCommand(name string) error {
	if text, ok := substitutes()[name]; ok {
		return &failure{1, "git: '" + name + "' is not available in a virtual sandbox: " + text + "."}
	}
	return &failure{1, "git: '" + name + "' is not a git command that works in a virtual sandbox" + suggest.Hint(name, sortedKeys(subcommands())) + ". See 'git --help'."}
}
