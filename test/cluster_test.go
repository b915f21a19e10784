package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/remoting"
	"github.com/protokinesis/protokinesis/test/emulators"
	"github.com/protokinesis/protokinesis/test/probe"
)

// TestClusterMembers: nodes of a cluster share a stream, and any of them knows how all are. One that is evicted hands over what it reads and stops, though its
// process lives on; one that is killed is replaced.
func TestClusterMembers(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	stream := s.newStream(t, 6)
	fleet := &memberFleet{t: t, job: memberJob{Kinesis: s.server.URL(), Dynamo: emulators.Dynalite(t), Stream: stream}}
	a, b, c := fleet.start("a"), fleet.start("b"), fleet.start("c")
	for _, m := range []*memberProcess{a, b, c} {
		m.next(func(w memberWord) bool { return w.Reads })
	}
	for _, asked := range []*memberProcess{a, c} {
		nodes := asked.awaitShards(2, 2, 2)
		for i, m := range []*memberProcess{a, b, c} { // in the order of their ids
			assert.Equal(t, fmt.Sprintf("%s:%d", m.self.GetHost(), m.self.GetPort()), nodes[i].Address)
			assert.Equal(t, "BROKER_STATE_CONNECTED", nodes[i].State)
		}
	}
	client := s.connect(t)
	publishAll(t, client, stream, "first 0", "first 1", "first 2", "first 3", "first 4", "first 5", "first 6")
	fleet.awaitRecords("first", 7)

	began := time.Now()
	fleet.tell(a, b) // c is evicted, and hears it too
	assert.Contains(t, c.next(func(w memberWord) bool { return w.Ended != "" }).Ended, "out of its cluster")
	a.awaitShards(3, 3)
	t.Logf("the evicted node's shards were read again after %v", time.Since(began).Round(time.Millisecond))
	c.order(memberOrder{Do: "publish"})
	assert.Contains(t, c.next(func(w memberWord) bool { return w.Refused != "" }).Refused, "not connected")
	publishAll(t, client, stream, "second 0", "second 1", "second 2", "second 3", "second 4", "second 5", "second 6")
	fleet.awaitRecords("second", 7)

	began = time.Now()
	b.kill()
	fleet.tell(a)
	a.awaitReading(6)
	t.Logf("the killed node's shards were read again after %v", time.Since(began).Round(time.Millisecond))
	publishAll(t, client, stream, "third 0", "third 1", "third 2", "third 3", "third 4", "third 5", "third 6")
	fleet.awaitRecords("third", 7)
}

// TestTheClustersOwnTopology: what the library's cluster says of its members is understood, and is not listened to after the end.
func TestTheClustersOwnTopology(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	stream, actors := s.newStream(t, 2), probe.NewSystem(t)
	config := cluster.Configure("test", nil, nil, remoting.Configure("127.0.0.1", 0))
	c := cluster.New(actors, config)
	c.Remote = remote.NewRemote(actors, config.RemoteConfig) // not started: nobody else is there
	before := actors.EventStream.Length()
	n := &node{actors: actors}
	n.System = protokinesis.New(actors, protokinesis.WithAWSConfig(s.config), wire(s.name), protokinesis.WithTimings(s.timings()), protokinesis.WithCluster(c))
	t.Cleanup(n.end)
	require.NoError(t, n.Connect(t.Context()))
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(newRecorder().handle))
	require.NoError(t, err)
	me, other := &cluster.Member{Id: actors.ID, Host: "a", Port: 1}, &cluster.Member{Id: "other", Host: "b", Port: 2}
	for _, members := range []cluster.Members{{other}, {other, me}, {me}, {other, me}} {
		c.MemberList.UpdateClusterTopology(members)
	}
	_, err = n.Status(t.Context())
	require.NoError(t, err)
	require.NoError(t, sub.Err())
	c.MemberList.UpdateClusterTopology(cluster.Members{other})
	<-sub.Done()
	require.ErrorIs(t, sub.Err(), protokinesis.ErrNotConnected)
	_, err = n.Publisher().Publish(t.Context(), protokinesis.Record{Stream: stream, Data: []byte("data")})
	require.ErrorIs(t, err, protokinesis.ErrNotConnected)
	n.shutdown(t)
	assert.Equal(t, before, actors.EventStream.Length())
}

// TestAMemberOfBeforeConnect: a node that has joined its cluster before it connects is noticed when it is out, also by the first thing that is heard of the
// cluster after that, and if its provider gives members ids of its own.
func TestAMemberOfBeforeConnect(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	actors := probe.NewSystem(t)
	actors.ProcessRegistry.Address = "a:1" // as if remote had been started
	config := cluster.Configure("test", nil, nil, remoting.Configure("127.0.0.1", 0))
	c := cluster.New(actors, config)
	c.Remote = remote.NewRemote(actors, config.RemoteConfig)
	me, other := &cluster.Member{Id: "own", Host: "a", Port: 1}, &cluster.Member{Id: "other", Host: "b", Port: 2}
	c.MemberList.UpdateClusterTopology(cluster.Members{me, other})
	n := &node{actors: actors}
	n.System = protokinesis.New(actors, protokinesis.WithAWSConfig(s.config), wire(s.name), protokinesis.WithTimings(s.timings()), protokinesis.WithCluster(c))
	t.Cleanup(n.end)
	require.NoError(t, n.Connect(t.Context()))
	stream := s.newStream(t, 1)
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(newRecorder().handle))
	require.NoError(t, err)
	c.MemberList.UpdateClusterTopology(cluster.Members{other})
	select {
	case <-sub.Done():
	case <-time.After(patience):
		require.FailNow(t, "the node goes on")
	}
	require.ErrorIs(t, sub.Err(), protokinesis.ErrNotConnected)
}

