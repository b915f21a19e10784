package test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"os/exec"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/soak"
)

// soakProcess is the process of a node.
type soakProcess struct {
	name   string
	number int
	cmd    *exec.Cmd
	in     io.WriteCloser
	store  *soakNodeStore
	ending soak.What // how it is to end; "" if it is not
	ended  chan struct{}
}

// start starts the process of a node, and asks it for the seek that nobody has answered.
func (r *soakRun) start(name string) {
	var config net.ListenConfig
	listener, err := config.Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	p := &soakProcess{name: name, number: len(r.processes) + 1, ended: make(chan struct{})}
	job, err := json.Marshal(soakJob{
		Endpoint: r.server.URL(), Stream: r.stream, Node: name, Process: p.number, Host: listener.Addr().String(), Seed: r.seed,
	})
	require.NoError(r.t, err)
	p.store = &soakNodeStore{soakStore: r.store, node: name, process: p.number, gone: make(chan struct{})}
	p.cmd = exec.CommandContext(r.t.Context(), os.Args[0]) //nolint:gosec // this very program
	p.cmd.Env = append(os.Environ(), soakVariable+"="+string(job))
	p.cmd.Stdout, p.cmd.Stderr = r.t.Output(), r.t.Output()
	p.in, err = p.cmd.StdinPipe()
	require.NoError(r.t, err)
	r.processes = append(r.processes, p)
	r.add(soak.Event{What: soak.Started, Process: p.number, Node: name})
	served := make(chan struct{})
	go r.serve(p, listener, served)
	require.NoError(r.t, p.cmd.Start())
	go r.follow(p, listener, served)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[name] = p
	if r.seek != nil && r.nodes[r.seeker] == nil {
		r.seeker = name
	}
	if r.seek != nil && r.seeker == name {
		p.tell(*r.seek)
	}
}

// serve does what a process asks for, until it has ended and all of it is done.
func (r *soakRun) serve(p *soakProcess, listener net.Listener, served chan<- struct{}) {
	defer close(served)
	conn, err := listener.Accept()
	if err != nil {
		return // it has ended before
	}
	server := rpc.NewServer()
	if err := server.RegisterName("Host", &soakHost{run: r, process: p.number, store: p.store}); err != nil {
		panic(err)
	}
	server.ServeConn(conn)
}

// follow waits for the end of a process, which it logs after all that the process has done.
func (r *soakRun) follow(p *soakProcess, listener net.Listener, served <-chan struct{}) {
	defer close(p.ended)
	err := p.cmd.Wait()
	_ = listener.Close()
	close(p.store.gone)
	<-served
	r.mu.Lock()
	defer r.mu.Unlock()
	e := soak.Event{What: p.ending, Process: p.number, Node: p.name}
	if p.ending == "" || (p.ending == soak.Ended && err != nil) {
		e.What, e.Text = soak.Crashed, fmt.Sprint(err)
	}
	r.addLocked(e)
	delete(r.nodes, p.name)
	if r.seek == nil || r.seeker != p.name {
		return
	}
	for _, other := range r.nodes { // it did not answer, so another is asked
		r.seeker = other.name
		other.tell(*r.seek)
		break
	}
}

// tell gives a process a command. One that is about to die may not get it.
func (p *soakProcess) tell(c soakCommand) {
	line, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	_, _ = p.in.Write(append(line, '\n'))
}

// running are the processes of the moment, by name, or those of some nodes.
func (r *soakRun) running(names ...string) []*soakProcess {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(names) == 0 {
		names = soakNodes
	}
	var all []*soakProcess
	for _, name := range names {
		if p := r.nodes[name]; p != nil {
			all = append(all, p)
		}
	}
	return all
}

// end ends processes, and does not wait for it.
func (r *soakRun) end(how soak.What, processes ...*soakProcess) {
	for _, p := range processes {
		r.mu.Lock()
		p.ending = how
		r.mu.Unlock()
		if how == soak.Killed {
			_ = p.cmd.Process.Kill()
		} else {
			p.tell(soakCommand{Do: doQuit})
		}
	}
}

// awaitEnd waits until processes have ended.
func (r *soakRun) awaitEnd(processes ...*soakProcess) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for _, p := range processes {
		select {
		case <-p.ended:
		case <-ctx.Done():
			r.add(soak.Event{What: soak.Note, Process: p.number, Node: p.name, Text: "the process does not end: killed"})
			assert.Fail(r.t, "a process does not end", "node %s", p.name)
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
}

// halt makes a node stand still.
func (r *soakRun) halt(p *soakProcess) {
	r.add(soak.Event{What: soak.Stopped, Process: p.number, Node: p.name})
	if err := stopProcess(p.cmd.Process); err != nil {
		r.add(soak.Event{What: soak.Note, Node: p.name, Text: err.Error()})
	}
	r.stopped = p
}

// back has whoever stands still go on, and whoever has left or died join again.
func (r *soakRun) back() {
	if p := r.stopped; p != nil {
		r.add(soak.Event{What: soak.Continued, Process: p.number, Node: p.name})
		if err := continueProcess(p.cmd.Process); err != nil {
			r.add(soak.Event{What: soak.Note, Node: p.name, Text: err.Error()})
		}
		r.stopped = nil
	}
	if p := r.away; p != nil {
		r.awaitEnd(p)
		r.start(p.name)
		r.away = nil
	}
}
