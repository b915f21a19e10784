package kinesistest

// increaseRetention and decreaseRetention are the requests of IncreaseStreamRetentionPeriod and
// DecreaseStreamRetentionPeriod.
type (
	increaseRetention struct{ retentionRequest }
	decreaseRetention struct{ retentionRequest }

	retentionRequest struct {
		streamRef
		RetentionPeriodHours int
	}
)

func (r *retentionRequest) describe(_ *Service, call *Call) { call.Stream = r.name() }

func (r *increaseRetention) run(x *exchange) (any, *apiError) {
	return nil, r.change(x, func(now, want int) bool { return want >= now }, "greater")
}

func (r *decreaseRetention) run(x *exchange) (any, *apiError) {
	return nil, r.change(x, func(now, want int) bool { return want <= now }, "less")
}

func (r *retentionRequest) change(x *exchange, ok func(now, want int) bool, word string) *apiError {
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return fail
	}
	want := r.RetentionPeriodHours
	if want < defaultRetention || want > maxRetention {
		return invalidArgument("Retention period of %d hours is not between %d and %d hours.", want, defaultRetention, maxRetention)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.deleted || st.status != statusActive {
		return st.notActive()
	}
	if !ok(st.retentionHours, want) {
		return invalidArgument("Requested retention period (%d hours) for stream %s must be %s than or equal to the current "+
			"one (%d hours).", want, st.name, word, st.retentionHours)
	}
	st.begin(statusUpdating, func(int64) { st.retentionHours = want })
	return nil
}

// updateMaxRecordSize is the request of UpdateMaxRecordSize.
type updateMaxRecordSize struct {
	streamRef
	MaxRecordSizeInKiB int
}

func (r *updateMaxRecordSize) describe(_ *Service, call *Call) { call.Stream = r.name() }

func (r *updateMaxRecordSize) run(x *exchange) (any, *apiError) {
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, fail
	}
	if !validRecordSize(r.MaxRecordSizeInKiB) {
		return nil, badRecordSize(r.MaxRecordSizeInKiB)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.deleted || st.status != statusActive {
		return nil, st.notActive()
	}
	st.begin(statusUpdating, func(int64) { st.maxRecordKiB = r.MaxRecordSizeInKiB })
	return nil, nil
}
