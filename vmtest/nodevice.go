package vmtest

import "encoding/json"

// noDevice is what stands in the JSON of a run without a device for each figure that
// only a device can count.
type noDevice *struct{}

// totalsNoDevice, queueNoDevice and sampleNoDevice hide the figures of a device: a
// field of the same key that lies less deep is the one that is written.
type totalsNoDevice struct {
	Totals
	Kicks        noDevice `json:"kicks"`
	TxCalls      noDevice `json:"tx_calls"`
	RxCalls      noDevice `json:"rx_calls"`
	KicksPerMB   noDevice `json:"kicks_per_mb"`
	TxCallsPerMB noDevice `json:"tx_calls_per_mb"`
	RxCallsPerMB noDevice `json:"rx_calls_per_mb"`
	ExitNsPerMB  noDevice `json:"exit_ns_per_mb"`
	IRQNsPerMB   noDevice `json:"irq_ns_per_mb"`
}

type queueNoDevice struct {
	Queue
	Kicks           noDevice `json:"kicks"`
	KicksCoalesced  noDevice `json:"kicks_coalesced"`
	KicksEmpty      noDevice `json:"kicks_empty"`
	KicksSuppressed noDevice `json:"kicks_suppressed"`
	Calls           noDevice `json:"calls"`
	CallsFailed     noDevice `json:"calls_failed"`
	ExitNs          noDevice `json:"exit_ns"`
	IRQNs           noDevice `json:"irq_ns"`
}

type sampleNoDevice struct {
	Sample
	Kicks   noDevice `json:"kicks"`
	TxCalls noDevice `json:"tx_calls"`
	RxCalls noDevice `json:"rx_calls"`
}

// plainRun is a Run without its methods.
type plainRun Run

type runNoDevice struct {
	plainRun
	Totals totalsNoDevice   `json:"totals"`
	Queues []queueNoDevice  `json:"queues"`
	Series []sampleNoDevice `json:"series"`
}

// MarshalJSON writes null for what only a device counts where there was none
// (MeasuredAtGuest): kicks, calls, and the times made from them.
func (r Run) MarshalJSON() ([]byte, error) {
	if r.MeasuredAt != MeasuredAtGuest {
		return json.Marshal(plainRun(r))
	}
	out := runNoDevice{plainRun: plainRun(r), Totals: totalsNoDevice{Totals: r.Totals}, Queues: []queueNoDevice{}, Series: []sampleNoDevice{}}
	for _, q := range r.Queues {
		out.Queues = append(out.Queues, queueNoDevice{Queue: q})
	}
	for _, s := range r.Series {
		out.Series = append(out.Series, sampleNoDevice{Sample: s})
	}
	return json.Marshal(out)
}
