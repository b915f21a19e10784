package kinesistest

import (
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// header sets what every answer carries.
func (x *exchange) header() http.Header {
	h := x.w.Header()
	h["Content-Type"] = []string{x.codec.contentType}
	h["X-Amzn-Requestid"] = []string{x.id}
	h["Date"] = []string{x.svc.dates.text(x.now)}
	return h
}

// dateCache remembers the text of the latest second.
type dateCache struct{ latest atomic.Pointer[dateText] }

type dateText struct {
	second int64
	text   string
}

func (c *dateCache) text(now time.Time) string {
	second := now.Unix()
	if d := c.latest.Load(); d != nil && d.second == second {
		return d.text
	}
	d := &dateText{second, now.UTC().Format(http.TimeFormat)}
	c.latest.Store(d)
	return d.text
}

const requestIDDigits = 12

// requestID makes a UUID of a number.
func requestID(n uint64) string {
	id := []byte("00000000-0000-4000-8000-000000000000")
	for i := range requestIDDigits {
		id[len(id)-1-i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
	return string(id)
}

// write sends an answer that consists of parts, without joining them.
func (x *exchange) write(status int, parts [][]byte) {
	total := 0
	for _, part := range parts {
		total += len(part)
	}
	x.header()["Content-Length"] = []string{strconv.Itoa(total)}
	x.w.WriteHeader(status)
	if x.fault.kind == effectResetMidBody || x.fault.kind == effectHangMidBody {
		x.writeHalf(parts, total/2)
		return
	}
	for _, part := range parts {
		if _, err := x.w.Write(part); err != nil {
			return // the client is gone; there is nobody to tell
		}
	}
}

// errorAnswer is the body of an error.
type errorAnswer struct {
	Type    string `json:"__type"`
	Message string `json:"message"`
}

func (x *exchange) fail(fail *apiError) {
	body, err := x.codec.encode(&errorAnswer{Type: fail.code, Message: fail.message})
	if err != nil {
		body = nil // two strings always encode
	}
	x.w.Header()["X-Amzn-Errortype"] = []string{fail.code}
	x.write(fail.status(), [][]byte{body})
}

// writeHalf sends the first n bytes and breaks the connection, or lets it hang.
func (x *exchange) writeHalf(parts [][]byte, n int) {
	for _, part := range parts {
		part = part[:min(len(part), n)]
		n -= len(part)
		if _, err := x.w.Write(part); err != nil {
			return
		}
	}
	if err := http.NewResponseController(x.w).Flush(); err != nil {
		return
	}
	if x.fault.kind == effectHangMidBody {
		x.hang()
	}
	x.reset()
}

// reset breaks the connection in a way the client notices at once: with a TCP reset where the
// connection can be had, else by ending the handler.
func (x *exchange) reset() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing then resets; without it the close is merely polite
	}
	_ = conn.Close()
}

// hang waits for the client to give up or the service to close.
func (x *exchange) hang() {
	select {
	case <-x.r.Context().Done():
	case <-x.svc.closing:
	}
	panic(http.ErrAbortHandler)
}
