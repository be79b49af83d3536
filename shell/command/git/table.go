package git

import "github.com/atoll-sandbox/atoll/shell/command/program"

const usage = `Usage: git [-C DIRECTORY] [-c NAME=VALUE] COMMAND [ARG]...
Track versions of files. Repositories are those of git 2.39: either can read what the other has written.
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
		"init":         {options: "-b= --initial-branch= -q --quiet --bare", alone: (*call).initRepository},
		"version":      {alone: func(c *call) error { return runVersion(c.p) }},
		"add":          {options: "-A --all -u --update -f --force -v --verbose -N --intent-to-add -n --dry-run --renormalize --ignore-errors", run: (*call).addPaths, work: true},
		"stage":        {options: "-A --all -u --update -f --force -v --verbose", run: (*call).addPaths, work: true},
		"rm":           {options: "--cached -r -f --force -q --quiet -n --dry-run --ignore-unmatch", run: (*call).removeFiles, work: true},
		"mv":           {options: "-f --force -k -v --verbose -n --dry-run", run: (*call).renameFile, work: true},
		"status":       {options: "-s --short --porcelain --porcelain= --porcelain=v1 --porcelain=v2 -b --branch -uno -uall -unormal -u --untracked-files= --untracked-files --long -z --ignored --ignored= --no-renames --ahead-behind --no-ahead-behind --show-stash -v --column --no-column", run: (*call).printStatus, work: true},
		"diff":         {options: "--cached --staged --quiet --exit-code --merge-base --no-index --cc -c --ours --theirs --base --ignore-submodules --word-diff" + diffOptions, run: (*call).printDiff},
		"commit":       {options: "-a --all -m= --message= -q --quiet --amend --no-edit --allow-empty -F= --file= --author= --date= -n --no-verify --no-gpg-sign --allow-empty-message -C= -c= --reuse-message= --reset-author --fixup= --squash= -s --signoff --dry-run -v --verbose --cleanup= -i --include -o --only --trailer= -e --edit --no-status --no-post-rewrite", run: (*call).createCommit, work: true},
		"log":          {options: logOptions + diffOptions, run: (*call).printLog},
		"show":         {options: logOptions + diffOptions, run: (*call).showRevision},
		"rev-list":     {options: logOptions + " --objects ", run: (*call).listRevisions},
		"branch":       {options: "-a --all -r --remotes -d -D --delete -l --list --show-current -m -M --move -f --force -q --quiet -v -vv --verbose -u= --set-upstream-to= --unset-upstream --contains --contains= --merged --merged= --no-merged --no-merged= --format= --sort= --no-track -t --track --no-color --color --color= --column --no-column", run: (*call).manageBranches},
		"switch":       {options: "-c= --create= -C= --force-create= -q --quiet --detach -d -f --force --discard-changes --orphan= -t --track --no-track --guess --no-guess --no-progress --progress", run: (*call).switchBranch, work: true},
		"checkout":     {options: "-b= -B= -q --quiet --detach -d -f --force --ours --theirs --orphan= -t --track --no-track --guess --no-guess --no-progress --progress", run: (*call).checkOutOperands, work: true},
		"restore":      {options: "--staged -S --worktree -W --source= -s= -q --quiet --ours --theirs", run: (*call).restoreOperands, work: true},
		"reset":        {options: "--soft --mixed --hard --keep --merge -q --quiet --no-refresh", run: (*call).resetHead},
		"merge":        {options: "--ff-only --ff --no-ff -m= --message= -F= --file= -q --quiet --no-edit --edit -e --abort --continue --quit --squash --no-squash --no-commit --commit -s= --strategy= -X= --strategy-option= --allow-unrelated-histories --stat --no-stat -n -v --verbose --no-verify --signoff --no-gpg-sign --log --no-log --autostash --no-autostash --progress --no-progress", run: (*call).mergeBranch, work: true},
		"tag":          {options: "-d --delete -l --list -f --force -a --annotate -m= --message= -F= --file= -n --sort= --contains --contains= --merged --merged= --points-at= --format= -s --sign -u= -v --no-sign --cleanup=", run: (*call).manageTags},
		"rev-parse":    {options: "--show-toplevel --git-dir --git-common-dir --abbrev-ref --abbrev-ref= --short --short= --verify -q --quiet --is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --absolute-git-dir --show-prefix --show-cdup --show-object-format --symbolic-full-name --git-path= --all --branches --tags --remotes --revs-only --no-revs --sq --default= --end-of-options", run: (*call).printRevisions},
		"ls-files":     {options: "-s --stage -c --cached -o --others --exclude-standard -m --modified -d --deleted -u --unmerged -z -i --ignored --directory --full-name --error-unmatch -t --deduplicate", run: (*call).listFiles},
		"ls-tree":      {options: "-r -d -t -l --long -z --name-only --name-status --object-only --full-name --full-tree --abbrev --abbrev=", run: (*call).listTree},
		"cat-file":     {options: "-p -t -s -e --batch --batch-check", run: (*call).printObject},
		"config":       {options: "--global --local --system --file= -f= --get --get-all --get-regexp --list -l --unset --unset-all --add --replace-all --remove-section --bool --int --path --type= --default= --show-origin --show-scope -z --null --name-only", run: (*call).manageConfig},
		"merge-base":   {options: "-a --all --is-ancestor --octopus --fork-point --independent", run: (*call).printMergeBases},
		"for-each-ref": {options: "--format= --sort= --count= --points-at= --contains= --merged=", run: (*call).printRefs},
		"hash-object":  {options: "-w --stdin -t= --no-filters --path=", run: (*call).hashFiles},
		"write-tree":   {run: (*call).printWrittenTree},
		"symbolic-ref": {options: "-q --quiet --short -d --delete -m=", run: (*call).manageSymbolicRef},
		"update-ref":   {options: "-d -m= --no-deref", run: (*call).updateRef},
		"reflog":       {options: "-n= --max-count= --no-abbrev --date=", run: (*call).printReflog},
		"remote":       {options: "-v --verbose --push --all -f --fetch -t= -m= --tags --no-tags -n", run: (*call).manageRemotes},
		"clone":        {options: "-b= --branch= --bare --mirror -o= --origin= -q --quiet -n --no-checkout --depth= --single-branch --no-single-branch --no-tags -l --local --no-hardlinks --shared -s -v --verbose --progress --recurse-submodules --recursive --filter= -c= --config= -j= --jobs=", alone: (*call).cloneRepository},
		"fetch":        {options: "--all -p --prune -t --tags --no-tags -q --quiet -v --verbose -f --force --depth= --unshallow -u --update-head-ok --progress --no-progress --dry-run -a --append -j= --jobs= --no-recurse-submodules", run: (*call).fetchRemotes},
		"pull":         {options: "--rebase --rebase= -r --no-rebase --ff-only --ff --no-ff -q --quiet -v --verbose --all -p --prune -t --tags --no-tags -f --force --depth= --no-edit --edit --squash --no-commit --commit -s= --strategy= -X= --strategy-option= --allow-unrelated-histories --stat --no-stat -n --autostash --no-autostash --progress --no-progress --unshallow", run: (*call).pullBranch, work: true},
		"push":         {options: "-u --set-upstream -f --force --force-with-lease --force-with-lease= --force-if-includes -d --delete --all --tags --mirror --follow-tags -q --quiet -v --verbose -n --dry-run --porcelain --progress --no-progress --no-verify --atomic -o= --push-option= --thin --no-thin", run: (*call).pushBranches},
		"ls-remote":    {options: "-h --heads -t --tags --refs -q --quiet --exit-code --symref --get-url --sort=", run: (*call).listRemote},
		"cherry-pick":  {options: "-n --no-commit -x -m= --mainline= -s --signoff --ff --allow-empty --keep-redundant-commits --allow-empty-message -X= --strategy-option= --strategy= --abort --continue --skip --quit -e --edit --no-edit", run: (*call).cherryPick, work: true},
		"revert":       {options: "-n --no-commit -m= --mainline= -s --signoff -X= --strategy-option= --strategy= --abort --continue --skip --quit -e --edit --no-edit", run: (*call).revertCommits, work: true},
		"rebase":       {options: "--onto= --abort --continue --skip --quit -i --interactive --autosquash --no-autosquash -f --force-rebase --no-ff -q --quiet -X= --strategy-option= --strategy= -s= --root --autostash --no-autostash --reapply-cherry-picks --no-reapply-cherry-picks --no-verify --stat --no-stat -n --keep-empty --empty= -m --merge --committer-date-is-author-date", run: (*call).rebaseBranch, work: true},
		"stash":        {options: "-m= --message= -u --include-untracked -a --all -k --keep-index --no-keep-index -q --quiet --index -S --staged" + diffOptions, run: (*call).manageStash, work: true},
		"blame":        {options: "-L= -l -s -e --show-email -f --show-name -p --porcelain --line-porcelain -w --root --date= -t -n -c -M -C -b", run: (*call).printBlame, work: true},
		"grep":         {options: "-n --line-number -l --files-with-matches --name-only -L --files-without-match -c --count -i --ignore-case -w --word-regexp -v --invert-match -h -H -e= -E --extended-regexp -G --basic-regexp -F --fixed-strings -P --perl-regexp -q --quiet -A= -B= -C= --cached --untracked --no-index -I -a --text -o --only-matching --heading --break -z --and --or --all-match --color --color= --no-color -r --recursive --full-name -p -W", run: (*call).grepFiles},
		"clean":        {options: "-f --force -n --dry-run -d -x -X -q --quiet -e= --exclude=", run: (*call).cleanFiles, work: true},
		"check-ignore": {options: "-q --quiet -v --verbose --stdin --no-index", run: (*call).checkIgnored, work: true},
		"describe":     {options: "--tags --all --always --long --abbrev= --exact-match --dirty --dirty= --match= --exclude= --first-parent --contains --candidates=", run: (*call).describeCommit},
		"shortlog":     {options: "-s --summary -n --numbered -e --email -c --committer --no-merges --merges --all --since= --until= --author= --grep= --group= --format=", run: (*call).printShortlog},
		"apply":        {options: "-p= -R --reverse --check --index --cached --stat --numstat --summary -3 --3way --whitespace= -v --verbose -q --quiet --allow-empty --ignore-whitespace --unsafe-paths --recount", run: (*call).applyPatches, work: true},
		"format-patch": {options: "-n= -q --quiet -o= --output-directory= --stdout --root -N --no-numbered --numbered -k --keep-subject --start-number= --no-stat -s --signoff --no-signature --cover-letter --subject-prefix=" + diffOptions, run: (*call).formatPatches},
		"am":           {options: "-s --signoff -q --quiet --abort --continue --skip --resolved -r --quit -3 --3way -k --keep --keep-cr --no-gpg-sign --whitespace=", run: (*call).applyMails, work: true},
		"bisect":       {options: "-*", run: (*call).bisectCommits, work: true},
		"worktree":     {options: "-f --force --detach -d -b= -B= -q --quiet --porcelain -v --lock --checkout --no-checkout --track --no-track", run: (*call).manageWorkTrees},
	}
}

// errUnknownCommand returns the error for a command that this git does not have.
func errUnknownCommand(name string) error {
	return &failure{1, "git: '" + name + "' is not a git command that works in a virtual sandbox. See 'git --help'."}
}
