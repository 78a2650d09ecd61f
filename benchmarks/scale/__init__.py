"""How far a fleet goes: one and two workers measured, a cost model fitted to them, and a simulation of many."""
