package actors

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// askTest is an Asker whose requests go to a probe.
type askTest struct {
	*testing.T
	system *actor.ActorSystem
	p      *probe.Probe
	asker  *Asker
}

func inAsk(t *testing.T, test func(tt *askTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		system := probe.NewSystem(t)
		test(&askTest{T: t, system: system, p: probe.New(t, system), asker: NewAsker(system)})
	})
}

// asked is a request under way: who is to be answered, and what came of it.
type askedRequest struct {
	tt          *askTest
	correlation uint64
	sender      *actor.PID
	cancel      context.CancelFunc
	answer      any
	err         error
	done        bool
}

// ask asks the probe, which takes the request.
func (tt *askTest) ask() *askedRequest {
	ctx, cancel := context.WithCancel(tt.Context())
	r := &askedRequest{tt: tt, correlation: NextCorrelation(), cancel: cancel}
	go func() {
		r.answer, r.err = tt.asker.Ask(ctx, tt.p.PID(), &messages.Connect{Correlation: r.correlation}, r.correlation)
		r.done = true
	}()
	require.Equal(tt, r.correlation, probe.Expect[*messages.Connect](tt.p).GetCorrelation())
	r.sender = tt.p.Sender()
	tt.Cleanup(cancel)
	return r
}

// reply sends something to whoever asked.
func (r *askedRequest) reply(message any) {
	r.tt.p.Send(r.sender, message)
	synctest.Wait()
}

func connected(correlation uint64) *messages.Connected {
	return &messages.Connected{Correlation: correlation}
}

func TestAskIsAnswered(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		r := tt.ask()
		want := connected(r.correlation)
		r.reply(want)
		require.True(tt, r.done)
		require.NoError(tt, r.err)
		require.Same(tt, want, r.answer)
		r.reply(connected(r.correlation)) // once more

		next := tt.ask()
		require.False(tt, next.done, "the answer repeated is not one of the next request")
		next.reply(connected(next.correlation))
		require.Equal(tt, connected(next.correlation), next.answer)
	})
}

func TestAskIgnoresAnswersOfAnotherCorrelation(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		r := tt.ask()
		r.reply(connected(r.correlation + 1))
		r.reply(ErrLease.Message(r.correlation + 1))
		answer(tt.system, r.sender, ErrLease, r.correlation+1)
		synctest.Wait()
		require.False(tt, r.done)
		r.reply(connected(r.correlation))
		require.NoError(tt, r.err)
		require.True(tt, r.done)
	})
}

func TestAskEndsWithItsContext(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		ctx, cancel := context.WithTimeout(tt.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := tt.asker.Ask(ctx, tt.p.PID(), &messages.Connect{Correlation: 5}, 5)
		require.ErrorIs(tt, err, context.DeadlineExceeded)
		require.Equal(tt, time.Minute, time.Since(start))
		probe.Expect[*messages.Connect](tt.p)

		_, err = tt.asker.Ask(ctx, tt.p.PID(), &messages.Connect{Correlation: 6}, 6)
		require.ErrorIs(tt, err, context.DeadlineExceeded)
		tt.p.ExpectNone(time.Second) // nothing was sent
	})
}

// An answer at the very end of the context is given, or it is gone: it does not wait for the next request.
func TestAnswerAtTheEndOfTheContext(t *testing.T) {
	asker := NewAsker(probe.NewSystem(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // select chooses by chance
		n := NextCorrelation()
		q := asker.get()
		q.waiting.Store(n)
		q.take(n, connected(n))
		if got, err := q.wait(ctx, n); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		} else {
			require.Equal(t, connected(n), got)
		}
		require.Empty(t, q.answers)
		require.Len(t, asker.idle, 1)
	}
}

func TestLateAnswerDoesNotReachTheNextRequest(t *testing.T) {
	for name, late := range map[string]func(r *askedRequest){
		"answer":  func(r *askedRequest) { r.reply(connected(r.correlation)) },
		"message": func(r *askedRequest) { r.reply(ErrRead.Message(r.correlation)) },
		"error":   func(r *askedRequest) { answer(r.tt.system, r.sender, ErrRead, r.correlation); synctest.Wait() },
	} {
		t.Run(name, func(t *testing.T) {
			inAsk(t, func(tt *askTest) {
				abandoned := tt.ask()
				abandoned.cancel()
				synctest.Wait()
				require.ErrorIs(tt, abandoned.err, context.Canceled)
				late(abandoned) // while nobody asks
				r := tt.ask()
				require.False(tt, r.done)
				late(abandoned) // while another asks
				require.False(tt, r.done)
				r.reply(connected(r.correlation))
				require.NoError(tt, r.err)
				require.Equal(tt, connected(r.correlation), r.answer)
			})
		})
	}
}

