//! Tests of the real program, each in a home of its own.

mod architecture;
mod documents;
mod observe;
mod running;
mod terminal;
mod up;
