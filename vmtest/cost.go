package vmtest

// Kinds of a Cost: where its value is from.
const (
	CostSourced  = "sourced"  // a published measurement, named in the note
	CostMeasured = "measured" // measured by this project: machine, date and command in the note
	CostAssumed  = "assumed"  // a guess; conclusions are tried with half and twice of it
	CostSet      = "set"      // given by the scenario, or true by construction
)

// Cost is one entry of the cost model that simulated runs are made with.
type Cost struct {
	Name  string  `json:"name"` // guest.OPERATION or host.KEY
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // ns, ns/byte, ns/kB
	Kind  string  `json:"kind"` // sourced, measured, assumed or set
	Note  string  `json:"note"` // the source, or how it was measured, or why it was assumed
	Runs  []int   `json:"runs"` // indexes of the result's runs that it held for
}

// Modelled is a Guest whose costs come from a table, so that they can be shown
// and varied.
type Modelled interface {
	Guest
	// Costs returns every cost that a run of the scenario uses, in the order
	// of the table, with Runs empty.
	Costs(Scenario) ([]Cost, error)
}
