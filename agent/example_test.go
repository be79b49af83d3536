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

// A conversation with an agent, here a command of the virtual sandbox, and the files that it works on.
func ExampleExecutor() {
	ctx := context.Background()
	sb, err := (&virtual.Driver{}).Create(ctx, atoll.Spec{Dir: "/work"})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := agent.NewExecutor(agent.Job{Sandbox: sb, Agent: command.Agent{}, Dir: "/work", Turn: agent.Turn{Command: []string{"sh", "-c", "read -r f; wc -l <$f"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close(ctx)
	if err := e.WriteFile(ctx, "fruit.txt", []byte("pear\napple\n")); err != nil {
		fmt.Println(err)
		return
	}
	r, err := e.Execute(ctx, agent.Text("fruit.txt"))
	fmt.Println(r.Outcome, r.Text, err)
	for event, err := range e.Stream(ctx, agent.Text("fruit.txt")) {
		fmt.Println(event.Type, err)
	}
	exit, err := e.Exec(ctx, "ls")
	fmt.Printf("%q %v\n", exit.Stdout, err)
	// Output:
	// ok 2 <nil>
	// text.delta <nil>
	// finished <nil>
	// "fruit.txt\n" <nil>
}