// memberFleet is all members that there ever were.
type memberFleet struct {
	t       *testing.T
	job     memberJob
	members []*memberProcess
	records map[string]bool
}

// memberProcess is a member as the test sees it.
type memberProcess struct {
	fleet  *memberFleet
	cmd    *exec.Cmd
	in     io.WriteCloser
	words  chan memberWord
	self   *cluster.Member
	killed bool
}

// start starts a member, which becomes one of the cluster.
func (f *memberFleet) start(name string) *memberProcess {
	f.t.Helper()
	f.job.Name = name
	text, err := json.Marshal(f.job)
	require.NoError(f.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	m := &memberProcess{fleet: f, cmd: exec.CommandContext(ctx, os.Args[0]), words: make(chan memberWord, 10_000)} //nolint:gosec // this very program
	// The library's cluster has races of its own: its gossip changes what is being sent, its block list is read without a lock. What is ours is watched
	// in every other test.
	m.cmd.Env = append(os.Environ(), memberVariable+"="+string(text), "GORACE=exitcode=0")
	m.cmd.Stderr = f.t.Output()
	m.in, err = m.cmd.StdinPipe()
	require.NoError(f.t, err)
	out, err := m.cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, m.cmd.Start())
	go func() {
		defer close(m.words)
		for d := json.NewDecoder(out); ; {
			var w memberWord
			if d.Decode(&w) != nil {
				return
			}
			m.words <- w
		}
	}()
	f.t.Cleanup(func() {
		defer cancel()
		_ = m.in.Close()
		for more := true; more; {
			_, more = <-m.words
		}
		if err := m.cmd.Wait(); !m.killed {
			assert.NoError(f.t, err, "member "+name)
		}
	})
	f.members = append(f.members, m)
	m.self = m.next(func(w memberWord) bool { return w.Self != nil }).Self
	f.tell(f.members...)
	return m
}

// tell tells all members who is in the cluster.
func (f *memberFleet) tell(members ...*memberProcess) {
	f.t.Helper()
	var list []*cluster.Member
	for _, m := range members {
		list = append(list, m.self)
	}
	for _, m := range f.members {
		if !m.killed {
			m.order(memberOrder{Members: list})
		}
	}
}

// awaitRecords waits until the members have had all records of a name.
func (f *memberFleet) awaitRecords(name string, n int) {
	f.t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		for _, m := range f.members {
			for len(m.words) > 0 {
				f.note(<-m.words)
			}
		}
		missing := 0
		for i := range n {
			if !f.records[fmt.Sprint(name, " ", i)] {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		require.True(f.t, time.Now().Before(limit), "%d records %q are missing", missing, name)
	}
}

func (f *memberFleet) note(w memberWord) {
	if f.records == nil {
		f.records = make(map[string]bool)
	}
	if w.Record != "" {
		f.records[w.Record] = true
	}
}

func (m *memberProcess) order(o memberOrder) {
	m.fleet.t.Helper()
	require.NoError(m.fleet.t, json.NewEncoder(m.in).Encode(o))
}

func (m *memberProcess) kill() {
	m.killed = true
	require.NoError(m.fleet.t, m.cmd.Process.Kill())
}

// next is the next fitting word. Others are passed over; records are noted.
func (m *memberProcess) next(fits func(memberWord) bool) memberWord {
	m.fleet.t.Helper()
	limit := time.After(2 * patience)
	for {
		select {
		case w, more := <-m.words:
			if !more {
				require.FailNow(m.fleet.t, "the member has ended")
			}
			m.fleet.note(w)
			if fits(w) {
				return w
			}
		case <-limit:
			require.FailNow(m.fleet.t, "the member says nothing fitting")
		}
	}
}

func (m *memberProcess) status() []memberNode {
	m.fleet.t.Helper()
	m.order(memberOrder{Do: "status"})
	w := m.next(func(w memberWord) bool { return w.Nodes != nil || w.Failed != "" })
	require.Empty(m.fleet.t, w.Failed)
	return w.Nodes
}

// awaitShards waits until the nodes, in order of their ids, read so many shards each.
func (m *memberProcess) awaitShards(want ...int) []memberNode {
	m.fleet.t.Helper()
	return m.await(func(nodes []memberNode) bool {
		var counts []int
		for _, n := range nodes {
			counts = append(counts, len(n.Shards))
		}
		return slices.Equal(want, counts)
	})
}

// awaitReading waits until one node reads so many shards. Others may be remembered.
func (m *memberProcess) awaitReading(want int) {
	m.fleet.t.Helper()
	m.await(func(nodes []memberNode) bool {
		return slices.ContainsFunc(nodes, func(n memberNode) bool { return len(n.Shards) == want })
	})
}

func (m *memberProcess) await(fits func([]memberNode) bool) []memberNode {
	m.fleet.t.Helper()
	for limit := time.Now().Add(2 * patience); ; time.Sleep(100 * time.Millisecond) {
		nodes := m.status()
		if fits(nodes) {
			return nodes
		}
		require.True(m.fleet.t, time.Now().Before(limit), "the nodes are %+v", nodes)
	}
}
