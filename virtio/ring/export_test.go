package ring

// SetCrashHook has f called between any two stores of the record of chains in
// flight, until it is set to nil.
func SetCrashHook(f func()) { crashHook = f }
