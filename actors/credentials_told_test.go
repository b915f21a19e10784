package actors

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// What the service refused for its credentials was not stored.
func TestRefusedForCredentialsIsNoPossibleDuplicate(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		n := 0
		w.onWire(func(c *wireCall) bool {
			if c.op == "PutRecords" {
				if n++; n == 1 {
					return c.say(http.StatusBadRequest, "ExpiredTokenException", `{"message":"The security token included in the request is expired"}`)
				}
			}
			return false
		})
		w.me.Request(w.broker, &messages.Publish{Stream: testStream, Data: []byte("c")})
		require.False(w.t, probe.Expect[*messages.Published](w.me).GetPossibleDuplicate())
	})
}

// Credentials that have expired for good are the configuration's fault, and the advice says so.
func TestExpiredCredentialsAreToldAsSuch(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		expired := false
		w.onWire(func(c *wireCall) bool {
			return expired && c.say(http.StatusBadRequest, "ExpiredTokenException", `{"message":"The security token included in the request is expired"}`)
		})
		w.open(horizon)
		w.wired(func() { expired = true })
		time.Sleep(5 * time.Minute)
		_, told := w.received()
		for _, m := range told {
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_CONFIG, m.GetError().GetKind())
			require.NotEmpty(w.t, m.GetError().GetAdvice())
		}
	})
}

func TestExpiredCredentialsFailSubscribeAsConfiguration(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.onWire(func(c *wireCall) bool {
			return c.say(http.StatusBadRequest, "ExpiredTokenException", `{"message":"The security token included in the request is expired"}`)
		})
		w.connect()
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
		m := probe.Expect[*messages.Error](w.me)
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_CONFIG, m.GetKind())
	})
}
