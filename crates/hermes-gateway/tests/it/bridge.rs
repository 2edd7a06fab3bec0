//! The bridge as its clients see it.
