package agent_test

import (
	"context"
	"fmt"

	"github.com/atoll-sandbox/atoll"
	"github.com/atoll-sandbox/atoll/agent"
	"github.com/atoll-sandbox/atoll/agent/command"
	"github.com/atoll-sandbox/atoll/driver/virtual"
)

// One turn of an agent, here a command of the virtual sandbox, whose events are
// seen as they come.
func ExampleRun() {
	ctx := context.Background()
	sb, err := (&virtual.Driver{}).Create(ctx, atoll.Spec{Dir: "/work"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sb.Destroy(ctx)
	r, err := agent.Run(ctx, agent.Job{
		Sandbox: sb,
		Agent:   command.Agent{},
		Turn:    agent.Turn{Prompt: agent.Text("pear\napple\n"), Command: []string{"sort"}},
		Emit:    func(e agent.Event) { fmt.Println(e.Seq, e.Type) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %q\n", r.Outcome, r.Text)
	// Output:
	// 1 text.delta
	// 2 text.delta
	// 3 finished
	// ok: "apple\npear"
}
