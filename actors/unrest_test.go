package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/internal/kpl/kpltest"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// unrest is everything at once, by the throw of dice: few calls at a time, calls that fail or hang, panics, seeks, resharding, subscriptions that end and
// begin again, and a subscriber that is slow and has records again.
type unrest struct {
	*world
	dice    *rand.Rand // of the test's goroutine
	asker   *Asker
	sub     *actor.PID // subscription; nil between two
	single  bool       // a Delivery per record, to an actor; else a handler
	actor   *actor.PID
	written map[string]int // by key
	splits  int

	mu       sync.Mutex
	troubled bool       // actors panic, and the subscriber fails records
	chance   *rand.Rand // of the actors
	acked    map[string]map[int]bool
	out      map[string]int // of a generation and key
	faults   []string
}

// panics is the hook that lets actors panic, seldom.
func (u *unrest) panics(r role, message any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r == roleBroker || !u.troubled || u.chance.IntN(map[role]int{roleReader: 300, roleCoordinator: 400, roleHandler: 300}[r]) > 0 {
		return
	}
	if _, lifecycle := message.(actor.SystemMessage); lifecycle {
		return
	}
	panic("injected")
}

// got notes a delivery, and says what was wrong with its order: of a key, one is out at a time, and none is seen before those that were written
// before it have been settled.
func (u *unrest) got(d *messages.Delivery) (fail bool, after time.Duration) {
	key, text, _ := strings.Cut(string(d.GetData()), "|")
	text, _, _ = strings.Cut(text, "|")
	n, _ := strconv.Atoi(text)
	u.mu.Lock()
	defer u.mu.Unlock()
	lane := fmt.Sprint(d.GetGeneration(), " ", d.GetPartitionKey())
	if u.out[lane]++; u.out[lane] > 1 {
		u.faults = append(u.faults, fmt.Sprintf("%d records of %s are out at once in generation %d", u.out[lane], key, d.GetGeneration()))
	}
	for i := range n {
		if !u.acked[key][i] {
			u.faults = append(u.faults, fmt.Sprintf("%s: %d came before %d was settled", key, n, i))
			break
		}
	}
	fail = u.troubled && u.chance.IntN(20) == 0
	if u.chance.IntN(3) == 0 {
		after = time.Duration(u.chance.IntN(300)) * time.Millisecond
	}
	if u.troubled && u.chance.IntN(150) == 0 {
		after = 20 * time.Second
	}
	return fail, after
}

// done notes that the record is about to be settled.
func (u *unrest) done(d *messages.Delivery, fail bool) {
	key, text, _ := strings.Cut(string(d.GetData()), "|")
	text, _, _ = strings.Cut(text, "|")
	n, _ := strconv.Atoi(text)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.out[fmt.Sprint(d.GetGeneration(), " ", d.GetPartitionKey())]--
	if fail {
		return
	}
	if u.acked[key] == nil {
		u.acked[key] = make(map[int]bool)
	}
	u.acked[key][n] = true
}

func (u *unrest) handle(_ context.Context, d *messages.Delivery) error {
	fail, after := u.got(d)
	time.Sleep(after)
	u.done(d, fail)
	if fail {
		return errors.New("failed by the test")
	}
	return nil
}

// Receive is the subscriber that gets single records.
func (u *unrest) Receive(c actor.Context) {
	d, ok := c.Message().(*messages.Delivery)
	if !ok {
		return
	}
	fail, after := u.got(d)
	root, reader := c.ActorSystem().Root, c.Sender()
	settle := func() {
		u.done(d, fail)
		if fail {
			root.Send(reader, d.Retry())
		} else {
			root.Send(reader, d.Ack())
		}
	}
	if after == 0 {
		settle()
	} else {
		time.AfterFunc(after, settle)
	}
}

// write puts some records: small ones, large ones, and aggregated ones.
func (u *unrest) write() {
	for range u.dice.IntN(40) {
		key := "key-" + strconv.Itoa(u.dice.IntN(12))
		n, size := 1, u.dice.IntN(60)
		switch u.dice.IntN(12) {
		case 0:
			size = 5000
		case 1:
			n = 1 + u.dice.IntN(60)
		}
		users := make([]kpl.UserRecord, n)
		for i := range users {
			users[i] = kpl.UserRecord{PartitionKey: key, Data: fmt.Appendf(nil, "%s|%d|%s", key, u.written[key], strings.Repeat("x", size))}
			u.written[key]++
		}
		data := users[0].Data
		if n > 1 {
			data = kpltest.Aggregate(u.t, users...)
		}
		_, _, err := u.service.Put(testStream, key, data)
		require.NoError(u.t, err)
	}
}

// ask sends a request and waits for its answer, whatever it is.
func (u *unrest) ask(to *actor.PID, request func(n uint64) any) (any, error) {
	n := NextCorrelation()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	answer, err := u.asker.Ask(ctx, to, request(n), n)
	require.NoError(u.t, ctx.Err(), "no answer to %T", request(n))
	return answer, err
}

func (u *unrest) subscribe() {
	if u.single {
		u.actor = u.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return u }))
	} else {
		u.actor = SpawnHandler(u.system, HandlerConfig{Parallel: 1 + u.dice.IntN(4), Handle: u.handle, Logger: u.cfg.Logger, intercept: u.panics})
	}
	d := &messages.StreamDescriptor{
		Name: testStream, PerKeyOrder: true, RetryBackoff: durationOf(50 * time.Millisecond), StartAt: toHorizon(),
		WindowRecords: new(1 + u.dice.Int32N(30)), WindowBytes: new(int64(1 + u.dice.IntN(20_000))),
	}
	if !u.single {
		d.BatchSize = new(1 + u.dice.Int32N(10))
	}
	if u.dice.IntN(2) == 0 {
		d.IdlePollInterval = durationOf(5 * time.Second)
	}
	answer, err := u.ask(u.broker, func(n uint64) any { return &messages.Subscribe{Stream: d, Subscriber: u.actor, Correlation: n} })
	if err != nil {
		u.system.Root.Poison(u.actor)
		return
	}
	u.sub = answer.(*messages.Subscribed).GetSubscription() //nolint:forcetypeassert // a test
	if !u.single {
		WatchSubscription(u.system, u.actor, u.sub)
	}
}

