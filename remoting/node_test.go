package remoting_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/remoting"
)

// Every node of these tests is a process of its own: this test program, started with nodeVariable set. Remote can be started once in a
// process, as each start writes a variable of gRPC that the running ones read; and a process can be killed and frozen.

const nodeVariable = "PROTOKINESIS_TEST_REMOTING_NODE"

// nodeSpec is what a node is told at its start.
type nodeSpec struct {
	Host       string
	Advertised string
	Plain      bool // Proto.Actor's own configuration
	TLS        *pem
	MaxMessage int
}

// pem is a certificate, its key and its authority.
type pem struct{ Certificate, Key, Authority []byte }

// order is what a node is told to do.
type order struct {
	Do     string     // ask, unknown, malformed, watch, received, trying
	To     *actor.PID // whom
	Bytes  int        // size of each message
	Count  int        // of messages; 0: one
	Within time.Duration
}

// word is what a node says: first its address, then what became of its orders.
type word struct {
	Address    string
	Answered   int    // bytes that the other side says it got
	Received   *int   // deliveries that its own counter has had
	Trying     *int   // connections that it is trying to make
	Failed     string // why it did not answer
	Terminated string // a watched actor has stopped, or its node is gone: why
	Log        string
}

func beNode() {
	text := os.Getenv(nodeVariable)
	if text == "" {
		return
	}
	var spec nodeSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		panic(err)
	}
	n := &node{out: json.NewEncoder(os.Stdout)}
	n.run(spec)
	os.Exit(0)
}

// node is the life of a node's process.
type node struct {
	system   *actor.ActorSystem
	received atomic.Int64
	mu       sync.Mutex
	out      *json.Encoder
}

func (n *node) run(spec nodeSpec) {
	quiet := slog.New(slog.DiscardHandler)
	n.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	config := remote.Configure(spec.Host, 0)
	if !spec.Plain {
		config = remoting.Configure(spec.Host, 0, n.options(spec)...)
	}
	remote.NewRemote(n.system, config).Start()
	_, err := n.system.Root.SpawnNamed(actor.PropsFromFunc(n.count), "counter")
	if err != nil {
		panic(err)
	}
	n.say(word{Address: n.system.Address()})
	for in := json.NewDecoder(os.Stdin); ; {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		n.obey(o)
	}
}

func (n *node) options(spec nodeSpec) []remoting.Option {
	options := []remoting.Option{remoting.WithLogger(slog.New(slog.NewTextHandler(logWords{n}, nil)))}
	if spec.Advertised != "" {
		options = append(options, remoting.WithAdvertisedHost(spec.Advertised))
	}
	if spec.MaxMessage > 0 {
		options = append(options, remoting.WithMaxMessageSize(spec.MaxMessage))
	}
	if spec.TLS != nil {
		certificate, err := tls.X509KeyPair(spec.TLS.Certificate, spec.TLS.Key)
		if err != nil {
			panic(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(spec.TLS.Authority)
		options = append(options, remoting.WithMutualTLS(certificate, pool))
	}
	return options
}

// count is the counter: it answers a Delivery with its size.
func (n *node) count(c actor.Context) {
	if m, ok := c.Message().(*messages.Delivery); ok {
		n.received.Add(1)
		c.Respond(&messages.Published{Correlation: uint64(len(m.GetData()))})
	}
}

func (n *node) obey(o order) {
	m := &messages.Delivery{Data: make([]byte, o.Bytes)}
	switch o.Do {
	case "ask":
		n.ask(o, m)
	case "unknown":
		n.system.Root.Send(o.To, unknownMessage())
	case "malformed":
		n.system.Root.Send(o.To, &actor.Terminated{}) // of nobody
	case "watch":
		n.watch(o.To)
	case "received":
		n.say(word{Received: new(int(n.received.Load()))})
	case "trying":
		stacks := make([]byte, 16<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		n.say(word{Trying: new(bytes.Count(stacks, []byte("(*addrConn).resetTransport")))})
	}
}

// ask sends Count requests at once and says how many bytes the answers count in all.
func (n *node) ask(o order, m proto.Message) {
	var futures []*actor.Future
	for range max(1, o.Count) {
		futures = append(futures, n.system.Root.RequestFuture(o.To, m, o.Within))
	}
	sum := word{}
	for _, f := range futures {
		answer, err := f.Result()
		if err != nil {
			sum.Failed = err.Error()
			continue
		}
		sum.Answered += int(answer.(*messages.Published).GetCorrelation()) //nolint:gosec,forcetypeassert // see count
	}
	n.say(sum)
}

func (n *node) watch(who *actor.PID) {
	n.system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *actor.Started:
			c.Watch(who)
		case *actor.Terminated:
			n.say(word{Terminated: m.Why.String()})
		}
	}))
}

