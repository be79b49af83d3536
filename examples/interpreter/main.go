// Command interpreter is a code interpreter: state stays from one call of a model to the next.
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
	for _, code := range []string{"cd /tmp; n=6", "double() { echo $(( $1 * 2 )); }", "double $n; pwd", "nosuch"} {
		r, err := atoll.Execute(ctx, sb, code) // in the sandbox's persistent shell
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q: status %d, output %q\n", code, r.ExitCode, r.Stdout)
	}
}
