//! Test equipment.
