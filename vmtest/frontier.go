package vmtest

// Frontier is what the settings of a device do to a guest whose small packets
// over two queue pairs the adaptive policy does not cure in every respect.
type Frontier struct {
	Kernel   string          `json:"kernel"`
	Release  string          `json:"release"`
	Missed   []string        `json:"missed"` // what the adaptive policy misses, with figure and limit
	Settings []FrontierPoint `json:"settings"`
}

// FrontierPoint is one setting on two queue pairs, and beside it a flow of
// requests of one byte on the ring of the first bulk flow.
type FrontierPoint struct {
	Policy      string   `json:"policy"`
	KicksPerMB  float64  `json:"kicks_per_mb"`
	HostNsPerMB float64  `json:"host_cpu_ns_per_mb"`
	CostNsPerMB float64  `json:"cost_ns_per_mb"` // exits, interrupts, guest and host CPU
	GoodputBps  float64  `json:"goodput_bps"`
	MedianNs    int64    `json:"median_ns"` // of the requests
	P99Ns       int64    `json:"p99_ns"`
	Best        bool     `json:"best"`   // no other is at least as good in kicks, host CPU and median, and better in one
	Missed      []string `json:"missed"` // what it misses, with figure and limit
}
