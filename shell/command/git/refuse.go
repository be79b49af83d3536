package git

import (
	"strings"
	"sync"
)

// refusals returns the options of git that have no effect here, and what to use instead; * stands for every command. An
// option that changes nothing in git either, such as --no-progress without a terminal, is accepted; others are refused.
var refusals = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"add --renormalize":                      "rm the files from the index with git rm --cached, and add them again",
		"add --ignore-errors":                    "add the paths one by one",
		"am --keep-cr":                           "use git apply and git commit",
		"am --whitespace":                        "correct the patch with sed",
		"apply --unsafe-paths":                   "use patch",
		"branch --color":                         "leave it out: nothing is coloured",
		"branch --column":                        "pipe the output to column",
		"clone --shared":                         "the objects are copied",
		"clone -s":                               "the objects are copied",
		"clone --recurse-submodules":             "there are no submodules here: clone the other repositories into their directories",
		"clone --recursive":                      "there are no submodules here: clone the other repositories into their directories",
		"clone --filter":                         "use --depth N for less history",
		"clone --config":                         "use git config in the clone",
		"commit --cleanup":                       "give the message as it is to be stored",
		"config --system":                        "there is no configuration of the system: use --global",
		"describe --candidates":                  "leave it out: all tags are considered",
		"diff --base":                            "use git show :1:PATH and diff",
		"* --color-words":                        "use --word-diff",
		"* --word-diff-regex":                    "use --word-diff, whose words are separated by spaces",
		"fetch --append":                         "fetch each remote by its own command",
		"fetch -a":                               "fetch each remote by its own command",
		"grep --or":                              "use -e for each pattern",
		"grep --color":                           "leave it out: nothing is coloured",
		"hash-object --path":                     "use git add and git rev-parse :PATH",
		"ls-remote --get-url":                    "use git remote get-url",
		"merge --log":                            "give the message by -m",
		"merge --autostash":                      "use git stash before and git stash pop after it",
		"merge-base --octopus":                   "use git merge-base for each pair",
		"merge-base --fork-point":                "use git reflog and git merge-base",
		"merge-base --independent":               "use git merge-base --is-ancestor for each pair",
		"pull --edit":                            "there is no editor: use git fetch, and git merge -m",
		"push --follow-tags":                     "push the tags with git push REMOTE TAG",
		"push --atomic":                          "push one branch at a time",
		"push --push-option":                     "there are no push options here",
		"push -o":                                "there are no push options here",
		"rebase --empty":                         "commits that become empty are dropped",
		"rebase --committer-date-is-author-date": "set GIT_COMMITTER_DATE",
		"rebase --reapply-cherry-picks":          "use git cherry-pick for those commits",
		"reflog --no-abbrev":                     "use git log -g --no-abbrev-commit",
		"rev-parse --revs-only":                  "pass revisions only",
		"rev-parse --no-revs":                    "pass no revisions",
		"rev-parse --sq":                         "quote the output with printf %q",
		"shortlog --group":                       "use -c for committers, or git log --format and sort",
		"show-ref --head":                        "use git rev-parse HEAD",
		"show-ref --hash":                        "pipe the output to cut -d\" \" -f1",
		"show-ref -s":                            "pipe the output to cut -d\" \" -f1",
		"status --show-stash":                    "use git stash list",
		"sparse-checkout --no-cone":              "name directories",
		"sparse-checkout --sparse-index":         "leave it out: the index has all files",
		"status --column":                        "pipe the output to column",
		"status --no-ahead-behind":               "leave it out: the numbers are printed",
		"tag --cleanup":                          "give the message as it is to be stored",
		"* --cherry-mark":                        "use git log --cherry-pick --left-right",
		"* --cherry":                             "use git log --cherry-pick --right-only",
		"* --not":                                "write ^REVISION",
		"* --simplify-merges":                    "use --full-history",
		"* --children":                           "use --parents",
		"* --show-signature":                     "there are no signatures here",
		"* --boundary":                           "leave it out",
		"* --ancestry-path":                      "use git rev-list and git merge-base --is-ancestor",
		"* --color":                              "leave it out: nothing is coloured",
		"* --minimal":                            "leave it out: there is one algorithm",
		"* --patience":                           "leave it out: there is one algorithm",
		"* --histogram":                          "leave it out: there is one algorithm",
		"* --diff-algorithm":                     "leave it out: there is one algorithm",
	}
})

// refusal returns the error for an option that a command of git refuses, or nil.
func refusal(name, arg string) error {
	option, value, _ := strings.Cut(arg, "=")
	if option == "--color" && (value == "never" || value == "auto") {
		return nil
	}
	list := refusals()
	for _, key := range []string{name + " " + option, "* " + option} {
		if text, ok := list[key]; ok {
			return &failure{129, "error: git " + name + " " + option + " is not supported here: " + text}
		}
	}
	if strings.HasPrefix(option, "--recurse-submodules") || option == "--remote-submodules" {
		return &failure{129, "error: git " + name + " " + option + " is not supported here: there are no submodules; clone the other repositories into their directories"}
	}
	return nil
}
