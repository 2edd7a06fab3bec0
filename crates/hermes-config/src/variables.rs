//! variables
