package actors

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// What stands between client and service in a world: it can change any call and any answer.

// wireCall is a call on its way to the service.
type wireCall struct {
	op      string
	in      map[string]any // the request's fields
	key     string         // access key id it is signed with
	service http.Handler
	w       http.ResponseWriter
	r       *http.Request
}

// onWire lets f see every call before the service does, one at a time; f reports whether it has answered. Call it before the broker connects. What
// f keeps is read and changed by wired.
func (w *world) onWire(f func(c *wireCall) bool) {
	w.tamper, w.oneCall = f, make(chan struct{}, 1) // a channel: who waits for a mutex keeps virtual time from passing
}

// wired does something while no call is seen.
func (w *world) wired(do func()) {
	w.oneCall <- struct{}{}
	defer func() { <-w.oneCall }()
	do()
}

// serve is the service with what stands before it.
func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	if w.tamper == nil {
		w.service.ServeHTTP(rw, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	c := &wireCall{service: w.service, w: rw, r: r.Clone(r.Context())}
	c.r.Body = io.NopCloser(bytes.NewReader(body))
	_, c.op, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	c.key, _, _ = strings.Cut(after, "/")
	decode(body, &c.in)
	answered := false
	w.wired(func() { answered = w.tamper(c) })
	if !answered {
		w.service.ServeHTTP(rw, c.r)
	}
}

func decode(body []byte, into any) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // or arrival times would lose their milliseconds
	if err := d.Decode(into); err != nil && err != io.EOF {
		panic(err)
	}
}

// say answers with a status, a body and, if it is not empty, an error code in the header.
func (c *wireCall) say(status int, code, body string) bool {
	if code != "" {
		c.w.Header().Set("X-Amzn-Errortype", code)
	}
	c.w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	c.w.WriteHeader(status)
	_, _ = io.WriteString(c.w, body)
	return true
}

// pass lets the service see changed fields.
func (c *wireCall) pass(change func(in map[string]any)) bool {
	change(c.in)
	body, _ := json.Marshal(c.in)
	c.r.Body, c.r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return false
}

// edit lets the service answer, and change the answer if it is a success.
func (c *wireCall) edit(change func(out map[string]any)) bool {
	rec := httptest.NewRecorder()
	c.service.ServeHTTP(rec, c.r)
	body := rec.Body.Bytes()
	if rec.Code == http.StatusOK {
		var out map[string]any
		decode(body, &out)
		change(out)
		body, _ = json.Marshal(out)
	}
	rec.Header().Del("Content-Length")
	maps.Copy(c.w.Header(), rec.Header())
	c.w.WriteHeader(rec.Code)
	_, _ = c.w.Write(body)
	return true
}

// paced keeps the pace that the service allows, as by default.
func paced(c *Config) { c.Limits.ReadsPerSecond = 0 }

// G2, G6: no shard was asked for more than five pages, nor for more than five iterators, in any second.
func requirePace(w *world) {
	w.t.Helper()
	times := make(map[string][]time.Time)
	for _, c := range w.service.Calls() {
		if c.Op != "GetRecords" && c.Op != "GetShardIterator" {
			continue
		}
		key := c.Op + " " + c.Shard
		times[key] = append(times[key], c.Time)
		if all := times[key]; len(all) > 5 {
			require.Greater(w.t, all[len(all)-1].Sub(all[len(all)-6]), time.Second, "six times within a second: %s", key)
		}
	}
}

// acked lets the subscriber ack all that comes, from now on; received tells what came.
func (w *world) acked() {
	w.sub.SetAutoPilot(func(e probe.Envelope) any {
		if d, ok := e.Message.(*messages.Delivery); ok {
			return d.Ack()
		}
		return nil
	})
}

// received takes all that the subscriber has been sent: the payloads in order, and what it was told.
func (w *world) received() (data []string, told []*messages.SubscriptionError) {
	synctest.Wait()
	for {
		e, more := w.sub.TryReceive()
		if !more {
			return data, told
		}
		switch m := e.Message.(type) {
		case *messages.Delivery:
			data = append(data, string(m.GetData()))
		case *messages.SubscriptionError:
			told = append(told, m)
		}
	}
}
