// Command analysis answers questions about a table: the data goes in as a file, models write SQL.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/driver/virtual"
	"github.com/atoll-sandbox/atoll/shell/command/sqlite"
)

const sales = "city,amount\nRome,10\nOslo,7\nRome,5\n"

func main() {
	ctx := context.Background()
	d := virtual.New()
	d.Commands = sqlite.Commands()
	sb, err := d.Create(ctx, atoll.Spec{})
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Destroy(ctx)
	if err := atoll.WriteFile(ctx, sb, "/tmp/sales.csv", []byte(sales), 0o644); err != nil {
		log.Fatal(err)
	}
	const query = "select city, sum(amount) from sales group by city order by 2 desc"
	exit, err := sb.Exec(ctx, atoll.Cmd{Dir: "/tmp", Args: []string{"sqlite3", ":memory:", ".mode csv", ".import sales.csv sales", query}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s%s", exit.Stdout, exit.Stderr)
}
