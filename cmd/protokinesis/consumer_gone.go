package main

import "github.com/asynkron/protoactor-go/actor"

// onReaderGone: what a reader had delivered can't be settled any more when it has stopped. Its shard is read by another node, or by another
// reader here, and what has not begun comes again there; begun here it would be handled twice.
func (co *consumer) onReaderGone(c actor.Context, reader *actor.PID) {
	for _, l := range co.lanes {
		if l.reader != nil && l.reader.Equal(reader) {
			l.reader, l.gone = nil, l.generation
			co.forget(l)
			co.pump(c, l)
		}
	}
}

// forget takes back all of a lane that does not run.
func (co *consumer) forget(l *lane) {
	l.waiting = nil
	idle := l.ready
	l.ready = nil
	for j, timer := range l.pausing {
		timer.Stop()
		delete(l.pausing, j)
		idle = append(idle, j)
	}
	for _, behind := range l.keys {
		for _, j := range behind {
			co.untake(l, j)
		}
	}
	for _, j := range idle {
		co.untake(l, j)
		delete(l.keys, j.key())
	}
	for key := range l.keys { // of those that run
		l.keys[key] = nil
	}
}

// untake makes a job one that was not taken.
func (co *consumer) untake(l *lane, j *job) {
	l.taken--
	co.taken -= len(j.records)
}
