//! Tool calls from the registered name to the JSON that the model gets.

mod arguments;
mod batches;
mod child;
mod interrupt;
mod names;
mod repetition;
mod shapes;
mod time;
mod utilities;
