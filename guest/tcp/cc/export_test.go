package cc

// Cbrt is the integer cube root.
var Cbrt = cbrt
