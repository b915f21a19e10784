package actors

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// rotatedKeys are credentials that rotate: the service accepts one key, and the provider hands one out.
type rotatedKeys struct {
	accepted, current atomic.Int32
	fetched           atomic.Int32
}

func (k *rotatedKeys) Retrieve(context.Context) (aws.Credentials, error) {
	k.fetched.Add(1)
	// No time of expiry: as far as the SDK knows they hold for ever.
	return aws.Credentials{AccessKeyID: fmt.Sprint("AKID", k.current.Load()), SecretAccessKey: "secret"}, nil
}

// rotating makes the world's clients use credentials that the SDK caches.
func (w *world) rotating(k *rotatedKeys, code string) {
	w.onWire(func(c *wireCall) bool {
		if c.key == fmt.Sprint("AKID", k.accepted.Load()) {
			return false
		}
		return c.say(400, code, `{"message":"The security token included in the request is expired"}`)
	})
}

func (k *rotatedKeys) use(c *Config, service aws.HTTPClient) {
	c.Clients = NewClients(aws.Config{
		Region: "us-east-1", Credentials: aws.NewCredentialsCache(k), BaseEndpoint: aws.String("http://kinesis.test"), HTTPClient: service,
	})
}

// S7: credentials that are rotated while shards are read, published to and listed: those in the cache are fetched anew when the service
// refuses them; neither a lease nor a record is lost, and nobody need know.
func TestCredentialsThatExpire(t *testing.T) {
	for code, told := range map[string]int{
		"ExpiredTokenException": 0, "ExpiredToken": 0, "com.amazon.coral.service#ExpiredTokenException": 0,
		"UnrecognizedClientException": 1, "InvalidClientTokenId": 1,
	} {
		t.Run(code, func(t *testing.T) {
			k := &rotatedKeys{}
			front := &handlerClient{}
			inBubble(t, 2, func(w *world) {
				front.handler = http.HandlerFunc(w.serve)
				w.rotating(k, code)
				w.acked()
				w.open(horizon)
				w.put("k", "a")
				time.Sleep(5 * time.Second)
				require.EqualValues(w.t, 1, k.fetched.Load())
				for i := range int32(3) {
					k.current.Store(i + 1)
					k.accepted.Store(i + 1)
					w.put("k", fmt.Sprint("b", i))
					time.Sleep(25 * time.Second)
				}
				require.LessOrEqual(w.t, k.fetched.Load(), int32(4), "one fetch for each rotation")
				got, errors := w.received()
				require.Equal(w.t, []string{"a", "b0", "b1", "b2"}, got)
				perShard := make(map[string]int)
				for _, e := range errors {
					perShard[e.GetError().GetShardId()]++
				}
				for shard, n := range perShard {
					require.LessOrEqual(w.t, n, 3*told, "%s: %v", shard, errors)
				}
				require.Equal(w.t, 2, w.store.count("acquire"))
				if told == 0 { // else publishing fails at once, as its sender may have to act
					k.current.Store(9)
					k.accepted.Store(9)
					w.me.Request(w.broker, &messages.Publish{Stream: testStream, Data: []byte("c")})
					probe.Expect[*messages.Published](w.me)
				}
			}, paced, func(c *Config) { k.use(c, front) })
		})
	}
}

// S7: the new credentials are late. They are asked for now and then, and reading goes on when they come.
func TestCredentialsThatComeLate(t *testing.T) {
	k := &rotatedKeys{}
	front := &handlerClient{}
	inBubble(t, 1, func(w *world) {
		front.handler = http.HandlerFunc(w.serve)
		w.rotating(k, "ExpiredTokenException")
		w.acked()
		w.open(horizon)
		k.accepted.Store(1)
		w.put("k", "a")
		time.Sleep(10 * time.Minute)
		require.Less(w.t, k.fetched.Load(), int32(10*12+5), "every five seconds at most")
		k.current.Store(1)
		time.Sleep(30 * time.Second)
		got, told := w.received()
		require.Equal(w.t, []string{"a"}, got)
		requireToldOncePerSubject(w, told)
		require.NotEmpty(w.t, told)
		require.Equal(w.t, 1, w.store.count("acquire"))
		requirePace(w)
	}, paced, func(c *Config) { k.use(c, front) })
}

// Credentials that are not cached are fetched for each call: there is nothing to refresh.
func TestRefreshOfCredentials(t *testing.T) {
	cache := &countingCache{}
	r := &refresher{cache: cache}
	at := time.Now()
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Second, 1}, {refreshEvery - 1, 1}, {refreshEvery, 2}, {refreshEvery + time.Second, 2}, {time.Hour, 3}} {
		r.refused(at.Add(c.after))
		require.Equal(t, c.want, cache.n, c.after)
	}
	require.NoError(t, refresh(aws.Config{})(nil))
	require.NoError(t, refresh(aws.Config{Credentials: aws.AnonymousCredentials{}})(nil))
}

type countingCache struct{ n int }

func (c *countingCache) Invalidate() { c.n++ }
