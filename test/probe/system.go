package probe

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
)

// LogVariable is the environment variable that, when set to anything, makes a system of [NewSystem] log to the test.
const LogVariable = "PROTOKINESIS_TEST_LOG"

// NewSystem makes an actor system for a test. It logs nothing, or to the test if the environment has [LogVariable], and a
// dead letter costs it no goroutine, so that it can be used in synctest bubbles and under goroutine checks.
//
// Everything else is as in actor.NewActorSystem: a request to an actor that is gone is answered, dead letters are published
// to the event stream, options are applied (a logger factory among them too).
func NewSystem(tb testing.TB, options ...actor.ConfigOption) *actor.ActorSystem {
	tb.Helper()
	logger := slog.New(slog.DiscardHandler)
	if os.Getenv(LogVariable) != "" {
		output := &testOutput{out: tb.Output()}
		tb.Cleanup(output.close)
		logger = slog.New(slog.NewTextHandler(output, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	system := actor.NewActorSystem(append([]actor.ConfigOption{
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return logger }),
	}, options...)...)

	// No setting keeps the system's own dead letter subscriber from starting a timer goroutine at the first letter of
	// each throttle interval. So the event stream is replaced by one that has the same subscribers without throttling.
	system.EventStream = eventstream.NewEventStream()
	system.EventStream.Subscribe(func(event any) {
		if letter, ok := event.(*actor.DeadLetterEvent); ok {
			onDeadLetter(system, letter)
		}
	})
	actor.SubscribeSupervision(system)
	return system
}

// onDeadLetter answers for the actor that is gone, and logs.
func onDeadLetter(system *actor.ActorSystem, letter *actor.DeadLetterEvent) {
	if letter.Sender != nil {
		system.Root.Send(letter.Sender, &actor.DeadLetterResponse{})
	}
	if watch, ok := letter.Message.(*actor.Watch); ok && watch.Watcher != nil {
		watcher, _ := system.ProcessRegistry.Get(watch.Watcher)
		watcher.SendSystemMessage(watch.Watcher, &actor.Terminated{Who: letter.PID, Why: actor.TerminatedReason_NotFound})
	}
	if _, quiet := letter.Message.(actor.IgnoreDeadLetterLogging); quiet {
		return
	}
	system.Logger().Info("[DeadLetter]",
		slog.Any("pid", letter.PID), slog.Any("message", letter.Message), slog.Any("sender", letter.Sender))
}

// testOutput drops what is written after the end of the test, where writing to the test would panic.
type testOutput struct {
	mu  sync.Mutex
	out io.Writer
}

// Write writes to the test.
func (o *testOutput) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.out == nil {
		return len(line), nil
	}
	return o.out.Write(line)
}

func (o *testOutput) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.out = nil
}
