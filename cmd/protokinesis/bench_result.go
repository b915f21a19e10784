package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"
)

// benchResult is what a benchmark prints. What was not measured is null in JSON and left out of the table.
type benchResult struct {
	Command            string   `json:"command"`
	Stream             string   `json:"stream"`
	Records            int      `json:"records"`
	RecordSize         int      `json:"record_size"`
	Failed             int      `json:"failed"`
	Duplicates         int      `json:"duplicates"`
	Seconds            float64  `json:"seconds"`
	RecordsPerSecond   float64  `json:"records_per_second"`
	MBPerSecond        float64  `json:"mb_per_second"`
	LatencyP50         *float64 `json:"latency_p50_ms"`
	LatencyP99         *float64 `json:"latency_p99_ms"`
	CPUPerMillion      *float64 `json:"cpu_seconds_per_million"`
	AllocsPerRecord    float64  `json:"allocs_per_record"`
	AllocatedPerRecord float64  `json:"allocated_bytes_per_record"`
	// With --compare: ours over the plain loop's, pair by pair.
	Ratio               *float64 `json:"ratio"`
	CPURatio            *float64 `json:"cpu_ratio"`
	SDKRecordsPerSecond *float64 `json:"sdk_records_per_second"`
}

// stopwatch measures what this process does between two moments.
type stopwatch struct {
	begun  time.Time
	cpu    time.Duration
	memory runtime.MemStats
}

func startWatch() *stopwatch {
	w := &stopwatch{}
	runtime.GC() // what came before is not to be paid for now
	runtime.ReadMemStats(&w.memory)
	w.cpu, w.begun = cpuTime(), time.Now()
	return w
}

// stop fills in the rates of so many records with so many bytes of data.
func (w *stopwatch) stop(r *benchResult, records int, bytes int64) {
	took, cpu := time.Since(w.begun), cpuTime()-w.cpu
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.Records, r.Seconds = records, seconds(took)
	if records == 0 {
		return
	}
	n := float64(records)
	r.RecordsPerSecond, r.MBPerSecond = round3(n/took.Seconds()), round3(float64(bytes)/1e6/took.Seconds())
	r.AllocsPerRecord = round3(float64(memory.Mallocs-w.memory.Mallocs) / n)
	r.AllocatedPerRecord = round3(float64(memory.TotalAlloc-w.memory.TotalAlloc) / n)
	if cpu > 0 {
		r.CPUPerMillion = new(round3(1e6 * cpu.Seconds() / n))
	}
}

// round3 is a figure without digits that mean nothing.
func round3(v float64) float64 { return math.Round(1000*v) / 1000 }

// latencies fills in percentiles.
func (r *benchResult) latencies(all []time.Duration) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	at := func(part float64) *float64 {
		return new(round3(1000 * all[min(len(all)-1, int(part*float64(len(all))))].Seconds()))
	}
	r.LatencyP50, r.LatencyP99 = at(0.50), at(0.99)
}

func (r *benchResult) print(to io.Writer, asJSON bool) error {
	if asJSON {
		return encodeJSON(to, r)
	}
	t := newTable("figure", "value")
	rightAligned(t, "value")
	row := func(what, format string, value *float64) {
		if value != nil {
			t.AppendRow([]any{what, fmt.Sprintf(format, *value)})
		}
	}
	row("records/s", "%.0f", &r.RecordsPerSecond)
	row("MB/s", "%.1f", &r.MBPerSecond)
	row("latency p50, ms", "%.3f", r.LatencyP50)
	row("latency p99, ms", "%.3f", r.LatencyP99)
	row("CPU s per million records", "%.2f", r.CPUPerMillion)
	row("allocations per record", "%.2f", &r.AllocsPerRecord)
	row("bytes allocated per record", "%.0f", &r.AllocatedPerRecord)
	row("records/s of the plain loop", "%.0f", r.SDKRecordsPerSecond)
	row("records/s over the plain loop's", "%.2f", r.Ratio)
	row("CPU over the plain loop's", "%.2f", r.CPURatio)
	_, err := fmt.Fprintf(to, "%s: %d records of %d bytes in %.3f s, %d failed, %d possible duplicates\n%s\n",
		r.Command, r.Records, r.RecordSize, r.Seconds, r.Failed, r.Duplicates, t.Render())
	return err
}