// A dead letter response has no correlation. One of a request that was given up may come late, from another node; it
// says nothing of the request that is under way then.
func TestLateDeadLetterDoesNotReachTheNextRequest(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		abandoned := tt.ask()
		abandoned.cancel()
		synctest.Wait()
		r := tt.ask()
		abandoned.reply(&actor.DeadLetterResponse{})
		require.False(tt, r.done, "answered %v", r.err)
		r.reply(connected(r.correlation))
		require.NoError(tt, r.err)
	})
}

func TestAskOfNobodyIsNotConnected(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		for range 3 {
			n := NextCorrelation()
			_, err := tt.asker.Ask(tt.Context(), tt.system.NewLocalPID("nobody"), &messages.Connect{Correlation: n}, n)
			require.ErrorIs(tt, err, ErrNotConnected)
		}
	})
}

// In one process, the error arrives as it is, with the SDK's error in it.
func TestAskKeepsTheCause(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		r := tt.ask()
		cause := &types.ResourceNotFoundException{Message: new("no such stream")}
		answer(tt.system, r.sender, streamError("orders", "describing", cause), r.correlation)
		synctest.Wait()
		require.True(tt, r.done)
		require.Nil(tt, r.answer)
		require.ErrorIs(tt, r.err, ErrStream)
		require.ErrorIs(tt, r.err, cause)

		remote := tt.ask()
		remote.reply(streamError("orders", "describing", cause).Message(remote.correlation))
		require.ErrorIs(tt, remote.err, ErrStream)
		require.NotErrorIs(tt, remote.err, cause, "it came as a message")
		require.Equal(tt, failureNotFound, classify(remote.err), "its code is there")
	})
}

// An actor that asks is told by message; nobody is told nothing.
func TestAnswerToAnActor(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		answer(tt.system, tt.p.PID(), &Error{Kind: messages.ErrorKind_ERROR_KIND_READ, Cause: errors.New("cause")}, 9)
		m := probe.Expect[*messages.Error](tt.p)
		require.EqualValues(tt, 9, m.GetCorrelation())
		require.Equal(tt, "cause", m.GetCause())
		answer(tt.system, nil, ErrRead, 9)
		answer(tt.system, tt.system.NewLocalPID("gone"), ErrRead, 9)
		tt.p.ExpectNone(time.Minute)
	})
}

// Askers are used again: requests one after another do not fill the process registry.
func TestAskersAreUsedAgain(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		first := tt.ask()
		first.reply(connected(first.correlation))
		for range 10 {
			r := tt.ask()
			require.True(tt, first.sender.Equal(r.sender))
			r.reply(connected(r.correlation))
			require.True(tt, r.done)
		}
	})
}

// A request given up does not stay behind: once its late answer has come, what it left is used again.
func TestRequestsGivenUpAreUsedAgainOnceAnswered(t *testing.T) {
	inAsk(t, func(tt *askTest) {
		senders := make(map[string]bool)
		for range 20 {
			r := tt.ask()
			r.cancel()
			synctest.Wait()
			require.ErrorIs(tt, r.err, context.Canceled)
			r.reply(connected(r.correlation))
			senders[r.sender.GetId()] = true
		}
		require.LessOrEqual(tt, len(senders), 2)
	})
}

// slowEcho answers some requests at once, and others when it has handled what came meanwhile; these twice.
type slowEcho struct{}

type lateAnswer struct {
	to          *actor.PID
	correlation uint64
}

func (slowEcho) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Connect:
		if m.GetCorrelation()%3 == 0 {
			c.Send(c.Self(), lateAnswer{c.Sender(), m.GetCorrelation()})
			return
		}
		c.Respond(connected(m.GetCorrelation()))
	case lateAnswer:
		c.Send(m.to, connected(m.correlation))
		answer(c.ActorSystem(), m.to, ErrRead, m.correlation)
	}
}

func TestAskFromManyGoroutines(t *testing.T) {
	system := probe.NewSystem(t)
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return slowEcho{} }))
	asker := NewAsker(system)
	var wg sync.WaitGroup
	for g := range 100 {
		wg.Go(func() {
			for i := range 50 {
				ctx, cancel := context.WithCancel(t.Context())
				hurry := (g+i)%2 == 0
				if hurry {
					go cancel() // sooner or later than the answer
				}
				n := NextCorrelation()
				got, err := asker.Ask(ctx, pid, &messages.Connect{Correlation: n}, n)
				cancel()
				m, ok := got.(*messages.Connected)
				switch {
				case hurry && errors.Is(err, context.Canceled):
				case err != nil:
					t.Errorf("request %d: %v", n, err)
				case !ok || m.GetCorrelation() != n:
					t.Errorf("request %d is answered %v", n, got)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, system.Root.StopFuture(pid).Wait())
}