func (n *node) say(w word) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.out.Encode(w); err != nil {
		panic(err)
	}
}

// logWords says what is logged.
type logWords struct{ n *node }

func (l logWords) Write(line []byte) (int, error) {
	l.n.say(word{Log: string(line)})
	return len(line), nil
}

// unknownMessage is of a type that no process has registered.
func unknownMessage() proto.Message {
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("later.proto"), Package: new("later.v2"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Novelty")}},
	}, nil)
	if err != nil {
		panic(err)
	}
	return dynamicpb.NewMessage(file.Messages().ByName("Novelty"))
}

// process is a node as the test sees it.
type process struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	words   chan word
	Address string
	killed  bool
	told    []string // of watched actors that are gone, and not asked for yet
}

const patience = time.Minute

func start(t *testing.T, spec nodeSpec) *process {
	t.Helper()
	if spec.Host == "" {
		spec.Host = "127.0.0.1"
	}
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	p := &process{t: t, cmd: exec.CommandContext(ctx, os.Args[0]), words: make(chan word, 1000)} //nolint:gosec // this very program
	p.cmd.Env = append(os.Environ(), nodeVariable+"="+string(text))
	p.cmd.Stderr = t.Output()
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.words)
		for d := json.NewDecoder(bufio.NewReader(out)); ; {
			var w word
			if d.Decode(&w) != nil {
				return
			}
			p.words <- w
		}
	}()
	t.Cleanup(func() {
		defer cancel()
		_ = p.in.Close()
		go func() { // whatever it still says
			for range p.words {
			}
		}()
		<-read
		if err := p.cmd.Wait(); !p.killed {
			assert.NoError(t, err, "a node") // a data race there is an error here
		}
	})
	p.Address = p.next(func(w word) bool { return w.Address != "" }).Address
	return p
}

// kill ends the process without a chance to say so.
func (p *process) kill() {
	p.killed = true
	require.NoError(p.t, p.cmd.Process.Kill())
}

func (p *process) counter() *actor.PID { return actor.NewPID(p.Address, "counter") }

func (p *process) order(o order) {
	p.t.Helper()
	if o.Within == 0 {
		o.Within = patience
	}
	require.NoError(p.t, json.NewEncoder(p.in).Encode(o))
}

// next is the next fitting word; others are passed over.
func (p *process) next(fits func(word) bool) word {
	p.t.Helper()
	timeout := time.After(patience)
	var passed []word
	for {
		select {
		case w, more := <-p.words:
			if !more {
				p.t.Fatalf("the node has ended; it said %+v", passed)
			}
			if w.Terminated != "" {
				p.told = append(p.told, w.Terminated)
			}
			if fits(w) {
				return w
			}
			passed = append(passed, w)
		case <-timeout:
			p.t.Fatalf("the node says nothing fitting, but %+v", passed)
		}
	}
}

// ask has the node ask another, and returns what became of it.
func (p *process) ask(o order) word {
	p.t.Helper()
	o.Do = "ask"
	p.order(o)
	return p.next(func(w word) bool { return w.Answered > 0 || w.Failed != "" })
}

// received is how many deliveries the node has had.
func (p *process) received() int {
	p.t.Helper()
	p.order(order{Do: "received"})
	return *p.next(func(w word) bool { return w.Received != nil }).Received
}

// trying is how many connections the node is trying to make.
func (p *process) trying() int {
	p.t.Helper()
	p.order(order{Do: "trying"})
	return *p.next(func(w word) bool { return w.Trying != nil }).Trying
}

func (p *process) watch(who *actor.PID) {
	p.t.Helper()
	p.order(order{Do: "watch", To: who})
	// What comes after it arrives after it, so the other side is watched when this is answered.
	require.Equal(p.t, 1, p.ask(order{To: actor.NewPID(who.GetAddress(), "counter"), Bytes: 1}).Answered)
}

// terminated is what the node is told, or was told before, of an actor that it watches; once for each.
func (p *process) terminated() string {
	p.t.Helper()
	if len(p.told) == 0 {
		p.next(func(w word) bool { return w.Terminated != "" })
	}
	why := p.told[0]
	p.told = p.told[1:]
	return why
}

func (p *process) logged() string {
	p.t.Helper()
	return p.next(func(w word) bool { return w.Log != "" }).Log
}
