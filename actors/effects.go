package actors

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// effects runs an actor's calls off its mailbox. Each call gets a goroutine and a deadline, and what it returns comes
// back to the actor as an effectDone. The closure must capture values only, never the actor or its Context.
//
// An effects belongs to one incarnation of an actor. What arrives after that incarnation has ended carries
// its number and is dropped by the next one, which may live under the same PID.
type effects struct {
	incarnation uint64
	pool        *pool
	root        *actor.RootContext
	self        *actor.PID
	ctx         context.Context //nolint:containedctx // the life of the incarnation, not of a call
	cancel      context.CancelFunc
}

// effectDone brings the result of an effect back into the mailbox.
type effectDone struct {
	incarnation uint64
	result      any
}

// effectPanic is the result of an effect that panicked; the actor panics with it, so that its supervisor decides.
type effectPanic struct {
	reason any
	stack  []byte
}

// incarnations numbers effects and generations, unique within the process. It starts at the clock so that
// numbers of an earlier process under the same address are not met again.
var incarnations atomic.Uint64

func init() { incarnations.Store(uint64(time.Now().UnixMicro()) << 8) }

// nextGeneration returns a number that no other reader, effect or timer of this process has.
func nextGeneration() uint64 { return incarnations.Add(1) }

func newEffects(c actor.Context, pool *pool) *effects {
	ctx, cancel := context.WithCancel(context.Background())
	return &effects{
		incarnation: nextGeneration(), pool: pool, root: c.ActorSystem().Root, self: c.Self(), ctx: ctx, cancel: cancel,
	}
}

// run starts call and sends what it returns to the actor. The returned function abandons the call: its context ends,
// and its result, should it still come, is whatever call makes of a cancelled context.
func (e *effects) run(timeout time.Duration, call func(ctx context.Context) any) context.CancelFunc {
	ctx, cancel := context.WithTimeout(e.ctx, timeout)
	life, root, self, incarnation := e.ctx, e.root, e.self, e.incarnation
	e.pool.Schedule(func() {
		defer cancel()
		result := recovering(ctx, call)
		if life.Err() == nil { // else the incarnation is gone and with it whoever wanted to know
			root.Send(self, effectDone{incarnation: incarnation, result: result})
		}
	})
	return cancel
}

// post is for what is to tell the actor something from elsewhere, as if it were the result of a call.
func (e *effects) post(result any) {
	e.root.Send(e.self, effectDone{incarnation: e.incarnation, result: result})
}

func recovering(ctx context.Context, call func(ctx context.Context) any) (result any) {
	defer func() {
		if r := recover(); r != nil {
			result = effectPanic{reason: r, stack: debug.Stack()}
		}
	}()
	return call(ctx)
}

// withoutPanic makes a panic of call an error, for an actor that goes on with its state after one and waits for the call's result.
func withoutPanic(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return call()
}

// result unwraps what an effect of this incarnation returned; ok is false for a stale one.
func (e *effects) result(m effectDone) (result any, ok bool) {
	if e == nil || m.incarnation != e.incarnation {
		return nil, false
	}
	if p, failed := m.result.(effectPanic); failed {
		panic(fmt.Sprintf("in a call made for this actor: %v\n%s", p.reason, p.stack))
	}
	return m.result, true
}

// stop ends all calls under way. Their results are not delivered.
func (e *effects) stop() {
	if e != nil {
		e.cancel()
	}
}
