package test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/protokinesis/protokinesis/messages"
)

// A subscriber on another node is an actor in a process of its own: this test program, started with farSubscriberVariable set.

const farSubscriberVariable = "PROTOKINESIS_TEST_FAR_SUBSCRIBER"

// farSubscription is what it is to subscribe to.
type farSubscription struct {
	Broker *actor.PID
	Stream json.RawMessage // a StreamDescriptor
}

// farWord is what it tells, a line each.
type farWord struct {
	Subscription *actor.PID // it is subscribed
	Data         string     // a delivery, how it begins
	Attempt      int32
	Error        string // a SubscriptionError
	Fatal        bool
	Ended        bool // the subscription, which it watches, has stopped
}

func beFarSubscriber() {
	text := os.Getenv(farSubscriberVariable)
	if text == "" {
		return
	}
	var job farSubscription
	stream := &messages.StreamDescriptor{}
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		panic(err)
	}
	if err := protojson.Unmarshal(job.Stream, stream); err != nil {
		panic(err)
	}
	system, _ := startRemote()
	out := json.NewEncoder(os.Stdout)
	system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &farSubscriber{job.Broker, stream, out} }))
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is closed
	os.Exit(0)
}

// farSubscriber does with each record what its data says.
type farSubscriber struct {
	broker *actor.PID
	stream *messages.StreamDescriptor
	out    *json.Encoder
}

// Receive implements actor.Actor.
func (f *farSubscriber) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		c.Request(f.broker, &messages.Subscribe{Stream: f.stream})
	case *messages.Subscribed:
		c.Watch(m.GetSubscription())
		f.say(farWord{Subscription: m.GetSubscription()})
	case *messages.Error:
		f.say(farWord{Error: m.GetText(), Fatal: true})
	case *messages.SubscriptionError:
		f.say(farWord{Error: m.GetError().GetText(), Fatal: m.GetFatal()})
	case *actor.Terminated:
		f.say(farWord{Ended: true})
	case *messages.Delivery:
		f.take(c, m)
	case *messages.DeliveryBatch:
		acked := true
		for _, d := range m.GetDeliveries() {
			acked = acked && strings.HasPrefix(string(d.GetData()), "ack")
		}
		if acked {
			for _, d := range m.GetDeliveries() {
				f.say(farWord{Data: beginning(d), Attempt: d.GetAttempt()})
			}
			c.Respond(m.Ack())
			return
		}
		for _, d := range m.GetDeliveries() {
			f.take(c, d)
		}
	}
}

func (f *farSubscriber) take(c actor.Context, d *messages.Delivery) {
	data := beginning(d)
	f.say(farWord{Data: data, Attempt: d.GetAttempt()})
	what, _, _ := strings.Cut(data, " ")
	switch {
	case what == "hold", what == "lose" && d.GetAttempt() == 1:
	case what == "retry" && d.GetAttempt() == 1:
		c.Respond(d.Retry())
	case what == "later" && d.GetAttempt() == 1:
		c.Respond(d.RetryAfter(10 * time.Millisecond))
	case what == "drop":
		c.Respond(d.Drop())
	case what == "foreign" && d.GetAttempt() == 1:
		wrong := d.Ack()
		wrong.ShardId = "shardId-of-another"
		c.Respond(wrong)
		c.Respond(d.Retry())
	default:
		c.Respond(d.Ack())
	}
}

func beginning(d *messages.Delivery) string { return string(d.GetData()[:min(20, len(d.GetData()))]) }

func (f *farSubscriber) say(w farWord) {
	if err := f.out.Encode(w); err != nil {
		panic(err)
	}
}

// farActor is a subscriber on another node, as the test sees it.
type farActor struct {
	t     *testing.T
	cmd   *exec.Cmd
	words chan farWord
	// killed: it does not end in order.
	killed bool
}

func startFarActor(t *testing.T, n *node, stream *messages.StreamDescriptor) *farActor {
	t.Helper()
	descriptor, err := protojson.Marshal(stream)
	require.NoError(t, err)
	text, err := json.Marshal(farSubscription{Broker: n.PID(), Stream: descriptor})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	f := &farActor{t: t, cmd: exec.CommandContext(ctx, os.Args[0]), words: make(chan farWord, 10_000)} //nolint:gosec // this very program
	f.cmd.Env = append(os.Environ(), farSubscriberVariable+"="+string(text))
	f.cmd.Stderr = t.Output()
	in, err := f.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := f.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, f.cmd.Start())
	go func() {
		defer close(f.words)
		for d := json.NewDecoder(out); ; {
			var w farWord
			if d.Decode(&w) != nil {
				return
			}
			f.words <- w
		}
	}()
	t.Cleanup(func() {
		defer cancel()
		_ = continueProcess(f.cmd.Process)
		_ = in.Close()
		for more := true; more; {
			_, more = <-f.words
		}
		if err := f.cmd.Wait(); !f.killed {
			assert.NoError(t, err, "the far subscriber") // a data race there is an error here
		}
	})
	return f
}

// next is the next fitting word. Others are passed over.
func (f *farActor) next(fits func(farWord) bool) farWord {
	f.t.Helper()
	limit := time.After(2 * patience)
	for {
		select {
		case w, more := <-f.words:
			if !more {
				require.FailNow(f.t, "the far subscriber has ended")
			}
			if fits(w) {
				return w
			}
		case <-limit:
			require.FailNow(f.t, "the far subscriber says nothing fitting")
		}
	}
}

func (f *farActor) subscribed() *actor.PID {
	f.t.Helper()
	w := f.next(func(w farWord) bool { return w.Subscription != nil || w.Error != "" })
	require.NotNil(f.t, w.Subscription, w.Error)
	return w.Subscription
}

// delivered waits for the delivery of a record.
func (f *farActor) delivered(data string) farWord {
	f.t.Helper()
	return f.next(func(w farWord) bool { return w.Data == data })
}
