package probe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/test/probe"
)

type (
	greet    struct{ name string }
	greeting struct{ text string }
)

// greeter answers greet with greeting.
type greeter struct{}

func (greeter) Receive(c actor.Context) {
	if m, ok := c.Message().(*greet); ok {
		c.Respond(&greeting{text: "Hello " + m.name})
	}
}

// The probe asks an actor something and watches it stop.
func Example() {
	test := func(t testing.TB) { // func TestGreeter(t *testing.T)
		system := probe.NewSystem(t)
		p := probe.New(t, system)
		pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return greeter{} }))
		p.Watch(pid)

		p.Request(pid, &greet{name: "Ada"})
		fmt.Println(probe.Expect[*greeting](p).text)

		system.Root.Poison(pid)
		p.ExpectTerminated(pid, time.Second)
		p.ExpectNone(10 * time.Millisecond)
	}
	inTest(test)
	// Output: Hello Ada
}

// The probe stands in for a service that the actor under test asks.
func ExampleProbe_SetAutoPilot() {
	test := func(t testing.TB) {
		system := probe.NewSystem(t)
		service := probe.New(t, system)
		service.SetAutoPilot(func(e probe.Envelope) any {
			if m, ok := e.Message.(*greet); ok {
				return &greeting{text: "Bonjour " + m.name}
			}
			return nil
		})

		reply, err := system.Root.RequestFuture(service.PID(), &greet{name: "Ada"}, time.Second).Result()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(reply.(*greeting).text)
		fmt.Println(probe.Expect[*greet](service).name)
	}
	inTest(test)
	// Output:
	// Bonjour Ada
	// Ada
}