func (u *unrest) unsubscribe(timeout time.Duration) {
	if u.sub == nil {
		return
	}
	_, _ = u.ask(u.sub, func(n uint64) any { return &messages.Unsubscribe{Timeout: durationOf(timeout), Correlation: n} })
	u.system.Root.Poison(u.actor)
	u.sub = nil
}

func (u *unrest) reshard() {
	if u.splits >= 6 {
		return
	}
	u.splits++
	shards := u.service.Shards(testStream)
	open := slices.DeleteFunc(slices.Clone(shards), func(s kinesistest.Shard) bool { return !s.Closed.IsZero() })
	if u.dice.IntN(3) > 0 || len(open) < 2 {
		split(u.world, open[u.dice.IntN(len(open))].ID)
		return
	}
	for _, a := range open {
		for _, b := range open {
			if adjacent(a, b) {
				merge(u.world, a.ID, b.ID)
				return
			}
		}
	}
}

func adjacent(a, b kinesistest.Shard) bool {
	end, _ := new(big.Int).SetString(a.EndHash, 10)
	start, _ := new(big.Int).SetString(b.StartHash, 10)
	return end.Add(end, big.NewInt(1)).Cmp(start) == 0
}

func (u *unrest) fault() {
	op := []string{"GetRecords", "GetRecords", "GetShardIterator"}[u.dice.IntN(3)]
	effects := []kinesistest.Effect{
		kinesistest.Hang(), kinesistest.Hang(), kinesistest.Delay(time.Duration(u.dice.IntN(5000)) * time.Millisecond), kinesistest.Reset(),
		kinesistest.Error("ProvisionedThroughputExceededException", "slow down"), kinesistest.Error("InternalFailure", "oops"),
	}
	if op == "GetRecords" {
		effects = append(effects, kinesistest.ExpireIterator(), kinesistest.EmptyPage(), kinesistest.NullIterator())
	}
	match := kinesistest.Match{}
	if u.dice.IntN(2) == 0 {
		match.Shard = shardName(u.dice.IntN(8))
	}
	u.service.Fault(op, match, 1+u.dice.IntN(10), effects[u.dice.IntN(len(effects))])
}

func (u *unrest) step() {
	switch u.dice.IntN(12) {
	case 0, 1, 2:
		u.fault()
	case 3:
		u.reshard()
	case 4:
		_, _ = u.ask(u.broker, func(n uint64) any { return &messages.Seek{Stream: testStream, To: toHorizon(), Correlation: n} })
	case 5:
		u.unsubscribe(time.Duration(u.dice.IntN(3)) * 2 * time.Second)
	default:
		u.write()
	}
	if u.sub == nil {
		u.subscribe()
	}
	time.Sleep(time.Duration(u.dice.IntN(4000)) * time.Millisecond)
}

func (u *unrest) missing() (missing []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(u.written)) {
		if n := len(u.acked[key]); n < u.written[key] {
			missing = append(missing, fmt.Sprintf("%s: %d of %d", key, n, u.written[key]))
		}
	}
	return missing
}

// calm ends the troubles: what is read from now on flows.
func (u *unrest) calm() {
	u.mu.Lock()
	u.troubled = false
	u.mu.Unlock()
	u.service.ClearFaults()
}

// However it goes, every record is handled, of each key in order and one at a time; and in the end no memory is counted, and no place taken.
func TestEveryRecordIsHandledInUnrest(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 1))
			u := &unrest{
				dice: dice, chance: rand.New(rand.NewPCG(seed, 2)), single: seed%2 == 0, troubled: true,
				written: make(map[string]int), acked: make(map[string]map[int]bool), out: make(map[string]int),
			}
			calls, takes, held := newTurnstile(1+dice.IntN(3)), newTurnstile(1+dice.IntN(3)), &budget{limit: 1 << (14 + dice.IntN(16))}
			inBubble(t, 1+dice.IntN(4), func(w *world) {
				u.world, u.asker = w, NewAsker(w.system)
				w.connect()
				for range 60 {
					u.step()
				}
				u.calm()
				u.write()
				for range 60 {
					if u.sub == nil {
						u.subscribe()
					}
					if time.Sleep(10 * time.Second); len(u.missing()) == 0 {
						break
					}
				}
				require.Empty(t, u.missing())
				require.Empty(t, u.faults)
				u.unsubscribe(time.Minute)
				w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
				probe.Fish(w.me, func(*messages.Closed) bool { return true })
				time.Sleep(2 * turnPatience)
				synctest.Wait()
				require.Zero(t, held.used.Load(), "bytes that nobody holds are counted")
				require.Zero(t, calls.in, "places to call from that nobody has")
				require.Zero(t, takes.in, "places to take leases from that nobody has")
			}, func(c *Config) {
				c.intercept, c.budget, c.calls, c.acquisitions = u.panics, held, calls, takes
				c.Timings.CallTimeout = 10 * time.Second
				if seed%3 == 0 {
					c.Limits.ReadsPerSecond = 0
				}
			})
		})
	}
}
