// Command runner is a runner of CI: it takes the steps of a job, stops at the first that fails, and keeps
// the log.
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
	sb, err := virtual.New().Create(ctx, atoll.Spec{Env: []string{"CI=true"}})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	for _, step := range []struct{ name, script string }{
		{"checkout", "git init -q . && echo 'all: ; @echo built' >Makefile && git add . && git -c user.name=ci -c user.email=ci@example.com commit -qm first"},
		{"lint", "! grep -n ' $' Makefile"},
		{"test", "test \"$CI\" = true && git log --oneline | wc -l"},
		{"deploy", "echo no credentials here >&2; exit 3"},
		{"notify", "echo never runs"},
	} {
		exit, err := sb.Exec(ctx, atoll.Cmd{Shell: step.script})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: status %d\n%s%s", step.name, exit.Code, exit.Stdout, exit.Stderr)
		if exit.Code != 0 {
			break
		}
	}
}
