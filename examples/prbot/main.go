// Command prbot fixes a repository on a branch and prints the patch for a pull request.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

func main() {
	ctx := context.Background()
	sb, err := virtual.New().Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	run := func(script string) string {
		r, err := atoll.Execute(ctx, sb, script)
		if err != nil || r.ExitCode != 0 {
			log.Fatalf("%s: status %d, %v: %s", script, r.ExitCode, err, r.Stderr)
		}
		return r.Stdout
	}
	run("git init -q -b main repo && cd repo && git config user.name bot && git config user.email bot@example.com")
	run("echo 'Teh manual' >README && git add . && git commit -qm first")
	run("git switch -qc fix-typo && sed -i s/Teh/The/ README && git commit -qam 'README: fix a typo'") // what an agent would do
	fmt.Print(run("git diff main fix-typo -- README | grep '^[-+][^-+]'"))
}
