package kinesistest

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
)

// Service is the embedded Kinesis: an [net/http.Handler] that speaks the wire protocol, together
// with the controls tests need. It is safe for concurrent use. Make one with [New], or with [Start]
// or [Listen] to have it served.
type Service struct {
	cfg    config
	clock  *Clock
	seed   maphash.Seed // signs iterators and page tokens
	faults faultTable
	calls  callLog
	rates  rateLimiter
	dates  dateCache

	requests  atomic.Uint64
	closing   chan struct{}
	closeOnce sync.Once

	mu      sync.RWMutex
	streams map[string]*stream
	byID    map[uint64]*stream
	lastID  uint64
}

// New returns a service without streams.
func New(opts ...Option) *Service {
	cfg := newConfig(opts)
	return &Service{
		cfg:     cfg,
		clock:   newClock(cfg.now),
		seed:    maphash.MakeSeed(),
		calls:   callLog{limit: cfg.callLog, counts: newCallCounts()},
		rates:   rateLimiter{meters: map[string]*meter{}},
		closing: make(chan struct{}),
		streams: map[string]*stream{},
		byID:    map[uint64]*stream{},
	}
}

// Close ends open subscriptions and calls that a fault keeps hanging. Whoever serves the handler
// closes the connections; [Server.Close] does both.
func (s *Service) Close() { s.closeOnce.Do(func() { close(s.closing) }) }

// Clock returns the clock the service lives by.
func (s *Service) Clock() *Clock { return s.clock }

// streamRef names a stream by name, by ARN or by both; requests embed it.
type streamRef struct {
	StreamName string `json:",omitempty"`
	StreamARN  string `json:",omitempty"`
}

// name is the stream's name as far as the request tells it, for the call log and for faults.
func (ref streamRef) name() string {
	if ref.StreamName != "" {
		return ref.StreamName
	}
	_, name, _ := strings.Cut(ref.StreamARN, ":stream/")
	name, _, _ = strings.Cut(name, "/")
	return name
}

const maxStreamName = 128

func validStreamName(name string) bool {
	if name == "" || len(name) > maxStreamName {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return true
}

// resolve checks the reference and returns the stream's name.
func (s *Service) resolve(ref streamRef) (string, *apiError) {
	if ref.StreamName == "" && ref.StreamARN == "" {
		return "", invalidArgument("Either StreamName or StreamARN must be provided.")
	}
	if ref.StreamName != "" && !validStreamName(ref.StreamName) {
		return "", validation("Value '%s' at 'streamName' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+", ref.StreamName)
	}
	if ref.StreamARN == "" {
		return ref.StreamName, nil
	}
	name, ok := strings.CutPrefix(ref.StreamARN, s.arnPrefix())
	switch {
	case !strings.HasPrefix(ref.StreamARN, "arn:") || !strings.Contains(ref.StreamARN, ":kinesis:"):
		return "", validation("Value '%s' at 'streamARN' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: arn:aws.*:kinesis:.*:\\d{12}:stream/\\S+", ref.StreamARN)
	case !ok || !validStreamName(name):
		return "", notFound("Stream %s not found.", ref.StreamARN)
	case ref.StreamName != "" && ref.StreamName != name:
		return "", invalidArgument("StreamName %s does not match StreamARN %s.", ref.StreamName, ref.StreamARN)
	}
	return name, nil
}

func (s *Service) arnPrefix() string {
	return fmt.Sprintf("arn:aws:kinesis:%s:%s:stream/", s.cfg.region, s.cfg.accountID)
}

// find returns the stream a request names, with every change that is due applied.
func (s *Service) find(ref streamRef) (*stream, *apiError) {
	name, fail := s.resolve(ref)
	if fail != nil {
		return nil, fail
	}
	s.mu.RLock()
	st := s.streams[name]
	s.mu.RUnlock()
	if st == nil || !s.settle(st) {
		return nil, s.noStream(name)
	}
	return st, nil
}

func (s *Service) noStream(name string) *apiError {
	return notFound("Stream %s under account %s not found.", name, s.cfg.accountID)
}

// findID returns the stream with an internal id, nil if it has been deleted.
func (s *Service) findID(id uint64) *stream {
	s.mu.RLock()
	st := s.byID[id]
	s.mu.RUnlock()
	if st == nil || !s.settle(st) {
		return nil
	}
	return st
}

// settle applies what is due on the stream; it reports false if that was its deletion.
func (s *Service) settle(st *stream) bool {
	if st.settle(s.clock.nowMillis()) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.name] == st {
		delete(s.streams, st.name)
	}
	delete(s.byID, st.id)
	return false
}

// all returns the streams in no particular order.
func (s *Service) all() []*stream {
	s.mu.RLock()
	streams := make([]*stream, 0, len(s.streams))
	for _, st := range s.streams {
		streams = append(streams, st)
	}
	s.mu.RUnlock()
	kept := streams[:0]
	for _, st := range streams {
		if s.settle(st) {
			kept = append(kept, st)
		}
	}
	return kept
}

// openShards counts the open shards of the account.
func (s *Service) openShards() int {
	n := 0
	for _, st := range s.all() {
		st.mu.RLock()
		n += len(st.routes)
		st.mu.RUnlock()
	}
	return n
}
