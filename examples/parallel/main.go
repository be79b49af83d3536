// Command parallel lets several workers share a machine, each in a sandbox with a limit of memory: one
// that takes too much ends alone.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"
	"sync"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

func main() {
	ctx := context.Background()
	d := virtual.New()
	jobs := []string{"seq 1000 | paste -sd+ | bc", "x=$(yes | head -c 100000000); echo ${#x}", "printf '%s\n' c a b | sort | head -n 1"}
	results := make([]string, len(jobs))
	var wg sync.WaitGroup
	for i, job := range jobs {
		wg.Go(func() {
			sb, err := d.Create(ctx, atoll.Spec{Limits: atoll.Resources{Memory: 32 << 20}})
			if err != nil {
				log.Fatal(err)
			}
			defer sb.Destroy(ctx)
			exit, err := sb.Exec(ctx, atoll.Cmd{Shell: job})
			results[i] = strings.TrimSpace(string(exit.Stdout))
			if err != nil || exit.Code != 0 {
				results[i] = "failed"
			}
		})
	}
	wg.Wait()
	fmt.Println(strings.Join(results, ", "))
}
